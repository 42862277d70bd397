"""What the routes have in common: the databases of the regions, the settings, the vault."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Protocol

from dns.asyncresolver import Resolver
from fastapi import Depends, Request

from fairpost.observe.exposition import exposition
from fairpost.observe.fairness import read_fairness
from fairpost.observe.scrape import Scrapes
from fairpost.postgres.store import Store
from fairpost.settings import Settings
from fairpost.vault.vault import Vault

METRICS_WINDOW = timedelta(hours=1)


class Stores(Protocol):
    """A store for each region. Raises UnknownRegion, or RegionUnavailable where its database does not answer."""

    @property
    def names(self) -> tuple[str, ...]: ...

    async def home(self) -> Store: ...

    async def of(self, region: str) -> Store: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    settings: Settings
    stores: Stores
    vault: Vault
    resolver: Resolver | None = None  # of domains; None: the system's
    scrapes: Scrapes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scrapes", Scrapes(self._figures))

    async def _figures(self) -> bytes:
        return exposition(await read_fairness(await self.stores.home(), window=METRICS_WINDOW))


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(service_of)]
