"""Middleware that assigns an ID to every request, limits the size of its body and the time to receive it, and always
responds.
"""

import asyncio
import re
from collections.abc import Callable, Mapping

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairpost.api.answers import failure
from fairpost.api.clients import CONNECTIONS_MAX, Requests
from fairpost.api.errors import ApiError
from fairpost.api.old_paths import deprecation, with_new_path
from fairpost.prospects.json_reader import LIST_BYTES_MAX
from fairpost.system import chance, clock

BODY_BYTES_MAX = 1_048_576
PROSPECTS = re.compile(r"/v1/lists/[^/]+/prospects")
BODIES: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"/v1/auth/.*"), 65_536),  # callers are not authenticated yet
    (re.compile(r"/v1/emails/bulk"), 67_108_864),
    (re.compile(r"/v1/emails"), 41_943_040),  # attachments of 25 MiB, in base64
    (PROSPECTS, 67_108_864),  # read line by line; a JSON array is read as a whole and has a lower limit
    (re.compile(r"/v1/campaigns/[^/]+"), 22_020_096),  # can contain templates
    (re.compile(r"/v1/(templates|portals|suppressions)\b.*"), 22_020_096),
)
CHUNK_S_MAX = 20.0  # maximum pause between two chunks of a body
BODY_S_MAX = 120.0
CLIENT_LEFT = 499  # the client disconnected before the response
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")

SECURITY_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


class RequestMiddleware:
    def __init__(
        self,
        app: ASGIApp,
        *,
        report: Callable[[str, BaseException], None],
        answered: Callable[[Scope, int, float], None],
    ) -> None:
        """Wraps the application. `answered` is called for every request, with its status and duration in seconds."""
        self._app = app
        self._report = report
        self._answered = answered
        self._requests = Requests()

    async def __call__(self, asked: Scope, receive: Receive, send: Send) -> None:
        if asked["type"] != "http":
            await self._app(asked, receive, send)
            return
        scope = with_new_path(asked)
        request_id = _given_id(scope) or chance.mark()
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        state["headers"] = deprecation(asked, scope)
        began_s, status, has_begun = clock.monotonic(), CLIENT_LEFT, False

        body = _Body(receive, most=_body_max(scope))

        async def answer(message: Message) -> None:
            nonlocal has_begun, status
            if body.refused is not None and not has_begun:
                return  # the body reader handles this
            if message["type"] == "http.response.start":
                has_begun, status = True, message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in (*SECURITY_HEADERS.items(), *state["headers"].items()):
                    if name not in headers:
                        headers[name] = value
            await send(message)

        try:
            with self._requests.one_more(_client(scope), most=_requests_max(scope)):
                body.check_head(scope)
                await self._app(scope, body.receive, answer)
            if body.refused is not None and not has_begun:
                raise body.refused
        except ApiError as error:
            body.refused = None
            if not has_begun:
                await failure(error)(scope, receive, answer)
        except ClientDisconnect:
            pass  # the client has disconnected
        except Exception as error:
            self._report(request_id, error)
            if has_begun:
                raise
            fault = ApiError(
                "internal",
                f"Internal error, logged under request ID {request_id}.",
                details={"request_id": request_id},
            )
            await failure(fault)(scope, receive, answer)
        finally:
            self._answered(scope, status, clock.monotonic() - began_s)


class _Body:
    """Limits the size of a request body and the time to receive it. Slow or oversized requests are refused, and their
    resources are released.
    """

    def __init__(self, receive: Receive, *, most: int) -> None:
        self._receive = receive
        self._most = most
        self._bytes = 0
        self._is_done = False
        self._began_s: float | None = None
        self.refused: ApiError | None = None

    def check_head(self, scope: Scope) -> None:
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or int(value) > self._most):
                raise self._too_large()
        _require_plain(scope)

    async def receive(self) -> Message:
        try:
            return await self._received()
        except ApiError as error:
            self.refused = error
            raise

    async def _received(self) -> Message:
        if self._is_done:
            return await self._receive()  # waits for the connection to close
        if self._began_s is None:
            self._began_s = clock.monotonic()
        left_s = self._began_s + BODY_S_MAX - clock.monotonic()
        try:
            async with asyncio.timeout(max(0.0, min(CHUNK_S_MAX, left_s))):
                message = await self._receive()
        except TimeoutError:
            raise ApiError(
                "too_slow", "The request body did not arrive in time.", headers={"Connection": "close"}
            ) from None
        if message["type"] == "http.request":
            self._bytes += len(message.get("body", b""))
            self._is_done = not message.get("more_body", False)
            if self._bytes > self._most:
                raise self._too_large()
        return message

    def _too_large(self) -> ApiError:
        return ApiError(
            "too_large",
            f"The body is too large. The limit for this path is {self._most:,} bytes.",
            details={"bytes_max": self._most},
        )


def _require_plain(scope: Scope) -> None:
    """Refuses compressed bodies, because a few bytes can expand without limit."""
    codings = b",".join(value for name, value in scope["headers"] if name == b"content-encoding")
    if any(coding.strip().lower() not in (b"", b"identity") for coding in codings.split(b",")):
        raise ApiError(
            "unsupported_media_type",
            "Compressed bodies are not supported. Send the body without Content-Encoding.",
            headers={"Connection": "close"},
        )


def _given_id(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text = value.decode("latin-1")
            return text if REQUEST_ID.fullmatch(text) else None
    return None


def _client(scope: Scope) -> str | None:
    return scope["client"][0] if scope.get("client") else None


def _requests_max(scope: Scope) -> int:
    """Returns the maximum number of requests per client, which equals the maximum number of connections because each
    connection carries one request at a time.
    """
    service = scope["app"].state.service
    return CONNECTIONS_MAX if service is None else int(service.settings.client_connections_max)


def _body_max(scope: Scope) -> int:
    if PROSPECTS.fullmatch(scope["path"]) and _has_json(scope):
        return LIST_BYTES_MAX
    return next((most for pattern, most in BODIES if pattern.fullmatch(scope["path"])), BODY_BYTES_MAX)


def _has_json(scope: Scope) -> bool:
    return any(
        name == b"content-type" and value.partition(b";")[0].strip().lower() == b"application/json"
        for name, value in scope["headers"]
    )
