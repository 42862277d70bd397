"""Open connections and keep a small pool of them per process, filled on demand.

A pooler (PgBouncer in transaction mode) assigns a session to a client for one transaction and then to another client. A
statement prepared in one session may not exist in the next, or its name may refer to another client's statement.
`connect` detects poolers and keeps no prepared statements on such connections. On a direct connection to PostgreSQL,
statements stay prepared.

asyncpg's own pool resets a session after each use and releases it in a separate task. That takes a round trip and six
iterations of the event loop per statement, which doubles the duration of short statements. Our statements leave no
state in the session, so a connection is returned to the pool as is. A connection that was interrupted in the middle of
a statement is discarded.

Every statement has a client-side timeout. A server that vanishes never responds, and a proxy or pooler in between hides
this from the kernel's own probes. If no response arrives in time, the connection is closed together with all idle
connections, and the next statement reconnects.
"""

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator  # noqa: TC003 - read at run time by asynccontextmanager
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Self
from weakref import WeakKeyDictionary

import asyncpg

from fairpost.model.errors import DatabaseUnavailable, FairpostError
from fairpost.system import clock

PLACE_S_MAX = 30.0  # maximum wait for a free connection
PLANS_S_MAX = 60.0  # statements are replanned after this time, because the tables may have been empty at first
CONNECT_S_MAX = 15.0
ANSWER_S_MAX = 30.0  # per statement
BULK_S_MAX = 600.0  # per statement that handles a lot of data, such as imports or months of history
LOOK_MS = 5_000  # how often, during a statement, the server checks whether its client is still connected
LEAVE_S_MAX = 3.0  # time to ask the server to cancel a statement
SILENCE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}  # s, s, probes, ms

SILENT = (TimeoutError, ConnectionError, asyncpg.InterfaceError)  # raised by the driver if a server does not respond

_poolers: set[str] = set()  # URLs that are known to connect through a pooler


class LimitedConnection(asyncpg.Connection):  # type: ignore[misc]
    """A connection that limits how long each statement waits for a response."""

    _config: Any  # the driver's configuration, with the limit

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_given_up = False  # whether it was interrupted in the middle of a statement

    @property
    def answer_s_max(self) -> float | None:
        limit_s: float | None = self._config.command_timeout
        return limit_s

    def allow(self, answer_s_max: float | None) -> None:
        """Set the time limit for each subsequent statement. None means no limit."""
        if answer_s_max != self.answer_s_max:
            self._config = self._config._replace(command_timeout=answer_s_max)

    def _cancel_current_command(self, *waiters: Any) -> None:
        """Limit how long the driver waits for the server to cancel a statement that timed out.

        Neither the cancel request nor a rollback may wait as long as the statement itself.
        """
        self.is_given_up = True
        self.allow(LEAVE_S_MAX if self.answer_s_max is None else min(LEAVE_S_MAX, self.answer_s_max))
        super()._cancel_current_command(*waiters)


class PooledConnection(LimitedConnection):
    """A connection through a pooler. Any state left in its session would be inherited by another client."""

    async def _introspect_types(self, *args: Any) -> Any:
        """Look up types in a transaction.

        To look up an unknown type, the driver turns `jit` off and on again for the session. In a transaction, both
        changes are made in the same session, and the setting is always restored.
        """
        async with self.transaction():
            return await super()._introspect_types(*args)


async def probe(conn: "asyncpg.Connection") -> None:
    """Raise an error if the connection no longer works."""
    await conn.execute("SELECT")


async def connect(
    url: str,
    *,
    behind_pooler: bool = False,
    timeout_s: float = CONNECT_S_MAX,
    answer_s_max: float | None = ANSWER_S_MAX,
) -> LimitedConnection:
    """Open a connection. `behind_pooler` means that the connection is known to go through a pooler; otherwise, one
    round trip detects whether it does.
    """
    async with asyncio.timeout(timeout_s):
        if not (behind_pooler or url in _poolers):
            conn = await _connected(url, LimitedConnection, answer_s_max=answer_s_max)
            try:
                if not await leads_through_pooler(conn):
                    return conn
            except BaseException:
                conn.terminate()
                raise
            await conn.close()
            _poolers.add(url)
        return await _connected(url, PooledConnection, answer_s_max=answer_s_max, statement_cache_size=0)


async def _connected(
    url: str, kind: type[LimitedConnection], *, answer_s_max: float | None, **options: int
) -> LimitedConnection:
    conn: LimitedConnection = await asyncpg.connect(url, connection_class=kind, command_timeout=answer_s_max, **options)
    _probe(conn)
    return conn


def _probe(conn: "asyncpg.Connection") -> None:
    """Configure kernel probes so that the loss of a machine or network is detected within about ten seconds."""
    sock = conn._transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in SILENCE.items():
            if hasattr(socket, option):  # the available options differ between systems
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


async def leads_through_pooler(conn: "asyncpg.Connection") -> bool:
    """Return whether the connection goes through a pooler. If it does not, configure the server to detect when this
    process is gone.

    When a connection starts, PostgreSQL reports its real process ID, but a pooler makes one up. Only the row count is
    needed, so the query need not be prepared. Without the check that this function enables, the server would finish a
    statement even after the client process was killed, and hold the statement's locks until then.
    """
    look = f"set_config('client_connection_check_interval', '{LOOK_MS}', false)"
    rows: str = await conn.execute(
        f"SELECT CASE WHEN version() ~ 'linux|darwin|bsd' THEN {look} END WHERE pg_backend_pid() = {conn.get_server_pid()}"
    )
    return rows == "SELECT 0"


