"""A TCP proxy in front of a database: it records its traffic, and can be cut or silenced."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tests.peers.process import free_port

CHUNK_BYTES = 65_536


class Proxy:
    def __init__(self, url: str, *, port: int | None = None) -> None:
        self._parts = urlsplit(url)
        self.connections = 0
        self.up: list[bytes] = []  # to the database, in order, for each connection
        self.down: list[bytes] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._port = port or free_port()  # while it is closed, no client may take the port

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._flowing.set()
        await self.cut()

    @property
    def url(self) -> str:
        user = self._parts.username or "fairpost"
        query = urlencode({"sslmode": "disable"})
        return urlunsplit(("postgresql", f"{user}@127.0.0.1:{self._port}", self._parts.path, query, ""))

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)

    async def cut(self) -> None:
        """As if the machine were gone: nothing listens, and open connections are closed."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    def silence(self) -> None:
        """Connections stay open, and nothing comes back."""
        self._flowing.clear()

    def speak(self) -> None:
        self._flowing.set()

    def seen(self, needle: bytes) -> bool:
        return any(needle.lower() in stream.lower() for stream in (*self.up, *self.down))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.connections
        self.connections += 1
        self.up.append(b"")
        self.down.append(b"")
        behind_reader, behind_writer = await self._behind()
        self._writers |= {writer, behind_writer}
        await asyncio.gather(
            self._pump(reader, behind_writer, self.up, number), self._pump(behind_reader, writer, self.down, number)
        )
        self._writers -= {writer, behind_writer}

    async def _behind(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        options = dict(parse_qsl(self._parts.query))
        if "host" in options:
            return await asyncio.open_unix_connection(Path(options["host"]) / f".s.PGSQL.{options.get('port', 5432)}")
        return await asyncio.open_connection(self._parts.hostname, self._parts.port or 5432)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, streams: list[bytes], number: int
    ) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                streams[number] += chunk
                await self._flowing.wait()
                writer.write(chunk)
                await writer.drain()
        writer.close()
