"""History that is old enough goes, month by month; and the months to come are made. Each step is a commit of its own.

Which month may go is said in sql/forget/retention.sql. Whoever cannot have the tables at once gets LockNotAvailableError
and tries again later: nobody else is to wait for us.
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
    """This month and the two that follow have their partitions."""
    await store.value("SELECT fairpost.prepare_months($1)", clock.stated())


async def old_months(store: "Store", *, before: datetime) -> list[OldMonth]:
    """Those that lie before the moment as a whole, the oldest first."""
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
    """The oldest that may go. None: there is none."""
    row = await store.row("SELECT * FROM fairpost.drop_history($1, $2)", before, clock.stated())
    if row["month"] is None:
        return None
    return DroppedMonth(**{**row, "partitions": tuple(row["partitions"])})


async def drop_rows(store: "Store", *, before: datetime) -> None:
    """What is not kept by the month: events, mails of the development inbox, and strays in no month."""
    while await store.value("SELECT fairpost.drop_events($1, $2)", before, ROWS_AT_ONCE) >= ROWS_AT_ONCE:
        pass
    while await store.value("SELECT fairpost.sweep_rest($1, $2)", before, STRAYS_AT_ONCE) >= STRAYS_AT_ONCE:
        pass
