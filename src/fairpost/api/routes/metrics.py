"""Figures of a workspace: its queue, and how its users share what it gets. Nothing in them tells of others."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from fairpost.api.access import Reads
from fairpost.api.answers import Answer, Moment, ResponseModel, as_dict, failures
from fairpost.model.states import EmailClass
from fairpost.observe import fairness
from fairpost.observe.queue import READY_MAX, ClassQueue, read_queue

TAG = {"name": "metrics", "description": "Figures of the workspace."}
router = APIRouter(prefix="/api/metrics", tags=["metrics"])

Ready = Annotated[
    int,
    Field(description=f"Of those waiting, due now. Counted up to {READY_MAX:,}: that number means so many or more."),
]
OldestWait = Annotated[float | None, Field(description="How long the oldest has been due, held or not.")]


class Outcomes(ResponseModel):
    """Hours count whole: `since` is the beginning of one."""

    since: Moment
    sent: int
    bounced: Annotated[int, Field(description="Hard bounces.")]
    rejected: Annotated[int, Field(description="Refused by servers for content, a policy or the sender.")]
    failed: Annotated[int, Field(description="Given up; counted among the 10,000 newest.")]


class Counts(ResponseModel):
    waiting: Annotated[int, Field(description="Scheduled or ready.")]
    ready: Ready
    scheduled: Annotated[
        int | None, Field(description="Waiting, and not due yet; null where `ready` stopped counting.")
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
    """`share` is of all that the workspace has here."""

    name: str
    emails: int
    share: float


class Evenness(ResponseModel):
    senders: int
    emails: int
    gini: Annotated[float, Field(description="0: all have the same; towards 1: one has everything.")]
    jain: Annotated[float, Field(description="1: all have the same; 1/n: one of n has everything.")]
    largest_share: float


class WaitingOut(ResponseModel):
    emails: int
    users: Evenness
    top_users: list[Portion]
    top_domains: list[Portion]


class ServedOut(ResponseModel):
    """What was sent, bounced or rejected; `hours` from the oldest to the one that runs."""

    emails: int
    sent: int
    bounced: int
    rejected: int
    per_hour: float
    hours: list[int]
    users: Evenness
    top_users: list[Portion]


class Waits(ResponseModel):
    """In seconds, from due to begun."""

    count: int
    mean_s: float
    p50_s: float
    p99_s: float


class Throttled(ResponseModel):
    """How many users nothing goes out of now, and how many names are held."""

    throttled: int
    stopped: int
    held: int


class FairnessOut(ResponseModel):
    now: Moment
    since: Moment
    waiting: WaitingOut
    served: ServedOut
    waits: Annotated[
        Waits | None, Field(description="Of what went through the workspace's own accounts; null where nothing did.")
    ]
    throttling: Throttled


@router.get("/queue", summary="What waits, what is in hand, and what became of the last", responses=failures())
async def queue(caller: Reads) -> Answer[QueueOut]:
    found = await read_queue(caller.store, caller.workspace)
    classes = [ClassCounts(email_class=each.email_class, **_counts([each], found.now)) for each in found.classes]
    return Answer(
        data=QueueOut(
            **_counts(found.classes, found.now),
            now=found.now,
            classes=classes,
            last_hour=Outcomes.model_validate(found.last_hour),
            last_day=Outcomes.model_validate(found.last_day),
        )
    )


@router.get("/fairness", summary="How the workspace's users share what it gets", responses=failures())
async def shares(
    caller: Reads, hours: Annotated[int, Query(ge=1, le=24, description="How far back.")] = 24
) -> Answer[FairnessOut]:
    share = await fairness.read_share(caller.store, caller.workspace, window=timedelta(hours=hours))
    return Answer(
        data=FairnessOut(
            now=share.now,
            since=share.since,
            waiting=WaitingOut.model_validate(share.waiting),
            served=ServedOut.model_validate({**as_dict(share.served), "top_users": share.served_users}),
            waits=Waits.model_validate(share.waits) if share.waits is not None else None,
            throttling=Throttled.model_validate(share.throttling),
        )
    )


def _counts(classes: Sequence[ClassQueue], now: datetime) -> dict[str, Any]:
    waiting, ready = sum(each.waiting for each in classes), sum(each.ready for each in classes)
    oldest = min((each.oldest_at for each in classes if each.oldest_at is not None), default=None)
    is_whole = all(each.ready < READY_MAX for each in classes)
    return {
        "waiting": waiting,
        "ready": ready,
        "scheduled": max(0, waiting - ready) if is_whole else None,
        "claimed": sum(each.claimed for each in classes),
        "sending": sum(each.sending for each in classes),
        "in_doubt": sum(each.in_doubt for each in classes),
        "oldest_wait_s": max(0.0, (now - oldest).total_seconds()) if oldest is not None else None,
    }
