"""The account defined by environment variables: FAIRPOST_SMTP_HOST and related variables.

An engine creates or updates this account when the engine starts. The variables determine the account's server, password
and sender and, if the corresponding variable is set, its batch size. The account's limits, pool and status are stored
like those of any other account. You can change them, and no engine changes them back. Limits that you have not changed
follow the provider, even if the address moves to a different provider.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import asyncpg

from fairpost.model.account import Account, AccountStatus, Limits
from fairpost.model.errors import ChangedMeanwhile, FairpostError, NotFound, SettingsError
from fairpost.model.transport import ENVIRONMENT, Security
from fairpost.policy.slices import sliced
from fairpost.providers.presets import by_domain, read_presets
from fairpost.regions.sharing import Share, record_share
from fairpost.settings import Settings
from fairpost.store.store import Store
from fairpost.transports.registry import write_transport
from fairpost.transports.smtp.settings import SmtpSettings
from fairpost.transports.smtp.urls import url_of, usual_port
from fairpost.vault.rotation import write_sealed
from fairpost.vault.vault import Vault

POOL = "default"
TRIES = 5
SERVER = ("transport", "secret")  # columns that describe the server


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAccount:
    """The checked values of the variables. `regions` is the number of regions that share the account's limits."""

    name: str
    address: str
    display_name: str | None
    server: SmtpSettings
    password: str | None = field(repr=False)
    batch_max: int | None
    regions: int


def given_account(settings: Settings) -> GivenAccount | None:
    """Returns the account defined by the environment variables, or None. Raises SettingsError if the variables
    contradict each other.
    """
    if settings.smtp_host is None:
        return None
    if settings.smtp_from_address is None:
        raise _missing("FROM_ADDRESS", beside="HOST")
    if settings.smtp_user is not None and settings.smtp_password is None:
        raise _missing("PASSWORD", beside="USER")
    if settings.smtp_password is not None and settings.smtp_user is None:
        raise _missing("USER", beside="PASSWORD")
    return GivenAccount(
        name=settings.smtp_account,
        address=settings.smtp_from_address,
        display_name=settings.smtp_from_name,
        server=_server(settings, settings.smtp_host),
        password=settings.smtp_password,
        batch_max=settings.smtp_batch_size,
        regions=len(settings.regions.names) if settings.regions else 1,
    )


def _missing(name: str, *, beside: str) -> SettingsError:
    return SettingsError(
        f"FAIRPOST_SMTP_{beside} (or SMTP_{beside}) is set, so FAIRPOST_SMTP_{name} (or SMTP_{name}) is required as well"
    )


def _server(settings: Settings, host: str) -> SmtpSettings:
    has_login = settings.smtp_user is not None
    usual = Security.IMPLICIT if settings.smtp_port == 465 else Security.STARTTLS if has_login else Security.OFFERED
    security = settings.smtp_tls or usual
    return SmtpSettings(
        host=host,
        port=settings.smtp_port or usual_port(security, with_login=has_login),
        security=security,
        user=settings.smtp_user,
        origin=ENVIRONMENT,
    )


def is_of_environment(account: Account) -> bool:
    return isinstance(account.transport, SmtpSettings) and account.transport.origin == ENVIRONMENT


def changes_to(account: Account, given: GivenAccount, vault: Vault, *, home: Path) -> dict[str, Any]:
    """Returns the columns that differ from the variables, with their new values. A new `secret` is not sealed yet.

    Raises VaultError if the stored password cannot be decrypted. A different key is a mistake, so nothing is encrypted
    with it.
    """
    old = account.transport
    assert isinstance(old, SmtpSettings)
    said: dict[str, Any] = {"address": given.address, "display_name": given.display_name}
    changes = {name: value for name, value in said.items() if value != getattr(account, name)}
    changes |= _other_terms(account, given, home) if given.regions == 1 else {}
    if given.batch_max not in (None, account.limits.batch_max):
        changes["batch_max"] = given.batch_max
    if replace(old, secret=None) != given.server:
        changes["transport"] = write_transport(given.server)
    stored = vault.open(old.secret, account_id=account.id, name=account.name) if old.secret else None
    if stored != given.password:
        changes["secret"] = given.password
    if account.status is AccountStatus.SUSPENDED and any(name in changes for name in SERVER):
        changes |= {"status": AccountStatus.ACTIVE, "status_reason": None}  # what caused the refusal has changed
    return changes


