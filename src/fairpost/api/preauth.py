"""Authenticates callers before reading large bodies, so unauthenticated clients cannot make the server parse
megabytes."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from fairpost.api.access import caller_of
from fairpost.api.errors import ApiError
from fairpost.api.service import service_of

LARGE_BYTES = 65_536
WITH_BODIES = frozenset({"POST", "PUT", "PATCH"})
OTHERS = ("/v1/auth/", "/v1/admin/")  # these paths have small bodies and their own authentication


class PreAuth:
    def __init__(self, app: ASGIApp, *, answer: Callable[[Request, Exception], Awaitable[Response]]) -> None:
        self._app = app
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _is_large(scope):
            request = Request(scope)
            try:
                headers = request.headers
                request.state.caller = await caller_of(
                    request,
                    await service_of(request),
                    None,
                    None,
                    headers.get("x-csrf-token"),
                    headers.get("x-workspace"),
                )
            except ApiError:
                raise
            except Exception as error:
                await (await self._answer(request, error))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _is_large(scope: Scope) -> bool:
    if scope["method"] not in WITH_BODIES or not scope["path"].startswith("/v1/") or scope["path"].startswith(OTHERS):
        return False
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return not lengths or int(lengths[0]) > LARGE_BYTES
