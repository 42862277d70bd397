"""Puts the service together: settings become databases that answer, and processes that serve them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import FastAPI

from fairpost.api.app import build_app
from fairpost.api.serve import ServerOptions, app_of_a_process, listener_on, run_processes
from fairpost.api.service import Service
from fairpost.app import connect, open_store, prepare_database, vault_of
from fairpost.postgres.store import Store
from fairpost.postgres.tenants import require_role
from fairpost.settings import Settings, read_settings

CONNECTIONS_MAX = 10  # of one process, to each database
MAIN = "main"


@dataclass(frozen=True, slots=True)
class OneRegion:
    """An installation without regions: one database, called main."""

    store: Store

    @property
    def names(self) -> tuple[str, ...]:
        return (MAIN,)

    async def home(self) -> Store:
        return self.store

    async def of(self, region: str) -> Store:
        return self.store


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[Service]:
    async with open_store(settings, connections_max=CONNECTIONS_MAX) as store:
        async with store.connection() as conn:
            await require_role(conn)
        yield Service(settings=settings, stores=OneRegion(store), vault=vault_of(settings))


def create() -> FastAPI:
    """The application of one process."""
    return app_of_a_process(lambda: open_service(read_settings()))


def run_service(settings: Settings, options: ServerOptions, *, log: Callable[[str], None]) -> None:
    """Until SIGINT or SIGTERM. What is wrong is said before anybody is served."""
    asyncio.run(_check(settings))
    listener = listener_on(options.host, options.port)
    shown = f"[{options.host}]" if ":" in options.host else options.host
    log(f"ready: the service answers at http://{shown}:{listener.getsockname()[1]} (see /docs)")
    run_processes("fairpost.service:create", listener, processes=options.processes)


async def _check(settings: Settings) -> None:
    url = await prepare_database(settings)
    async with connect(url) as conn:
        await require_role(conn)


def document() -> dict[str, object]:
    """The OpenAPI document."""
    found: dict[str, object] = build_app(None, log=lambda _: None).openapi()
    return found
