"""A small world on the real SQL, with a manual clock, and everything that must hold in it.

Used by the state machine (one step after another) and by the concurrent test (all at once, checked at the end).
"""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from fairpost.model.account import Limits
from fairpost.model.ids import AccountId, EmailId
from fairpost.store.store import Store
from tests.databases import DELETED_BYTES_MAX
from tests.thorough import IS_FREE

START = datetime(2030, 1, 1, tzinfo=UTC)
ACCOUNTS = ("anna", "bert", "carl")
POOL = "default"

TABLES = (
    "queue",
    "arrivals",
    "nodes",
    "node_state",
    "homes",
    "routes",
    "sender_rules",
    "accounts",
    "leases",
    "emails",
    "attempts",
    "idempotency_keys",
    "suppressions",
    "suppression_hashes",
    "soft_bounces",
    "returned",
    "charges",
    "counters",
    "blocks",
    "senders",
    "activity",
    "activity_days",
    "dirty_senders",
    "measures",
    "submissions",
    "opt_outs",
    "schedules",
    "quotas",
    "campaign_steps",
    "campaign_streams",
    "campaigns",
    "sequence_steps",
    "sequences",
    "templates",
    "prospects",
    "lists",
    "list_members",
    "events",
    "contents",
    "attachments",
)


# Has the same effect as TRUNCATE … CASCADE, but each connection has to plan its queries of a truncated table again, so
# rows of small tables are deleted.
EMPTY = f"""
DO $$ DECLARE small text; large text; BEGIN
    WITH RECURSIVE emptied AS (
        SELECT oid FROM pg_class WHERE relnamespace = 'fairpost'::regnamespace AND relname = ANY ('{{{",".join(TABLES)}}}')
        UNION
        SELECT dependent FROM emptied e CROSS JOIN LATERAL (
            SELECT inhrelid FROM pg_inherits WHERE inhparent = e.oid
            UNION ALL SELECT conrelid FROM pg_constraint WHERE contype = 'f' AND confrelid = e.oid) d (dependent)),
    sizes AS (SELECT oid::regclass AS name, pg_relation_size(oid) AS size FROM pg_class JOIN emptied USING (oid) WHERE relkind = 'r')
    SELECT string_agg('DELETE FROM ' || name, ';') FILTER (WHERE size <= {DELETED_BYTES_MAX}),
           'TRUNCATE ' || string_agg(name::text, ',') FILTER (WHERE size > {DELETED_BYTES_MAX}) || ' CASCADE'
    INTO small, large FROM sizes WHERE size > 0;
    IF large IS NOT NULL THEN EXECUTE large; END IF;
    SET LOCAL session_replication_role = replica;  -- no triggers, no foreign keys
    IF small IS NOT NULL THEN EXECUTE small; END IF;
END $$"""


async def clean(store: Store) -> dict[str, AccountId]:
    """Empties the database and adds three accounts of one pool."""
    await store.value(EMPTY)
    return {
        name: await store.add_account(name, address=f"{name}@post.test", pool=POOL, limits=Limits())
        for name in ACCOUNTS
    }


def draft(
    *,
    workspace: str = "w1",
    domain: str = "d1.test",
    user: str = "u1",
    stream: str = "",
    to: str = "someone@there.test",
    due_at: datetime | None = None,
    expires_at: datetime | None = None,
    **more: Any,
) -> dict[str, Any]:
    email: dict[str, Any] = {
        "workspace": workspace,
        "from": f"{user or 'x'}@{domain}",
        "user": user,
        "stream": stream,
        "to": to,
        "subject": "s",
        "text": "t",
        **more,
    }
    if due_at:
        email["due_at"] = due_at.isoformat()
    if expires_at:
        email["expires_at"] = expires_at.isoformat()
    return email


