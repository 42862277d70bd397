"""A workspace's metrics: the state of its queue, and each user's share."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import Query

from fairpost.api.access import Reads
from fairpost.api.answers import Answer, as_dict, failures
from fairpost.api.routing import Router
from fairpost.api.shapes.metrics import (
    ClassCounts,
    FairnessOut,
    Outcomes,
    QueueOut,
    ServedOut,
    Throttled,
    WaitingOut,
    Waits,
)
from fairpost.model.states import WITH_ACCOUNT
from fairpost.observe import fairness
from fairpost.observe.queue import READY_MAX, ClassQueue, read_queue

TAG = {"name": "metrics", "description": "Figures about the workspace's e-mails and users."}
router = Router(prefix="/v1/metrics", tags=["metrics"])


@router.get(
    "/queue", summary="Get counts of waiting e-mails, e-mails in progress and recent outcomes", responses=failures()
)
async def get_queue_metrics(caller: Reads) -> Answer[QueueOut]:
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


@router.get("/fairness", summary="Get each user's share of the workspace's capacity", responses=failures())
async def get_fairness_metrics(
    caller: Reads, hours: Annotated[int, Query(ge=1, le=24, description="Number of hours to include, up to now.")] = 24
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
        **{state: sum(getattr(each, state) for each in classes) for state in WITH_ACCOUNT},
        "oldest_wait_s": max(0.0, (now - oldest).total_seconds()) if oldest is not None else None,
    }
