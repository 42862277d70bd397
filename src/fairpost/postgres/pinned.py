"""Mail that only one account may send, while that account is suspended: given up after a while, and brought back."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from fairpost.system import clock

if TYPE_CHECKING:
    from fairpost.postgres.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """Of a batch: how many wait again, and how many cannot while their account is suspended, or gone."""

    retried: int
    still_suspended: int


async def set_patience(store: "Store", *, urgent: timedelta, bulk: timedelta) -> None:
    sql = "UPDATE fairpost.patience SET urgent = $1, bulk = $2 WHERE (urgent, bulk) IS DISTINCT FROM ($1, $2)"
    await store.value(sql, urgent, bulk)


async def give_up(store: "Store", *, most: int) -> int:
    """How many."""
    return int(await store.value("SELECT fairpost.give_up_pinned($1, $2)", most, clock.stated()))


async def retry_failed(
    store: "Store", reason: str, *, workspace: str | None, account: str | None, is_dry: bool, at_once: int
) -> AsyncIterator[Retried]:
    """All that failed for this reason, a batch in each commit. With `is_dry`, nothing is changed."""
    found = await store.fetch("SELECT w FROM fairpost.workspaces_with_failed() w")
    route = f"@{account}" if account is not None else None
    for whose in [row["w"] for row in found] if workspace is None else [workspace]:
        after: int | None = 0
        while after is not None:
            row = await store.row(
                "SELECT * FROM fairpost.retry_failed($1, $2, $3, $4, $5, $6, $7)",
                *(whose, reason, route, after, at_once, is_dry, clock.stated()),
            )
            after = row["last"]
            yield Retried(retried=row["retried"], still_suspended=row["still_suspended"])
