"""A few connections for one process, opened when they are needed.

asyncpg's own pool resets a session after each use and releases it in a task of its own: a round trip and six turns of
the event loop more for every statement, twice the time of a short one. No statement of ours leaves anything behind
in its session, so a connection goes back as it is; one that was cut off in the middle of a statement is thrown away.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator  # noqa: TC003 - read at run time by asynccontextmanager
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self

import asyncpg

from fairpost.model.errors import DatabaseUnavailable, FairpostError

# What the driver raises where no database answers, or none that lets us in.
UNREACHABLE = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.TooManyConnectionsError,
)


PLACE_S_MAX = 30.0  # for a connection that others have


class Statements(ABC):
    """Each on a connection that is taken for it alone."""

    @abstractmethod
    def acquire(self) -> "AbstractAsyncContextManager[asyncpg.Connection]": ...

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
    def __init__(self, url: str, *, most: int, options: dict[str, Any]) -> None:
        self._url = url
        self._options = options
        self._free: list[asyncpg.Connection] = []
        self._places = asyncio.Semaphore(most)
        self._is_closed = False

    @classmethod
    async def open(cls, url: str, *, most: int, **options: Any) -> Self:
        """With a first connection made: a database that is not there is noticed here."""
        connections = cls(url, most=most, options=options)
        connections._free.append(await asyncpg.connect(url, **options))
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
        return await asyncpg.connect(self._url, **self._options)

    def _give_back(self, conn: "asyncpg.Connection") -> None:
        if self._is_closed:
            conn.terminate()
        elif not conn.is_closed():
            self._free.append(conn)
