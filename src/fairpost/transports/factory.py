"""Builds the transport of a stored account from its server settings and its opened secret.

`guard` is set for accounts that are not the operator's own. These accounts may connect only to servers that the guard
allows. `host` is this machine's name, which is sent to servers in EHLO.
"""

from typing import assert_never

from fairpost.model.account import Account
from fairpost.model.errors import FairpostError
from fairpost.model.reason import Reason
from fairpost.model.transport import ServerSettings, UnknownTransport
from fairpost.smtp.guard import NetworkGuard
from fairpost.transports.guarded import BarredTransport, EndpointRefused, standard
from fairpost.transports.port import ClosableTransport, SigningTransport
from fairpost.transports.reading import MailboxReader
from fairpost.transports.registry import kind_of
from fairpost.transports.signing import Signer
from fairpost.vault.vault import Vault


def transport_of(
    account: Account, vault: Vault, *, guard: NetworkGuard | None = None, host: str | None = None
) -> ClosableTransport:
    """Returns an account's transport.

    Raises FairpostError if the account has no server, or VaultError if its secret cannot be opened.
    """
    try:
        settings = server_settings(account, guard=guard)
    except EndpointRefused as refused:
        return BarredTransport(str(refused))
    kind = kind_of(settings)
    settings = kind.announced(settings, host)
    transport = kind.transport(account, settings, opened(account, settings, vault), guard=guard)
    if isinstance(transport, SigningTransport) and not kind.provider_signs(settings):
        transport.signer = Signer(vault)
    return transport


def reader_of(account: Account, vault: Vault, *, guard: NetworkGuard | None = None) -> MailboxReader | None:
    """Returns the reader of the account's mailbox, or None if the mailbox is not read. Raises the same errors as
    `transport_of`, and EndpointRefused.
    """
    settings = server_settings(account, guard=guard)
    kind = kind_of(settings)
    if not kind.reads(settings):
        return None
    reader: MailboxReader = kind.reader(account, settings, opened(account, settings, vault), guard=guard)
    return reader


def server_settings(account: Account, *, guard: NetworkGuard | None = None) -> ServerSettings:
    """Returns the account's server settings.

    Raises FairpostError if there are no readable settings, or EndpointRefused if a guarded account must not use them.
    """
    again = Reason("step.set_server", account=account.name)
    match account.transport:
        case ServerSettings():
            return account.transport if guard is None else standard(account.transport)
        case UnknownTransport(kind):
            raise FairpostError(
                f'Account "{account.name}" has a server type that this version does not support ({kind}). Upgrade Fairpost, or set a different server.',
                next_step=again,
            )
        case None:
            raise FairpostError(f'Account "{account.name}" has no server, so it cannot send.', next_step=again)
        case _:
            assert_never(account.transport)


def opened(account: Account, settings: ServerSettings, vault: Vault) -> str | None:
    """Returns the account's secret, or None if it does not need one. Raises VaultError."""
    if settings.secret is None or not settings.takes_secret:
        return None
    return vault.open(settings.secret, account_id=account.id, name=account.name)
