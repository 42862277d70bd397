"""A Gmail of a few lines on a raw socket: it loses answers, cuts them at any byte, stalls, and acts late.

The emulator imitates the API itself. This imitates what networks do to it.
"""

import asyncio
import base64
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fairpost.transports.oauth.errors import Refused, Unreachable
from fairpost.transports.oauth.tokens import AccessToken


class Tokens:
    """A source that returns what it is told to, and counts."""

    def __init__(self, *script: str | Refused | Unreachable) -> None:
        self._script = deque(script)
        self.current = "token-0"
        self.forgotten = 0

    async def token(self) -> AccessToken:
        await asyncio.sleep(0)
        if self._script:
            given = self._script.popleft()
            if not isinstance(given, str):
                raise given
            self.current = given
        return AccessToken(secret=self.current, expires_at=datetime.now(UTC) + timedelta(hours=1))

    def forget(self) -> None:
        self.forgotten += 1
        self.current = f"token-{self.forgotten}"


class Done(StrEnum):
    NOW = "now"
    NEVER = "never"
    LATE = "late"  # after `late_by` more requests have arrived


@dataclass(frozen=True)
class Fault:
    """What happens to one request."""

    done: Done = Done.NOW
    late_by: int = 1
    is_underway: bool = False  # the draft is already being sent, so deleting it does not stop it
    cut_at: int | None = None  # after this many bytes of the answer, the connection is cut
    stalls: bool = False  # the answer, or the rest of it, never arrives
    says: bytes | None = None  # instead of the answer, byte for byte
    drips: bool = False  # after the answer, a byte arrives now and then
    cuts_request: bool = False  # before the body was read


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


