"""From an account as it is stored to a transport that can send: opens its password and names its server.

`guard`: the account is not the operator's own, and goes only where the guard lets it.
"""

from typing import assert_never

from fairpost.gmail.client import GmailClient, Timeouts
from fairpost.model.account import Account
from fairpost.model.errors import FairpostError, VaultError
from fairpost.model.transport import GmailSettings, ServerSettings, SmtpSettings, UnknownTransport
from fairpost.oauth.sources import token_source
from fairpost.smtp.auth import LoginSource, Password
from fairpost.smtp.guard import NetworkGuard
from fairpost.smtp.server import Server
from fairpost.transport.gmail import GmailTransport
from fairpost.transport.guarded import BarredTransport, EndpointRefused, standard
from fairpost.transport.smtp import SmtpTransport
from fairpost.transport.tokens import TokenLogin
from fairpost.vault.vault import Vault


def transport_of(
    account: Account, vault: Vault, *, guard: NetworkGuard | None = None
) -> SmtpTransport | GmailTransport | BarredTransport:
    """Raises FairpostError when the account has no server, VaultError when its secret cannot be opened."""
    try:
        settings = server_settings(account, guard=guard)
    except EndpointRefused as refused:
        return BarredTransport(str(refused))
    match settings:
        case SmtpSettings():
            return SmtpTransport(server_of(settings, guard=guard), login_of(account, vault, guard=guard))
        case GmailSettings():
            return GmailTransport(gmail_client_of(account, vault, guard=guard))
        case _:
            assert_never(settings)


def server_settings(account: Account, *, guard: NetworkGuard | None = None) -> ServerSettings:
    """Raises FairpostError: there are none that can be read, or (EndpointRefused) none that a guarded account may have."""
    anew = f"Give it one: fairpost account set {account.name} --smtp URL"
    match account.transport:
        case SmtpSettings() | GmailSettings():
            return account.transport if guard is None else standard(account.transport)
        case UnknownTransport(kind):
            raise FairpostError(
                f'Account "{account.name}" has a server that this Fairpost cannot read ({kind}). Upgrade it, or: {anew}'
            )
        case None:
            raise FairpostError(f'Account "{account.name}" has no server, so it cannot send. {anew}')
        case _:
            assert_never(account.transport)


def smtp_settings(account: Account, *, guard: NetworkGuard | None = None) -> SmtpSettings:
    settings = server_settings(account, guard=guard)
    assert isinstance(settings, SmtpSettings), "whoever asks for this knows that it is SMTP"
    return settings


def gmail_client_of(
    account: Account, vault: Vault, *, timeouts: Timeouts | None = None, guard: NetworkGuard | None = None
) -> GmailClient:
    settings = server_settings(account, guard=guard)
    assert isinstance(settings, GmailSettings), "whoever asks for this knows that it is Gmail"
    if settings.secret is None:
        raise VaultError(
            f'Account "{account.name}" has no key for the Gmail API. '
            f"Give it: fairpost account set {account.name} --gmail KEYFILE"
        )
    secret = vault.open(settings.secret, account_id=account.id, name=account.name)
    tokens = token_source(settings.oauth, secret, mailbox=account.address)
    return GmailClient(tokens, base_url=settings.base_url, timeouts=timeouts)


def server_of(settings: SmtpSettings, *, guard: NetworkGuard | None = None) -> Server:
    return Server(
        host=settings.host,
        port=settings.port,
        security=settings.security,
        ca_file=settings.ca_file,
        hello_name=settings.hello_name,
        guard=guard,
    )


def login_of(account: Account, vault: Vault, *, guard: NetworkGuard | None = None) -> Password | LoginSource | None:
    """None: the server wants no login."""
    settings = smtp_settings(account, guard=guard)
    if settings.user is None:
        return None
    if settings.secret is None:
        raise VaultError(
            f'Account "{account.name}" has no password for {settings.user}. '
            f"Give it: fairpost account set {account.name} --ask-password"
        )
    secret = vault.open(settings.secret, account_id=account.id, name=account.name)
    return login_with(settings, settings.user, secret, account=account.name)


def login_with(settings: SmtpSettings, user: str, secret: str, *, account: str) -> Password | LoginSource:
    """The same with a secret that is open. `account`: its name, for what to type next."""
    if settings.oauth is not None:
        return TokenLogin(user, token_source(settings.oauth, secret, mailbox=user), account=account)
    return Password(user=user, secret=secret)
