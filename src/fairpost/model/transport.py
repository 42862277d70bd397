"""What an account sends through: its server, as it is stored. Passwords are here only as sealed text."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from fairpost.model.ids import AccountId
from fairpost.model.oauth import OauthSettings, read_oauth, write_oauth


class Security(StrEnum):
    """How a connection comes under TLS."""

    IMPLICIT = "implicit"  # from the first byte (smtps, port 465)
    STARTTLS = "starttls"  # by STARTTLS, or not at all
    OFFERED = "offered"  # by STARTTLS where the server offers it
    NONE = "none"


ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpSettings:
    host: str
    port: int
    security: Security = Security.STARTTLS
    user: str | None = None  # None: no login
    secret: str | None = field(default=None, repr=False)  # sealed
    ca_file: str | None = None
    hello_name: str | None = None
    oauth: OauthSettings | None = None  # None: the secret is a password
    origin: str | None = None  # ENVIRONMENT: engines keep it as their environment has it; None: people do


@dataclass(frozen=True, slots=True, kw_only=True)
class GmailSettings:
    """The Gmail API. A service account acts for the mailbox `oauth.subject`; None: the account's own address."""

    oauth: OauthSettings
    base_url: str | None = None  # None: Google
    secret: str | None = field(default=None, repr=False)  # sealed: the key file, or the refresh token with its client's


@dataclass(frozen=True, slots=True)
class UnknownTransport:
    """What this program cannot read: it concerns one account, and must not hide the others."""

    kind: str


ServerSettings = SmtpSettings | GmailSettings
TransportSettings = ServerSettings | UnknownTransport


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSecret:
    account_id: AccountId
    account_name: str
    sealed: str = field(repr=False)

    @property
    def key_id(self) -> str:
        return self.sealed.split(":")[1] if self.sealed.count(":") else ""


def read_transport(data: Mapping[str, Any]) -> TransportSettings | None:
    """None: no server. Whatever else the database holds is read without an error."""
    if not data:
        return None
    kind = str(data.get("kind"))
    if kind not in ("smtp", "gmail"):
        return UnknownTransport(kind)
    given = {name: value for name, value in data.items() if name != "kind"}
    try:
        if given.get("oauth") is not None:
            given["oauth"] = read_oauth(given["oauth"])
        return _read_gmail(given) if kind == "gmail" else _read_smtp(given)
    except (KeyError, TypeError, ValueError):
        return UnknownTransport(f"{kind}, damaged")


def _read_smtp(given: Mapping[str, Any]) -> SmtpSettings:
    return SmtpSettings(**{**given, "port": int(given["port"]), "security": Security(given["security"])})


def _read_gmail(given: Mapping[str, Any]) -> GmailSettings:
    if not isinstance(given["oauth"], OauthSettings) or not given["oauth"].kind.is_google:
        raise ValueError("Gmail takes Google's tokens")
    if not all(isinstance(value, str) for name, value in given.items() if name != "oauth"):
        raise ValueError("all else is text")
    return GmailSettings(**given)


def write_transport(settings: ServerSettings | None) -> dict[str, Any]:
    if settings is None:
        return {}
    kind = "gmail" if isinstance(settings, GmailSettings) else "smtp"
    given = {**asdict(settings), "oauth": write_oauth(settings.oauth) if settings.oauth else None}
    return {"kind": kind, **{name: value for name, value in given.items() if value is not None}}
