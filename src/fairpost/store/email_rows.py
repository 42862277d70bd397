"""Reads e-mails from the queue and the history combined. None of these queries changes anything."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fairpost.model.ids import EmailId
from fairpost.store.database import Database

if TYPE_CHECKING:
    import asyncpg


async def list_emails(
    store: Database,
    *,
    workspace: str | None,
    states: Sequence[str] | None,
    before: EmailId | None,
    most: int,
    now: datetime | None,
) -> list[Any]:
    sql = "SELECT * FROM fairpost.list_emails($1, $2, $3, $4, $5)"
    return await store.fetch(sql, workspace, states, before, most, now)


async def list_by_ids(
    store: Database, ids: Collection[EmailId], *, workspace: str | None, now: datetime | None
) -> list[Any]:
    sql = "SELECT * FROM fairpost.list_emails($1, NULL, NULL, NULL, $2, $3)"
    return await store.fetch(sql, workspace, now, list(ids))


async def search_emails(
    store: Database,
    wanted: str,
    *,
    workspace: str | None,
    states: Sequence[str] | None,
    before: EmailId | None,
    most: int,
    now: datetime | None,
) -> Any:
    """Return the IDs of matching e-mails, and how far back the search looked. `wanted` is JSON."""
    sql = "SELECT * FROM fairpost.search_emails($1, $2, $3, $4, $5, $6)"
    return await store.row(sql, workspace, wanted, states, before, most, now)


async def show_email(store: Database, email_id: EmailId, *, now: datetime | None) -> Any:
    sql = "SELECT s.*, fairpost.has_places(s.content_id) AS has_places FROM fairpost.show_email($1, $2) s"
    return await store.row(sql, email_id, now)


async def attempts_of(store: Database, email_id: EmailId) -> list[Any]:
    return await store.fetch("SELECT * FROM fairpost.attempts_of($1)", email_id)


async def planned_by_campaigns(store: Database, ids: Collection[EmailId]) -> set[EmailId]:
    """Return which of these e-mails belong to campaigns. Campaign e-mails have keys that consist of numbers."""
    return {EmailId(row["id"]) for row in await store.fetch(_PLANNED, list(ids))}


async def fields_of(store: Database, ids: Collection[EmailId], *, chars_max: int) -> list[Any]:
    return await store.fetch(_FIELDS, list(ids), chars_max)


async def pictures_of(store: Database, email_id: EmailId, *, types: Collection[str], bytes_max: int) -> list[Any]:
    return await store.fetch("SELECT * FROM fairpost.pictures_of($1, $2, $3)", email_id, list(types), bytes_max)


async def origin_of(store: Database, email_id: EmailId) -> Any:
    """Return an e-mail's campaign and step, what it follows, its evidence, and whether its prospect is paused."""
    return await store.row(_ORIGIN, email_id)


async def decisions_on(store: Database, email_id: EmailId, workspace: str) -> list[Any]:
    return await store.fetch(_DECISIONS, f"email {email_id}", workspace)


async def returned_for(store: Database, email_id: EmailId) -> list[Any]:
    sql = "SELECT r.at, r.address, r.reason, r.params FROM fairpost.returned r WHERE r.email_id = $1 ORDER BY r.id"
    return await store.fetch(sql, email_id)


async def stops_on(
    store: Database, workspace: str, *, domain: str | None, user: str | None, stream: str | None, now: datetime | None
) -> list[Any]:
    return await store.fetch(_STOPS, workspace, domain, user, stream, now)


async def public_id(conn: "asyncpg.Connection", email_id: int) -> str:
    return str(await conn.fetchval("SELECT fairpost.public_id($1)", email_id))


_PLANNED = """
    SELECT q.id FROM unnest($1::bigint[]) n(id) JOIN fairpost.queue q USING (id) WHERE q.campaign_id IS NOT NULL
    UNION ALL
    SELECT e.id FROM unnest($1::bigint[]) n(id) JOIN fairpost.emails e USING (id) WHERE e.campaign_id IS NOT NULL"""
_FIELDS = """
    SELECT x.id, x.fields
    FROM (SELECT q.id, q.fields, q.content_id FROM unnest($1::bigint[]) n(id) JOIN fairpost.queue q USING (id)
          UNION ALL
          SELECT e.id, e.fields, e.content_id FROM unnest($1::bigint[]) n(id) JOIN fairpost.emails e USING (id)) x
    JOIN fairpost.contents c ON c.id = x.content_id
    WHERE c.is_template AND coalesce(length(x.fields::text), 0) <= $2"""
_ORIGIN = """
    SELECT x.step, x.follows, x.evidence, c.name AS campaign,
           x.parked_due IS NOT NULL OR x.due_at = 'infinity' AND coalesce(p.is_paused, false) AS is_parked
    FROM (SELECT q.campaign_id, q.prospect_id, q.step, q.follows, q.evidence, q.parked_due, q.due_at FROM fairpost.queue q WHERE q.id = $1
          UNION ALL
          SELECT e.campaign_id, e.prospect_id, e.step, e.follows, NULL, NULL, e.due_at FROM fairpost.emails e WHERE e.id = $1) x
    LEFT JOIN fairpost.campaigns c ON c.id = x.campaign_id LEFT JOIN fairpost.prospects p ON p.id = x.prospect_id"""
_DECISIONS = """
    SELECT e.kind, e.at, e.detail ->> 'decision' AS decision, e.detail ->> 'by' AS by FROM fairpost.events e
    WHERE e.subject = $1 AND e.kind IN ('resolved', 'retried') AND e.workspace = $2 ORDER BY e.id"""
_STOPS = """
    SELECT r.workspace, r.level::text, r.key, nullif(s.until, 'infinity') AS until, s.kind, s.reason, s.params
    FROM fairpost.sender_rules r CROSS JOIN LATERAL fairpost.stops_by(r) s
    WHERE r.workspace = $1 AND (r.level, r.key) IN (('workspace', ''), ('domain', $2), ('user', $3), ('stream', $4))
    AND s.until > coalesce($5, clock_timestamp())
    ORDER BY r.level, s.kind <> 'held', s.kind"""
