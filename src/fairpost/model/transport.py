"""The server settings that all kinds of transport have in common.

The settings specific to a kind are in its folder in transports/. Passwords appear here only as sealed text.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from fairpost.model.ids import AccountId


class Tls(StrEnum):
    """The TLS support that a server offers its clients."""

    TRUSTED = "trusted"
    UNTRUSTED = "untrusted"  # the server's certificate is not trusted, or is not valid for the server's name
    NONE = "none"
    UNREACHABLE = "unreachable"


class Security(StrEnum):
    """How a connection is encrypted."""

    IMPLICIT = "implicit"  # from the first byte (smtps, port 465)
    STARTTLS = "starttls"  # with STARTTLS; otherwise, the connection is not used
    OFFERED = "offered"  # with STARTTLS if the server offers it
    NONE = "none"


ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxLogin:
    """The server that an account signs in to, and the user name.

    `is_verified` means that the server's certificate is verified for this host.
    """

    host: str
    user: str
    is_verified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings of one account. Each kind of transport has its own subclass."""

    kind: ClassVar[str]
    secret: str | None = field(default=None, repr=False)  # sealed
    origin: str | None = None  # ENVIRONMENT if engines update it from their environment; None if it is managed manually

    @property
    def place(self) -> str:
        """The server as shown to users, such as mail.example.com:587."""
        return self.kind

    @property
    def takes_secret(self) -> bool:
        return True

    @property
    def login(self) -> MailboxLogin | None:
        """The login that proves who owns the mailbox, or None if there is none."""
        return None


@dataclass(frozen=True, slots=True)
class UnknownTransport:
    """Settings that this program cannot read. Only the account that the settings belong to is affected. All other
    accounts must still be listed.
    """

    kind: str


TransportSettings = ServerSettings | UnknownTransport


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSecret:
    """The secret of an account or a DKIM key.

    `owner` is the object that the secret is bound to, and `name` is shown to users.
    """

    owner: str
    name: str
    sealed: str = field(repr=False)

    @property
    def key_id(self) -> str:
        return self.sealed.split(":")[1] if self.sealed.count(":") else ""

    @property
    def is_of_account(self) -> bool:
        return self.owner.startswith("account ")

    @property
    def is_of_webhook(self) -> bool:
        return self.owner.startswith("webhook ")


def owner_of_account(account_id: AccountId) -> str:
    return f"account {account_id}"
