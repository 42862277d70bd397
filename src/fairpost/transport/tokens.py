"""Logins by access token, for a server that takes no password. What a token server says becomes what an SMTP server
would have said, so that policy suspends an account or lets it rest."""

from fairpost.model.report import Reply, Step
from fairpost.oauth.errors import Refused, Unreachable
from fairpost.oauth.tokens import TokenSource
from fairpost.smtp.auth import Token
from fairpost.smtp.client import LOGIN_REFUSED, Unready

LOGIN_LATER = 454
LATER = "Check that this machine can reach it, or try again later: fairpost account verify NAME"


class NoToken(Unready):
    """There is nothing to log in with."""

    def __init__(self, reply: Reply, what: str, advice: str) -> None:
        super().__init__(Step.AUTH, "there is no token to log in with", reply)
        self.what = what
        self.advice = advice


class TokenLogin:
    """`account`: its name, for what to type next."""

    def __init__(self, user: str, source: TokenSource, *, account: str) -> None:
        self._user = user
        self._source = source
        self._account = account

    async def login(self) -> Token:
        try:
            token = await self._source.token()
        except Refused as error:
            advice = error.advice.replace("NAME", self._account)
            raise NoToken(Reply(LOGIN_REFUSED, f"5.7.8 {error.what} {advice}"), error.what, advice) from error
        except Unreachable as error:
            advice = LATER.replace("NAME", self._account)
            raise NoToken(Reply(LOGIN_LATER, f"4.7.0 {error}"), str(error), advice) from error
        return Token(user=self._user, secret=token.secret)

    def refused(self) -> None:
        self._source.forget()
