"""Reads mail that has not been sent yet: queued, claimed or held. None of these queries changes anything."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from fairpost.store.database import Database


async def waiting_by_route(store: Database, *, now: datetime) -> list[Any]:
    return await store.fetch("SELECT * FROM fairpost.waiting_by_route($1)", now)


async def own_routes(store: Database, workspace: str, *, now: datetime) -> list[Any]:
    return await store.fetch("SELECT * FROM fairpost.own_routes($1, $2)", workspace, now)


async def waiting_by_class(store: Database, workspace: str | None) -> list[Any]:
    return await store.fetch("SELECT * FROM fairpost.waiting_by_class($1)", workspace)


async def waiting_by_sender(store: Database, workspace: str | None, *, most: int) -> list[Any]:
    return await store.fetch("SELECT * FROM fairpost.waiting_by_sender($1, $2)", workspace, most)


async def waiting_behind(store: Database, workspace: str, user: str | None) -> int:
    return int(await store.value("SELECT fairpost.waiting_behind($1, $2)", workspace, user))


async def own_queue(store: Database, workspace: str, *, ready_max: int, now: datetime) -> list[Any]:
    return await store.fetch("SELECT * FROM fairpost.own_queue($1, $2, $3)", workspace, ready_max, now)


async def oldest_own(store: Database, workspace: str, *, now: datetime) -> datetime | None:
    """Return since when a workspace's oldest due e-mail has been due."""
    sql = "SELECT min(q.oldest_at) FROM fairpost.own_queue($1, 1, $2) q"
    found: datetime | None = await store.value(sql, workspace, now)
    return found


async def oldest_arrival(store: Database, *, now: datetime) -> datetime | None:
    """Return since when the oldest e-mail that no engine has absorbed yet has been due."""
    found: datetime | None = await store.value(_OLDEST_ARRIVAL, now)
    return found


async def claimed_by_account(store: Database) -> list[Any]:
    return await store.fetch("SELECT * FROM fairpost.claimed_by_account()")


async def own_claimed(store: Database, workspace: str) -> list[Any]:
    return await store.fetch(_OWN_CLAIMED, workspace)


async def on_the_wire(store: Database, accounts: Collection[int]) -> list[Any]:
    return await store.fetch("SELECT * FROM fairpost.on_the_wire($1)", list(accounts))


async def holds(store: Database, workspace: str | None, *, most: int, now: datetime) -> list[Any]:
    return await store.fetch(_HOLDS, most, now, workspace)


async def engines_seen(store: Database, *, within: timedelta, now: datetime | None = None) -> list[Any]:
    """Return the engines that were seen recently, according to the database's clock."""
    sql = "SELECT e.* FROM fairpost.engines e WHERE e.seen_at > coalesce($1, clock_timestamp()) - $2::interval ORDER BY e.id"
    return await store.fetch(sql, now, within)


# An arrival that has not been read yet remains even if its e-mail is cancelled. The oldest arrivals are therefore
# checked for e-mails that are still waiting.
_OLDEST_ARRIVAL = """
    SELECT min(q.due_at)
    FROM (SELECT a.flow FROM fairpost.arrivals a WHERE a.due_at <= $1 GROUP BY a.flow ORDER BY min(a.due_at) LIMIT 1000) a
    CROSS JOIN LATERAL (SELECT q.due_at FROM fairpost.queue q WHERE q.flow = a.flow AND q.waiting AND q.due_at <= $1 ORDER BY q.due_at LIMIT 1) q"""
_OWN_CLAIMED = """
    SELECT q.account_id, q.route, count(*) FILTER (WHERE q.state = 'claimed') AS claimed, count(*) FILTER (WHERE q.state = 'sending') AS sending,
           count(*) FILTER (WHERE q.state = 'in_doubt') AS in_doubt,
           count(*) FILTER (WHERE q.state = 'in_doubt' AND (q.on_doubt = 'hold' OR q.attempts >= q.attempts_max)) AS undecided
    FROM (SELECT * FROM fairpost.queue q WHERE NOT q.waiting OFFSET 0) q WHERE q.workspace = $1 GROUP BY 1, 2"""
_HOLDS = """
    SELECT h.*, c.name AS campaign, c.state::text AS campaign_state FROM fairpost.holds($1, $2, $3) h
    LEFT JOIN fairpost.campaign_streams s ON h.level = 'stream' AND s.workspace = h.workspace AND s.stream = h.key
    LEFT JOIN fairpost.campaigns c ON c.id = s.campaign_id
    ORDER BY h.waiting DESC, h.workspace, h.level, h.key"""
