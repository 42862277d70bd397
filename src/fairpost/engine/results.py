"""The result of one step of an account: either an e-mail was handled, or nothing was sent for some reason."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fairpost.model.ids import EmailId
from fairpost.model.quick import quick


class Idle(StrEnum):
    EMPTY = "empty"  # nothing is waiting for this account
    BUSY = "busy"  # other accounts claimed the waiting e-mails
    INACTIVE = "inactive"
    CHANGED = "changed"  # the account's settings were changed
    PAUSED = "paused"  # all sending is paused
    NOT_YET = "not_yet"
    EXHAUSTED = "exhausted"  # the account's daily limit is reached
    LOST = "lost"  # the lease is lost


@dataclass(frozen=True, slots=True)
class Rested:
    """The reason why nothing was sent, and when to check again (None: when something new arrives)."""

    why: Idle
    until: datetime | None = None


@quick(frozen=True, slots=True)
class Handled:
    email_id: EmailId
    outcome: str


Step = Handled | Rested