# Each of these lists what is wrong; empty means all is well.
PROMISES = {
    "an e-mail is in the queue or in history, never in both": """
        SELECT id FROM fairpost.queue JOIN fairpost.emails USING (id)""",
    "a node's count, with the notes not yet read, is the number of e-mails that wait below it": """
        WITH held AS (
            SELECT w.node, count(*) AS n FROM fairpost.queue q JOIN fairpost.nodes l ON l.flow = q.flow,
                   unnest(l.path) AS w(node) WHERE q.waiting GROUP BY w.node
        ), noted AS (
            SELECT w.node, sum(a.n) AS n FROM fairpost.arrivals a JOIN fairpost.nodes l ON l.flow = a.flow,
                   unnest(l.path) AS w(node) GROUP BY w.node
        )
        SELECT c.id, c.key, c.waiting, noted.n AS noted, held.n AS held
        FROM fairpost.node_state c JOIN fairpost.nodes n ON n.id = c.id AND n.level <> 'route'
        LEFT JOIN held ON held.node = c.id LEFT JOIN noted ON noted.node = c.id
        WHERE c.waiting + coalesce(noted.n, 0) <> coalesce(held.n, 0)""",
    "what waits on a leaf that does not exist yet is all in the notes": """
        SELECT flow FROM (
            SELECT flow, sum(n) AS n FROM fairpost.arrivals GROUP BY flow
        ) a FULL JOIN (
            SELECT flow, count(*) AS n FROM fairpost.queue WHERE waiting GROUP BY flow
        ) q USING (flow)
        WHERE NOT EXISTS (SELECT FROM fairpost.nodes n WHERE n.flow = flow) AND coalesce(a.n, 0) <> coalesce(q.n, 0)""",
    "a node has one clock": """
        SELECT id, count(*) FROM fairpost.node_state GROUP BY id HAVING count(*) > 1
        UNION ALL SELECT id, 0 FROM fairpost.nodes WHERE id NOT IN (SELECT id FROM fairpost.node_state)""",
    "a node counts its active children": """
        SELECT p.id, p.key, p.busy, count(c.id) FILTER (WHERE c.busy > 0 AND c.held_until IS NULL) AS active
        FROM fairpost.node_state p JOIN fairpost.nodes n ON n.id = p.id AND n.level NOT IN ('route', 'stream')
        LEFT JOIN fairpost.node_state c ON c.parent = p.id
        GROUP BY p.id, p.key, p.busy HAVING p.busy <> count(c.id) FILTER (WHERE c.busy > 0 AND c.held_until IS NULL)""",
    "no active node stands before the place where scans begin": """
        SELECT c.id, c.key, c.vtime, p.v FROM fairpost.node_state c JOIN fairpost.node_state p ON p.id = c.parent
        WHERE c.busy > 0 AND c.held_until IS NULL AND c.vtime < p.v""",
    "a leaf that sleeps wakes no later than its first e-mail is due": """
        SELECT c.id, c.key, c.busy, c.wake_at, min(q.due_at) FROM fairpost.node_state c JOIN fairpost.queue q ON q.flow = c.flow AND q.waiting
        WHERE c.busy = 0 AND NOT EXISTS (SELECT FROM fairpost.arrivals a WHERE a.flow = c.flow)
        GROUP BY c.id, c.key, c.busy, c.wake_at HAVING coalesce(c.wake_at, 'infinity') > min(q.due_at)""",
    "nothing waits before the place where a leaf begins to look": """
        SELECT c.id, q.id FROM fairpost.node_state c JOIN fairpost.queue q ON q.flow = c.flow AND q.waiting
        WHERE (q.due_at, q.id) < (c.head_due, c.head_id)
        AND NOT EXISTS (SELECT FROM fairpost.arrivals a WHERE a.flow = c.flow)""",
    "nobody holds an e-mail under an epoch that is still to come": """
        SELECT q.id FROM fairpost.queue q JOIN fairpost.leases l ON l.account_id = q.account_id WHERE q.epoch > l.epoch""",
    "a key leads to one e-mail": """
        SELECT idempotency_key FROM (
            SELECT workspace, idempotency_key, campaign_id IS NULL AS is_caller_s FROM fairpost.queue
            UNION ALL SELECT workspace, idempotency_key, campaign_id IS NULL FROM fairpost.emails
        ) e WHERE idempotency_key IS NOT NULL GROUP BY workspace, idempotency_key, is_caller_s HAVING count(*) > 1""",
    # Only for e-mails that an engine has absorbed, because tests write others directly. Returned mail has an address.
    "the last event of an e-mail is about the state it has, and it ended as often as it was queued, but for the last time": """
        SELECT t.email_id, t.kinds, x.state FROM (
            SELECT o.email_id, array_agg(o.kind ORDER BY o.id) AS kinds, count(*) FILTER (WHERE o.kind = 'email.queued') AS queued,
                   count(*) FILTER (WHERE o.kind IN ('email.sent', 'email.failed', 'email.bounced', 'email.suppressed', 'email.cancelled')) AS ended
            FROM fairpost.outbox o WHERE o.email_id IS NOT NULL AND o.address IS NULL GROUP BY o.email_id) t
        JOIN (SELECT q.id, q.state, 1 AS in_queue FROM fairpost.queue q UNION ALL SELECT e.id, e.state, 0 FROM fairpost.emails e) x ON x.id = t.email_id
        WHERE t.kinds[1] = 'email.queued' AND (t.ended <> t.queued - x.in_queue OR CASE
            WHEN x.state = 'in_doubt' THEN t.kinds[array_upper(t.kinds, 1)] <> 'email.in_doubt'
            WHEN x.in_queue = 1 THEN t.kinds[array_upper(t.kinds, 1)] = 'email.in_doubt' OR t.kinds[array_upper(t.kinds, 1)] IN ('email.sent', 'email.failed', 'email.cancelled')
            ELSE x.state <> 'bounced' AND t.kinds[array_upper(t.kinds, 1)] <> 'email.' || x.state END)""",
}


