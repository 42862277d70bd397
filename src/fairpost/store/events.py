"""Read events by cursor, in commit order. sql/events/ explains how positions are assigned."""

import json
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import asyncpg

from fairpost.model.errors import Refusal
from fairpost.model.event import Event, EventPage
from fairpost.model.ids import EmailId

if TYPE_CHECKING:
    from fairpost.store.store import Store

PAGE_MAX = 1000
_DROPPED = "FP007"
_WRONG = "FP001"


_OF_EMAIL = """
    SELECT '' AS cursor, o.id, o.at, o.kind, o.workspace, o.email_id, a.name AS account, c.name AS campaign, o.subject, o.address, o.reason, o.params
    FROM fairpost.outbox o LEFT JOIN fairpost.accounts a ON a.id = o.account_id LEFT JOIN fairpost.campaigns c ON c.id = o.campaign_id
    WHERE o.email_id = $1 ORDER BY o.id"""


async def take_turn(store: "Store") -> int | None:
    """Assign positions to new events in one commit, which makes the events readable. Return the number of events.

    Return None if another process is already doing so.
    """
    taken: int | None = await store.value("SELECT fairpost.take_turn()")
    return taken


async def log_entries(store: "Store", workspace: str, *, before: int, kind: str | None, most: int) -> list[Any]:
    """Return a workspace's log, newest entries first."""
    return await store.fetch(
        """SELECT e.id, e.at, e.kind, e.subject, e.detail FROM fairpost.events e
           WHERE e.workspace = $1 AND e.id < $2 AND ($3::text IS NULL OR e.kind = $3) ORDER BY e.id DESC LIMIT $4""",
        *(workspace, before, kind, most),
    )


async def events_after(
    store: "Store",
    cursor: str | None,
    *,
    most: int = PAGE_MAX,
    workspace: str | None = None,
    kinds: Sequence[str] | None = None,
) -> EventPage:
    """Return the next page. Without a cursor, the page starts with the oldest available event.

    If `workspace` is None, the page covers all workspaces and the operator. Raises Refusal if events after the cursor
    were dropped or if the cursor does not belong to this database.
    """
    sql = "SELECT * FROM fairpost.events_after($1, $2, $3, $4)"
    most = min(most, PAGE_MAX)
    try:
        rows = await store.fetch(sql, cursor, most, workspace, None if kinds is None else list(kinds))
    except asyncpg.PostgresError as error:
        if error.sqlstate == _DROPPED:
            raise Refusal("events.cursor_expired") from None
        if error.sqlstate == _WRONG:
            raise Refusal("events.cursor_unknown") from None
        raise
    events = tuple(event_of(row) for row in rows if row["id"] is not None)
    return EventPage(events=events, cursor=rows[-1]["cursor"] if rows else cursor, is_end=not rows)


async def events_end(store: "Store") -> str:
    """Return the cursor after the newest event."""
    end: str = await store.value("SELECT fairpost.events_end()")
    return end


async def events_tail(store: "Store", n: int) -> str:
    """Return a cursor that precedes the newest `n` events, or slightly more events."""
    cursor: str = await store.value("SELECT fairpost.events_tail($1)", n)
    return cursor


async def events_since(store: "Store", moment: datetime) -> str:
    """Return a cursor that precedes the first event since the given time."""
    cursor: str = await store.value("SELECT fairpost.events_cursor_at($1)", moment)
    return cursor


async def events_of_email(store: "Store", email_id: EmailId) -> list[Event]:
    """Return all stored events of one e-mail, oldest first. These events have no cursors."""
    rows = await store.fetch(_OF_EMAIL, email_id)
    return [event_of({**dict(row), **dict.fromkeys(("recipients", "type", "tags", "metadata"))}) for row in rows]


async def all_events(
    store: "Store",
    cursor: str | None = None,
    *,
    workspace: str | None = None,
    kinds: Sequence[str] | None = None,
) -> AsyncIterator[Event]:
    """Yield all events after the cursor, page by page."""
    while True:
        page = await events_after(store, cursor, workspace=workspace, kinds=kinds)
        for event in page.events:
            yield event
        if page.is_end:
            return
        cursor = page.cursor


def event_of(row: Any) -> Event:
    return Event(
        **{
            **dict(row),
            "recipients": tuple(row["recipients"] or ()),
            **{name: json.loads(row[name] or "{}") for name in ("tags", "metadata", "params")},
        }
    )
