"""A campaign: its content, recipients and progress."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from fairpost.model.mailbox import HeaderFields
from fairpost.model.reason import Reason
from fairpost.model.window import Quota, SendingWindow


class CampaignState(StrEnum):
    DRAFT = "draft"
    SCHEDULED = "scheduled"  # launched, to start later
    RUNNING = "running"  # sending, or waiting for something that ends automatically
    PAUSED = "paused"
    COMPLETED = "completed"  # ended, so it cannot be continued
    FAILED = "failed"  # cannot continue without manual action
    CANCELLED = "cancelled"


class ReplyStops(StrEnum):
    """Who receives no further steps of a campaign after a prospect replies."""

    PERSON = "person"
    COMPANY = "company"


CAMPAIGN_TIMES = ("created_at", "starts_at", "launched_at", "planned_at", "finished_at")
IS_OVER = frozenset({CampaignState.COMPLETED, CampaignState.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A random pause before an e-mail, between two values in seconds."""

    min_s: float
    max_s: float


HUMAN_GAP = Gap(min_s=30, max_s=90)  # default for a sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a sequence. `delay_s` counts from the time at which the previous step was sent; the first step has no
    delay. With `own_subject`, a follow-up has its own subject instead of the first step's. Gmail does not show such a
    follow-up in the thread.
    """

    template: str
    delay_s: int = 0
    own_subject: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a workspace sends campaign mail, and how much. Local days are in the time zone `timezone`, which the window
    also uses.
    """

    timezone: str = "UTC"
    window: SendingWindow | None = None  # None: at any time
    quota: Quota = field(default_factory=Quota)


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    id: int
    workspace: str
    name: str
    state: CampaignState
    reason: Reason | None  # why the campaign is in this state, if that needs explaining
    sequence: str
    sequence_id: int
    steps: tuple[Step, ...]
    lists: tuple[str, ...]
    route: str  # a pool of accounts, or @ followed by one account
    gap: Gap | None
    has_footer: bool  # an unsubscribe line is added if a template has none
    by_recipients_clock: bool  # for prospects with a time zone, the window uses their local time
    user: str
    labels: Mapping[str, Any]  # for the campaign's e-mails: type, tags, metadata
    header_fields: HeaderFields  # for the campaign's e-mails; these take precedence over the template's
    created_at: datetime
    starts_at: datetime | None
    launched_at: datetime | None
    planned_at: datetime | None  # when all prospects on its lists had been planned
    finished_at: datetime | None
