"""The pause of everything: begun, ended, looked at."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from fairpost.store.reasons import with_reason

if TYPE_CHECKING:
    from fairpost.store.store import Store


async def pause_everything(store: "Store", *, reason: str, by: str, until: datetime | None) -> bool:
    """`reason`: in the words of who asks. Whether it was paused before. When this has been committed, nothing is begun any more."""
    sql = "SELECT fairpost.pause($1, $2, coalesce($3, 'infinity'::timestamptz))"
    return bool(await store.value(sql, reason, by, until))


async def resume_everything(store: "Store", *, by: str) -> dict[str, Any] | None:
    """The pause that has ended; None: nothing was paused. After a restore, the database is from now on what it is now."""
    ended = await store.row("SELECT * FROM fairpost.resume($1)", by)
    return with_reason(ended) if ended else None


async def pause_now(store: "Store", *, now: datetime | None = None) -> dict[str, Any] | None:
    """None: nothing is paused."""
    found = await store.row("SELECT * FROM fairpost.pause_now($1)", now)
    return with_reason(found) if found else None


async def pause_workspace(store: "Store", workspace: str, *, reason: str, until: datetime | None) -> bool:
    """Whether it was paused before. When this has been committed, nothing of it is begun any more."""
    sql = "SELECT fairpost.pause_workspace($1, $2, coalesce($3, 'infinity'::timestamptz))"
    return bool(await store.value(sql, workspace, reason, until))
