"""A sender: a workspace or one of its users, with attributes, a tier and possibly a throttle."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Literal
from unicodedata import normalize

from fairpost.model.reason import Reason


class Tier(IntEnum):
    HIGH = 2
    NORMAL = 1
    LOW = 0
    THROTTLED = -1


class Priority(StrEnum):
    """How tiers take effect: through weights or lanes."""

    WEIGHTS = "weights"  # a sender with twice the weight gets twice the capacity
    LANES = "lanes"  # each tier has a share of the capacity, regardless of how many senders it has


class AbuseMode(StrEnum):
    OFF = "off"
    OBSERVE = "observe"  # scored and reported, but not slowed down
    ENFORCE = "enforce"


RESERVED_USERS = ("key:", "login:", "person:")  # prefixes that identify the submitter of mail that does not name a user


def normalize_user(name: str) -> str:
    """Normalize a user's name. The result always matches the database's result for ASCII names, and almost always for
    other names; sql/base/users.sql is authoritative.
    """
    return normalize("NFKC", normalize("NFKC", name).casefold()).strip()


NodeLevel = Literal["workspace", "domain", "user", "stream"]  # levels of the tree that determines the release order


class SenderLevel(StrEnum):
    WORKSPACE = "workspace"
    USER = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderId:
    """The ID of a sender. `name` is empty for a workspace."""

    workspace: str
    level: SenderLevel = SenderLevel.USER
    name: str = ""

    def __str__(self) -> str:
        if self.level is SenderLevel.WORKSPACE:
            return f"workspace {self.workspace}"
        return f"user {self.name or '(none)'} in workspace {self.workspace}"


@dataclass(frozen=True, slots=True)
class Throttle:
    """A throttle. The sender's mail is held until `until`. The sender then gets the weight of the lowest tier."""

    since: datetime
    until: datetime

    def holds(self, now: datetime) -> bool:
        return now < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    volume: int = 0  # e-mails that became due, regardless of their outcome
    sent: int = 0
    bounced: int = 0  # hard bounces
    rejected: int = 0  # refused because of their content, a policy or the sender

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            volume=self.volume + other.volume,
            sent=self.sent + other.sent,
            bounced=self.bounced + other.bounced,
            rejected=self.rejected + other.rejected,
        )

    @property
    def total(self) -> int:
        """The base for rates: usually the volume, but higher while outcomes from an older backlog are still arriving."""
        return max(self.volume, self.sent + self.bounced + self.rejected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """A sender. The sender's age is counted from `since`; if that is None, the sender does not count as young.
    `throttle` was set automatically or manually and is enforced only if `is_enforced` is true. `immune_until` is set
    when a throttle is lifted manually. The scorer does not throttle the sender again before that time.
    """

    id: SenderId
    plan: str | None = None
    since: datetime | None = None
    tier: Tier = Tier.NORMAL
    look_at: datetime | None = None  # when to check the tier and score again
    throttle: Throttle | None = None
    is_enforced: bool = False
    is_by_hand: bool = False
    immune_until: datetime | None = None
    score: int = 0
    confidence: float = 0.0
    reasons: tuple[Reason, ...] = field(default=())
    scored_at: datetime | None = None
    daily_max: int | None = None  # limit on the e-mails that this user submits, by whatever route
    waiting_max: int | None = None
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """How an installation shares its capacity. Weights and shares are in the order throttled, low, normal, high."""

    share: int = 100  # percentage of workspaces in the fair queue; other mail is released in chronological order
    has_lanes: bool = False
    weights: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0)
    shares: tuple[int, ...] = (5, 15, 40, 40)
    is_scoring: bool = True
    queue_max: int = 1_000_000
    plans: str = ""  # which plans are paid and which are free; if this changes, all senders with a plan are checked