class Statements(ABC):
    """Runs each statement on a connection acquired just for it."""

    @abstractmethod
    def acquire(self) -> "AbstractAsyncContextManager[asyncpg.Connection]": ...

    @abstractmethod
    async def close(self) -> None: ...

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        async with self.acquire() as conn:
            return list(await conn.fetch(sql, *args))

    async def fetchrow(self, sql: str, *args: Any) -> Any:
        async with self.acquire() as conn:
            return await conn.fetchrow(sql, *args)

    async def fetchval(self, sql: str, *args: Any) -> Any:
        async with self.acquire() as conn:
            return await conn.fetchval(sql, *args)


class BulkStatements(Statements):
    """The same connections with a longer time limit, for bulk work."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    @asynccontextmanager
    async def acquire(self) -> "AsyncIterator[asyncpg.Connection]":
        async with self._statements.acquire() as conn:
            allow(conn, BULK_S_MAX)
            yield conn

    async def close(self) -> None:
        await self._statements.close()


def allow(conn: "asyncpg.Connection", answer_s_max: float | None) -> None:
    """Set the time limit for each subsequent statement.

    A connection that the caller opened keeps its own limits.
    """
    if issubclass(type(conn), LimitedConnection):  # isinstance() is true for all of the driver's connection classes
        conn.allow(answer_s_max)


class Connections(Statements):
    def __init__(self, url: str, *, most: int, behind_pooler: bool = False, answer_s_max: float = ANSWER_S_MAX) -> None:
        self.behind_pooler = behind_pooler
        self._url = url
        self._answer_s_max = answer_s_max
        self._free: list[LimitedConnection] = []
        self._leaving: set[asyncio.Task[None]] = set()
        self._planned_s: WeakKeyDictionary[asyncpg.Connection, float] = WeakKeyDictionary()
        self._places = asyncio.Semaphore(most)
        self._is_closed = False

    @classmethod
    async def open(
        cls, url: str, *, most: int, behind_pooler: bool = False, answer_s_max: float = ANSWER_S_MAX
    ) -> Self:
        """Open the pool and its first connection, so that an unreachable database is detected at once."""
        connections = cls(url, most=most, behind_pooler=behind_pooler, answer_s_max=answer_s_max)
        connections._free.append(await connections._connected())
        return connections

    async def close(self) -> None:
        self._is_closed = True
        free, self._free = self._free, []
        await asyncio.gather(*map(_leave, free), *self._leaving)

    @asynccontextmanager
    async def acquire(self) -> "AsyncIterator[asyncpg.Connection]":
        await self._take_place()
        try:
            conn = await self._taken()
            try:
                await self._plan_again(conn)
                yield conn
            except BaseException as error:
                if conn.is_given_up and isinstance(error, SILENT):  # otherwise, the caller failed during a COPY
                    self._give_up(conn)
                    raise DatabaseUnavailable("PostgreSQL did not respond in time.") from error
                if isinstance(error, (asyncpg.PostgresError, FairpostError)):  # no statement was interrupted
                    self._give_back(conn)
                else:
                    conn.terminate()
                raise
            else:
                self._give_back(conn)
        finally:
            self._places.release()

    def _give_up(self, conn: LimitedConnection) -> None:
        """Close the connection and all idle connections, because they go to the same server.

        Statements in progress on other connections have their own time limits.
        """
        task = asyncio.create_task(_leave(conn))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        while self._free:
            self._free.pop().terminate()

    async def _take_place(self) -> None:
        if not self._places.locked():
            await self._places.acquire()  # immediately, without a timer
            return
        try:
            async with asyncio.timeout(PLACE_S_MAX):
                await self._places.acquire()
        except TimeoutError:
            raise DatabaseUnavailable(
                f"All database connections of this process were in use for {PLACE_S_MAX:g} s."
            ) from None

    async def _taken(self) -> LimitedConnection:
        if self._is_closed:
            raise asyncpg.InterfaceError("the connections are closed")
        while self._free:
            conn = self._free.pop()
            if not conn.is_closed():
                conn.allow(self._answer_s_max)
                return conn
        return await self._connected()

    async def _connected(self) -> LimitedConnection:
        conn = await connect(self._url, behind_pooler=self.behind_pooler, answer_s_max=self._answer_s_max)
        self.behind_pooler = issubclass(type(conn), PooledConnection)  # as in `allow`
        self._planned_s[conn] = clock.steady()
        return conn

    async def _plan_again(self, conn: "asyncpg.Connection") -> None:
        now_s = clock.steady()
        if now_s > self._planned_s[conn] + PLANS_S_MAX:
            self._planned_s[conn] = now_s
            await conn.execute("DISCARD PLANS")

    def _give_back(self, conn: LimitedConnection) -> None:
        if self._is_closed or conn.is_given_up:
            conn.terminate()
        elif not conn.is_closed():
            self._free.append(conn)


async def _leave(conn: LimitedConnection) -> None:
    """Ask the server to end the statement in progress, if the server is still reachable."""
    with suppress(TimeoutError, OSError, asyncpg.InterfaceError, asyncpg.PostgresError):
        await conn.close(timeout=LEAVE_S_MAX)
