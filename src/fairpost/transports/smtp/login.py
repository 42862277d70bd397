"""Builds a server and its login from settings. The login uses a password, or an access token if the settings use OAuth.
A token server's answer is converted to the equivalent SMTP reply, so the usual rules decide whether the account is
suspended or paused.
"""

from fairpost.model.errors import VaultError
from fairpost.model.reason import Reason
from fairpost.model.report import Reply, Step
from fairpost.smtp.auth import LoginSource, Password, Token
from fairpost.smtp.connecting import LOGIN_REFUSED, Unready
from fairpost.smtp.guard import NetworkGuard
from fairpost.smtp.server import Server
from fairpost.transports.oauth.errors import Refused, Unreachable
from fairpost.transports.oauth.sources import token_source
from fairpost.transports.oauth.tokens import TokenSource
from fairpost.transports.smtp.settings import SmtpSettings

LOGIN_LATER = 454
LATER = "Check that this machine can reach it, or try again later: fairpost account verify NAME"


def server_of(settings: SmtpSettings, *, guard: NetworkGuard | None = None) -> Server:
    return Server(
        host=settings.host,
        port=settings.port,
        security=settings.security,
        ca_file=settings.ca_file,
        hello_name=settings.hello_name,
        guard=guard,
    )


def login_of(
    settings: SmtpSettings, secret: str | None, *, account: str, is_for_reading: bool = False
) -> Password | LoginSource | None:
    """Returns the login, or None if the server does not need one. Raises VaultError. `secret` has already been opened.
    `account` is the account's name, for advice.
    """
    if settings.user is None:
        return None
    if secret is None:
        raise VaultError(
            f'Account "{account}" has no password for {settings.user}.',
            next_step=Reason("step.set_password", account=account),
        )
    if settings.oauth is not None:
        source = token_source(settings.oauth, secret, mailbox=settings.user, is_for_reading=is_for_reading)
        return TokenLogin(settings.user, source, account=account)
    return Password(user=settings.user, secret=secret)


class NoToken(Unready):
    """Raised if there is no access token to log in with."""

    def __init__(self, reply: Reply, what: str, advice: str) -> None:
        super().__init__(Step.AUTH, "there is no token to log in with", reply)
        self.what = what
        self.advice = advice


class TokenLogin:
    """Logs in with access tokens. `account` is the account's name, for advice."""

    def __init__(self, user: str, source: TokenSource, *, account: str) -> None:
        self._user = user
        self._source = source
        self._account = account

    async def login(self) -> Token:
        try:
            token = await self._source.token()
        except Refused as error:
            advice = error.advice.replace("NAME", self._account)
            raise NoToken(Reply(LOGIN_REFUSED, f"5.7.8 {error.what}"), error.what, advice) from error
        except Unreachable as error:
            advice = LATER.replace("NAME", self._account)
            raise NoToken(Reply(LOGIN_LATER, f"4.7.0 {error}"), str(error), advice) from error
        return Token(user=self._user, secret=token.secret)

    def refused(self) -> None:
        self._source.forget()
