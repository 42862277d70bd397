"""A campaign: what is sent, to whom, and how far it has come."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from fairpost.model.reason import Reason
from fairpost.model.window import Quota, SendingWindow


class CampaignState(StrEnum):
    DRAFT = "draft"
    SCHEDULED = "scheduled"  # launched, for a moment still to come
    RUNNING = "running"  # sending, or waiting for something that comes by itself
    PAUSED = "paused"
    COMPLETED = "completed"  # nothing is left that could move by itself
    FAILED = "failed"  # it cannot go on unless a person does something
    CANCELLED = "cancelled"


IS_OVER = frozenset({CampaignState.COMPLETED, CampaignState.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The pause of an account before an e-mail: random, in seconds, between the two."""

    min_s: float
    max_s: float


HUMAN_GAP = Gap(min_s=30, max_s=90)  # what a sequence has unless somebody says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`delay_s` counts from the moment at which the step before it was really sent; the first has none. `own_subject`: a follow-up
    with another subject than the first step's, which leaves the thread in Gmail."""

    template: str
    delay_s: int = 0
    own_subject: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When and how much a workspace sends in campaigns. Local days are those of `timezone`, which is the window's, too."""

    timezone: str = "UTC"
    window: SendingWindow | None = None  # None: at any time
    quota: Quota = field(default_factory=Quota)


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    id: int
    workspace: str
    name: str
    state: CampaignState
    reason: Reason | None  # why it is in this state, where that needs a word
    sequence: str
    sequence_id: int
    steps: tuple[Step, ...]
    lists: tuple[str, ...]
    route: str  # a pool of accounts, or @ and one account
    gap: Gap | None
    by_recipients_clock: bool  # the window is read on the clock of each prospect who has a timezone
    user: str
    created_at: datetime
    starts_at: datetime | None
    launched_at: datetime | None
    planned_at: datetime | None  # when every prospect of its lists had its e-mails
    finished_at: datetime | None
