"""The state that all routes share: databases, settings, the vault, and the sender of Fairpost's own e-mails."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, TypeVar

from dns.asyncresolver import Resolver
from fastapi import Depends, Request

from fairpost.api.concurrency import TRIALS_MAX, ConcurrencyLimit
from fairpost.api.live import Credential, Live, StreamRevoker
from fairpost.auth import sessions
from fairpost.auth.mails import ServiceMail
from fairpost.model.errors import DatabaseUnavailable, FairpostError, NotFound
from fairpost.model.reason import Log
from fairpost.observe.http_durations import HttpDurations
from fairpost.observe.recent import Recents
from fairpost.policy.senders import SenderPolicy
from fairpost.portals.workspace import Kept
from fairpost.regions.directory import HOME
from fairpost.regions.stores import RegionStores
from fairpost.settings import Settings
from fairpost.smtp.guard import NetworkGuard
from fairpost.store import workspaces
from fairpost.store.directory import region_of
from fairpost.store.store import Store
from fairpost.store.trouble import DRIVER_ERRORS
from fairpost.vault.vault import Vault

T = TypeVar("T")

RECENT_S = 2.0
RECENTS_MAX = 100
FIGURES_S_MAX = 8.0
SIGHT_S_MAX = 1.0  # time limit for all regions together, because load balancers wait only two seconds
NO_ANSWER = (FairpostError, *DRIVER_ERRORS)  # includes TimeoutError, which is an OSError


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    settings: Settings
    home: Store
    stores: RegionStores
    auth_stores: RegionStores  # separate connections, so slow requests do not block authentication
    vault: Vault
    mail: ServiceMail
    guard: NetworkGuard  # restricts which hosts workspace accounts may connect to
    log: Log  # logs errors that no response reports
    policy: SenderPolicy = field(default_factory=SenderPolicy)  # for manual throttles
    host: str | None = None  # the machine name to announce to mail servers, or None to announce only its address
    resolver: Resolver | None = None  # checks the DNS records of domains; None means the system's resolver
    live: Live = field(init=False)
    stream_revoker: StreamRevoker = field(init=False)
    durations: HttpDurations = field(default_factory=HttpDurations)  # request durations that have not been stored yet
    recents: Recents = field(default_factory=lambda: Recents(kept_s=RECENT_S, kept_max=RECENTS_MAX))
    long: ConcurrencyLimit = field(default_factory=ConcurrencyLimit)  # requests that keep the database busy
    # requests that wait for another server
    trying: ConcurrencyLimit = field(default_factory=lambda: ConcurrencyLimit(of_all_max=TRIALS_MAX))
    writing: ConcurrencyLimit = field(default_factory=ConcurrencyLimit)  # requests that compile templates
    kept: defaultdict[str, Kept] = field(default_factory=lambda: defaultdict(Kept))  # compiled templates, by region

    def __post_init__(self) -> None:
        object.__setattr__(self, "live", Live(self.log))
        object.__setattr__(self, "stream_revoker", StreamRevoker(self._still_open, log=self.log))

    async def own_store(self) -> Store:
        """Returns the store that `fairpost inbox`, `up` and `metrics` use. The store belongs to the region in the
        settings or, if none is set, to the first region.
        """
        chosen = self.settings.region
        return await self.store_of(chosen if chosen in self.regions else self.regions[0])

    async def _still_open(self, region: str, credentials: Collection[Credential]) -> Collection[Credential]:
        tokens = [each for each in credentials if isinstance(each, bytes)]
        keys = [each for each in credentials if isinstance(each, str)]
        async with self.auth_store(region) as store:
            open_sessions = await sessions.still_open(store, tokens) if tokens else set()
            return open_sessions | (await workspaces.keys_that_open(store, keys) if keys else set())

    async def figure(self, region: str, read: Callable[[Store], Awaitable[T]]) -> T:
        """Reads a figure from a region, with a time limit. A slow query does not block other requests."""
        async with self.auth_store(region) as store:
            await store.ping()
        store = await self.store_of(region)
        async with asyncio.timeout(FIGURES_S_MAX):
            return await read(store)

    async def recent_figure(self, name: Hashable, region: str, read: Callable[[Store], Awaitable[T]]) -> T:
        """Reads a figure from a region at most once every two seconds. All callers share the result."""
        return await self.recents.look((name, region), lambda: self.figure(region, read))

    async def sights(self) -> dict[str, bool]:
        """Returns whether each region responds within a short time limit."""

        async def ask(region: str) -> None:
            async with self.auth_store(region) as store:
                await store.ping()

        asked = {region: asyncio.create_task(ask(region)) for region in self.regions}
        await asyncio.wait(asked.values(), timeout=SIGHT_S_MAX)
        answers = {region: task.done() and task.exception() is None for region, task in asked.items()}
        for task in asked.values():
            task.cancel()
        return answers

    @property
    def regions(self) -> tuple[str, ...]:
        return self.stores.directory.names

    @asynccontextmanager
    async def auth_store(self, region: str) -> AsyncIterator[Store]:
        """Yields a store for authentication. Raises RegionUnavailable if the database does not respond in time."""
        if region == HOME:
            yield self.home
        else:
            async with self.auth_stores.at(region) as store:
                yield store

    async def store_of(self, region: str) -> Store:
        """Returns a store for work without a time limit. Raises RegionUnavailable if the region cannot be opened."""
        if region == HOME:
            return self.home
        async with self.stores.at(region) as store:
            return store

    async def region_of(self, workspace: str) -> str:
        """Returns a workspace's region.

        If the workspace or its region is unknown, returns the first region, in which later lookups find nothing.
        """
        if self.settings.regions is None:
            return self.regions[0]
        try:
            region = await region_of(self.home, workspace)
        except NotFound:
            return self.regions[0]
        return region if region in self.regions else self.regions[0]

    def mail_of(self, region: str) -> ServiceMail:
        """Returns the sender of Fairpost's own e-mails, with links that lead back to this region."""
        return self.mail if self.settings.regions is None or region == HOME else replace(self.mail, region=region)


async def service_of(request: Request) -> Service:
    """Returns the service that handles a request. This function is async because the framework runs plain functions in
    a thread.
    """
    service: Service | None = request.app.state.service
    if service is None:
        raise DatabaseUnavailable("This process is not connected to its database yet.")
    return service


TheService = Annotated[Service, Depends(service_of)]
