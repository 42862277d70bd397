"""What one step of an account came to: an e-mail was handled, or nothing was sent, and why."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fairpost.model.ids import EmailId


class Idle(StrEnum):
    EMPTY = "nothing is waiting for this account"
    BUSY = "others are taking what there is"
    INACTIVE = "the account is not active"
    CHANGED = "the account's settings were changed"
    PAUSED = "everything is paused"
    NOT_YET = "it may not send before a certain moment"
    EXHAUSTED = "its day is used up"
    LOST = "the lease is gone"


@dataclass(frozen=True, slots=True)
class Rested:
    """Nothing was sent, why, and when to look again (None: when something new arrives)."""

    why: Idle
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Handled:
    email_id: EmailId
    outcome: str


Step = Handled | Rested
