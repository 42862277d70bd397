"""Fail and retry mail that is pinned to a suspended account and cannot be sent by any other account."""

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from fairpost.store.reasons import stored_forms
from fairpost.system import clock

if TYPE_CHECKING:
    from fairpost.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """The result of one batch:

    how many e-mails are waiting again, and how many could not be retried because their account is still suspended or is
    gone.
    """

    retried: int
    still_suspended: int
    last: int | None  # where the next batch starts, or None after the last batch


async def set_patience(store: "Store", *, urgent: timedelta, bulk: timedelta) -> None:
    sql = "UPDATE fairpost.patience SET urgent = $1, bulk = $2 WHERE (urgent, bulk) IS DISTINCT FROM ($1, $2)"
    await store.value(sql, urgent, bulk)


async def give_up(store: "Store", *, most: int) -> int:
    """Fail pinned mail that has waited too long. Return the number of e-mails that failed."""
    return int(await store.value("SELECT fairpost.give_up_pinned($1, $2)", most, clock.stated()))


async def workspaces_with_failed(store: "Store") -> list[str]:
    return [row["w"] for row in await store.fetch("SELECT w FROM fairpost.workspaces_with_failed() w")]


async def retry_failed(
    store: "Store", workspace: str, reason: str, *, account: str | None, after: int, is_dry: bool, most: int
) -> Retried:
    """Retry the next batch of e-mails that failed for this reason. With `is_dry`, nothing changes."""
    row = await store.row(
        "SELECT * FROM fairpost.retry_failed($1, $2, $3, $4, $5, $6, $7)",
        *(
            workspace,
            stored_forms(reason),
            f"@{account}" if account is not None else None,
            after,
            most,
            is_dry,
            clock.stated(),
        ),
    )
    return Retried(retried=row["retried"], still_suspended=row["still_suspended"], last=row["last"])
