"""Reads the part of the queue that one workspace may see. The cost depends on the number of its senders, not on the
number of its e-mails.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fairpost.model.states import EmailClass
from fairpost.store.outcomes import own_outcomes
from fairpost.store.store import Store
from fairpost.store.waiting import own_queue

READY_MAX = 10_000  # maximum per class, because e-mails are counted one by one
FAILED_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassQueue:
    """The queue of one class. `waiting` counts all e-mails that are scheduled or ready.

    `ready` counts at most 10,000 e-mails. `oldest_at` is when the oldest e-mail became due.
    """

    email_class: EmailClass
    waiting: int
    ready: int
    oldest_at: datetime | None
    claimed: int
    sending: int
    in_doubt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Results since `since`, which is the start of an hour.

    `bounced` and `rejected` count permanent rejections by servers.

    `failed` counts e-mails that Fairpost gave up on; only the newest 10,000 are examined.
    """

    since: datetime
    sent: int
    bounced: int
    rejected: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnQueue:
    now: datetime
    classes: tuple[ClassQueue, ...]
    last_hour: Outcomes
    last_day: Outcomes


async def read_queue(store: Store, workspace: str) -> OwnQueue:
    """Reads the queue with several queries, so it is not a consistent snapshot."""
    now = await store.now()
    rows = await own_queue(store, workspace, ready_max=READY_MAX, now=now)
    return OwnQueue(
        now=now,
        classes=tuple(ClassQueue(email_class=EmailClass(row["class"]), **_without_class(row)) for row in rows),
        last_hour=await _outcomes(store, workspace, now - timedelta(hours=1)),
        last_day=await _outcomes(store, workspace, now - timedelta(days=1)),
    )


async def _outcomes(store: Store, workspace: str, since: datetime) -> Outcomes:
    row = await own_outcomes(store, workspace, since, failed_max=FAILED_MAX)
    return Outcomes(**row)


def _without_class(row: Any) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "class"}
