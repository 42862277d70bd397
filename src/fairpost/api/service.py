"""What the routes have in common: the databases, the settings, the vault, the e-mails of the service itself."""

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
SIGHT_S_MAX = 1.0  # of all regions: load balancers wait for two
NO_ANSWER = (FairpostError, *DRIVER_ERRORS)  # a TimeoutError is an OSError


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    settings: Settings
    home: Store
    stores: RegionStores
    auth_stores: RegionStores  # connections of their own, so that slow requests do not keep others from authenticating
    vault: Vault
    mail: ServiceMail
    guard: NetworkGuard  # of what workspaces' accounts connect to
    log: Log  # hears of faults that no request is answered with
    policy: SenderPolicy = field(default_factory=SenderPolicy)  # of throttles by hand
    resolver: Resolver | None = None  # of domains; None: the system's
    live: Live = field(init=False)
    stream_revoker: StreamRevoker = field(init=False)
    durations: HttpDurations = field(default_factory=HttpDurations)  # of requests, since they were last written down
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
        """The database that `fairpost inbox`, `up` and `metrics` work on: of the region that is set, else of the first or only one."""
        chosen = self.settings.region
        return await self.store_of(chosen if chosen in self.regions else self.regions[0])

    async def _still_open(self, region: str, credentials: Collection[Credential]) -> Collection[Credential]:
        tokens = [each for each in credentials if isinstance(each, bytes)]
        keys = [each for each in credentials if isinstance(each, str)]
        async with self.auth_store(region) as store:
            open_sessions = await sessions.still_open(store, tokens) if tokens else set()
            return open_sessions | (await workspaces.keys_that_open(store, keys) if keys else set())

    async def figure(self, region: str, read: Callable[[Store], Awaitable[T]]) -> T:
        """However long it takes to add up, nobody else is refused for it."""
        async with self.auth_store(region) as store:
            await store.value("SELECT true")
        store = await self.store_of(region)
        async with asyncio.timeout(FIGURES_S_MAX):
            return await read(store)

    async def recent_figure(self, name: Hashable, region: str, read: Callable[[Store], Awaitable[T]]) -> T:
        """The same, of a moment ago: whoever asks, and however many, it is added up once in two seconds."""
        return await self.recents.look((name, region), lambda: self.figure(region, read))

    async def sights(self) -> dict[str, bool]:
        """Of each region, whether it answers; soon, whatever the regions do."""

        async def ask(region: str) -> None:
            async with self.auth_store(region) as store:
                await store.value("SELECT true")

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
        """For a short look at who asks. Raises RegionUnavailable where the database does not answer in time."""
        if region == HOME:
            yield self.home
        else:
            async with self.auth_stores.at(region) as store:
                yield store

    async def store_of(self, region: str) -> Store:
        """For work that takes as long as it takes. Raises RegionUnavailable where it cannot be opened."""
        if region == HOME:
            return self.home
        async with self.stores.at(region) as store:
            return store

    async def region_of(self, workspace: str) -> str:
        """Of a workspace that nobody knows, or that lives where this service does not go, the first: there it is not found either."""
        if self.settings.regions is None:
            return self.regions[0]
        try:
            region = await region_of(self.home, workspace)
        except NotFound:
            return self.regions[0]
        return region if region in self.regions else self.regions[0]

    def mail_of(self, region: str) -> ServiceMail:
        """Links in its e-mails lead back to this region."""
        return self.mail if self.settings.regions is None or region == HOME else replace(self.mail, region=region)


async def service_of(request: Request) -> Service:
    """Not a plain function: the framework would give it a thread for each request."""
    service: Service | None = request.app.state.service
    if service is None:
        raise DatabaseUnavailable("This process has not found its database yet.")
    return service


TheService = Annotated[Service, Depends(service_of)]