# One query for all of them, because it runs after every test, and after every step of the state machines.
_BROKEN = " UNION ALL ".join(
    f"SELECT {n} AS n, jsonb_agg(to_jsonb(x)) AS rows FROM ({sql} LIMIT 5) x HAVING count(*) > 0"
    for n, sql in enumerate(PROMISES.values())
)

# Without any e-mail, nothing can be wrong, and reading all these tables costs more than most tests do.
_IS_ANYTHING_THERE = "SELECT " + " OR ".join(
    f"EXISTS (SELECT FROM fairpost.{table})" for table in ("queue", "emails", "node_state", "nodes", "arrivals")
)


async def broken_promises(store: Store) -> dict[str, list[Any]]:
    if not await store.value(_IS_ANYTHING_THERE):
        return {}
    names = tuple(PROMISES)
    return {names[row["n"]]: json.loads(row["rows"]) for row in await store.fetch(_BROKEN)}


@dataclass
class Known:
    """The model's state of one e-mail."""

    id: EmailId
    workspace: str
    domain: str
    user: str
    stream: str
    route: str
    to: str
    due_at: datetime
    expires_at: datetime | None
    policy: str
    state: str = "waiting"
    account: str | None = None
    epoch: int | None = None
    began: list[tuple[str, int]] = field(default_factory=list)  # (account, epoch) of every begin
    attempts: int = 0

    def is_due(self, now: datetime) -> bool:
        return self.state == "waiting" and self.due_at <= now

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now


MINUTE = timedelta(minutes=1)

# A simulated e-mail costs as much as a real one: `make test` sends a tenth of what `make fuzz` does, within a tenth of
# the limits, so that the same hours and days pass.
SHARE = 1 if IS_FREE else 10


def shared(limits: Limits) -> Limits:
    """Returns a tenth of the hourly and daily limit of an account."""
    hourly_max, daily_max = (most and most // SHARE for most in (limits.hourly_max, limits.daily_max))
    return replace(limits, hourly_max=hourly_max, daily_max=daily_max)


async def connect(url: str, connections_max: int = 4) -> Store:
    return await Store.connect(url, connections_max=connections_max)
