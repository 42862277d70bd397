"""Measures how long an urgent e-mail takes from the caller's commit to the server's 250 reply.

The engine is either idle or has a million campaign e-mails queued and all accounts busy. For comparison, the benchmark
measures the time from a commit with an INSERT to the notification received through LISTEN. No engine can be faster.
"""

import asyncio
import json
from statistics import median
from typing import Any

from fairpost.dev.bench.arrivals import Arrivals, arriving
from fairpost.dev.bench.engine import add_accounts, running_engine
from fairpost.dev.bench.workload import Progress, bench_database, p99
from fairpost.store.connections import connect
from fairpost.store.store import Store
from fairpost.system import clock

ACCOUNTS = 4
IDLE_LOOKS = 200
LOADED_LOOKS = 100
WAITING = 1_000_000
SENDERS = 1_000
LOADED_GAP_S = 0.1

_FILL = """
WITH mail AS (
    INSERT INTO fairpost.queue (id, flow, due_at, attempts_max, created_at, content_id, class, on_doubt, route, workspace, domain,
        user_name, stream, recipients, addresses)
    SELECT fairpost.new_id(), fairpost.flow_of('default', 'bulk', w, 'd.test', 'u', 's'), clock_timestamp(), 4, clock_timestamp(), $3,
        'bulk', 'hold', 'default', w, 'd.test', 'u', 's', '[{"kind": "to", "address": "p@there.test"}]', ARRAY['p@there.test']
    FROM unnest($1::text[]) w CROSS JOIN generate_series(1, $2)
    RETURNING *
)
INSERT INTO fairpost.arrivals (route, class, workspace, domain, user_name, stream, flow, n, due_at, id)
SELECT route, class, workspace, domain, user_name, stream, flow, count(*), min(due_at), min(id) FROM mail GROUP BY 1, 2, 3, 4, 5, 6, 7
"""


async def bench_pickup(url: str, progress: Progress) -> dict[str, float]:
    async with bench_database(url) as own, Store.open(own) as store, arriving() as (arrivals, port):
        await add_accounts(store, ACCOUNTS, host="127.0.0.1", port=port)
        conn = await connect(own, answer_s_max=None)
        figures = {} if store.behind_pooler else {"listen_ms_p50": await _listen_ms(own, conn)}
        async with running_engine(own):
            await _looks(conn, arrivals, "warm", 5, gap_s=0.1)
            progress(f"{IDLE_LOOKS} e-mails, one at a time, to an idle engine")
            idle = await _looks(conn, arrivals, "idle", IDLE_LOOKS, gap_s=0.02)
        figures |= {"pickup_ms_p50": median(idle), "pickup_ms_p99": p99(idle)}
        content = await store.value(
            "SELECT fairpost.put_content($1)", json.dumps({"subject": "s", "text": "A campaign."})
        )
        for part in range(10):
            progress(f"filling the queue: {part * WAITING // 10:,} of {WAITING:,}")
            names = [f"w{n}" for n in range(part * SENDERS // 10, (part + 1) * SENDERS // 10)]
            await store.value(_FILL, names, WAITING // SENDERS, content)
        for table in ("queue", "node_state", "nodes", "arrivals"):
            await store.value(f"VACUUM ANALYZE fairpost.{table}")
        async with running_engine(own):
            progress("waiting for all accounts to be busy")
            busy = "SELECT count(*) FROM fairpost.leases WHERE sent_total > 200"
            while await store.value(busy) < ACCOUNTS:  # noqa: ASYNC110 - a row in a table sends no event
                await asyncio.sleep(0.1)
            progress(f"{LOADED_LOOKS} urgent e-mails among {WAITING:,}")
            loaded = await _looks(conn, arrivals, "loaded", LOADED_LOOKS, gap_s=LOADED_GAP_S)
        await conn.close()
        return figures | {"pickup_loaded_ms_p50": median(loaded), "pickup_loaded_ms_p99": p99(loaded)}


async def _looks(conn: Any, arrivals: Arrivals, name: str, n: int, *, gap_s: float) -> list[float]:
    """Returns, for each e-mail, the milliseconds from the end of the commit to the 250 reply."""
    times = []
    for number in range(n):
        address = f"{name}{number}@example.org"
        email = {"to": address, "subject": "Your code", "text": "123456", "class": "urgent", "workspace": "codes"}
        await conn.fetchval("SELECT id FROM fairpost.enqueue($1)", json.dumps(email))
        committed_s = clock.monotonic()
        times.append((await arrivals.of(address) - committed_s) * 1000)
        await asyncio.sleep(gap_s)
    return times


async def _listen_ms(url: str, conn: Any) -> float:
    """Measures the lower bound: the time from an INSERT with a NOTIFY until the notification is received."""
    heard: asyncio.Queue[float] = asyncio.Queue()
    listener = await connect(url, answer_s_max=None)
    await listener.add_listener("bench", lambda *_: heard.put_nowait(clock.monotonic()))
    await conn.execute("CREATE TABLE bench (id bigint)")
    times = []
    for number in range(100):
        started_s = clock.monotonic()
        async with conn.transaction():
            await conn.execute("INSERT INTO bench VALUES ($1)", number)
            await conn.execute("NOTIFY bench")
        times.append((await heard.get() - started_s) * 1000)
    await listener.close()
    return median(times)
