"""From an account as it is stored to a transport that can send: opens its password and names its server."""

from typing import assert_never

from fairpost.model.account import Account
from fairpost.model.errors import FairpostError, VaultError
from fairpost.model.transport import SmtpSettings, UnknownTransport
from fairpost.smtp.auth import Password
from fairpost.smtp.server import Server
from fairpost.transport.smtp import SmtpTransport
from fairpost.vault.vault import Vault


def transport_of(account: Account, vault: Vault) -> SmtpTransport:
    """Raises FairpostError when the account has no server, VaultError when its password cannot be opened."""
    settings = smtp_settings(account)
    return SmtpTransport(server_of(settings), login_of(account, vault))


def smtp_settings(account: Account) -> SmtpSettings:
    anew = f"Give it one: fairpost account set {account.name} --smtp URL"
    match account.transport:
        case SmtpSettings():
            return account.transport
        case UnknownTransport(kind):
            raise FairpostError(
                f'Account "{account.name}" has a server that this Fairpost cannot read ({kind}). Upgrade it, or: {anew}'
            )
        case None:
            raise FairpostError(f'Account "{account.name}" has no server, so it cannot send. {anew}')
        case _:
            assert_never(account.transport)


def server_of(settings: SmtpSettings) -> Server:
    return Server(
        host=settings.host,
        port=settings.port,
        security=settings.security,
        ca_file=settings.ca_file,
        hello_name=settings.hello_name,
    )


def login_of(account: Account, vault: Vault) -> Password | None:
    """None: the server wants no login."""
    settings = smtp_settings(account)
    if settings.user is None:
        return None
    if settings.secret is None:
        raise VaultError(
            f'Account "{account.name}" has no password for {settings.user}. '
            f"Give it: fairpost account set {account.name} --ask-password"
        )
    return Password(user=settings.user, secret=vault.open(settings.secret, account_id=account.id, name=account.name))
