"""What every transport offers to a worker, and what is told of one that is tried."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.report import Reply, Report, Step

Permission = Callable[[], bool]
"""Asked right before the message is completed: may this lease still send? A no leaves the e-mail untouched."""


class Transport(Protocol):
    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report: ...


class ClosableTransport(Transport, Protocol):
    async def close(self) -> None:
        """Ends what it keeps open. It may be used again."""


Evidence = Mapping[str, str]
"""By what a provider can be asked later about a message, as it is stored with the intent: {"draft": …, "thread": …}."""


class Fate(StrEnum):
    SENT = "sent"
    UNSENT = "unsent"  # it is still there: sending it again sends it once
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the provider said about a message of ours. `report` has its ids (sent), or why nobody can say (unknown)."""

    fate: Fate
    report: Report


@runtime_checkable
class DraftingTransport(ClosableTransport, Protocol):
    """Keeps a message at the provider before it is sent, so that after a crash the provider knows what became of it."""

    async def draft(self, account: Account, email: Outgoing) -> Evidence | Report:
        """A report: it could not be kept, and nothing was sent."""

    async def send_draft(
        self, account: Account, email: Outgoing, evidence: Evidence, *, permission: Permission
    ) -> Report:
        """After its own time-out it has asked what became of the draft, before it says that nobody knows."""

    async def ask(self, account: Account, email: Outgoing, evidence: Evidence) -> Answer: ...

    async def discard(self, account: Account, evidence: Evidence) -> None:
        """The draft will not be sent by us. Never fails: what cannot be removed stays behind unsent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A step that was taken to see whether a server can be used."""

    step: Step
    ok: bool
    text: str = ""
    reply: Reply | None = None
    advice: str = ""  # where who failed knows what to do
    name: str = ""  # of a step that has no name in SMTP
