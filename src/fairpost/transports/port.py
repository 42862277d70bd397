"""The interface between a worker and a transport, and the results of testing a transport."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.report import Reply, Report, Step
from fairpost.transports.signing import Signer

Permission = Callable[[], bool]
"""Called right before the message is completed to check that this lease may still send.

If it returns False, the e-mail is left untouched.
"""


class Transport(Protocol):
    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report: ...


class ClosableTransport(Transport, Protocol):
    async def close(self) -> None:
        """Closes the connections. The transport can be used again afterwards."""


Evidence = Mapping[str, str]
"""Identifies a message at the provider for later queries, such as {"draft": …, "thread": …}. Stored with the intent."""


class Fate(StrEnum):
    SENT = "sent"
    UNSENT = "unsent"  # the draft still exists, and sending it cannot cause a duplicate
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Answer:
    """The provider's answer about a message.

    `report` contains the message's IDs if it was sent, or the reason why its fate is unknown.
    """

    fate: Fate
    report: Report


@runtime_checkable
class DraftingTransport(ClosableTransport, Protocol):
    """A transport that stores a message at the provider before sending it so that it can ask the provider about the
    message after a crash.
    """

    async def draft(self, account: Account, email: Outgoing) -> Evidence | Report:
        """Stores a draft and returns its evidence, or a report if it could not be stored. Nothing is sent."""

    async def send_draft(
        self, account: Account, email: Outgoing, evidence: Evidence, *, permission: Permission
    ) -> Report:
        """Sends a draft. After a timeout, checks the draft before it reports an unknown outcome."""

    async def ask(self, account: Account, email: Outgoing, evidence: Evidence) -> Answer: ...

    async def discard(self, account: Account, evidence: Evidence) -> None:
        """Deletes a draft that will not be sent. Never fails, because a draft that cannot be deleted simply remains at
        the provider, unsent.
        """


@runtime_checkable
class ComposingTransport(ClosableTransport, Protocol):
    """A transport that can compose a message before it is sent."""

    def compose_ahead(self, account: Account, email: Outgoing) -> None:
        """Composes the e-mail that will probably be sent next, while the database commits the start of that send. Never
        fails.
        """


@runtime_checkable
class SigningTransport(ClosableTransport, Protocol):
    """A transport that signs the messages that it sends, if it has a signer."""

    signer: Signer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One step of testing a server."""

    step: Step
    ok: bool
    text: str = ""
    reply: Reply | None = None
    advice: str = ""  # set if there is specific advice for the failing step
    name: str = ""  # the step's name, if SMTP has no name for it
