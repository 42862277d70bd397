"""What an account sends through, as all kinds of servers have it. What a kind has of its own is in its folder of transports/.
Passwords are here only as sealed text."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from fairpost.model.ids import AccountId


class Security(StrEnum):
    """How a connection is encrypted."""

    IMPLICIT = "implicit"  # from the first byte (smtps, port 465)
    STARTTLS = "starttls"  # by STARTTLS, or not at all
    OFFERED = "offered"  # by STARTTLS where the server offers it
    NONE = "none"


ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxLogin:
    """Under which name an account signs in, and where. `is_verified`: the server's certificate is checked for this host."""

    host: str
    user: str
    is_verified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Of one account. Each kind of transport has a class of its own."""

    kind: ClassVar[str]
    secret: str | None = field(default=None, repr=False)  # sealed
    origin: str | None = None  # ENVIRONMENT: engines keep it as their environment has it; None: people do

    @property
    def place(self) -> str:
        """Where it leads, for people: mail.example.com:587."""
        return self.kind

    @property
    def takes_secret(self) -> bool:
        return True

    @property
    def login(self) -> MailboxLogin | None:
        """None: nothing that would prove whose mailbox it is."""
        return None


@dataclass(frozen=True, slots=True)
class UnknownTransport:
    """What this program cannot read: it concerns one account, and must not hide the others."""

    kind: str


TransportSettings = ServerSettings | UnknownTransport


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSecret:
    account_id: AccountId
    account_name: str
    sealed: str = field(repr=False)

    @property
    def key_id(self) -> str:
        return self.sealed.split(":")[1] if self.sealed.count(":") else ""
