"""A store for each region, opened when it is first needed. What happens in one region is no other's business.

For programs that serve several regions at once; an engine has only its own.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Self

import asyncpg

from fairpost.model.errors import DatabaseUnavailable, MigrationError, RegionUnavailable
from fairpost.postgres.connections import UNREACHABLE
from fairpost.postgres.migrations import pending
from fairpost.postgres.store import Store
from fairpost.regions.directory import Directory, Region
from fairpost.system import clock

ANSWER_S_MAX = 3.0
COOL_DOWN_S = 1.0  # so long nobody asks again: waiting requests would only pile up
CONNECTIONS_MAX = 2  # for each region


class RegionStores:
    def __init__(self, directory: Directory, *, connections_max: int = CONNECTIONS_MAX) -> None:
        self.directory = directory
        self._doors = {region.name: _Door(region, connections_max) for region in directory}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(door.close() for door in self._doors.values()))

    @asynccontextmanager
    async def at(self, name: str, *, answer_s_max: float = ANSWER_S_MAX) -> AsyncIterator[Store]:
        """The store of a region, for work that is done within this time. Raises RegionUnavailable when it does not answer;
        the next one who asks later tries again."""
        self.directory.region(name)
        async with self._doors[name].opened(answer_s_max) as store:
            yield store


class _Door:
    def __init__(self, region: Region, connections_max: int) -> None:
        self._region = region
        self._connections_max = connections_max
        self._store: Store | None = None
        self._opening = asyncio.Lock()
        self._shut_until_s = 0.0  # by the monotonic clock
        self._why = ""

    @asynccontextmanager
    async def opened(self, answer_s_max: float) -> AsyncIterator[Store]:
        self._refuse_while_shut()
        limit = asyncio.timeout(answer_s_max)
        try:
            async with limit:
                yield await self._ready()
        except RegionUnavailable:
            raise
        except TimeoutError as error:  # an OSError, too
            if not limit.expired() and error.errno is None:
                raise  # the caller's own
            raise self._shut(f"nothing came back for {answer_s_max:g} s") from error
        except DatabaseUnavailable as error:
            raise self._shut(str(error.__cause__ or error)) from error
        except UNREACHABLE as error:
            raise self._shut(str(error) or type(error).__name__) from error

    async def _ready(self) -> Store:
        async with self._opening:  # one knocks, the others wait for what comes of it
            self._refuse_while_shut()
            if self._store is None:
                await self._require_schema()
                self._store = await Store.connect(self._region.url, connections_max=self._connections_max)
            return self._store

    async def _require_schema(self) -> None:
        conn = await asyncpg.connect(self._region.url)
        try:
            todo = await pending(conn)
        finally:
            conn.terminate()
        if todo:
            raise MigrationError(
                f"The schema of the region {self._region.name} is not the one this Fairpost needs "
                f"(to do: {', '.join(todo)}). Run: fairpost db migrate --region {self._region.name}"
            )

    def _refuse_while_shut(self) -> None:
        if clock.monotonic() < self._shut_until_s:
            raise RegionUnavailable(self._region.name, self._why)

    def _shut(self, why: str) -> RegionUnavailable:
        self._why = f"{self._region.place}: {why}"
        self._shut_until_s = clock.monotonic() + COOL_DOWN_S
        return RegionUnavailable(self._region.name, self._why)

    async def close(self) -> None:
        if self._store is not None:
            with suppress(asyncpg.PostgresError, *UNREACHABLE):  # it is gone, and so are its connections
                async with asyncio.timeout(ANSWER_S_MAX):
                    await self._store.close()
