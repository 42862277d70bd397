"""Query e-mail status over the caller's own connection, inside its transaction.

The database returns only e-mails from workspaces that the connection's login may access (sql/observe/status.sql). This
module converts the database's JSON to Python values.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, assert_never, overload

from fairpost.accept.drivers import AsyncConnection, AsyncLink, Row, SyncConnection, SyncLink, link_to, statement
from fairpost.model.email_fields import tags_of

T = TypeVar("T")

# Passes one string in and gets one string out, so the caller's codecs have no effect.
_STATUS = statement("""
SELECT CAST(to_jsonb(s) AS text) FROM fairpost.status(CAST(CAST({} AS text) AS bigint)) s WHERE s.state IS NOT NULL
""")
_FIND = statement("""
SELECT CAST(to_jsonb(f) AS text)
FROM (SELECT CAST(CAST({} AS text) AS jsonb) AS given) g
CROSS JOIN LATERAL fairpost.find(g.given ->> 'name', g.given ->> 'value', g.given ->> 'workspace',
    CAST(g.given ->> 'limit' AS integer), CAST(g.given ->> 'before' AS bigint)) f
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailStatus:
    """The status of one e-mail. See docs/enqueue.md for the fields."""

    id: int
    state: str
    attempts: int
    due_at: datetime | None
    finished_at: datetime | None
    reason: str | None
    reason_params: Mapping[str, Any] = field(default_factory=dict)
    waits_for: str | None
    waits_until: datetime | None
    code: int | None
    reply: str | None
    type: str | None
    tags: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@overload
def status(conn: AsyncConnection, id: int) -> Awaitable[EmailStatus | None]: ...
@overload
def status(conn: SyncConnection, id: int) -> EmailStatus | None: ...
def status(
    conn: SyncConnection | AsyncConnection,
    id: int,  # noqa: A002
) -> EmailStatus | Awaitable[EmailStatus | None] | None:
    """Return an e-mail's status. Await the result if `conn` is asynchronous.

    Return None if the workspaces that this connection may access have no e-mail with this ID.
    """
    number = int(id) if 0 < int(id) < 2**63 else 0
    return _asked(link_to(conn, _STATUS), str(number), lambda rows: _read(rows[0], id=number) if rows else None)


@overload
def find(
    conn: AsyncConnection, *, tag: str, workspace: str | None = None, limit: int = 50, before: int | None = None
) -> Awaitable[list[EmailStatus]]: ...
@overload
def find(
    conn: SyncConnection, *, tag: str, workspace: str | None = None, limit: int = 50, before: int | None = None
) -> list[EmailStatus]: ...
def find(
    conn: SyncConnection | AsyncConnection,
    *,
    tag: str,
    workspace: str | None = None,
    limit: int = 50,
    before: int | None = None,
) -> list[EmailStatus] | Awaitable[list[EmailStatus]]:
    """Return the newest e-mails that have the given tag (`name=value`), at most 1,000. Pass the last result's ID as
    `before` to get the next page. Raise ValueError for an invalid tag.
    """
    ((name, value),) = tags_of([tag]).items()
    given = {"name": name, "value": value, "workspace": workspace, "limit": limit, "before": before}
    text = json.dumps(given, ensure_ascii=False)
    text.encode()
    if r"\u0000" in text:
        raise ValueError("must not contain NUL characters")
    return _asked(link_to(conn, _FIND), text, lambda rows: [_read(row) for row in rows])


def _asked(link: SyncLink | AsyncLink, given: str, read: Callable[[Sequence[Row]], T]) -> T | Awaitable[T]:
    match link:
        case SyncLink():
            return read(link.call(given))
        case AsyncLink():
            return _awaited(link, given, read)
        case _:
            assert_never(link)


async def _awaited(link: AsyncLink, given: str, read: Callable[[Sequence[Row]], T]) -> T:
    return read(await link.call(given))


def _read(row: Row, **more: Any) -> EmailStatus:
    found: dict[str, Any] = {**json.loads(row[0]), **more}
    for name in ("due_at", "finished_at", "waits_until"):
        found[name] = datetime.fromisoformat(found[name]) if found[name] else None
    for name in ("reason_params", "tags", "metadata"):
        found[name] = found[name] or {}
    return EmailStatus(**found)
