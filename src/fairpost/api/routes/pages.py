"""The pages that links in e-mails lead to. They know nothing: what they show they ask of the API, like anybody else."""

from importlib.resources import files

from fastapi import APIRouter, Response

from fairpost.api.errors import ApiError

router = APIRouter(include_in_schema=False)

STATIC = files("fairpost.api") / "static"
ENDINGS = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
NAMES = ("people.html", "people.js", "people.css", "docs.html", "docs.js", "docs.css")
CONTENTS = {name: (STATIC / name).read_bytes() for name in NAMES}
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@router.get("/setup")
@router.get("/invitation")
@router.get("/reset")
@router.get("/sign-in")
async def people() -> Response:
    return _page("people.html")


@router.get("/docs")
async def docs() -> Response:
    return _page("docs.html")


@router.get("/static/{name}")
async def static(name: str) -> Response:
    if name not in CONTENTS:
        raise ApiError("not_found", "There is nothing at this path.")
    return _page(name)


def _page(name: str) -> Response:
    media_type = ENDINGS[name.rpartition(".")[2]]
    return Response(CONTENTS[name], media_type=media_type, headers={"Content-Security-Policy": POLICY})
