"""How every connection of ours is made, and a few of them for one process, opened when they are needed.

A pooler (PgBouncer in transaction mode) lends a session to one transaction and then to another client. A statement
prepared in one session is unknown in the next, or known by a name that another client has given. `connect` notices a
pooler by itself and keeps no statement prepared there; straight to PostgreSQL, statements stay prepared.

asyncpg's own pool resets a session after each use and releases it in a task of its own: a round trip and six turns of
the event loop more for every statement, twice the time of a short one. No statement of ours leaves anything behind
in its session, so a connection goes back as it is; one that was cut off in the middle of a statement is thrown away.
"""

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator  # noqa: TC003 - read at run time by asynccontextmanager
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self
from weakref import WeakKeyDictionary

import asyncpg

from fairpost.model.errors import DatabaseUnavailable, FairpostError
from fairpost.system import clock

PLACE_S_MAX = 30.0  # for a connection that others have
PLANS_S_MAX = 60.0  # then statements are planned anew: the tables may have been empty when they were
CONNECT_S_MAX = 60.0
SILENCE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}  # s, s, probes, ms

_poolers: set[str] = set()  # URLs that are known to lead through one


class PooledConnection(asyncpg.Connection):  # type: ignore[misc]
    """Leads through a pooler: what it leaves in a session, it leaves to another client."""

    async def _introspect_types(self, *args: Any) -> Any:
        """To read the catalogue for a type that it does not know, the driver turns `jit` off and on again for the session.
        In one transaction that is one session, and afterwards it is as before."""
        async with self.transaction():
            return await super()._introspect_types(*args)


async def connect(url: str, *, behind_pooler: bool = False, timeout_s: float = CONNECT_S_MAX) -> "asyncpg.Connection":
    """`behind_pooler`: it is known to be so. Else the connection is asked, which takes a round trip."""
    async with asyncio.timeout(timeout_s):
        if not (behind_pooler or url in _poolers):
            conn = await asyncpg.connect(url)
            try:
                if not await leads_through_pooler(conn):
                    return _noticing(conn)
            except BaseException:
                conn.terminate()
                raise
            await conn.close()
            _poolers.add(url)
        return _noticing(await asyncpg.connect(url, statement_cache_size=0, connection_class=PooledConnection))


def _noticing(conn: "asyncpg.Connection") -> "asyncpg.Connection":
    """A server that vanishes without a word (its machine lost power, or the network) is noticed after some ten seconds."""
    sock = conn._transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in SILENCE.items():
            if hasattr(socket, option):  # each system has others
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return conn


async def leads_through_pooler(conn: "asyncpg.Connection") -> bool:
    """At the start of a connection PostgreSQL names the process that serves it; a pooler makes up a number. The count of
    rows is answer enough, so nothing has to be prepared for the question."""
    rows: str = await conn.execute(f"SELECT WHERE pg_backend_pid() = {conn.get_server_pid()}")
    return rows == "SELECT 0"


class Statements(ABC):
    """Each on a connection that is taken for it alone."""

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


class Connections(Statements):
    def __init__(self, url: str, *, most: int, behind_pooler: bool = False) -> None:
        self.behind_pooler = behind_pooler
        self._url = url
        self._free: list[asyncpg.Connection] = []
        self._planned_s: WeakKeyDictionary[asyncpg.Connection, float] = WeakKeyDictionary()
        self._places = asyncio.Semaphore(most)
        self._is_closed = False

    @classmethod
    async def open(cls, url: str, *, most: int, behind_pooler: bool = False) -> Self:
        """With a first connection made: a database that is not there is noticed here."""
        connections = cls(url, most=most, behind_pooler=behind_pooler)
        connections._free.append(await connections._connected())
        return connections

    async def close(self) -> None:
        self._is_closed = True
        while self._free:
            await self._free.pop().close()

    @asynccontextmanager
    async def acquire(self) -> "AsyncIterator[asyncpg.Connection]":
        await self._take_place()
        try:
            conn = await self._taken()
            try:
                await self._plan_anew(conn)
                yield conn
            except (asyncpg.PostgresError, FairpostError):  # no statement was cut off
                self._give_back(conn)
                raise
            except BaseException:
                conn.terminate()
                raise
            else:
                self._give_back(conn)
        finally:
            self._places.release()

    async def _take_place(self) -> None:
        try:
            async with asyncio.timeout(PLACE_S_MAX):
                await self._places.acquire()
        except TimeoutError:
            raise DatabaseUnavailable(f"No connection of this process became free within {PLACE_S_MAX:g} s.") from None

    async def _taken(self) -> "asyncpg.Connection":
        if self._is_closed:
            raise asyncpg.InterfaceError("the connections are closed")
        while self._free:
            conn = self._free.pop()
            if not conn.is_closed():
                return conn
        return await self._connected()

    async def _connected(self) -> "asyncpg.Connection":
        conn = await connect(self._url, behind_pooler=self.behind_pooler)
        self.behind_pooler = type(conn) is PooledConnection  # the driver's classes are all instances of each other
        self._planned_s[conn] = clock.steady()
        return conn

    async def _plan_anew(self, conn: "asyncpg.Connection") -> None:
        now_s = clock.steady()
        if now_s > self._planned_s[conn] + PLANS_S_MAX:
            self._planned_s[conn] = now_s
            await conn.execute("DISCARD PLANS")

    def _give_back(self, conn: "asyncpg.Connection") -> None:
        if self._is_closed:
            conn.terminate()
        elif not conn.is_closed():
            self._free.append(conn)
