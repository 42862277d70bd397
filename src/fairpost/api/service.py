"""What the routes have in common: the databases, the settings, the vault, the e-mails of the service itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Annotated

from dns.asyncresolver import Resolver
from fastapi import Depends, Request

from fairpost.model.errors import NotFound
from fairpost.observe.exposition import exposition
from fairpost.observe.fairness import read_fairness
from fairpost.observe.scrape import Scrapes
from fairpost.people.mails import ServiceMail
from fairpost.portals import Kept
from fairpost.postgres.directory import region_of
from fairpost.postgres.store import Store
from fairpost.regions.directory import HOME
from fairpost.regions.stores import RegionStores
from fairpost.settings import Settings
from fairpost.smtp.guard import NetworkGuard
from fairpost.vault.vault import Vault

METRICS_WINDOW = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    settings: Settings
    home: Store
    stores: RegionStores
    vault: Vault
    mail: ServiceMail
    guard: NetworkGuard  # of what workspaces' accounts connect to
    resolver: Resolver | None = None  # of domains; None: the system's
    scrapes: Scrapes = field(init=False)
    kept: Kept = field(default_factory=Kept)  # compiled templates of workspaces

    def __post_init__(self) -> None:
        object.__setattr__(self, "scrapes", Scrapes(self._figures))

    async def _figures(self) -> bytes:
        """Of the only region. Of several, each engine's machine has `fairpost metrics`."""
        async with self.at(self.regions[0]) as store:
            return exposition(await read_fairness(store, window=METRICS_WINDOW))

    @property
    def regions(self) -> tuple[str, ...]:
        return self.stores.directory.names

    @asynccontextmanager
    async def at(self, region: str) -> AsyncIterator[Store]:
        """Raises RegionUnavailable where its database does not answer in time. The store can be used on afterwards."""
        if region == HOME:
            yield self.home
        else:
            async with self.stores.at(region) as store:
                yield store

    async def region_of(self, workspace: str) -> str:
        """Of a workspace that nobody knows, the first: there it is not found either."""
        if self.settings.regions is None:
            return self.regions[0]
        try:
            return await region_of(self.home, workspace)
        except NotFound:
            return self.regions[0]

    def mail_of(self, region: str) -> ServiceMail:
        """Links in its e-mails lead back to this region."""
        return self.mail if self.settings.regions is None or region == HOME else replace(self.mail, region=region)


async def service_of(request: Request) -> Service:
    """Not a plain function: the framework would give it a thread for each request."""
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(service_of)]
