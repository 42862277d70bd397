"""The verdict on an e-mail after an attempt. Verdicts are values that are matched exhaustively and written by the
store.
"""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Sent:
    bounced: tuple[str, ...] = ()  # the other recipients received the e-mail


@dataclass(frozen=True, slots=True)
class Retry:
    due_at: datetime
    remaining: tuple[str, ...]
    bounced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    pass


@dataclass(frozen=True, slots=True)
class Bounced:
    bounced: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InDoubt:
    pass


@dataclass(frozen=True, slots=True)
class Untouched:
    """Nothing was sent, so no attempt is counted and no limit is used up.

    `due_at` is when the e-mail is due again, if the e-mail must wait but the account need not.
    """

    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Deferred:
    """The failure concerns the account. The e-mail returns to the queue without losing an attempt. `until` is when the
    account may send again, if the server named a time. `due_at` is when the e-mail is due again, if the e-mail must
    wait as well.
    """

    until: datetime | None
    due_at: datetime | None = None


Verdict = Sent | Retry | Failed | Bounced | InDoubt | Untouched | Deferred
