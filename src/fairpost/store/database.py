"""The connections to the database, and what can be asked on them: statements, a commit of several, the view of a tenant.

The parts of the store build on it, each in a file of its own. No table is named here.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from fairpost.store.connections import Connections, Statements
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
    async def connect(cls, url: str, *, connections_max: int = 4, behind_pooler: bool = False) -> Self:
        """`behind_pooler`: it is known to be so, and need not be found out."""
        with in_plain_words(url):
            return cls(await Connections.open(url, most=connections_max, behind_pooler=behind_pooler))

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, *, connections_max: int = 4, behind_pooler: bool = False) -> AsyncIterator[Self]:
        store = await cls.connect(url, connections_max=connections_max, behind_pooler=behind_pooler)
        try:
            yield store
        finally:
            await store.close()

    @classmethod
    @asynccontextmanager
    async def unopened(cls, url: str, *, connections_max: int = 4, behind_pooler: bool = False) -> AsyncIterator[Self]:
        """The first statement connects."""
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

    async def now(self) -> datetime:
        """The database's own clock, as everywhere; ours only where somebody has stopped it."""
        moment: datetime = clock.stated() or await self.value("SELECT clock_timestamp()")
        return moment

    @asynccontextmanager
    async def together(self) -> AsyncIterator[Self]:
        """Everything that is done with the store given is one commit, or nothing."""
        if isinstance(self._pool, Statements):
            async with self._pool.acquire() as conn, conn.transaction():
                yield type(self)(conn)
                failpoint("before_commit")
            failpoint("after_commit")
        else:
            async with self._pool.transaction():
                yield self

    def of_tenant(self, workspace: str) -> Self:
        """The same database as one workspace may see it."""
        assert isinstance(self._pool, Connections)
        return type(self)(TenantConnections(self._pool, workspace))

    @asynccontextmanager
    async def connection(self) -> "AsyncIterator[asyncpg.Connection]":
        """For what needs one of its own, like a list that is copied in."""
        if isinstance(self._pool, Statements):
            async with self._pool.acquire() as conn:
                yield conn
        else:
            yield self._pool


def at(now: datetime | None) -> datetime | None:
    """None: the database's own clock counts, unless somebody has stopped ours."""
    return now or clock.stated()
