"""A proxy in front of a PostgreSQL or a pooler that can fall silent: it accepts bytes, forwards none, and closes nothing.

This is what a client sees if its server behind a router loses power: no connection is refused or reset, and none is
answered.

    async with Swallowing(url).open() as proxy:
        conn = await connect(proxy.url)
        proxy.swallow()
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from tests.peers.process import HOST

BYTES = 65_536
REQUESTS, ANSWERS = "requests", "answers"


@dataclass
class Swallowing:
    server_url: str
    url: str = ""
    accepted: int = 0  # connections
    requests: int = 0  # pieces sent by clients on connections that are not silent
    is_silent: bool = False  # also applies to new connections
    swallow_at: int | None = None  # the connection that sends this piece falls silent
    swallows: frozenset[str] = frozenset((REQUESTS, ANSWERS))
    _pairs: set["_Pair"] = field(default_factory=set)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Swallowing"]:
        listening = await asyncio.start_server(self._enter, HOST, 0)
        parts = urlsplit(self.server_url)
        options = {name: values[0] for name, values in parse_qs(parts.query).items() if name not in ("host", "port")}
        netloc = f"{parts.username}@{HOST}:{listening.sockets[0].getsockname()[1]}"
        self.url = urlunsplit(parts._replace(netloc=netloc, query=urlencode(options)))
        try:
            yield self
        finally:
            listening.close()
            for pair in list(self._pairs):
                pair.close()
            await asyncio.gather(*self._tasks)

    def swallow(self) -> None:
        """Silences all open connections from now on. New ones are served."""
        for pair in self._pairs:
            pair.swallows = self.swallows

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        there, to_there = await self._server()
        pair = _Pair((writer, to_there), self.swallows if self.is_silent else frozenset())
        self._pairs.add(pair)
        for pumped in (self._requests(pair, reader, to_there), self._answers(pair, there, writer)):
            task = asyncio.create_task(pumped)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _server(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self.server_url)
        options = parse_qs(parts.query)
        port = int(options["port"][0]) if "port" in options else parts.port or 5432
        if "host" in options:
            return await asyncio.open_unix_connection(f"{options['host'][0]}/.s.PGSQL.{port}")
        return await asyncio.open_connection(parts.hostname, port)

    async def _requests(self, pair: "_Pair", source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(BYTES):
                if not pair.swallows:
                    self.requests += 1
                    if self.requests == self.swallow_at:
                        pair.swallows = self.swallows
                if REQUESTS not in pair.swallows:
                    target.write(data)
        pair.close()
        self._pairs.discard(pair)

    async def _answers(self, pair: "_Pair", source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(BYTES):
                if ANSWERS not in pair.swallows:
                    target.write(data)
        if not pair.swallows:
            pair.close()


@dataclass(eq=False)
class _Pair:
    """A client's connection, and the matching one to the server."""

    writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    swallows: frozenset[str]

    def close(self) -> None:
        for writer in self.writers:
            writer.transport.abort()
