"""What is forgotten, and what became of it: months of history, and single persons."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OldMonth:
    """A month of history that is older than it need be. `kept`: why it cannot go yet."""

    month: datetime
    partitions: tuple[str, ...]
    bytes: int
    kept: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedMonth:
    month: datetime
    partitions: tuple[str, ...]
    bytes: int
    moved: int  # contents that others still use


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What was erased of a person; of a dry run, what would be."""

    address_hash: str
    prospects: int
    suppressions: int  # that live on as hashes
    cancelled: int  # e-mails that waited for nobody else
    taken_out: int  # e-mails that others still get
    emails: int  # in history
    events: int
    inbox_mails: int
    in_hand: tuple[int, ...]  # being sent or in doubt: left as they are
