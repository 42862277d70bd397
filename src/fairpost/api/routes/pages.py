"""The pages: sign-in, the API reference, and the dashboard. The pages are static and get all their data from the API.

Files are read once, at start-up, and compressed for clients that accept gzip. Browsers cache the files and revalidate
them.
"""

import gzip
import hashlib
from base64 import b64encode
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated

from fastapi import Header, Response, status

from fairpost.api.errors import ApiError
from fairpost.api.model_script import model_script
from fairpost.api.routing import Router
from fairpost.charts import stylesheet

router = Router(include_in_schema=False)

TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# The policy for the frame that shows untrusted HTML. The frame has no origin, so it cannot access our pages.
# The policy allows only one script, identified by its hash.
FRAME_POLICY = (
    "sandbox allow-scripts allow-popups allow-popups-to-escape-sandbox; default-src 'none'; script-src '{script}'; style-src 'unsafe-inline'; "
    "img-src {images}; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
FRAMES = {"frame.html": "data:", "frame-images.html": "data: https: http:"}  # with the allowed image sources
FRAME_SCRIPT = b'<script src="/static/frame.js"></script>'
SHELL = ("/", "/accounts", "/fairness", "/campaigns", "/emails", "/inbox", "/settings")  # and all paths below them


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    small: bytes
    media_type: str
    etag: str
    policy: str


def _read(folder: Traversable, before: str = "") -> dict[str, File]:
    found: dict[str, File] = {}
    for each in folder.iterdir():
        name = f"{before}{each.name}"
        if each.is_dir():
            found |= _read(each, f"{name}/")
        elif (ending := each.name.rpartition(".")[2]) in TYPES:
            found[name] = _file(each.read_bytes(), TYPES[ending])
    return found


def _file(content: bytes, media_type: str, policy: str = POLICY) -> File:
    etag = f'"{hashlib.sha256(content + policy.encode()).hexdigest()[:20]}"'
    return File(content, gzip.compress(content, mtime=0), media_type, etag, policy)


def _frames(page: bytes, script: bytes) -> dict[str, File]:
    """Returns the frames. The frames' script is inline, so every browser can check its hash."""
    content = page.replace(FRAME_SCRIPT, b"<script>" + script + b"</script>")
    hash_ = f"sha256-{b64encode(hashlib.sha256(script).digest()).decode()}"
    return {
        name: _file(content, TYPES["html"], FRAME_POLICY.format(script=hash_, images=images))
        for name, images in FRAMES.items()
    }


FILES = _read(files("fairpost.api") / "static")
FILES["chart.css"] = _file(stylesheet().encode(), TYPES["css"])
FILES["model.js"] = _file(model_script(), TYPES["js"])
FILES |= _frames(FILES["frame.html"].content, FILES.pop("frame.js").content)
NoneMatch = Annotated[str | None, Header(alias="If-None-Match")]
Encodings = Annotated[str, Header(alias="Accept-Encoding")]


@router.get("/setup")
@router.get("/invitation")
@router.get("/reset")
@router.get("/sign-in")
@router.get("/enter")
async def people(known: NoneMatch = None, takes: Encodings = "") -> Response:
    return _answer("auth.html", known, takes)


@router.get("/docs")
async def docs(known: NoneMatch = None, takes: Encodings = "") -> Response:
    return _answer("docs.html", known, takes)


async def shell(known: NoneMatch = None, takes: Encodings = "") -> Response:
    return _answer("app.html", known, takes)


for path in SHELL:
    router.add_api_route(path, shell)
    router.add_api_route(f"{path.rstrip('/')}/{{rest:path}}", shell) if path != "/" else None


@router.get("/static/{name:path}")
async def static(name: str, known: NoneMatch = None, takes: Encodings = "") -> Response:
    if name not in FILES:
        raise ApiError("not_found", "Path not found.")
    return _answer(name, known, takes)


def missing() -> Response:
    """Returns the dashboard, which then shows that the page was not found."""
    answer = _answer("app.html", None, "")
    answer.status_code = status.HTTP_404_NOT_FOUND
    return answer


def _answer(name: str, known: str | None, takes: str) -> Response:
    file = FILES[name]
    headers = {
        "Content-Security-Policy": file.policy,
        "Cache-Control": "no-cache",
        "ETag": file.etag,
        "Vary": "Accept-Encoding",
    }
    if file.policy != POLICY:
        headers["X-Frame-Options"] = "SAMEORIGIN"
    if known is not None and file.etag in known:
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    if "gzip" in takes:
        headers["Content-Encoding"] = "gzip"
    return Response(file.small if "gzip" in takes else file.content, media_type=file.media_type, headers=headers)
