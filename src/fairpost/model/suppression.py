"""Who gets no mail any more, and why: what the suppression list is made of."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

EVERYBODY = "*"  # the workspace of what counts for all of them


class SuppressionKind(StrEnum):
    """In order of strength: of two for one address the later one stays."""

    SOFT_BOUNCES = "soft_bounces"
    HARD_BOUNCE = "hard_bounce"
    MANUAL = "manual"
    UNSUBSCRIBE = "unsubscribe"
    COMPLAINT = "complaint"


class Stops(StrEnum):
    """Which mail it stops: `unsubscribe` stops bulk mail, all other kinds stop all mail."""

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
    """E-mails in a row that were given up because the mailbox took none."""

    workspace: str
    count: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of a list to be imported. `address` as somebody wrote it; without a moment, it counts from now.

    `also_urgent`: it stops urgent mail too, although it is an unsubscribe.
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
    """What became of the lines of a list: each is counted once. `bad_lines` are the first of the bad ones."""

    added: int
    known: int
    duplicates: int
    bad: int
    bad_lines: tuple[BadLine, ...]
