"""Creates a database for each benchmark and quickly fills large queues. Mail is written as `enqueue` writes it
(rows, then one arrival for each flow), but without its checks.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from statistics import median
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from fairpost.model.account import Lease, Limits
from fairpost.model.errors import DatabaseUnavailable
from fairpost.store.connections import connect
from fairpost.store.migrations import migrate
from fairpost.store.store import Store
from fairpost.store.trouble import DRIVER_ERRORS
from fairpost.system import clock

if TYPE_CHECKING:
    import asyncpg

Progress = Callable[[str], None]

BATCH = 50
LOOKS = 60

_FILL = """
WITH mail AS (
    INSERT INTO fairpost.queue (id, flow, due_at, attempts_max, created_at, content_id, class, on_doubt, route, workspace, domain,
        user_name, stream, recipients, addresses)
    SELECT fairpost.new_id(), fairpost.flow_of('default', 'bulk', w, 'd.test', $3, ''), clock_timestamp(), 4, clock_timestamp(), 1,
        'bulk', 'hold', 'default', w, 'd.test', $3, '', '[{"kind": "to", "address": "p@there.test"}]', ARRAY['p@there.test']
    FROM unnest($1::text[]) w CROSS JOIN generate_series(1, $2)
    RETURNING *
)
INSERT INTO fairpost.arrivals (route, class, workspace, domain, user_name, stream, flow, n, due_at, id)
SELECT route, class, workspace, domain, user_name, stream, flow, count(*), min(due_at), min(id) FROM mail GROUP BY 1, 2, 3, 4, 5, 6, 7
"""


@asynccontextmanager
async def bench_database(url: str, suffix: str = "") -> AsyncIterator[str]:
    """Yields a fresh database with the schema, and drops the database afterwards. With different suffixes, several
    databases can exist at once.
    """
    name = f"fairpost_bench_{os.getpid()}{suffix}"
    await _run(url, f"CREATE DATABASE {name}")
    own = urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    try:
        conn = await _first_connection(own)
        await migrate(conn)
        await conn.close()
        yield own
    finally:
        await _run(url, f"DROP DATABASE {name} WITH (FORCE)")


async def _first_connection(url: str) -> "asyncpg.Connection":
    try:
        return await connect(url, answer_s_max=None)
    except DRIVER_ERRORS as error:
        raise DatabaseUnavailable(
            f"The temporary database cannot be reached: {error}. If a pooler serves only configured databases, set FAIRPOST_DATABASE_URL to a URL that connects to PostgreSQL directly."
        ) from error


async def _run(url: str, sql: str) -> None:
    conn = await connect(url, answer_s_max=None)
    try:
        await conn.execute(sql)
    finally:
        await conn.close()


async def empty(store: Store) -> Lease:
    """Empties the queue and adds one account that is leased for the whole benchmark."""
    await store.value(
        "TRUNCATE fairpost.queue, fairpost.arrivals, fairpost.nodes, fairpost.node_state, fairpost.homes, fairpost.sender_rules, fairpost.routes, fairpost.accounts CASCADE"
    )
    account = await store.add_account("bench", address="bench@post.test", limits=Limits())
    lease = await store.take_lease(account, owner="bench", seconds=86_400)
    assert lease is not None
    return lease


async def fill(store: Store, workspaces: list[str], each: int, *, user: str = "u") -> None:
    """Adds `each` e-mails from the given user in each workspace."""
    await store.value(_FILL, workspaces, each, user)


async def stage_all(store: Store) -> None:
    while await store.value("SELECT EXISTS (SELECT FROM fairpost.arrivals)"):
        await store.value("SELECT fairpost.absorb_arrivals(ARRAY['default'])")
    for table in ("queue", "node_state", "nodes", "arrivals"):
        await store.value(f"VACUUM ANALYZE fairpost.{table}")


async def claim_ms(store: Store, lease: Lease, *, looks: int = LOOKS) -> float:
    """Returns the median time that a claim of 50 e-mails takes, as measured by the client. Claimed e-mails are removed
    before the next claim.
    """
    times = []
    for _ in range(looks):
        started = clock.monotonic()
        claim = await store.claim(lease, limit=BATCH)
        times.append((clock.monotonic() - started) * 1000)
        assert len(claim.ids) == BATCH, "the benchmark ran out of mail"
        await store.value("DELETE FROM fairpost.queue WHERE id = ANY ($1)", list(claim.ids))
    return median(times[5:])  # the first few claims include planning


async def churn(store: Store, lease: Lease, total: int, progress: Progress) -> None:
    """Claims and removes the given number of e-mails. For each e-mail, adds a new one from the same sender."""
    done = 0
    while done < total:
        claim = await store.claim(lease, limit=1000)
        senders = await store.fetch(
            "DELETE FROM fairpost.queue WHERE id = ANY ($1) RETURNING workspace", list(claim.ids)
        )
        await fill(store, [row["workspace"] for row in senders], 1)
        done += len(senders)
        progress(f"{done:,} of {total:,} e-mails claimed and replaced")


def p99(times: list[float]) -> float:
    """Returns the 99th percentile."""
    return sorted(times)[max(0, int(len(times) * 0.99) - 1)]
