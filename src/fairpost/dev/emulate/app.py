"""The emulator over HTTP. It reads requests, applies faults and sends answers; the other modules decide what the
answers are. Starlette routes requests. This module writes the answers itself, because a fault must be able to cut off
an answer in the middle.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import format_datetime
from typing import Any, assert_never
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from fairpost.dev.emulate.answers import Answer, Refusal, answer, google_error, oauth_error, unknown_path
from fairpost.dev.emulate.bodies import JSON_BYTES_MAX, UPLOAD_BYTES_MAX, Call
from fairpost.dev.emulate.control import CONTROLS, Control, ControlRoute
from fairpost.dev.emulate.faults import (
    TOKEN,
    Change,
    CutBody,
    Delay,
    Drop,
    Error,
    Fault,
    Faults,
    Garbage,
    Stall,
    StallBody,
    What,
    tagged,
)
from fairpost.dev.emulate.mailbox import Mailboxes
from fairpost.dev.emulate.methods import METHODS, GmailApi, Method, peeked_recipients
from fairpost.dev.emulate.quota import Quota
from fairpost.dev.emulate.tokens import Tokens, read_assertion

FORM_BYTES_MAX = 65_536
FORM_FIELDS_MAX = 50
QUERY_FIELDS_MAX = 200
MULTIPART_ROOM = 65_536  # space for the parts of a body that surround the message
DRAIN_BYTES_MAX = 268_435_456  # an oversized body is read up to this size so that the client receives the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One request, for the log. `status` is None if no complete response was sent."""

    method: str
    path: str
    route: str
    user: str | None
    status: int | None
    faults: int


class _NoAnswer(Exception):
    """The connection has been cut or has gone silent. No more data is sent over it."""


