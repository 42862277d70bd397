"""Measures how fast 50 e-mails are claimed: with a short or long queue, with most senders held, and after long use."""

from statistics import median

from fairpost.dev.bench.workload import Progress, bench_database, churn, claim_ms, empty, fill, stage_all
from fairpost.store.connections import connect
from fairpost.store.store import Store
from fairpost.system import clock

SMALL_FLOWS = 10_000
CHURN = 500_000

# The naive approach, for comparison: count every backlog, then serve the smallest first.
_GROUP_BY = "SELECT workspace, count(*) FROM fairpost.queue WHERE waiting AND due_at <= clock_timestamp() GROUP BY workspace ORDER BY 2 LIMIT 50"

# The cheapest possible claim: first come, first served. Each such claim is rolled back.
_FIFO = """UPDATE fairpost.queue SET state = 'claimed', waiting = false, account_id = 1, epoch = 1 WHERE id IN (
    SELECT id FROM fairpost.queue WHERE waiting AND due_at <= clock_timestamp() ORDER BY due_at LIMIT 50 FOR UPDATE SKIP LOCKED)"""


async def bench_claim(url: str, progress: Progress) -> dict[str, float]:
    async with bench_database(url) as own, Store.open(own) as store:
        figures = await _small(store, progress)
        figures |= await _blocked(store, progress)
        figures |= await _large(store, own, progress)
    return figures


async def _small(store: Store, progress: Progress) -> dict[str, float]:
    progress("10,000 e-mails from 100 senders")
    lease = await empty(store)
    await fill(store, [f"w{i}" for i in range(100)], 100)
    await stage_all(store)
    return {"claim_ms_small": await claim_ms(store, lease), "group_by_ms_small": await _group_by_ms(store)}


async def _blocked(store: Store, progress: Progress) -> dict[str, float]:
    progress("100,000 senders, 99 of 100 held")
    lease = await empty(store)
    for at in range(0, 100_000, 10_000):
        await fill(store, [f"w{i}" for i in range(at, at + 10_000)], 5)
    await stage_all(store)
    for at in range(0, 100_000, 5_000):
        await store.value(
            """SELECT count(fairpost.hold('w' || i, 'user', 'u', 'infinity', 'hold.by_hand', '{}')) FROM generate_series($1::int, $2) i
               WHERE i % 100 <> 0""",
            *(at, at + 4_999),
        )
        progress(f"{at + 5_000:,} of 100,000 senders processed")
    await stage_all(store)
    return {"claim_ms_blocked": await claim_ms(store, lease)}


async def _large(store: Store, url: str, progress: Progress) -> dict[str, float]:
    progress("1,000,000 e-mails from 10,001 senders")
    lease = await empty(store)
    await fill(store, ["whale"], 900_000)
    await fill(store, [f"w{i}" for i in range(SMALL_FLOWS)], 10)
    await stage_all(store)
    figures = {"claim_ms_large": await claim_ms(store, lease), "group_by_ms_large": await _group_by_ms(store)}
    figures["fifo_ms_large"] = await _fifo_ms(url)
    await fill(store, ["whale"], 100_000)
    await stage_all(store)
    figures["hold_ms"] = await _hold_ms(store)
    await churn(store, lease, CHURN, progress)
    figures["claim_ms_after_churn"] = await claim_ms(store, lease)
    held = await connect(url, answer_s_max=None)
    await held.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await held.fetchval("SELECT pg_current_xact_id()::text")
    await churn(store, lease, CHURN, progress)
    figures["claim_ms_held_xmin"] = await claim_ms(store, lease)
    await held.close()
    return figures


async def _group_by_ms(store: Store) -> float:
    times = []
    for _ in range(5):
        started = clock.monotonic()
        await store.fetch(_GROUP_BY)
        times.append((clock.monotonic() - started) * 1000)
    return median(times)


async def _fifo_ms(url: str) -> float:
    times = []
    conn = await connect(url, answer_s_max=None)
    await conn.execute("CREATE INDEX by_due ON fairpost.queue (due_at) WHERE waiting")
    for _ in range(20):
        transaction = conn.transaction()
        await transaction.start()
        started = clock.monotonic()
        await conn.execute(_FIFO)
        times.append((clock.monotonic() - started) * 1000)
        await transaction.rollback()
    await conn.execute("DROP INDEX fairpost.by_due")
    await conn.close()
    return median(times)


async def _hold_ms(store: Store) -> float:
    times = []
    for _ in range(11):
        started = clock.monotonic()
        await store.hold("whale", "user", "u", reason="bench")
        times.append((clock.monotonic() - started) * 1000)
        await store.release("whale", "user", "u")
        await store.value("SELECT fairpost.absorb_arrivals(ARRAY['default'])")
    return median(times)
