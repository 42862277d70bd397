"""Who sends: a workspace or one of its users, with what is known of them and what follows from it."""

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
    """How tiers work: by weights or by lanes."""

    WEIGHTS = "weights"  # who has twice the weight gets twice as much
    LANES = "lanes"  # each tier has its share of the capacity, however many are in it


class AbuseMode(StrEnum):
    OFF = "off"
    OBSERVE = "observe"  # scored and reported, but nobody is slowed down
    ENFORCE = "enforce"


RESERVED_USERS = ("key:", "login:", "person:")  # of mail that names no user: whoever hands it in


def normalize_user(name: str) -> str:
    """As the database folds names in ASCII, and nearly so all others (sql/base/users.sql has the last word)."""
    return normalize("NFKC", normalize("NFKC", name).casefold()).strip()


NodeLevel = Literal["workspace", "domain", "user", "stream"]  # of the tree by which mail is released


class SenderLevel(StrEnum):
    WORKSPACE = "workspace"
    USER = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderId:
    """`name` of a workspace is empty: there is one."""

    workspace: str
    level: SenderLevel = SenderLevel.USER
    name: str = ""

    def __str__(self) -> str:
        if self.level is SenderLevel.WORKSPACE:
            return f"workspace {self.workspace}"
        return f"user {self.name or '(none)'} of workspace {self.workspace}"


@dataclass(frozen=True, slots=True)
class Throttle:
    """Nothing of the sender goes out before `until`. After that, what goes out has the weight of the lowest tier."""

    since: datetime
    until: datetime

    def holds(self, now: datetime) -> bool:
        return now < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    volume: int = 0  # e-mails that became due, whatever became of them
    sent: int = 0
    bounced: int = 0  # hard bounces
    rejected: int = 0  # refused for their content, a policy or the sender

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            volume=self.volume + other.volume,
            sent=self.sent + other.sent,
            bounced=self.bounced + other.bounced,
            rejected=self.rejected + other.rejected,
        )

    @property
    def total(self) -> int:
        """What rates refer to. Usually the volume; more where the outcomes of an older backlog come in now."""
        return max(self.volume, self.sent + self.bounced + self.rejected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """`since`: how old the account is counts from here; None: nobody said, and so it is not young.

    `throttle`: what was decided or imposed, also where it is only observed; `is_enforced` says whether it counts.
    `immune_until`: somebody lifted a throttle, and the scorer does not put it back before this moment.
    """

    id: SenderId
    plan: str | None = None
    since: datetime | None = None
    tier: Tier = Tier.NORMAL
    look_at: datetime | None = None  # when tier and score are to be looked at again
    throttle: Throttle | None = None
    is_enforced: bool = False
    is_by_hand: bool = False
    immune_until: datetime | None = None
    score: int = 0
    confidence: float = 0.0
    reasons: tuple[Reason, ...] = field(default=())
    scored_at: datetime | None = None
    daily_max: int | None = None  # of what this user hands in, on any way
    waiting_max: int | None = None
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """How mail is shared out in an installation. Weights and shares: throttled, low, normal, high."""

    share: int = 100  # percent of the workspaces in the fair queue; the others are served in the order of time
    has_lanes: bool = False
    weights: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0)
    shares: tuple[int, ...] = (5, 15, 40, 40)
    is_scoring: bool = True
    queue_max: int = 1_000_000
    plans: str = ""  # which are paid and which are free: when that changes, everybody with a plan is looked at
