"""What an account sends through: its server, as it is stored. Passwords are here only as sealed text."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from fairpost.model.ids import AccountId


class Security(StrEnum):
    """How a connection comes under TLS."""

    IMPLICIT = "implicit"  # from the first byte (smtps, port 465)
    STARTTLS = "starttls"  # by STARTTLS, or not at all
    OFFERED = "offered"  # by STARTTLS where the server offers it
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpSettings:
    host: str
    port: int
    security: Security = Security.STARTTLS
    user: str | None = None  # None: no login
    secret: str | None = field(default=None, repr=False)  # sealed
    ca_file: str | None = None
    hello_name: str | None = None


@dataclass(frozen=True, slots=True)
class UnknownTransport:
    """What this program cannot read: it concerns one account, and must not hide the others."""

    kind: str


TransportSettings = SmtpSettings | UnknownTransport


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
    if kind != "smtp":
        return UnknownTransport(kind)
    given = {name: value for name, value in data.items() if name != "kind"}
    try:
        return SmtpSettings(**{**given, "port": int(given["port"]), "security": Security(given["security"])})
    except (KeyError, TypeError, ValueError):
        return UnknownTransport("smtp, damaged")


def write_transport(settings: SmtpSettings | None) -> dict[str, Any]:
    if settings is None:
        return {}
    return {"kind": "smtp", **{name: value for name, value in asdict(settings).items() if value is not None}}
