"""The interface of a transport for a worker, and the results of testing one."""

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
        """Closes the connections. The transport can still be used again."""


Evidence = Mapping[str, str]
"""Identifies a message at the provider for later queries, such as {"draft": …, "thread": …}. Stored with the intent."""


class Fate(StrEnum):
    SENT = "sent"
    UNSENT = "unsent"  # the draft still exists: sending it again sends it once
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the provider said about our message.

    `report` has its IDs if it was sent, or the reason why its fate is unknown.
    """

    fate: Fate
    report: Report


@runtime_checkable
class DraftingTransport(ClosableTransport, Protocol):
    """Stores a message at the provider before sending it, so that the provider can tell its fate after a crash."""

    async def draft(self, account: Account, email: Outgoing) -> Evidence | Report:
        """Stores a draft and returns its evidence, or a report if it could not be stored. Nothing is sent."""

    async def send_draft(
        self, account: Account, email: Outgoing, evidence: Evidence, *, permission: Permission
    ) -> Report:
        """Sends a draft. After a timeout, the draft is checked before an unknown outcome is reported."""

    async def ask(self, account: Account, email: Outgoing, evidence: Evidence) -> Answer: ...

    async def discard(self, account: Account, evidence: Evidence) -> None:
        """Deletes a draft that we will not send. Never fails: a draft that cannot be deleted stays behind unsent."""


@runtime_checkable
class ComposingTransport(ClosableTransport, Protocol):
    """Can compose a message before it is sent."""

    def compose_ahead(self, account: Account, email: Outgoing) -> None:
        """Composes the e-mail that is probably sent next, while its begin is being committed. Never fails."""


@runtime_checkable
class SigningTransport(ClosableTransport, Protocol):
    """Signs what it sends if it has a signer."""

    signer: Signer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One step of testing a server."""

    step: Step
    ok: bool
    text: str = ""
    reply: Reply | None = None
    advice: str = ""  # if the failing step knows what to do
    name: str = ""  # of a step that has no SMTP name
