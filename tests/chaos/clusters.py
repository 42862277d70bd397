"""Two real PostgreSQL servers, the second a standby of the first, and a door through which clients reach one of them.

The door is a proxy on a Unix socket: it moves clients to the other server, disconnects them, or leaves them without an
answer.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import asyncpg

from fairpost.store.binaries import find_binaries
from fairpost.store.embedded import EmbeddedServer
from fairpost.store.identity import choose_identity, reachable_binaries
from fairpost.store.migrations import migrate
from fairpost.system import clock
from tests.chaos.driver import eventually, until
from tests.chaos.processes import still_alive

# Whatever is killed here, the machine keeps running, so written data is not lost, and nothing needs to wait for a disk.
SETTINGS = {"shared_buffers": "64MB", "fsync": "off", "full_page_writes": "off", "max_connections": "60"}
SOCKET = ".s.PGSQL.5432"
USER = DATABASE = "fairpost"
END_S_MAX = 60


def url_at(socket_dir: Path, database: str = DATABASE) -> str:
    return f"postgresql://{USER}@/{database}?host={quote(str(socket_dir), safe='')}&port=5432"


def socket_dir_of(url: str) -> Path:
    return Path(parse_qs(urlsplit(url).query)["host"][0])


async def ask(url: str, sql: str, *args: Any) -> Any:
    """Returns one value, over a separate connection."""
    conn = await asyncpg.connect(url)
    try:
        return await conn.fetchval(sql, *args)
    finally:
        await conn.close()


async def kill(server: EmbeddedServer) -> None:
    """Kills the postmaster, and with it its processes."""
    pid = server.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not still_alive([pid]), "PostgreSQL is dead")


class Standby:
    """Follows another server until it is promoted."""

    def __init__(self, folder: Path, primary: EmbeddedServer, settings: Mapping[str, str]) -> None:
        self._data = folder / "data"
        self.socket_dir = folder
        self._log = folder / "postgres.log"
        self._settings = {**settings, "listen_addresses": "", "unix_socket_directories": str(folder)}
        folder.mkdir(mode=0o700)
        data_dir = primary.status().data_dir
        self._identity = choose_identity(data_dir.parent, data_dir)
        os.chown(folder, self._identity.uid, self._identity.gid)
        self._binaries = reachable_binaries(find_binaries(), self._identity, folder=data_dir.parent)
        self._process: subprocess.Popen[bytes] | None = None
        copy = ["-D", str(self._data), "-R", "-X", "stream", "-c", "fast", "-h", str(socket_dir_of(primary.url))]
        self._run("pg_basebackup", *copy, "-p", "5432", "-U", USER, "-N")

    @property
    def url(self) -> str:
        return url_at(self.socket_dir)

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [*self._identity.prefix, str(self._binaries.directory / program), *arguments]

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(self._command(program, *arguments), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr

    def _launch(self, command: list[str]) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")

    async def start(self) -> None:
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        self._launch(self._command("postgres", "-D", str(self._data), *options))

        async def answers() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, self._log.read_text()
            with suppress(OSError, asyncpg.PostgresError):
                return bool(await ask(self.url, "SELECT true"))
            return False

        await eventually(answers, "the standby answers")

    async def promote(self) -> None:
        assert await ask(self.url, "SELECT pg_promote()")

    async def fall_behind(self) -> None:
        """From now on it receives nothing from the primary."""
        conn = await asyncpg.connect(self.url)
        try:
            await conn.execute("ALTER SYSTEM SET primary_conninfo = ''")
            await conn.execute("SELECT pg_reload_conf()")
            gone = "SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)"
            await eventually(lambda: conn.fetchval(gone), "the standby is cut off")
        finally:
            await conn.close()

    def end(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(END_S_MAX)


@dataclass
class Door:
    """Clients connect here. They reach the server whose sockets are in `behind`."""

    folder: Path
    behind: Path
    _inside: set[asyncio.StreamWriter] = field(default_factory=set)
    _forgotten: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    @property
    def url(self) -> str:
        return url_at(self.folder)

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Door"]:
        server = await asyncio.start_unix_server(self._enter, self.folder / SOCKET, backlog=1000)
        try:
            yield self
        finally:
            server.close()
            self._inside |= self._forgotten
            self.send_all_away()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def send_all_away(self) -> None:
        for writer in self._inside:
            writer.transport.abort()
        self._inside.clear()

    def forget_all(self) -> None:
        """As if a machine lost power: existing clients hear nothing more, and new ones are served."""
        for writer in self._inside:
            assert isinstance(writer.transport, asyncio.ReadTransport)
            with suppress(RuntimeError):
                writer.transport.pause_reading()
        self._forgotten |= self._inside
        self._inside.clear()

    def lead_to(self, socket_dir: Path) -> None:
        """Applies to clients that connect from now on."""
        self.behind = socket_dir

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_reader, to_writer = await asyncio.open_unix_connection(self.behind / SOCKET)
        except OSError:
            writer.transport.abort()
            return
        self._inside |= {writer, to_writer}
        for source, target in ((reader, to_writer), (to_reader, writer)):
            task = asyncio.create_task(self._pass_on(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                target.write(data)
                await target.drain()
        self._inside.discard(target)
        target.transport.abort()


@dataclass
class Clusters:
    primary: EmbeddedServer
    standby: Standby
    door: Door
    killed_s: float = 0.0

    @classmethod
    @asynccontextmanager
    async def made(cls, folder: Path, *, is_synchronous: bool) -> AsyncIterator["Clusters"]:
        """A primary with the newest schema, and a standby that streams from it."""
        primary = EmbeddedServer(folder / "one", settings=SETTINGS)
        standby: Standby | None = None
        try:
            url = await asyncio.to_thread(primary.start)
            conn = await asyncpg.connect(url)
            await migrate(conn)
            standby = await asyncio.to_thread(Standby, folder / "two", primary, SETTINGS)
            await standby.start()
            streams = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
            await eventually(lambda: conn.fetchval(streams), "the standby streams")
            if is_synchronous:
                await conn.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                await conn.execute("SELECT pg_reload_conf()")
                synced = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
                await eventually(lambda: conn.fetchval(synced), "the standby is synchronous")
            await conn.close()
            async with Door(folder, socket_dir_of(url)).open() as door:
                yield cls(primary, standby, door)
        finally:
            if standby is not None:
                await asyncio.to_thread(standby.end)
            await asyncio.to_thread(primary.stop, "immediate")

    async def kill_primary(self) -> None:
        await kill(self.primary)
        self.killed_s = clock.monotonic()

    async def fail_over(self) -> float:
        """Kills the primary, promotes the standby, and lets clients connect to it. Returns when that was done, by our
        clock."""
        await self.kill_primary()
        await self.standby.promote()
        self.door.lead_to(self.standby.socket_dir)
        return clock.monotonic()