@dataclass
class Google:
    port: int = 0
    drafts: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    sent: list[dict[str, Any]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    faults: dict[str, deque[Fault | None]] = field(default_factory=dict)  # by the last part of the path, or "*"
    pending: list[list[Any]] = field(default_factory=list)  # [requests still to come, the action then]
    connections: int = 0
    number: int = 100

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def fail(self, where: str, *faults: Fault | None) -> None:
        self.faults[where] = deque(faults)

    def paths(self) -> list[str]:
        return [f"{request.method} {request.path}" for request in self.requests]

    def finish(self) -> None:
        """Performs everything that is still in progress."""
        for _, work in self.pending:
            work()
        self.pending.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        url = urlsplit(target)
        fault = self._fault(url.path)
        if fault and fault.cuts_request:
            return False
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        request = Request(method, url.path, parse_qs(url.query), headers, body)
        self.requests.append(request)
        self._time_passes()
        answer = self._answer(request, fault)
        if fault is None:
            writer.write(answer)
            await writer.drain()
            return True
        writer.write(answer if fault.cut_at is None else answer[: fault.cut_at])
        await writer.drain()
        while fault.drips:
            writer.write(b" ")
            await asyncio.sleep(0.02)
        if fault.stalls:
            await asyncio.sleep(3600)
        return fault.cut_at is None and fault.says is None

    def is_silent(self, path: str) -> bool:
        faults = self._faults(path)
        return bool(faults) and faults[0] is not None and faults[0].stalls

    def _fault(self, path: str) -> Fault | None:
        faults = self._faults(path)
        return faults.popleft() if faults else None

    def _faults(self, path: str) -> deque[Fault | None]:
        """Returns the remaining faults for this path."""
        return self.faults.get(path.rpartition("/")[2]) or self.faults.get("*") or deque()

    def _time_passes(self) -> None:
        for each in self.pending:
            each[0] -= 1
        for each in [each for each in self.pending if each[0] < 0]:
            self.pending.remove(each)
            each[1]()

    def _answer(self, request: Request, fault: Fault | None) -> bytes:
        answer = http(503, error(503, "backendError", "Backend Error"))
        match fault.done if fault else Done.NOW:
            case Done.NOW:
                answer = self._do(request)
            case Done.LATE:
                assert fault is not None
                self.pending.append([fault.late_by, self._later(request, is_underway=fault.is_underway)])
        if fault and fault.says is not None:
            return fault.says
        return b"" if fault and fault.stalls and fault.cut_at is None else answer

    def _later(self, request: Request, *, is_underway: bool) -> Callable[[], object]:
        drafts = dict(self.drafts)

        def work() -> None:
            was_sent = {sent["draft"] for sent in self.sent}
            if is_underway:  # if two requests have it, the first sends it
                self.drafts |= {id_: draft for id_, draft in drafts.items() if id_ not in was_sent}
            self._do(request)

        return work

    def _do(self, request: Request) -> bytes:
        words = request.path.strip("/").split("/")
        words = words[words.index("me") + 1 :]
        match request.method, words:
            case "POST", ["drafts"]:
                return self._create(request)
            case "POST", ["drafts", "send"]:
                return self.send_draft(json.loads(request.body)["id"])
            case "GET", ["drafts", id_] if id_ in self.drafts:
                return http(200, {"id": id_, "message": {"id": f"m{id_}", "threadId": self.drafts[id_][1]}})
            case "PUT", ["drafts", id_] if id_ in self.drafts:
                raw = base64.urlsafe_b64decode(json.loads(request.body)["message"]["raw"])
                self.drafts[id_] = (raw, self.drafts[id_][1])
                return http(200, {"id": id_, "message": {"id": f"n{id_}", "threadId": self.drafts[id_][1]}})
            case "DELETE", ["drafts", id_] if id_ in self.drafts:
                del self.drafts[id_]
                return http(204, None)
            case "GET", ["messages", id_]:
                found = [sent for sent in self.sent if sent["id"] == id_]
                return http(200, found[0]) if found else GONE
            case "GET", ["threads", id_]:
                inside = [sent for sent in self.sent if sent["threadId"] == id_]
                return http(200, {"id": id_, "messages": inside}) if inside else GONE
            case "GET", ["profile"]:
                return http(200, {"emailAddress": "sales@post.test", "messagesTotal": 1})
            case "GET", ["settings", "sendAs"]:
                return http(200, {"sendAs": [{"sendAsEmail": "sales@post.test", "isPrimary": True}]})
        return GONE

    def _create(self, request: Request) -> bytes:
        self.number += 1
        id_ = f"r{self.number}"
        message = json.loads(request.body)["message"]
        thread = message.get("threadId", f"t{self.number}")
        self.drafts[id_] = (base64.urlsafe_b64decode(message["raw"]), thread)
        return http(200, {"id": id_, "message": {"id": f"m{id_}", "threadId": thread, "labelIds": ["DRAFT"]}})

    def send_draft(self, id_: str) -> bytes:
        if id_ not in self.drafts:
            return GONE
        raw, thread = self.drafts.pop(id_)
        head = raw.partition(b"\r\n\r\n")[0].decode().replace("\r\n ", " ").split("\r\n")
        headers = [{"name": name, "value": value} for name, _, value in (line.partition(": ") for line in head)]
        for header in headers:
            if header["name"] == "Message-ID":
                header["value"] = f"<CA{id_}@mail.gmail.com>"
        message = {"id": f"s{id_}", "threadId": thread, "labelIds": ["SENT"]}
        self.sent.append({**message, "draft": id_, "payload": {"headers": headers}})
        return http(200, message)


def http(status: int, value: Any, **headers: str) -> bytes:
    body = json.dumps(value).encode() if value is not None else b""
    return answer_of(status, body, **headers)


def answer_of(status: int, body: bytes, **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode() + body


def error(status: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "error": {"code": status, "message": message, "errors": [{"domain": "global", "reason": reason}], "status": "X"}
    }


GONE = http(404, error(404, "notFound", "Requested entity was not found."))


@asynccontextmanager
async def google() -> AsyncIterator[Google]:
    made = Google()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