def _other_terms(account: Account, given: GivenAccount, home: Path) -> dict[str, Any]:
    """Returns the limits of the new address's provider. The result is empty if the provider is the same, or if the
    limits were changed manually.
    """
    (before, begun), (after, limits) = (_terms(address, home) for address in (account.address, given.address))
    if (
        before == after
        or account.provider != before
        or account.limits != replace(begun, batch_max=account.limits.batch_max)
    ):
        return {}
    return {"provider": after} | {name: value for name, value in asdict(limits).items() if name != "batch_max"}


def _terms(address: str, home: Path) -> tuple[str | None, Limits]:
    """Returns the known provider of an address, and its initial limits.

    An unknown provider has no limits, because its server is usually rented or operated for this purpose and refuses
    mail when overloaded.
    """
    preset = by_domain(read_presets(home / "providers.toml"), address.rpartition("@")[2])
    return (preset.name, preset.limits) if preset else (None, Limits())


async def bring_in_line(store: Store, given: GivenAccount, vault: Vault, *, home: Path) -> str | None:
    """Updates the stored account to match the variables. Returns what was done, or what you should do.

    Returns None if everything matched and nothing was written.
    """
    given = await as_stored(store, given)
    for _ in range(TRIES):
        with suppress(ChangedMeanwhile):  # another engine or a person made changes, so try again with them
            return await _bring_in_line(store, given, vault, home=home)
    raise FairpostError("conflicting updates")


async def _bring_in_line(store: Store, given: GivenAccount, vault: Vault, *, home: Path) -> str | None:
    account = await find(store, given.name)
    if account is None:
        try:
            return await _add(store, given, vault, home=home)
        except asyncpg.UniqueViolationError:  # another engine has just created the account
            account = await store.account_named(given.name)
    if not is_of_environment(account):
        return (
            f"account {given.name} is managed manually, so none was created from the environment variables. Remove it "
            f"(fairpost account remove {given.name}), or choose a different name in FAIRPOST_SMTP_ACCOUNT"
        )
    changes = changes_to(account, given, vault, home=home)
    if not changes:
        return None
    await _change(store, account, changes, vault)
    return f"account {given.name}: updated from the environment variables ({in_words(changes)})"


async def as_stored(store: Store, given: GivenAccount) -> GivenAccount:
    """Returns the account with its address in the stored form."""
    address = await store.parse_address(given.address)
    if address is None:
        raise SettingsError(f"FAIRPOST_SMTP_FROM_ADDRESS must be an e-mail address, got {given.address}")
    return replace(given, address=address)


async def find(store: Store, name: str) -> Account | None:
    try:
        return await store.account_named(name)
    except NotFound:
        return None


def in_words(changes: dict[str, Any]) -> str:
    words = {
        "address": "address",
        "display_name": "name",
        "batch_max": "batch",
        "provider": "its provider's limits",
        "transport": "server",
        "secret": "password",
        "status": "active again",
    }
    return ", ".join(word for column, word in words.items() if column in changes)


async def _add(store: Store, given: GivenAccount, vault: Vault, *, home: Path) -> str:
    provider, limits = _terms(given.address, home)
    whole = replace(limits, batch_max=given.batch_max or limits.batch_max)
    percent = 100 // given.regions
    mine = _part(whole, percent)
    id_ = await store.next_account_id()

    async def write(sealed: str | None, keys: Sequence[str] | None) -> None:
        async with store.together() as one:
            await one.add_account(
                given.name,
                address=given.address,
                pool=POOL,
                display_name=given.display_name,
                limits=mine,
                provider=provider,
                transport=replace(given.server, secret=sealed),
                id_=id_,
                keys=keys,
            )
            if mine != whole:
                await record_share(one, id_, Share(percent=percent, whole=whole))

    if given.password is None:
        await write(None, None)
    else:
        await write_sealed(store, vault, given.password, account_id=id_, write=write)
    return (
        f"account {given.name}: created from the environment variables ({url_of(given.server)}, from {given.address})"
    )


def _part(whole: Limits, percent: int) -> Limits:
    try:
        return sliced(whole, percent)
    except ValueError as error:
        raise FairpostError(f"its limits are too small to divide among the regions: {error}") from error


async def _change(store: Store, account: Account, changes: dict[str, Any], vault: Vault) -> None:
    password = changes.get("secret")
    if password is None:
        await store.change_account(account.name, changes, revision=account.revision)
        return

    async def write(sealed: str, keys: Sequence[str]) -> None:
        await store.change_account(account.name, {**changes, "secret": sealed}, keys=keys, revision=account.revision)

    await write_sealed(store, vault, password, account_id=account.id, write=write)
