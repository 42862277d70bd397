"""Begin, end and read the global pause."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from fairpost.store.reasons import with_reason

if TYPE_CHECKING:
    from fairpost.store.store import Store


async def pause_everything(store: "Store", *, reason: str, by: str, until: datetime | None) -> bool:
    """Pause all sending. Return whether sending was already paused. `reason` is free text from the caller.

    After the commit, no engine begins another send.
    """
    sql = "SELECT fairpost.pause($1, $2, coalesce($3, 'infinity'::timestamptz))"
    return bool(await store.value(sql, reason, by, until))


async def resume_everything(store: "Store", *, by: str) -> dict[str, Any] | None:
    """Resume all sending. Return the pause that ended, or None if nothing was paused.

    After a restore, this accepts the database as it is.
    """
    ended = await store.row("SELECT * FROM fairpost.resume($1)", by)
    return with_reason(ended) if ended else None


async def pause_now(store: "Store", *, now: datetime | None = None) -> dict[str, Any] | None:
    """Return the current pause, or None if nothing is paused."""
    found = await store.row("SELECT * FROM fairpost.pause_now($1)", now)
    return with_reason(found) if found else None


async def pause_workspace(store: "Store", workspace: str, *, reason: str, until: datetime | None) -> bool:
    """Pause a workspace.

    Return whether the workspace was already paused. After the commit, no engine begins to send another of its e-mails.
    """
    sql = "SELECT fairpost.pause_workspace($1, $2, coalesce($3, 'infinity'::timestamptz))"
    return bool(await store.value(sql, workspace, reason, until))
