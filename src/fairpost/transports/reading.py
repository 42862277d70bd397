"""The interface for reading an account's mailbox. Nothing in a mailbox is deleted, moved or marked."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from fairpost.model.account import Account
from fairpost.model.email import Outgoing

Position = Mapping[str, Any]
"""The position at which reading continues. It is stored as JSON; each kind has its own format."""


@dataclass(frozen=True, slots=True)
class Found:
    """A message and the position from which reading continues after it. If `raw` is None, there is only a new position
    and no message.
    """

    position: Position
    raw: bytes | None = field(default=None, repr=False)


class Unreadable(Exception):
    """The mailbox cannot be read now. `code` is a reason code. `is_lasting` means that only a change to the account's
    settings can fix the problem. `beyond` is the position from which reading continues if the message that was being
    fetched is skipped.
    """

    def __init__(self, code: str, why: str, *, is_lasting: bool = False, advice: str = "") -> None:
        super().__init__(why)
        self.code = code
        self.is_lasting = is_lasting
        self.advice = advice
        self.beyond: Position | None = None


class MailboxReader(Protocol):
    """Reads one mailbox over one connection, which is reopened if it is lost. Every method can raise Unreadable."""

    def look(self, position: Position | None, *, since: datetime) -> AsyncGenerator[Found, None]:
        """Yields the messages that arrived after the position, oldest first. Without a position, starts at the current
        state and yields no mail. If the position is no longer valid, yields the messages that have arrived since the
        last check (`since`), including some that were yielded before.
        """

    async def wait(self) -> bool:
        """Waits a few minutes for changes. Returns False if the server reported no changes."""

    async def was_sent(self, account: Account, email: Outgoing) -> bool:
        """Returns whether the mailbox's sent mail contains this e-mail. False proves nothing, because many servers keep
        no copies.
        """

    async def close(self) -> None:
        """Closes the connection. Never fails."""
