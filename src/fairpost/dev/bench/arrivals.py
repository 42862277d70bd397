"""A small SMTP server that accepts every e-mail and records its time of arrival, to measure how long delivery takes."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from fairpost.system import clock

_TO = re.compile(rb"RCPT TO:<([^>]*)>", re.IGNORECASE)


class Arrivals:
    """Records the time of the 250 reply for each recipient."""

    def __init__(self) -> None:
        self.at_s: dict[str, float] = {}
        self._awaited: dict[str, asyncio.Future[float]] = {}

    async def of(self, address: str) -> float:
        if address not in self.at_s:
            waiting = self._awaited[address] = asyncio.get_running_loop().create_future()
            await waiting
            del self._awaited[address]
        return self.at_s[address]

    def came(self, address: str) -> None:
        self.at_s[address] = clock.monotonic()
        waiting = self._awaited.get(address)
        if waiting is not None and not waiting.done():
            waiting.set_result(self.at_s[address])


class _Session(asyncio.Protocol):
    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._buffer = b""
        self._in_message = False
        self._to: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(b"220 here\r\n")

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while self._take_message() if self._in_message else self._take_command():
            pass

    def _take_message(self) -> bool:
        end = self._buffer.find(b"\r\n.\r\n")
        if end < 0:
            return False
        self._buffer = self._buffer[end + 5 :]
        self._in_message = False
        self._transport.write(b"250 taken\r\n")
        for address in self._to:
            self._arrivals.came(address)
        return True

    def _take_command(self) -> bool:
        line, end, rest = self._buffer.partition(b"\r\n")
        if not end:
            return False
        self._buffer = rest
        verb = line[:4].upper()
        if verb == b"MAIL":
            self._to = []
        if match := _TO.match(line):
            self._to.append(match[1].decode())
        self._in_message = verb == b"DATA"
        answers = {
            b"EHLO": b"250-here\r\n250-PIPELINING\r\n250 8BITMIME\r\n",
            b"DATA": b"354 go on\r\n",
            b"QUIT": b"221 bye\r\n",
        }
        self._transport.write(answers.get(verb, b"250 fine\r\n"))
        if verb == b"QUIT":
            self._transport.close()
        return True


@asynccontextmanager
async def arriving() -> AsyncIterator[tuple[Arrivals, int]]:
    arrivals = Arrivals()
    server = await asyncio.get_running_loop().create_server(lambda: _Session(arrivals), "127.0.0.1", 0)
    try:
        yield arrivals, server.sockets[0].getsockname()[1]
    finally:
        server.close()
