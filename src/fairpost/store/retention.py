"""Drop old history month by month, and create partitions for the months ahead. Each step is a separate commit.

sql/forget/retention.sql defines which months may be dropped. If the tables are locked, these functions raise
LockNotAvailableError and the caller tries again later, so that no other transaction has to wait.
"""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING

from fairpost.model.retention import DroppedMonth, OldMonth
from fairpost.system import clock

if TYPE_CHECKING:
    from fairpost.store.store import Store

ROWS_AT_ONCE = 10_000
STRAYS_AT_ONCE = 1_000


async def prepare_months(store: "Store") -> None:
    """Create the partitions for this month and the next two."""
    await store.value("SELECT fairpost.prepare_months($1)", clock.stated())


async def old_months(store: "Store", *, before: datetime) -> list[OldMonth]:
    """Return the months that ended before the given time, oldest first."""
    rows = await store.fetch(
        """SELECT h.month, h.partitions, h.bytes, fairpost.why_kept(h.low, h.high, $1) AS kept
           FROM fairpost.months_of_history() h WHERE h.high <= fairpost.first_id_at($1) ORDER BY h.month""",
        before,
    )
    return [OldMonth(**{**row, "partitions": tuple(row["partitions"])}) for row in rows]


async def drop_months(store: "Store", *, before: datetime) -> AsyncIterator[DroppedMonth]:
    while (month := await drop_month(store, before=before)) is not None:
        yield month


async def drop_month(store: "Store", *, before: datetime) -> DroppedMonth | None:
    """Drop the oldest month that may be dropped. Return None if no month may be dropped."""
    row = await store.in_bulk().row("SELECT * FROM fairpost.drop_history($1, $2)", before, clock.stated())
    if row["month"] is None:
        return None
    return DroppedMonth(**{**row, "partitions": tuple(row["partitions"])})


async def drop_event_days(store: "Store", *, before: datetime) -> int:
    """Drop the events from all complete days before the given time. Return the number of days dropped."""
    days: int = await store.in_bulk().value("SELECT fairpost.drop_event_days($1, $2)", before, clock.stated())
    return days


async def drop_rows(store: "Store", *, before: datetime) -> None:
    """Drop old data that is not partitioned by month: the log, mail in the development inbox, and rows that belong to
    no monthly partition.
    """
    store = store.in_bulk()
    while await store.value("SELECT fairpost.drop_events($1, $2)", before, ROWS_AT_ONCE) >= ROWS_AT_ONCE:
        pass
    while await store.value("SELECT fairpost.sweep_rest($1, $2)", before, STRAYS_AT_ONCE) >= STRAYS_AT_ONCE:
        pass
