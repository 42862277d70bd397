"""Read events over the caller's own connection. The database returns only events from workspaces that the connection's
login may access (sql/events/read.sql).
"""

import json
from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Any, overload

from fairpost.accept.drivers import (
    AsyncConnection,
    AsyncLink,
    Row,
    SyncConnection,
    SyncLink,
    codes_of,
    link_to,
    statement,
)
from fairpost.model.errors import CursorExpired
from fairpost.model.event import Event, EventPage

_DROPPED = "FP007"

# Passes one string in and gets one string out, so the caller's codecs have no effect.
_EVENTS = statement("""
SELECT CAST(to_jsonb(e) AS text)
FROM (SELECT CAST(CAST({} AS text) AS jsonb) AS given) g
CROSS JOIN LATERAL fairpost.events_after(g.given ->> 'after', CAST(g.given ->> 'limit' AS integer), g.given ->> 'workspace',
    CASE WHEN g.given ->> 'kinds' IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(g.given -> 'kinds')) END) e
""")


@overload
def events(
    conn: AsyncConnection,
    *,
    after: str | None = None,
    limit: int = 100,
    workspace: str | None = None,
    kinds: Sequence[str] | None = None,
) -> Awaitable[EventPage]: ...
@overload
def events(
    conn: SyncConnection,
    *,
    after: str | None = None,
    limit: int = 100,
    workspace: str | None = None,
    kinds: Sequence[str] | None = None,
) -> EventPage: ...
def events(
    conn: SyncConnection | AsyncConnection,
    *,
    after: str | None = None,
    limit: int = 100,
    workspace: str | None = None,
    kinds: Sequence[str] | None = None,
) -> EventPage | Awaitable[EventPage]:
    """Return at most 1,000 events that follow a cursor. Without a cursor, start at the oldest event still stored. Save
    the page's `cursor` in the transaction that handles its events, and pass the cursor to get the next page. Raise
    CursorExpired if events after the cursor were dropped. Await the result if `conn` is asynchronous.
    """
    given = {"after": after, "limit": limit, "workspace": workspace, "kinds": None if kinds is None else list(kinds)}
    text = json.dumps(given)
    if r"\u0000" in text:
        raise ValueError("must not contain NUL characters")
    link = link_to(conn, _EVENTS)
    if isinstance(link, AsyncLink):
        return _awaited(link, text, after)
    return _called(link, text, after)


def _called(link: SyncLink, given: str, after: str | None) -> EventPage:
    try:
        return _page(link.call(given), after)
    except Exception as error:
        _require_kept(error)
        raise


async def _awaited(link: AsyncLink, given: str, after: str | None) -> EventPage:
    try:
        return _page(await link.call(given), after)
    except Exception as error:
        _require_kept(error)
        raise


def _require_kept(error: Exception) -> None:
    if _DROPPED in codes_of(error):
        raise CursorExpired("Events after this cursor were dropped. Start again without a cursor.") from error


def _page(rows: Sequence[Row], after: str | None) -> EventPage:
    found: list[dict[str, Any]] = [json.loads(row[0]) for row in rows]
    told = tuple(_read(each) for each in found if each["id"] is not None)
    return EventPage(events=told, cursor=found[-1]["cursor"] if found else after, is_end=not found)


def _read(row: dict[str, Any]) -> Event:
    return Event(
        **{
            **row,
            "at": datetime.fromisoformat(row["at"]),
            "recipients": tuple(row["recipients"] or ()),
            **{name: row[name] or {} for name in ("tags", "metadata", "params")},
        }
    )
