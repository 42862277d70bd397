"""Metrics of a workspace."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import Moment, ResponseModel
from fairpost.model.states import EmailClass
from fairpost.observe.queue import READY_MAX

Ready = Annotated[
    int,
    Field(description=f"How many of the waiting e-mails are due. {READY_MAX:,} means that many or more."),
]
OldestWait = Annotated[float | None, Field(description="How long the oldest has been due, including held mail.")]


class Outcomes(ResponseModel):
    """Counts of outcomes. Whole hours are counted, so `since` is the start of one."""

    since: Moment
    sent: int
    bounced: Annotated[int, Field(description="Hard bounces.")]
    rejected: Annotated[int, Field(description="Rejected by servers because of content, a policy or the sender.")]
    failed: Annotated[int, Field(description="Failed, among the 10,000 newest e-mails.")]


class Counts(ResponseModel):
    waiting: Annotated[int, Field(description="Scheduled or ready.")]
    ready: Ready
    scheduled: Annotated[
        int | None, Field(description="Waiting and not due yet. Null if `ready` has reached its maximum.")
    ]
    claimed: int
    sending: int
    in_doubt: int
    oldest_wait_s: OldestWait


class ClassCounts(Counts):
    email_class: Annotated[EmailClass, Field(serialization_alias="class")]


class QueueOut(Counts):
    now: Moment
    classes: list[ClassCounts]
    last_hour: Outcomes
    last_day: Outcomes


class Portion(ResponseModel):
    """One user's share of the workspace's total."""

    name: str
    emails: int
    share: float


class Evenness(ResponseModel):
    senders: int
    emails: int
    gini: Annotated[float, Field(description="0 means that all have the same; 1 means that one has everything.")]
    jain: Annotated[float, Field(description="1 means that all have the same; 1/n means that one of n has everything.")]
    largest_share: float


class WaitingOut(ResponseModel):
    emails: int
    users: Evenness
    top_users: list[Portion]
    top_domains: list[Portion]


class ServedOut(ResponseModel):
    """E-mails sent, bounced or rejected. `hours` runs from the oldest hour to the current one."""

    emails: int
    sent: int
    bounced: int
    rejected: int
    per_hour: float
    hours: list[int]
    users: Evenness
    top_users: list[Portion]


class Waits(ResponseModel):
    """Waiting times in seconds, from due to started."""

    count: int
    mean_s: float
    p50_s: float
    p99_s: float


class Throttled(ResponseModel):
    """The number of users that are stopped now, and of senders that are held."""

    throttled: int
    stopped: int
    held: int


class FairnessOut(ResponseModel):
    now: Moment
    since: Moment
    waiting: WaitingOut
    served: ServedOut
    waits: Annotated[Waits | None, Field(description="For the workspace's own accounts. Null if they sent nothing.")]
    throttling: Throttled
