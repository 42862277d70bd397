"""From an account as it is stored to a transport that can send: opens its password and names its server.

`guard`: the account is not the operator's own, and goes only where the guard lets it.
"""

from typing import assert_never

from fairpost.model.account import Account
from fairpost.model.errors import FairpostError
from fairpost.model.transport import ServerSettings, UnknownTransport
from fairpost.smtp.guard import NetworkGuard
from fairpost.transports.guarded import BarredTransport, EndpointRefused, standard
from fairpost.transports.port import ClosableTransport
from fairpost.transports.registry import kind_of
from fairpost.vault.vault import Vault


def transport_of(account: Account, vault: Vault, *, guard: NetworkGuard | None = None) -> ClosableTransport:
    """Raises FairpostError when the account has no server, VaultError when its secret cannot be opened."""
    try:
        settings = server_settings(account, guard=guard)
    except EndpointRefused as refused:
        return BarredTransport(str(refused))
    return kind_of(settings).transport(account, settings, opened(account, settings, vault), guard=guard)


def server_settings(account: Account, *, guard: NetworkGuard | None = None) -> ServerSettings:
    """Raises FairpostError: there are none that can be read, or (EndpointRefused) none that a guarded account may have."""
    anew = f"Give it one: fairpost account set {account.name} --smtp URL"
    match account.transport:
        case ServerSettings():
            return account.transport if guard is None else standard(account.transport)
        case UnknownTransport(kind):
            raise FairpostError(
                f'Account "{account.name}" has a server that this Fairpost cannot read ({kind}). Upgrade it, or give it another.',
                then=anew,
            )
        case None:
            raise FairpostError(f'Account "{account.name}" has no server, so it cannot send.', then=anew)
        case _:
            assert_never(account.transport)


def opened(account: Account, settings: ServerSettings, vault: Vault) -> str | None:
    """Its secret. None: it has none, or needs none. Raises VaultError."""
    if settings.secret is None or not settings.takes_secret:
        return None
    return vault.open(settings.secret, account_id=account.id, name=account.name)
