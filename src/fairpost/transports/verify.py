"""Tests an account's server, of any kind, without sending anything."""

from collections.abc import Sequence
from contextlib import aclosing

from fairpost.model.account import Account
from fairpost.model.report import Step
from fairpost.model.transport import ServerSettings, Tls, TransportSettings
from fairpost.smtp.guard import NetworkGuard
from fairpost.system import clock
from fairpost.transports.factory import opened, reader_of, server_settings
from fairpost.transports.guarded import EndpointRefused
from fairpost.transports.port import Tried
from fairpost.transports.reading import MailboxReader, Unreadable
from fairpost.transports.registry import kind_of
from fairpost.vault.vault import Vault

READING = "reading"  # the name of the final step, if the account's mailbox is read


async def try_account(
    account: Account,
    vault: Vault,
    *,
    guard: NetworkGuard | None = None,
    host: str | None = None,
    is_brief: bool = False,
) -> list[Tried]:
    """Tests an account's server and returns every step taken, in order. If a step failed, it is the last one.

    `guard` is set if the account is not the operator's own. `host` is the name of this machine. `is_brief` means that
    an HTTP request is waiting for the result. Raises FairpostError if the account has no server that it may use, or
    VaultError if its secret cannot be opened.
    """
    settings = server_settings(account, guard=guard)
    kind = kind_of(settings)
    tried: list[Tried] = await kind.verify(
        kind.announced(settings, host),
        opened(account, settings, vault),
        name=account.name,
        address=account.address,
        guard=guard,
        is_brief=is_brief,
    )
    reader = reader_of(account, vault, guard=guard) if all(each.ok for each in tried) else None
    return tried if reader is None else [*tried, await _try_reading(reader, account.name)]


async def _try_reading(reader: MailboxReader, name: str) -> Tried:
    """Tests reading the mailbox. Without a position, this reads no mail and only determines where reading would begin."""
    try:
        async with aclosing(reader.look(None, since=clock.now())) as found:
            await anext(found)
    except Unreadable as error:
        advice = (
            error.advice
            or f"Check the mailbox's server: fairpost account set {name} --imap URL; or turn reading off: --no-read"
        )
        return Tried(step=Step.BODY, name=READING, ok=False, text=str(error), advice=advice)
    finally:
        await reader.close()
    return Tried(step=Step.BODY, name=READING, ok=True)


async def offered_tls(account: Account, *, guard: NetworkGuard) -> Tls | None:
    """Returns the TLS support that the account's server offers, without signing in, or None if no server needs to be
    checked.

    `guard` applies to accounts that are not the operator's own.
    """
    guarded = guard if account.workspace is not None else None
    try:
        settings = server_settings(account, guard=guarded)
    except EndpointRefused:
        return Tls.UNREACHABLE
    return await kind_of(settings).tls(settings, guard=guarded)


def advice(tried: Sequence[Tried], settings: TransportSettings | None, name: str) -> str | None:
    """Returns the command that may fix the failed step, or None if all steps passed."""
    failed = next((each for each in tried if not each.ok), None)
    if failed is None:
        return None
    if failed.advice or not isinstance(settings, ServerSettings):
        return failed.advice
    return kind_of(settings).advice(failed, settings, name)
