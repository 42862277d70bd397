"""A store for each region, opened on first use. A failure in one region does not affect others.

This module is for programs that serve several regions at once; an engine serves only its own region.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Self

import asyncpg

from fairpost.model.errors import DatabaseUnavailable, FairpostError, MigrationError, RegionUnavailable
from fairpost.model.reason import Log, Reason
from fairpost.regions.directory import Directory, Region
from fairpost.store.connections import Connections
from fairpost.store.migrations import pending
from fairpost.store.store import Store
from fairpost.store.tenants import require_tenant
from fairpost.store.trouble import DRIVER_ERRORS, in_a_line, is_away
from fairpost.system import clock

ANSWER_S_MAX = 3.0
COOL_DOWN_S = 1.0  # during this time, no request tries again, because requests would pile up
CONNECTIONS_MAX = 2  # connections per region


class RegionStores:
    def __init__(
        self,
        directory: Directory,
        *,
        connections_max: int = CONNECTIONS_MAX,
        answer_s_max: float = ANSWER_S_MAX,
        is_for_tenants: bool = False,
        log: Log = lambda _: None,
    ) -> None:
        """Creates the stores. `log` receives a line when a region fails or recovers.

        With `is_for_tenants`, a region without the tenants' role does not count as ready.
        """
        self.directory = directory
        self._answer_s_max = answer_s_max
        self._doors = {region.name: _Door(region, connections_max, is_for_tenants, log) for region in directory}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(door.close() for door in self._doors.values()))

    @asynccontextmanager
    async def at(self, name: str, *, answer_s_max: float | None = None) -> AsyncIterator[Store]:
        """Yields a region's store for work that must finish within this time.

        Raises RegionUnavailable if the region is not responding, or MigrationError if it is not ready. A later call
        tries again.
        """
        self.directory.region(name)
        async with self._doors[name].opened(self._answer_s_max if answer_s_max is None else answer_s_max) as store:
            yield store


class _Door:
    def __init__(self, region: Region, connections_max: int, is_for_tenants: bool, log: Log) -> None:
        self._region = region
        self._connections_max = connections_max
        self._is_for_tenants = is_for_tenants
        self._log = log
        self._store: Store | None = None
        self._is_closed = False
        self._opening = asyncio.Lock()
        self._shut_until_s = 0.0  # on the monotonic clock
        self._refusal: Callable[[], FairpostError] | None = None  # None: no known problem

    @asynccontextmanager
    async def opened(self, answer_s_max: float) -> AsyncIterator[Store]:
        self._refuse_while_shut()
        limit = asyncio.timeout(answer_s_max)
        try:
            async with limit:
                yield await self._ready()
            self._is_well()
        except RegionUnavailable:
            raise
        except TimeoutError as error:  # handled before OSError, of which TimeoutError is a subclass
            if not limit.expired() and error.errno is None:
                raise  # the caller's own timeout
            raise self._away(f"no response for {answer_s_max:g} s") from error
        except DatabaseUnavailable as error:
            raise self._away(in_a_line(error.__cause__ or error)) from error
        except DRIVER_ERRORS as error:
            if not is_away(error):
                raise
            raise self._away(in_a_line(error)) from error

    async def _ready(self) -> Store:
        async with self._opening:  # one caller connects, and the other callers wait for the result
            self._refuse_while_shut()
            if self._store is None:
                try:
                    self._store = await self._made()
                except MigrationError as error:
                    words, step = str(error), error.next_step
                    raise self._shut(lambda: MigrationError(words, next_step=step)) from None
            return self._store

    async def _made(self) -> Store:
        connections = Connections(self._region.url, most=self._connections_max)
        try:
            async with connections.acquire() as conn:
                await self._require_ready(conn)
        except ValueError:  # because the error's text may contain a password
            raise DatabaseUnavailable("its URL is not valid") from None
        except BaseException:
            await connections.close()
            raise
        if self._is_closed:  # the stores were closed in the meantime
            await connections.close()
            raise asyncpg.InterfaceError("the connections are closed")
        return Store(connections)

    async def _require_ready(self, conn: asyncpg.Connection) -> None:
        try:
            todo = await pending(conn)
            if not todo and self._is_for_tenants:
                await require_tenant(conn, region=self._region.name)
        except asyncpg.InsufficientPrivilegeError as error:
            raise MigrationError(
                f"Region {self._region.name}'s schema cannot be read ({error}). In FAIRPOST_REGIONS, use a "
                "login that owns the schema fairpost"
            ) from error
        if todo:
            raise MigrationError(
                f"Region {self._region.name}'s schema does not match this version of Fairpost "
                f"(pending: {', '.join(todo)}). Run: fairpost db migrate --region {self._region.name}"
            )

    def _refuse_while_shut(self) -> None:
        if self._refusal is not None and clock.monotonic() < self._shut_until_s:
            raise self._refusal()

    def _away(self, why: str) -> FairpostError:
        words = f"{self._region.place}: {why}"
        return self._shut(lambda: RegionUnavailable(self._region.name, words))

    def _shut(self, refusal: Callable[[], FairpostError]) -> FairpostError:
        if self._refusal is None or type(self._refusal()) is not type(refusal()):
            self._log(Reason("region.away", region=self._region.name, why=str(refusal())))
        self._refusal = refusal
        self._shut_until_s = clock.monotonic() + COOL_DOWN_S
        return refusal()

    def _is_well(self) -> None:
        if self._refusal is not None and clock.monotonic() >= self._shut_until_s:
            self._refusal = None
            self._log(Reason("region.answers_again", region=self._region.name))

    async def close(self) -> None:
        self._is_closed = True
        if self._store is not None:
            with suppress(*DRIVER_ERRORS):  # the database is gone, and all connections to it are lost
                async with asyncio.timeout(ANSWER_S_MAX):
                    await self._store.close()
