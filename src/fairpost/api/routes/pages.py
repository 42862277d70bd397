"""The pages that links in e-mails lead to. They know nothing: what they show they ask of the API, like anybody else."""

from importlib.resources import files

from fastapi import APIRouter, Response

from fairpost.api.errors import ApiError

router = APIRouter(include_in_schema=False)

STATIC = files("fairpost.api") / "static"
TYPES = {
    "people.html": "text/html; charset=utf-8",
    "people.js": "text/javascript; charset=utf-8",
    "people.css": "text/css; charset=utf-8",
}
CONTENTS = {name: (STATIC / name).read_bytes() for name in TYPES}
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@router.get("/setup")
@router.get("/invitation")
@router.get("/reset")
@router.get("/sign-in")
async def people() -> Response:
    return _page("people.html")


@router.get("/static/{name}")
async def static(name: str) -> Response:
    if name not in CONTENTS:
        raise ApiError("not_found", "There is nothing at this path.")
    return _page(name)


def _page(name: str) -> Response:
    return Response(CONTENTS[name], media_type=TYPES[name], headers={"Content-Security-Policy": POLICY})
