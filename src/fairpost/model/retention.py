"""The results of deleting months of history or one person's data."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OldMonth:
    """A month of history past its retention period. `kept` explains why the month cannot be dropped yet."""

    month: datetime
    partitions: tuple[str, ...]
    bytes: int
    kept: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedMonth:
    month: datetime
    partitions: tuple[str, ...]
    bytes: int
    moved: int  # contents still used by other e-mails


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """How much of a person's data was erased or, in a dry run, would have been erased."""

    address_hash: str
    prospects: int
    suppressions: int  # kept as hashes
    cancelled: int  # e-mails with no other recipient
    taken_out: int  # e-mails that other recipients still receive
    emails: int  # in history
    events: int
    inbox_mails: int
    in_hand: tuple[int, ...]  # e-mails being sent or in doubt, which are left unchanged
