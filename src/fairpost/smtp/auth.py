"""Logins: SASL exchanges as values, without I/O. No secret in this module is ever printed."""

import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from fairpost.model.report import Step
from fairpost.model.secrets import MASK, masked
from fairpost.smtp.wire import Command

ECHO_CHARS = 8  # a secret counts as echoed if this many of its encoded characters are found


@dataclass(frozen=True, slots=True, kw_only=True)
class Password:
    user: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """An OAuth 2 access token, for XOAUTH2."""

    user: str
    secret: str = field(repr=False)


Login = Password | Token


class LoginSource(Protocol):
    """A source of logins that expire, such as tokens. The source is asked for a login once per connection."""

    async def login(self) -> Login:
        """Returns a login. Raises Unready at the step AUTH if no login is available."""

    def refused(self) -> None:
        """Records that the server refused the most recent login, so the next one must be different."""


async def current(login: Login | LoginSource | None) -> Login | None:
    return login if login is None or isinstance(login, Password | Token) else await login.login()


def mechanism(login: Login, offered: frozenset[str]) -> str | None:
    """Returns the best mechanism that the server offers, or None if it offers no supported mechanism."""
    spoken = ("XOAUTH2",) if isinstance(login, Token) else ("PLAIN", "LOGIN")
    return next((name for name in spoken if name in offered), None)


def exchange(login: Login, name: str) -> Iterator[Command]:
    """Yields the responses to send, one for each challenge (334)."""
    user, secret = login.user.encode(), login.secret.encode()
    match name:
        case "PLAIN":
            yield _say(b"AUTH PLAIN " + b64encode(b"\0" + user + b"\0" + secret))
        case "LOGIN":
            yield _say(b"AUTH LOGIN")
            yield _say(b64encode(user))
            yield _say(b64encode(secret))
        case "XOAUTH2":
            yield _say(b"AUTH XOAUTH2 " + b64encode(b"user=" + user + b"\1auth=Bearer " + secret + b"\1\1"))
            yield _say(b"")  # the server sent its error as a challenge: an empty response makes it send the refusal
        case _:
            raise ValueError(f"unknown login method: {name}")


def without_secret(text: str, login: Login) -> str:
    """Masks the secret in a server's answer to a login, because some servers echo the rejected line."""
    names = ("XOAUTH2",) if isinstance(login, Token) else ("PLAIN", "LOGIN")
    lines = [command.line.rpartition(b" ")[2].decode() for name in names for command in exchange(login, name)]
    for encoded in set(lines) - {"", "LOGIN"}:
        text = re.sub("(?<![A-Za-z0-9+/])" + re.escape(encoded[:ECHO_CHARS]) + "[A-Za-z0-9+/=]*", MASK, text)
    return masked(text, login.secret)


def _say(line: bytes) -> Command:
    return Command(Step.AUTH, line)