class Clock:
    """The emulator's clock: the system clock, which can be shifted on request."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.skew = timedelta()

    def now(self) -> datetime:
        return self._now() + self.skew


@dataclass(slots=True, kw_only=True)
class Emulation:
    """The state of a running emulator."""

    clock: Clock
    mailboxes: Mailboxes
    tokens: Tokens
    quota: Quota
    faults: Faults
    api: GmailApi
    latency_s: float
    on_request: Callable[[Served], None]
    cut: Callable[[Any], None]  # closes the connection from the given client address
    over: asyncio.Event  # wakes all waiting tasks

    async def wait(self, seconds: float) -> None:
        """Waits even if the client has disconnected. A real server does not notice the disconnection and carries out
        the request.
        """
        with suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), seconds)
            raise _NoAnswer


def build_app(emulation: Emulation) -> Starlette:
    routes: list[BaseRoute] = [Route("/token", _Endpoint(emulation, TOKEN, _token, FORM_BYTES_MAX), methods=["POST"])]
    for method in METHODS:
        path = f"/gmail/v1/users/{{user}}{method.path}"
        routes.append(Route(path, _gmail(emulation, method, upload=False), methods=[method.http]))
        if method.uploads:
            routes.append(Route(f"/upload{path}", _gmail(emulation, method, upload=True), methods=[method.http]))
    control = Control(emulation.mailboxes, emulation.tokens, emulation.quota, emulation.faults, emulation.clock.now)
    routes += [Route(c.path, _control(emulation, control, c), methods=[c.http]) for c in CONTROLS]
    return Starlette(routes=routes, exception_handlers={404: _unknown, 405: _unknown})


@dataclass(frozen=True, slots=True)
class _Request:
    """A complete request. If the body exceeds the limit, `too_large` is set instead of the body."""

    scope: Scope
    receive: Receive
    headers: Mapping[bytes, bytes]
    body: bytes
    too_large: bool

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")

    def call(self, *, upload: bool = False) -> Call:
        query = parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True)[:QUERY_FIELDS_MAX]
        return Call(
            path=self.scope["path_params"],
            query=query,
            authorization=self.header(b"authorization"),
            content_type=self.header(b"content-type"),
            body=self.body,
            upload=upload,
        )


Run = Callable[[Emulation, _Request], Answer]
WhoAndWhy = Callable[[Emulation, _Request], tuple[str | None, list[Fault]]]


def _anyone(emulation: Emulation, request: _Request) -> tuple[str | None, list[Fault]]:
    return None, []


class _Endpoint:
    """One route: reads the request, applies faults, runs the request, applies later faults, and answers."""

    def __init__(
        self,
        emulation: Emulation,
        route: str,
        run: Run,
        bytes_max: int,
        *,
        who: WhoAndWhy | None = None,
        faults_strike: bool = True,
    ) -> None:
        self._emulation = emulation
        self._route = route
        self._run = run
        self._bytes_max = bytes_max
        self._who = who or _token_user
        self._faults_strike = faults_strike

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = await _read(scope, receive, bytes_max=self._bytes_max)
        if request is None:  # the client disconnected before the request was complete, so nothing is done
            return
        user, faults, status = None, list[Fault](), None
        try:
            user, faults = self._striking(request)
            if self._faults_strike and self._emulation.latency_s:
                await self._emulation.wait(self._emulation.latency_s)
            reply = await self._replied(request, user, faults)
            if await self._send(reply, faults, request, send):
                status = reply.status
        except _NoAnswer:
            pass
        finally:
            self._emulation.on_request(
                Served(
                    method=scope["method"],
                    path=scope["path"],
                    route=self._route,
                    user=user,
                    status=status,
                    faults=len(faults),
                )
            )

    def _striking(self, request: _Request) -> tuple[str | None, list[Fault]]:
        if not self._faults_strike:
            return None, []
        user, tags = self._who(self._emulation, request)
        scripted = self._emulation.faults.striking(route=self._route, method=request.scope["method"], user=user)
        return user, [*scripted, *tags]

    async def _replied(self, request: _Request, user: str | None, faults: Iterable[Fault]) -> Answer:
        for fault in faults:
            if not fault.after and (reply := await self._meet(fault, request, user)):
                return reply
        reply = self._applied(request)
        for fault in faults:
            if fault.after:
                reply = await self._meet(fault, request, user) or reply
        return reply

    def _applied(self, request: _Request) -> Answer:
        try:
            if request.too_large:
                return _too_large(self._route, self._bytes_max)
            return self._run(self._emulation, request)
        except Refusal as refusal:
            return refusal.answer

    async def _meet(self, fault: Fault, request: _Request, user: str | None) -> Answer | None:
        """Applies a fault. Returns the answer that the fault specifies, or None to proceed to the usual answer."""
        match fault.action:
            case Error() as error:
                return error.answer(route=self._route, now=self._emulation.clock.now())
            case Garbage(status, body, content_type):
                return Answer(status=status, body=body, content_type=content_type)
            case Delay(seconds):
                await self._emulation.wait(seconds)
            case Drop():
                await self._cut(request)
            case Stall():
                await _silence(request.receive)
            case Change(what, seconds):
                _change(self._emulation, what, user, seconds)
            case CutBody() | StallBody():
                pass  # these faults are applied when the answer is sent
            case _:
                assert_never(fault.action)
        return None

    async def _cut(self, request: _Request) -> None:
        self._emulation.cut(request.scope["client"])
        await _silence(request.receive)  # otherwise, the server assumes that the application sent no answer

    async def _send(self, reply: Answer, faults: Iterable[Fault], request: _Request, send: Send) -> bool:
        """Sends the answer. Returns whether the complete answer was sent."""
        broken = next((f.action for f in faults if isinstance(f.action, CutBody | StallBody)), None)
        await send({"type": "http.response.start", "status": reply.status, "headers": self._headers(reply)})
        if broken is None:
            await send({"type": "http.response.body", "body": reply.body})
            return True
        await send({"type": "http.response.body", "body": reply.body[: len(reply.body) // 2], "more_body": True})
        if isinstance(broken, CutBody):
            await self._cut(request)
        await _silence(request.receive)
        return False

    def _headers(self, reply: Answer) -> list[tuple[bytes, bytes]]:
        date = format_datetime(self._emulation.clock.now(), usegmt=True)
        headers = {"Date": date, "Server": "ESF", "Vary": "Origin, X-Origin, Referer", **reply.headers}
        if reply.status != 204:
            headers |= {"Content-Type": reply.content_type, "Content-Length": str(len(reply.body))}
        return [(name.lower().encode(), text.encode("latin-1")) for name, text in headers.items()]


def _gmail(emulation: Emulation, method: Method, *, upload: bool) -> _Endpoint:
    can_be_tagged = method.name in ("drafts.create", "drafts.send", "messages.send")

    def run(emulation: Emulation, request: _Request) -> Answer:
        return emulation.api.run(method, request.call(upload=upload))

    def who(emulation: Emulation, request: _Request) -> tuple[str | None, list[Fault]]:
        user = emulation.tokens.user_of(request.header(b"authorization"))
        if not can_be_tagged or request.too_large:
            return user, []
        addresses = peeked_recipients(method, request.call(upload=upload), emulation.mailboxes, user)
        return user, tagged(addresses, route=method.name)

    bytes_max = UPLOAD_BYTES_MAX + MULTIPART_ROOM if upload else JSON_BYTES_MAX
    return _Endpoint(emulation, method.name, run, bytes_max, who=who)


def _control(emulation: Emulation, control: Control, route: ControlRoute) -> _Endpoint:
    def run(emulation: Emulation, request: _Request) -> Answer:
        return route.handle(control, request.call())

    return _Endpoint(emulation, route.name, run, UPLOAD_BYTES_MAX * 2, who=_anyone, faults_strike=False)


def _token(emulation: Emulation, request: _Request) -> Answer:
    url = f"{request.scope['scheme']}://{request.header(b'host')}{request.scope['path']}"
    return answer(emulation.tokens.grant(_form(request), url=url), headers={"Cache-Control": "no-store"})


def _token_user(emulation: Emulation, request: _Request) -> tuple[str | None, list[Fault]]:
    """Returns the user that the requested token is for."""
    try:
        form = _form(request)
        if grant := emulation.tokens.grants.get(form.get("refresh_token", "")):
            return grant.user, []
        return read_assertion(form.get("assertion", "")).sub, []
    except Refusal:
        return None, []


def _form(request: _Request) -> dict[str, str]:
    try:
        return dict(parse_qsl(request.body.decode(), keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX))
    except ValueError:
        raise oauth_error("invalid_request", "The form cannot be read.") from None


def _change(emulation: Emulation, what: What, user: str | None, seconds: float) -> None:
    match what:
        case What.EXPIRE_TOKENS:
            emulation.tokens.expire(user)
        case What.REVOKE_TOKENS:
            emulation.tokens.revoke(user)
        case What.DISABLE_SERVICE_ACCOUNT:
            for account in emulation.tokens.accounts.values():
                account.disabled = True
        case What.DISABLE_USER | What.DISABLE_MAIL:
            found = emulation.mailboxes.user(user) if user else None
            if found and what is What.DISABLE_USER:
                found.disabled = True
            elif found:
                found.mail_enabled = False
        case What.SKEW_CLOCK:
            emulation.clock.skew = timedelta(seconds=seconds)
        case _:
            assert_never(what)


async def _read(scope: Scope, receive: Receive, *, bytes_max: int) -> _Request | None:
    """Reads the whole body, even if it is too large, because a client that is disconnected while sending does not
    receive an answer.
    """
    chunks, size = list[bytes](), 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        chunk = event.get("body", b"")
        size += len(chunk)
        if size <= bytes_max:
            chunks.append(chunk)
        if not event.get("more_body") or size > DRAIN_BYTES_MAX:
            too_large = size > bytes_max
            return _Request(scope, receive, dict(scope["headers"]), b"" if too_large else b"".join(chunks), too_large)


async def _silence(receive: Receive) -> None:
    """Waits until the client gives up, or the emulator stops."""
    while (await receive())["type"] != "http.disconnect":
        pass
    raise _NoAnswer


def _too_large(route: str, bytes_max: int) -> Answer:
    if route == TOKEN:
        return answer({"error": "invalid_request", "error_description": "The form is too large."}, status=400)
    if bytes_max > JSON_BYTES_MAX:
        return google_error(413, "uploadTooLarge", "Request Entity Too Large")
    return google_error(400, "badRequest", f"Request payload size exceeds the limit: {bytes_max} bytes.")


async def _unknown(request: Request, error: Exception) -> Response:
    page = unknown_path()
    return Response(page.body, status_code=page.status, media_type=page.content_type)
