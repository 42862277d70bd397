"""Measures three operations: listing waiting senders, throttling one, and claiming when nearly all are throttled."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median
from typing import Protocol

from fairpost.dev.bench.workload import Progress, bench_database, claim_ms, empty, fill, stage_all
from fairpost.model.sender import Sender, SenderId, Throttle, Tier
from fairpost.store import senders
from fairpost.store.store import Store
from fairpost.system import clock

LOOKS = 11
HOUR, DAY = timedelta(hours=1), timedelta(hours=24)
WHALE = Sender(id=SenderId(workspace="whale", name="u"))

# The naive approach: the same counts, computed from the e-mails themselves.
_GROUP_BY = (
    """SELECT workspace, user_name, count(*) FROM fairpost.queue WHERE waiting GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 20"""
)

_SERVED = """
INSERT INTO fairpost.activity (workspace, user_name, hour, writer, sent, bounced)
SELECT 'w' || i % 1000, 'u' || i / 1000, fairpost.hour_of(clock_timestamp()) - make_interval(hours => i % 24), '#1', 1 + i % 17, i % 50 / 49
FROM generate_series(0, 99999) i"""

_THROTTLE = """
SELECT count(fairpost.decide('w' || i, 'user', 'u', 0, -1::smallint, NULL, clock_timestamp(), clock_timestamp() + interval '1 day', true, false, NULL,
    70::smallint, 1, '{bench}', clock_timestamp(), false))
FROM generate_series($1::int, $2) i WHERE i % 100 <> 0"""


class Look(Protocol):
    def __call__(self, store: Store, *, window: timedelta) -> Awaitable[object]: ...


async def bench_fairness(url: str, progress: Progress, *, look: Look) -> dict[str, float]:
    """Runs the benchmark. `look` reads the figures."""
    async with bench_database(url) as own, Store.open(own) as store:
        figures = await _many_users(store, look, progress)
        figures |= await _whale(store, progress)
        figures |= await _many_workspaces(store, look, progress)
    return figures


async def _many_users(store: Store, look: Look, progress: Progress) -> dict[str, float]:
    await empty(store)
    for user in range(100):
        await fill(store, [f"w{i}" for i in range(1_000)], 10, user=f"u{user}")
        progress(f"{(user + 1) * 10_000:,} of 1,000,000 e-mails from 100,000 users")
    await stage_all(store)
    await store.value(_SERVED)
    await store.value("VACUUM ANALYZE fairpost.activity")
    return {
        "metrics_ms": await _look_ms(store, look, HOUR),
        "report_ms": await _look_ms(store, look, DAY),
        "group_by_senders_ms": await _median_ms(lambda: store.fetch(_GROUP_BY)),
    }


async def _look_ms(store: Store, look: Look, window: timedelta) -> float:
    """Measures how long it takes to read the figures when the stored queue health is up to date. An engine updates it
    every few seconds."""

    async def looked() -> None:
        await look(store, window=window)

    now: datetime = await store.value("SELECT clock_timestamp()")
    await senders.set_health(store, queued=1_000_000, oldest_at=now, multiplier=1, now=now)
    return await _median_ms(looked)


async def _median_ms(work: Callable[[], Awaitable[object]]) -> float:
    times = []
    for _ in range(LOOKS):
        started = clock.monotonic()
        await work()
        times.append((clock.monotonic() - started) * 1000)
    return median(times)


async def _whale(store: Store, progress: Progress) -> dict[str, float]:
    progress("1,000,000 e-mails from one sender")
    await empty(store)
    await fill(store, ["whale"], 1_000_000)
    await stage_all(store)
    throttling, lifting = [], []
    whale = WHALE
    for _ in range(LOOKS):
        now: datetime = await store.value("SELECT clock_timestamp()")
        throttled = replace(whale, tier=Tier.THROTTLED, throttle=Throttle(now, now + DAY), is_enforced=True)
        throttling.append(await _decide_ms(store, throttled))
        lifting.append(await _decide_ms(store, replace(whale, revision=whale.revision + 1)))
        whale = replace(whale, revision=whale.revision + 2)
        await store.value("SELECT fairpost.absorb_arrivals(ARRAY['default'])")
    return {"throttle_ms": median(throttling), "lift_ms": median(lifting)}


async def _decide_ms(store: Store, after: Sender) -> float:
    started = clock.monotonic()
    assert await senders.decide(store, after, is_new=False), "another process decides about senders in this database"
    return (clock.monotonic() - started) * 1000


async def _many_workspaces(store: Store, look: Look, progress: Progress) -> dict[str, float]:
    progress("100,000 senders, each a workspace")
    lease = await empty(store)
    for at in range(0, 100_000, 10_000):
        await fill(store, [f"w{i}" for i in range(at, at + 10_000)], 5)
    await stage_all(store)
    figures = {
        "metrics_ms_workspaces": await _look_ms(store, look, HOUR),
        "claim_ms_free": await claim_ms(store, lease),
    }
    for at in range(0, 100_000, 5_000):
        await store.value(_THROTTLE, at, at + 4_999)
        progress(f"{at + 5_000:,} of 100,000 senders processed")
    await stage_all(store)
    return {**figures, "claim_ms_throttled": await claim_ms(store, lease)}
