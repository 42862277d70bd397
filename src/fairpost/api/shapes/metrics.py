"""A workspace's metrics."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import Moment, ResponseModel
from fairpost.model.states import EmailClass
from fairpost.observe.queue import READY_MAX

Ready = Annotated[
    int,
    Field(description=f"How many of the waiting e-mails are due. {READY_MAX:,} means at least {READY_MAX:,}."),
]
OldestWait = Annotated[
    float | None, Field(description="How long the oldest e-mail has been due, including held e-mails.")
]


class Outcomes(ResponseModel):
    """Counts of outcomes. Only whole hours are counted, so `since` is the start of an hour."""

    since: Moment
    sent: int
    bounced: Annotated[int, Field(description="Number of hard bounces.")]
    rejected: Annotated[
        int,
        Field(description="Number of e-mails that servers rejected because of their content, a policy or the sender."),
    ]
    failed: Annotated[int, Field(description="Number of failed e-mails among the 10,000 newest.")]


class Counts(ResponseModel):
    waiting: Annotated[int, Field(description="Number of e-mails that are scheduled or ready.")]
    ready: Ready
    scheduled: Annotated[
        int | None,
        Field(description="Number of waiting e-mails that are not due yet. Null if `ready` has reached its maximum."),
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
    gini: Annotated[
        float,
        Field(
            description="The Gini coefficient: 0 if all users have the same share, and 1 if one user has everything."
        ),
    ]
    jain: Annotated[
        float,
        Field(
            description="Jain's index: 1 if all users have the same share, and 1/n if one of n users has everything."
        ),
    ]
    largest_share: float


class WaitingOut(ResponseModel):
    emails: int
    users: Evenness
    top_users: list[Portion]
    top_domains: list[Portion]


class ServedCounts(ResponseModel):
    """Number of e-mails sent, bounced or rejected. `hours` lists the hours from the oldest to the current one."""

    emails: int
    sent: int
    bounced: int
    rejected: int
    per_hour: float
    hours: list[int]
    users: Evenness


class ServedOut(ServedCounts):
    top_users: list[Portion]


class Waits(ResponseModel):
    """Waiting times in seconds, from when an e-mail is due until sending starts."""

    count: int
    mean_s: float
    p50_s: float
    p99_s: float


class Throttled(ResponseModel):
    """Counts throttled users and held senders. `stopped` counts throttled users whose e-mails are currently not sent at
    all."""

    throttled: int
    stopped: int
    held: int


class FairnessOut(ResponseModel):
    now: Moment
    since: Moment
    waiting: WaitingOut
    served: ServedOut
    waits: Annotated[
        Waits | None,
        Field(
            description="Waiting times of e-mails sent through the workspace's own accounts. Null if those accounts sent nothing."
        ),
    ]
    throttling: Throttled
