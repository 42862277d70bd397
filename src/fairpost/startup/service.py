"""Assembles the service from the settings: open databases, and the processes that serve requests. The parent process
only waits. The code that answers requests is imported where it is needed, because the import takes a second.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from fairpost.api.clients import ClientLimits
from fairpost.api.serve import ServerOptions, app_of_a_process, listener_on, run_processes
from fairpost.model.errors import FairpostError, MigrationError, RegionUnavailable
from fairpost.model.reason import Log, Reason
from fairpost.regions.stores import ANSWER_S_MAX, RegionStores
from fairpost.settings import Settings, read_settings
from fairpost.startup.logs import start_logging
from fairpost.startup.parts import (
    connect,
    directory_of,
    home_url,
    host_name,
    kept,
    network_guard,
    sender_policy,
    service_mail,
    vault_of,
)
from fairpost.store.outage import patiently
from fairpost.store.store import Store
from fairpost.store.tenants import require_tenant
from fairpost.store.trouble import DRIVER_ERRORS, in_plain_words

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver
    from fastapi import FastAPI

    from fairpost.api.service import Service

CONNECTIONS_MAX = 10  # per process and database
ENTRANCES_MAX = 3  # additional connections, for authentication
HOME_CONNECTIONS_MAX = 4
DURATIONS_EVERY_S = 5.0  # how often HTTP request durations are stored


@asynccontextmanager
async def open_service(
    settings: Settings,
    *,
    log: Log,
    answer_s_max: float = ANSWER_S_MAX,
    resolver: "Resolver | None" = None,
    is_again: bool = False,
) -> AsyncIterator["Service"]:
    """Opens the service. `log` receives reports of regions that fail or recover, and of errors in live topics.

    A region counts as unavailable if its database takes longer than `answer_s_max`. `resolver` resolves domains. By
    default, the system's resolver is used. For `is_again`, see `server_url`.
    """
    from fairpost.api.service import Service

    url = await home_url(settings, is_again=is_again)
    with in_plain_words(url):
        async with (
            Store.open(url, connections_max=HOME_CONNECTIONS_MAX) as home,
            RegionStores(
                directory_of(settings), connections_max=CONNECTIONS_MAX, answer_s_max=answer_s_max, is_for_tenants=True
            ) as stores,
            RegionStores(
                directory_of(settings),
                connections_max=ENTRANCES_MAX,
                answer_s_max=answer_s_max,
                is_for_tenants=True,
                log=log,
            ) as auth_stores,
        ):
            service = Service(
                settings=settings,
                home=home,
                stores=stores,
                auth_stores=auth_stores,
                vault=vault_of(settings),
                mail=service_mail(settings),
                guard=network_guard(settings),
                host=await asyncio.to_thread(host_name, settings),
                policy=sender_policy(settings),
                resolver=resolver,
                log=log,
            )
            writing = asyncio.create_task(_write_durations(service))
            try:
                yield service
            finally:
                writing.cancel()
                await _write_once(service)


async def _write_durations(service: "Service") -> None:
    while True:
        await asyncio.sleep(DURATIONS_EVERY_S)
        await _write_once(service)


async def _write_once(service: "Service") -> None:
    """Stores the durations. Waits only briefly for an unavailable database. Requests never wait for these writes."""
    with suppress(FairpostError, *DRIVER_ERRORS):
        async with asyncio.timeout(ANSWER_S_MAX):
            await service.durations.write(await service.own_store())


def create() -> "FastAPI":
    """Creates the application of one process."""
    settings = read_settings()
    log = start_logging(settings)
    return app_of_a_process(lambda: open_service(settings, log=log, is_again=True), log)


def run_service(settings: Settings, options: ServerOptions, *, log: Log) -> None:
    """Serves until SIGINT or SIGTERM.

    Reports errors before serving any request. A failing region does not affect the others.
    """
    asyncio.run(patiently(lambda: _check(settings, log), log))
    listener = listener_on(options.host, options.port)
    shown = f"[{options.host}]" if ":" in options.host else options.host
    log(Reason("service.started", url=f"http://{shown}:{listener.getsockname()[1]}"))
    with kept(settings.at_home(), log):
        run_processes(
            "fairpost.startup.service:create", listener, processes=options.processes, limits=client_limits(settings)
        )


def client_limits(settings: Settings) -> ClientLimits:
    return ClientLimits(
        connections_max=settings.client_connections_max,
        heads_max=settings.client_heads_max,
        trusted_proxies=settings.trusted_proxies,
    )


async def _check(settings: Settings, log: Log) -> None:
    async with connect(await home_url(settings)) as conn:
        await require_tenant(conn)
    if settings.regions is not None:
        async with RegionStores(settings.regions, is_for_tenants=True) as stores:
            for trouble in await asyncio.gather(*(_trouble_at(stores, name) for name in settings.regions.names)):
                if trouble is not None:
                    log(trouble)


async def _trouble_at(stores: RegionStores, region: str) -> Reason | None:
    try:
        async with stores.at(region) as store:
            await store.ping()
    except (RegionUnavailable, MigrationError) as error:
        return Reason("region.not_served", region=region, why=str(error), then=error.next_step)
    return None


def document() -> dict[str, object]:
    """Returns the OpenAPI document."""
    from fairpost.api.app import build_app

    found: dict[str, object] = build_app(None, log=lambda _: None).openapi()
    return found
