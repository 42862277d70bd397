"""Database connections, and how the store uses them for statements, transactions, and access limited to one workspace.

The parts of the store, each in its own file, build on this class. This file does not refer to any tables.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from fairpost.store.connections import ANSWER_S_MAX, BULK_S_MAX, BulkStatements, Connections, Statements, allow
from fairpost.store.tenants import TenantConnections
from fairpost.store.trouble import in_plain_words
from fairpost.system import clock
from fairpost.system.failpoints import failpoint

if TYPE_CHECKING:
    import asyncpg


class Database:
    def __init__(self, pool: "Statements | asyncpg.Connection") -> None:
        self._pool = pool

    @classmethod
    async def connect(
        cls, url: str, *, connections_max: int = 4, behind_pooler: bool = False, answer_s_max: float = ANSWER_S_MAX
    ) -> Self:
        """Connect to the database.

        `behind_pooler` means that the URL is known to connect through a pooler, so detection is skipped. `answer_s_max`
        is the time limit per statement.
        """
        with in_plain_words(url):
            return cls(
                await Connections.open(
                    url, most=connections_max, behind_pooler=behind_pooler, answer_s_max=answer_s_max
                )
            )

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str, *, connections_max: int = 4, behind_pooler: bool = False, answer_s_max: float = ANSWER_S_MAX
    ) -> AsyncIterator[Self]:
        store = await cls.connect(
            url, connections_max=connections_max, behind_pooler=behind_pooler, answer_s_max=answer_s_max
        )
        try:
            yield store
        finally:
            await store.close()

    @classmethod
    @asynccontextmanager
    async def unopened(cls, url: str, *, connections_max: int = 4, behind_pooler: bool = False) -> AsyncIterator[Self]:
        """Yield a store that connects when it executes its first statement."""
        store = cls(Connections(url, most=connections_max, behind_pooler=behind_pooler))
        try:
            yield store
        finally:
            await store.close()

    @property
    def behind_pooler(self) -> bool:
        return isinstance(self._pool, Connections) and self._pool.behind_pooler

    async def close(self) -> None:
        await self._pool.close()

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        return list(await self._pool.fetch(sql, *args))

    async def row(self, sql: str, *args: Any) -> Any:
        return await self._pool.fetchrow(sql, *args)

    async def value(self, sql: str, *args: Any) -> Any:
        return await self._pool.fetchval(sql, *args)

    async def ping(self) -> None:
        """Raise an error if the database does not answer."""
        await self.value("SELECT true")

    async def now(self) -> datetime:
        """Return the database's time, or our own time if a test has stopped our clock."""
        moment: datetime = clock.stated() or await self.value("SELECT clock_timestamp()")
        return moment

    @asynccontextmanager
    async def together(self) -> AsyncIterator[Self]:
        """Yield a store whose statements are all committed together."""
        if isinstance(self._pool, Statements):
            async with self._pool.acquire() as conn, conn.transaction():
                yield type(self)(conn)
                failpoint("before_commit")
            failpoint("after_commit")
        else:
            async with self._pool.transaction():
                yield self

    def of_tenant(self, workspace: str) -> Self:
        """Return a store for the same database, restricted to the data that one workspace may see."""
        assert isinstance(self._pool, Connections)
        return type(self)(TenantConnections(self._pool, workspace))

    def in_bulk(self) -> Self:
        """Return a store for the same database with a longer time limit, for statements that read or write a lot of
        data.
        """
        if isinstance(self._pool, Statements):
            return type(self)(BulkStatements(self._pool))
        allow(self._pool, BULK_S_MAX)
        return self

    @asynccontextmanager
    async def connection(self) -> "AsyncIterator[asyncpg.Connection]":
        """Yield a separate connection, for work such as copying a list into a table."""
        if isinstance(self._pool, Statements):
            async with self._pool.acquire() as conn:
                yield conn
        else:
            yield self._pool


def at(now: datetime | None) -> datetime | None:
    """Return our own time if a test has stopped our clock. Otherwise return None, which stands for the database's
    clock.
    """
    return now or clock.stated()
