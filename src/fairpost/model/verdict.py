"""What is to become of an e-mail after an attempt. Values, matched exhaustively; the store writes them down."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Sent:
    bounced: tuple[str, ...] = ()  # the others got it


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
    pass


@dataclass(frozen=True, slots=True)
class Deferred:
    """It is about the account, not about this e-mail, which waits again and has used up no try. `until`: when the server
    wants to hear of the account again, where it said so. `due_at`: the e-mail itself waits, too."""

    until: datetime | None
    due_at: datetime | None = None


Verdict = Sent | Retry | Failed | Bounced | InDoubt | Untouched | Deferred
