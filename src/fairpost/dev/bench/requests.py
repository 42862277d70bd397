"""A client that sends requests over several connections for a few seconds. Each connection sends its next request as
soon as the previous one is answered. The client runs as a separate process. To measure only the server, the client
writes and counts bytes without an HTTP library. The results are printed as JSON.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any
from zlib import crc32

from fairpost.system import clock

BODY = "A line of text as people write it in a message.\n" * 10
SENDER_DOMAIN = "sender.test"
USERS = 1_000  # several users, because requests for a single user with a limit wait for each other


class Answers(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._waiting: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    async def ask(self, request: bytes) -> bytes:
        """Returns the head and body of the response."""
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiting

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._buffer[:end]).lower()
        at = head.index(b"content-length:") + 15
        length = int(head[at:].split(b"\r\n", 1)[0])
        if len(self._buffer) >= end + 4 + length and self._waiting is not None:
            answer, self._buffer = bytes(self._buffer), bytearray()
            self._waiting.set_result(answer)
            self._waiting = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None:
            self._waiting.set_exception(exc or ConnectionError("the server closed the connection"))

    def close(self) -> None:
        self._transport.close()


def email(place: str) -> dict[str, str]:
    """Returns an e-mail. `place` is unique for each e-mail."""
    return {
        "to": f"person{place}@example.com",
        "from": f"news@{SENDER_DOMAIN}",
        "subject": f"Message {place}",
        "text": BODY,
        "user": f"user{crc32(place.encode()) % USERS}",
        "idempotency_key": place,
    }


def request(method: str, path: str, key: str, body: bytes = b"", *, kind: str = "application/json") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\n"
    if body:
        head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def one_email(path: str, key: str, place: str) -> bytes:
    return request("POST", path, key, json.dumps(email(place)).encode())


def many_emails(lines: int, key: str, place: str) -> bytes:
    body = b"".join(json.dumps(email(f"{place}-{n}")).encode() + b"\n" for n in range(lines))
    return request("POST", "/v1/emails/bulk", key, body, kind="application/x-ndjson")


async def ask_for(
    port: int, make: Callable[[str], bytes], *, seconds: float, connections: int, mark: str
) -> dict[str, Any]:
    """Returns the total time, and each response time in milliseconds. Raises an error if a request does not succeed."""
    loop = asyncio.get_running_loop()
    times_ms: list[float] = []
    clients = [(await loop.create_connection(Answers, "127.0.0.1", port))[1] for _ in range(connections)]
    until_s = clock.monotonic() + seconds

    async def work(number: int, client: Answers) -> None:
        turn = 0
        while clock.monotonic() < until_s:
            asked = make(f"{mark}-{number}-{turn}")
            started_s = clock.monotonic()
            answer = await client.ask(asked)
            times_ms.append((clock.monotonic() - started_s) * 1000)
            if b'"success":true' not in answer or (b'"rejected"' in answer and b'"rejected":0' not in answer):
                raise RuntimeError(answer[:1000].decode(errors="replace"))
            turn += 1

    started_s = clock.monotonic()
    await asyncio.gather(*(work(number, client) for number, client in enumerate(clients)))
    taken_s = clock.monotonic() - started_s
    for client in clients:
        client.close()
    return {"taken_s": taken_s, "times_ms": times_ms}


def main(port: str, kind: str, key: str, seconds: str, connections: str, mark: str) -> None:
    makes: dict[str, Callable[[str], bytes]] = {
        "single": lambda place: one_email("/v1/emails", key, place),
        "bulk": lambda place: many_emails(int(detail), key, place),
        "get": lambda _: request("GET", detail, key),
    }
    kind, _, detail = kind.partition(":")
    work = ask_for(int(port), makes[kind], seconds=float(seconds), connections=int(connections), mark=mark)
    sys.stdout.write(json.dumps(asyncio.run(work)))


if __name__ == "__main__":
    main(*sys.argv[1:])
