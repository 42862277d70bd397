"""How to log in: SASL exchanges as values, without I/O. Nothing here is ever printed."""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field

from fairpost.model.report import Step
from fairpost.smtp.wire import Command


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


def mechanism(login: Login, offered: frozenset[str]) -> str | None:
    """The best of what the server offers, None when it offers nothing we speak."""
    spoken = ("XOAUTH2",) if isinstance(login, Token) else ("PLAIN", "LOGIN")
    return next((name for name in spoken if name in offered), None)


def exchange(login: Login, name: str) -> Iterator[Command]:
    """What to say, one after the other, as long as the server goes on asking (334)."""
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
            yield _say(b"")  # the server has put its error into a question: an empty answer fetches the refusal
        case _:
            raise ValueError(f"unknown way to log in: {name}")


def _say(line: bytes) -> Command:
    return Command(Step.AUTH, line)
