"""Webhooks in the database: endpoints, their sealed secrets, pending events, and the log."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import asyncpg

from fairpost.model.errors import KeysChanged
from fairpost.model.event import Event
from fairpost.model.reason import read_reason
from fairpost.model.webhook import Delivery, Due, Webhook, WebhookSecret
from fairpost.store.events import event_of
from fairpost.system import clock

if TYPE_CHECKING:
    from fairpost.store.store import Store

_COLUMNS = """w.id, w.workspace, w.url, w.description, w.kinds, w.tags, w.created_at, w.paused_at, w.disabled_at, w.failing_since,
              w.failures, w.next_at, w.reason, w.params, w.delivered_at, w.cursor, w.is_behind, w.epoch"""
LOG_ROWS_AT_ONCE = 10_000


# ── endpoints ─────────────────────────────────────────────────────────────────────────────────────────────


async def webhooks_of(store: "Store", workspace: str | None) -> list[Webhook]:
    """Return a workspace's webhooks or, if `workspace` is None, the operator's, oldest first."""
    sql = f"SELECT {_COLUMNS} FROM fairpost.webhooks w WHERE w.workspace IS NOT DISTINCT FROM $1 ORDER BY w.id"  # noqa: S608 - all of it is ours
    return [_webhook(row) for row in await store.fetch(sql, workspace)]


async def all_webhooks(store: "Store", *, only_troubled: bool = False) -> list[Webhook]:
    """Return webhooks. With `only_troubled`, return only those that are failing or were disabled."""
    sql = f"""SELECT {_COLUMNS} FROM fairpost.webhooks w WHERE NOT $1 OR w.disabled_at IS NOT NULL OR (w.reason IS NOT NULL AND w.paused_at IS NULL)
              ORDER BY w.workspace NULLS FIRST, w.id"""  # noqa: S608
    return [_webhook(row) for row in await store.fetch(sql, only_troubled)]


async def find(store: "Store", webhook_id: int) -> Webhook | None:
    """Return a webhook from any workspace that the store may see."""
    sql = f"SELECT {_COLUMNS} FROM fairpost.webhooks w WHERE w.id = $1"  # noqa: S608
    row = await store.row(sql, webhook_id)
    return None if row is None else _webhook(row)


async def add(
    store: "Store",
    workspace: str | None,
    *,
    url: str,
    description: str,
    kinds: Sequence[str],
    tags: Mapping[str, str],
    now: datetime,
) -> Webhook:
    """Add a webhook that receives events from now on."""
    row = await store.row(
        f"""INSERT INTO fairpost.webhooks AS w (workspace, url, description, kinds, tags, created_at, cursor)
            VALUES ($1, $2, $3, $4, $5::jsonb, $6, fairpost.events_end()) RETURNING {_COLUMNS}""",  # noqa: S608
        *(workspace, url, description, list(kinds), json.dumps(tags), now),
    )
    return _webhook(row)


async def change(
    store: "Store", webhook: Webhook, *, url: str, description: str, kinds: Sequence[str], tags: Mapping[str, str]
) -> Webhook:
    """Change an endpoint. A new URL is tried immediately, even if the next attempt was scheduled for later."""
    row = await store.row(
        f"""UPDATE fairpost.webhooks w SET url = $2, description = $3, kinds = $4, tags = $5::jsonb,
                next_at = CASE WHEN w.url = $2 THEN w.next_at END
            WHERE w.id = $1 RETURNING {_COLUMNS}""",  # noqa: S608
        *(webhook.id, url, description, list(kinds), json.dumps(tags)),
    )
    return _webhook(row)


async def pause(store: "Store", webhook: Webhook, *, now: datetime) -> Webhook:
    sql = f"UPDATE fairpost.webhooks w SET paused_at = $2 WHERE w.id = $1 RETURNING {_COLUMNS}"  # noqa: S608
    return _webhook(await store.row(sql, webhook.id, now))


async def resume(store: "Store", webhook: Webhook, *, now: datetime) -> Webhook:
    """Resume an endpoint, including a disabled one. Delivery continues from where it stopped, starting with a single
    pending event.
    """
    row = await store.row(
        f"""UPDATE fairpost.webhooks w SET paused_at = NULL, disabled_at = NULL, told_at = NULL, failures = 0, next_at = NULL, reason = NULL, params = NULL,
                failing_since = CASE WHEN EXISTS (SELECT FROM fairpost.webhook_pending p WHERE p.webhook_id = w.id) THEN $2::timestamptz END
            WHERE w.id = $1 RETURNING {_COLUMNS}""",  # noqa: S608
        *(webhook.id, now),
    )
    return _webhook(row)


async def move_to(store: "Store", webhook: Webhook, cursor: str) -> Webhook:
    """Deliver all events after the cursor again, including those delivered before."""
    row = await store.row(
        f"UPDATE fairpost.webhooks w SET cursor = $2, is_behind = true, epoch = w.epoch + 1, leased_until = NULL WHERE w.id = $1 RETURNING {_COLUMNS}",  # noqa: S608
        *(webhook.id, cursor),
    )
    return _webhook(row)


async def remove(store: "Store", webhook: Webhook) -> None:
    await store.value("DELETE FROM fairpost.webhooks w WHERE w.id = $1", webhook.id)


async def cursor_at(store: "Store", moment: datetime) -> str:
    """Return the cursor just before the first event after the given time."""
    cursor: str = await store.value("SELECT fairpost.events_cursor_at($1)", moment)
    return cursor


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────


async def next_secret_id(store: "Store") -> int:
    return int(await store.value("SELECT fairpost.next_webhook_secret_id()"))


async def add_secret(
    store: "Store", webhook: Webhook, secret_id: int, *, sealed: str, keys: Sequence[str], overlap: timedelta
) -> None:
    """Add a secret. `keys` are the vault keys that were in use when the secret was sealed. Raises KeysChanged."""
    sql = "SELECT fairpost.add_webhook_secret($1, $2, $3, $4, $5, $6, $7)"
    given = (secret_id, webhook.id, webhook.workspace, sealed, list(keys), overlap.total_seconds(), clock.stated())
    try:
        await store.value(sql, *given)
    except asyncpg.PostgresError as error:
        if error.sqlstate == "FP003":
            raise KeysChanged("The encryption key was changed at the same time. Try again.") from error
        raise


async def secrets_of(store: "Store", webhook_id: int, *, now: datetime) -> list[WebhookSecret]:
    """Return the secrets that are currently used for signing, newest first. Only the database owner may call
    this.
    """
    rows = await store.fetch(
        """SELECT s.id, s.webhook_id, s.secret AS sealed, s.expires_at FROM fairpost.webhook_secrets s
           WHERE s.webhook_id = $1 AND (s.expires_at IS NULL OR s.expires_at > $2) ORDER BY s.id DESC""",
        *(webhook_id, now),
    )
    return [WebhookSecret(**row) for row in rows]


# ── deliveries ────────────────────────────────────────────────────────────────────────────────────────────


async def wake(store: "Store") -> int:
    """Mark the endpoints that have new events. Return the number of endpoints marked."""
    return int(await store.value("SELECT fairpost.wake_webhooks()"))


async def take(
    store: "Store",
    engine: str,
    *,
    most: int,
    failing_max: int,
    each_max: int,
    full: Collection[str],
    running: Collection[int],
    lease_s: float,
) -> list[Webhook]:
    """Lease endpoints that have events to deliver. See sql/service/webhooks.sql."""
    sql = f"SELECT {_COLUMNS} FROM fairpost.take_webhooks($1, $2, $3, $4, $5, $6, $7, $8) w"  # noqa: S608
    given = (engine, most, failing_max, each_max, list(full), list(running), lease_s, clock.stated())
    rows = await store.fetch(sql, *given)
    return [_webhook(row) for row in rows]


async def pending(
    store: "Store", webhook: Webhook, *, most: int, is_all: bool
) -> tuple[list[Due], list[tuple[int, int]]]:
    """Return the due pending events, in order, and the positions of events that have been dropped in the meantime."""
    sql = "SELECT * FROM fairpost.pending_events($1, $2, $3, $4)"
    rows = await store.fetch(sql, webhook.id, is_all, most, clock.stated())
    due = [
        Due(event=event_of(_without(row)), attempts=row["attempts"], since=row["since"])
        for row in rows
        if row["id"] is not None
    ]
    return due, [(row["turn"], row["event_id"]) for row in rows if row["id"] is None]


async def pending_lanes(store: "Store", webhook: Webhook) -> dict[str, tuple[int, datetime]]:
    """Return how many events in each lane are pending, and when the last of them is due."""
    sql = "SELECT p.lane, count(*) AS n, max(p.next_at) AS until FROM fairpost.webhook_pending p WHERE p.webhook_id = $1 GROUP BY 1"
    return {row["lane"]: (row["n"], row["until"]) for row in await store.fetch(sql, webhook.id)}


async def book(store: "Store", webhook: Webhook, booking: Mapping[str, object]) -> Webhook | None:
    """End a turn in one commit and return the updated endpoint.

    If the endpoint was removed or is leased to another engine, write nothing and return None.
    """
    sql = f"SELECT {_COLUMNS} FROM fairpost.book_webhook($1, $2, $3::jsonb, $4) w"  # noqa: S608
    row = await store.row(sql, webhook.id, webhook.epoch, json.dumps(booking), clock.stated())
    return None if row is None else _webhook(row)


async def untold(store: "Store") -> list[Webhook]:
    """Return disabled webhooks whose owners have not been notified."""
    sql = f"SELECT {_COLUMNS} FROM fairpost.webhooks w WHERE w.disabled_at IS NOT NULL AND w.told_at IS NULL ORDER BY w.id LIMIT 100"  # noqa: S608
    return [_webhook(row) for row in await store.fetch(sql)]


async def told(store: "Store", webhook: Webhook) -> bool:
    """Record the notification. Return False if another engine has already done so."""
    sql = """UPDATE fairpost.webhooks w SET told_at = clock_timestamp() WHERE w.id = $1 AND w.disabled_at = $2 AND w.told_at IS NULL
             RETURNING true"""
    return bool(await store.value(sql, webhook.id, webhook.disabled_at))


# ── the log ───────────────────────────────────────────────────────────────────────────────────────────────


async def log_test(store: "Store", webhook: Webhook, entry: Mapping[str, Any]) -> None:
    """Log a test request, which does not deliver an event."""
    await store.value(
        """INSERT INTO fairpost.webhook_deliveries (webhook_id, workspace, at, message_id, kind, attempt, status, reason, params, duration_ms, answer)
           VALUES ($1, $2, $3::text::timestamptz, $4, $5, 1, $6, $7, $8::jsonb, $9, $10)""",
        *(webhook.id, webhook.workspace, entry["at"], entry["message_id"], entry["kind"], entry["status"]),
        *(entry["reason"], json.dumps(entry["params"] or {}), entry["duration_ms"], entry["answer"]),
    )


async def deliveries(
    store: "Store", webhook: Webhook, *, before: int, most: int, is_failed: bool = False
) -> list[Delivery]:
    """Return the log, newest first."""
    rows = await store.fetch(
        """SELECT d.id, d.webhook_id, d.at, d.message_id, d.kind, d.cursor, d.attempt, d.status, d.reason, d.params, d.duration_ms, d.answer
           FROM fairpost.webhook_deliveries d WHERE d.webhook_id = $1 AND d.id < $2 AND (NOT $4 OR d.reason IS NOT NULL) ORDER BY d.id DESC LIMIT $3""",
        *(webhook.id, before, most, is_failed),
    )
    return [_delivery(row) for row in rows]


async def delivery(store: "Store", webhook: Webhook, delivery_id: int) -> Delivery | None:
    found = await deliveries(store, webhook, before=delivery_id + 1, most=1)
    return found[0] if found and found[0].id == delivery_id else None


async def event_at(store: "Store", webhook: Webhook, cursor: str) -> Event | None:
    """Return the event that a log entry is about, or None if the event has been dropped in the meantime."""
    turn, _, id_ = cursor.partition(".")
    sql = "SELECT e.* FROM fairpost.events_after($1, 1, $2) e WHERE e.id = $3"
    try:
        row = await store.row(sql, f"{turn}.{int(id_) - 1}", webhook.workspace, int(id_))
    except asyncpg.PostgresError as error:
        if error.sqlstate in ("FP001", "FP007"):
            return None
        raise
    return None if row is None else event_of(row)


async def drop_log(store: "Store", *, before: datetime) -> None:
    sql = "SELECT fairpost.drop_webhook_log($1, $2)"
    while await store.in_bulk().value(sql, before, LOG_ROWS_AT_ONCE) >= LOG_ROWS_AT_ONCE:
        pass


def _webhook(row: Any) -> Webhook:
    facts = dict(row)
    code, params = facts.pop("reason"), facts.pop("params")
    why = None if code is None else read_reason(code, params or "{}")
    return Webhook(**{**facts, "kinds": tuple(row["kinds"]), "tags": json.loads(row["tags"]), "why": why})


def _delivery(row: Any) -> Delivery:
    facts = dict(row)
    code, params = facts.pop("reason"), facts.pop("params")
    why = None if code is None else read_reason(code, params or "{}")
    return Delivery(**{**facts, "answer": row["answer"] or "", "why": why})


def _without(row: Any) -> dict[str, Any]:
    return {name: value for name, value in dict(row).items() if name not in ("turn", "event_id", "attempts", "since")}
