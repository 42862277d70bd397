"""Reads what became of mail: outcomes, how evenly it was served, and how long it took. Only `add_http_durations` writes."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from fairpost.store.database import Database


async def finished_since(store: Database, since: datetime) -> list[Any]:
    return await store.fetch("SELECT * FROM fairpost.finished_since($1)", since)


async def own_outcomes(store: Database, workspace: str, since: datetime, *, failed_max: int) -> Any:
    return await store.row("SELECT * FROM fairpost.own_outcomes($1, $2, $3)", workspace, since, failed_max)


async def sent_in_total(store: Database) -> int:
    """Return the number of e-mails that all accounts have ever sent."""
    return int(await store.value("SELECT coalesce(sum(l.sent_total), 0)::bigint FROM fairpost.leases_now() l"))


async def sent_by_account(store: Database) -> list[Any]:
    return await store.fetch(_SENT_BY_ACCOUNT)


async def own_sent_lately(store: Database, workspace: str, *, now: datetime) -> dict[datetime, int]:
    """Return a workspace's sent e-mails in the current and the previous hour."""
    return {row["hour"]: row["sent"] for row in await store.fetch(_OWN_SENT, workspace, now)}


async def outcomes_by_hour(store: Database, workspace: str | None, since: datetime) -> list[Any]:
    return await store.fetch(_BY_HOUR, workspace, since)


async def served_by_sender(store: Database, workspace: str | None, since: datetime, *, most: int) -> list[Any]:
    return await store.fetch("SELECT * FROM fairpost.served_by_sender($1, $2, $3)", workspace, since, most)


async def served_by_hour(store: Database, workspace: str | None, since: datetime) -> list[Any]:
    return await store.fetch("SELECT * FROM fairpost.served_by_hour($1, $2)", workspace, since)


async def urgent_use(store: Database, workspace: str | None, since: datetime, *, now: datetime, most: int) -> list[Any]:
    """Return the workspaces that sent the most urgent mail, each with the user who sent most of it."""
    return await store.fetch(_URGENT, workspace, since, now, most)


async def measured_since(store: Database, since: datetime, workspace: str | None) -> list[Any]:
    return await store.fetch("SELECT * FROM fairpost.measured_since($1, $2)", since, workspace)


async def has_sent(store: Database, workspace: str, user: str | None) -> bool:
    return bool(await store.value(_HAS_SENT, workspace, user))


async def failures(store: Database, account_id: int, *, attempts_max: int, most: int) -> list[Any]:
    """Return an account's newest failures among the newest attempts of all accounts."""
    return await store.fetch(_FAILURES, account_id, attempts_max, most)


async def http_durations(store: Database) -> list[Any]:
    return await store.fetch("SELECT * FROM fairpost.http_durations d ORDER BY d.route, d.method, d.status")


async def add_http_durations(store: Database, rows: Sequence[Mapping[str, Any]]) -> None:
    await store.value("SELECT fairpost.add_http_durations($1)", json.dumps(rows))


_SENT_BY_ACCOUNT = """
    SELECT a.id, a.name, a.transport ->> 'kind' AS kind, l.sent_total
    FROM fairpost.accounts a JOIN fairpost.leases l ON l.account_id = a.id ORDER BY a.name"""
_OWN_SENT = """
    SELECT a.hour, sum(a.sent)::bigint AS sent FROM fairpost.activity a
    WHERE a.workspace = $1 AND a.hour >= fairpost.hour_of($2) - interval '1 hour' GROUP BY 1"""
_BY_HOUR = """
    SELECT a.hour, sum(a.sent)::bigint AS sent, sum(a.bounced)::bigint AS bounced, sum(a.rejected)::bigint AS rejected
    FROM fairpost.activity a WHERE ($1::text IS NULL OR a.workspace = $1) AND a.hour >= fairpost.hour_of($2) GROUP BY 1 ORDER BY 1"""
_URGENT = """
    SELECT u.workspace, sum(u.volume)::bigint AS emails, sum(u.urgent)::bigint AS urgent, (array_agg(u.user_name ORDER BY u.urgent DESC))[1] AS "user", max(u.urgent) AS user_urgent
    FROM (SELECT a.workspace, a.user_name, sum(a.volume) AS volume, sum(a.urgent) AS urgent FROM fairpost.activity a
          WHERE a.hour >= fairpost.hour_of($2) AND a.hour <= $3 AND a.volume > 0 AND ($1::text IS NULL OR a.workspace = $1) GROUP BY 1, 2) u
    GROUP BY 1 HAVING sum(u.urgent) > 0 ORDER BY 3 DESC, 1 LIMIT $4"""
_HAS_SENT = """
    SELECT EXISTS (SELECT FROM fairpost.activity a WHERE a.workspace = $1 AND ($2::text IS NULL OR a.user_name = $2))
        OR EXISTS (SELECT FROM fairpost.activity_days d WHERE d.workspace = $1 AND ($2::text IS NULL OR d.user_name = $2))"""
_FAILURES = """
    SELECT a.ended_at AS at, a.email_id, a.outcome, a.code, a.reply
    FROM (SELECT a.* FROM fairpost.attempts a ORDER BY a.email_id DESC, a.n DESC LIMIT $2) a
    WHERE a.account_id = $1 AND a.outcome <> 'sent' ORDER BY a.ended_at DESC LIMIT $3"""
