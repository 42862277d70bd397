"""Receivers on 127.0.0.1, good and bad. Each stores what it received."""

import asyncio
import json
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def answer(status: int, *more: str, body: str = "") -> bytes:
    lines = [f"HTTP/1.1 {status} Said", f"content-length: {len(body)}", *more]
    return "\r\n".join([*lines, "", body]).encode()


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> Any:
        return json.loads(self.body)


Behaviour = Callable[["Receiver", Request], bytes | None]
"""The answer; None: the connection hangs. b"": it is closed."""


@dataclass
class Receiver:
    behave: Behaviour = field(default=lambda receiver, request: OK)
    seen: list[Request] = field(default_factory=list)
    drip_s: float | None = None
    held: asyncio.Event | None = None  # nothing is answered before
    closes: bool = False
    tls: ssl.SSLContext | None = None
    connections: int = 0
    in_work_max: int = 0
    _in_work: int = 0
    _server: asyncio.Server | None = None
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    _tasks: set[Any] = field(default_factory=set)

    async def __aenter__(self) -> "Receiver":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        await asyncio.sleep(0)  # a newly accepted connection has its task now
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def again(self, port: int) -> None:
        """Listens again on the same port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=self.tls)

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/hook"

    @property
    def ids(self) -> list[str]:
        return [each.id for each in self.seen]

    async def until(self, count: int) -> None:
        """Waits for this number of requests."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.seen) >= count)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        self.connections += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    await self._answer(await _read(reader), writer)
        finally:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()
            self._tasks.discard(task)

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self._in_work += 1
        self.in_work_max = max(self.in_work_max, self._in_work)
        self.seen.append(request)
        async with self._arrived:
            self._arrived.notify_all()
        said = self.behave(self, request)
        try:
            if self.held is not None:
                await self.held.wait()
            if said is None:
                await asyncio.Event().wait()
            elif said == b"":
                raise ConnectionResetError
            elif self.drip_s is not None:
                for byte in said:
                    writer.write(bytes((byte,)))
                    await asyncio.sleep(self.drip_s)
            else:
                writer.write(said)
                if self.closes:
                    writer.close()
                    await writer.wait_closed()
                    raise ConnectionResetError
        finally:
            self._in_work -= 1


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in head[1:] if line)
    body = await reader.readexactly(int(headers["content-length"]))
    return Request(head[0].split(" ")[1], headers, body)
