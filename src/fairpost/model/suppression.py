"""Entries in the suppression list: addresses that receive no mail, and the reasons."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

EVERYBODY = "*"  # `workspace` in entries that apply to all workspaces


class SuppressionKind(StrEnum):
    """The kinds of suppression, from weakest to strongest. If two kinds apply to an address, the stronger one is
    kept.
    """

    SOFT_BOUNCES = "soft_bounces"
    HARD_BOUNCE = "hard_bounce"
    MANUAL = "manual"
    UNSUBSCRIBE = "unsubscribe"
    COMPLAINT = "complaint"


class Stops(StrEnum):
    """Which mail an entry stops. The kind `unsubscribe` stops bulk mail; all other kinds stop all mail."""

    ALL = "all"
    BULK = "bulk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    address: str
    kind: SuppressionKind
    reason: str
    created_at: datetime
    workspace: str
    stops: Stops = Stops.ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftBounces:
    """The number of consecutive e-mails that the mailbox did not accept."""

    workspace: str
    count: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line in a list to import, with the address as written. If the line contains no time, the current time is used.

    With `also_urgent`, an unsubscribe also stops urgent mail.
    """

    line: int
    address: str
    kind: SuppressionKind
    reason: str
    created_at: datetime | None
    workspace: str
    also_urgent: bool = False


@dataclass(frozen=True, slots=True)
class BadLine:
    line: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The result of importing a list. Each line is counted once. `bad_lines` lists the first invalid lines."""

    added: int
    known: int
    duplicates: int
    bad: int
    bad_lines: tuple[BadLine, ...]
