"""Measures the sending rate and the database's CPU time per e-mail for different states of the planner statistics. Each
case has its own database, in which autovacuum is off. The cases take turns so that other load on the machine affects
all of them. The final case holds a transaction open while autovacuum is on and mail arrives continuously.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from statistics import median

import asyncpg

from fairpost.dev.bench.beside import beside
from fairpost.dev.bench.compose import HTML, SUBJECT, TEXT
from fairpost.dev.bench.cpu import since, spent_by_database
from fairpost.dev.bench.engine import add_accounts, running_engine
from fairpost.dev.bench.sink import running_sink
from fairpost.dev.bench.workload import bench_database, fill
from fairpost.store.store import Store
from fairpost.system import clock

Reached = Callable[[str, float], None]  # the current task and the fraction of the total completed before it

CASES = ("fresh", "none", "empty", "emptied", "loaded")
ACCOUNTS = 8
SENDERS = 50
WARM = 300
ONCE_THERE = 100_000
IDLE_S_MAX = 60.0
AT_ONCE = 1_000
ARRIVES_EVERY_S = 0.05


@dataclass(slots=True)
class Case:
    name: str
    url: str
    store: Store
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)


async def bench_plans(
    url: str, reached: Reached, *, seconds: float = 4, rounds: int = 3, emails: int = 10_000, held_s: float = 60
) -> dict[str, float]:
    figures: dict[str, float] = {}
    turns = len(CASES) * rounds
    total_s = turns * (seconds + 5) + held_s + 3 * rounds * seconds
    async with running_sink() as (host, port, _), AsyncExitStack() as stack:
        cases = [await stack.enter_async_context(_case(url, name, host=host, port=port)) for name in CASES]
        for turn, case in zip(range(turns), itertools.cycle(cases), strict=False):
            reached(f"{case.name}, round {turn // len(CASES) + 1}", turn * (seconds + 5) / total_s)
            await _take_turn(case, emails, seconds)
        for case in cases:
            figures |= {f"{case.name}_per_s": median(case.rates), f"{case.name}_cpu_us": median(case.cpu_us)}
    for case in cases[1:]:
        figures[f"{case.name}_rate"] = figures[f"{case.name}_per_s"] / figures["fresh_per_s"]
        figures[f"{case.name}_cpu"] = figures[f"{case.name}_cpu_us"] / figures["fresh_cpu_us"]
    async with running_sink() as (host, port, _), _case(url, "held", host=host, port=port) as case:
        needed = round(1.5 * max(figures["fresh_per_s"], 500) * (held_s + 3 * rounds * (seconds + 1))) + WARM
        await _enqueue(
            case.store,
            needed,
            lambda done: reached(f"held: {done:,} of {needed:,} enqueued", turns * (seconds + 5) / total_s),
        )
        await _analyse(case.store)
        figures |= await _under_a_held_transaction(
            case, seconds, rounds, held_s, lambda what, s: reached(what, (turns * (seconds + 5) + s) / total_s)
        )
    return figures


@asynccontextmanager
async def _case(url: str, name: str, *, host: str, port: int) -> AsyncIterator[Case]:
    async with bench_database(url, name) as own, Store.open(own) as store:
        await add_accounts(store, ACCOUNTS, host=host, port=port)
        if name != "held":
            for row in await store.fetch(
                "SELECT oid::regclass::text AS name FROM pg_class WHERE relnamespace = 'fairpost'::regnamespace AND relkind = 'r'"
            ):
                await store.value(f"ALTER TABLE {row['name']} SET (autovacuum_enabled = false)")
        if name == "emptied":
            await fill(store, [f"workspace{n}" for n in range(SENDERS)], ONCE_THERE // SENDERS)
        if name in ("empty", "emptied"):
            await _analyse(store)
        if name == "emptied":
            await store.value("DELETE FROM fairpost.queue")
            await store.value("DELETE FROM fairpost.arrivals")
            await store.value("VACUUM fairpost.queue, fairpost.arrivals")
        yield Case(name, own, store)


async def _take_turn(case: Case, emails: int, seconds: float) -> None:
    if case.name != "loaded":
        await _enqueue(case.store, emails)
    if case.name == "fresh":
        await _analyse(case.store)
    async with running_engine(case.url):
        if case.name == "loaded":  # with query plans made for a nearly empty queue
            await _enqueue(case.store, WARM)
            await _until_sent_all(case.store)
            await _enqueue(case.store, emails)
        await _measure(case, seconds)


async def _under_a_held_transaction(
    case: Case, seconds: float, rounds: int, held_s: float, reached: Reached
) -> dict[str, float]:
    """Measures the rate before, during and after a long transaction. Each figure is the median of several rounds."""
    async with running_engine(case.url), _mail_arriving(case.store):
        reached("held: before", 0)
        await _measure_often(case, seconds, rounds)
        held = await asyncpg.connect(case.url)
        try:
            await held.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            await held.fetchval("SELECT pg_current_xact_id()::text")
            for second in range(round(held_s)):
                reached(f"held: for {second} s", rounds * seconds + second)
                await asyncio.sleep(1)
            await _measure_often(case, seconds, rounds)
        finally:
            await held.close()
        reached("held: after", 2 * rounds * seconds + held_s)
        await _measure_often(case, seconds, rounds)
    (before, under, after), (cpu_before, cpu_under, cpu_after) = (
        [median(figures[part * rounds : (part + 1) * rounds]) for part in range(3)]
        for figures in (case.rates, case.cpu_us)
    )
    return {
        "held_before_per_s": before,
        "held_per_s": under,
        "held_after_per_s": after,
        "held_before_cpu_us": cpu_before,
        "held_cpu_us": cpu_under,
        "held_after_cpu_us": cpu_after,
        "held_rate": under / before,
        "held_cpu": cpu_under / cpu_before,
        "held_s": held_s,
    }


@asynccontextmanager
async def _mail_arriving(store: Store) -> AsyncIterator[None]:
    """Enqueues one e-mail at a time, each from a different sender in turn, so that each claim finds something new."""

    async def arrive() -> None:
        for n in itertools.count():
            await store.enqueue_many([_email(n)])
            await asyncio.sleep(ARRIVES_EVERY_S)

    async with beside(arrive()):
        yield


async def _measure_often(case: Case, seconds: float, rounds: int) -> None:
    for _ in range(rounds):
        await _measure(case, seconds)


async def _measure(case: Case, seconds: float) -> None:
    """Measures the engine once it has warmed up."""
    before = first = await _sent(case.store)
    while before < first + WARM:
        await asyncio.sleep(0.05)
        before = await _sent(case.store)
    cpu_before, started_s = await spent_by_database(case.store), clock.monotonic()
    await asyncio.sleep(seconds)
    after, cpu_after, ended_s = await _sent(case.store), await spent_by_database(case.store), clock.monotonic()
    case.rates.append((after - before) / (ended_s - started_s))
    case.cpu_us.append(1e6 * since(cpu_before, cpu_after) / max(1, after - before))


async def _sent(store: Store) -> int:
    return int(await store.value("SELECT sum(sent_total) FROM fairpost.leases_now()"))


async def _until_sent_all(store: Store) -> None:
    async with asyncio.timeout(IDLE_S_MAX):
        is_empty = False
        while not is_empty:
            await asyncio.sleep(0.05)
            is_empty = not await store.value("SELECT EXISTS (SELECT FROM fairpost.queue)")


async def _analyse(store: Store) -> None:
    await store.value("ANALYZE")


async def _enqueue(store: Store, emails: int, reached: Callable[[int], None] = lambda done: None) -> None:
    for start in range(0, emails, AT_ONCE):
        reached(start)
        await store.enqueue_many([_email(n) for n in range(start, min(start + AT_ONCE, emails))])


def _email(n: int) -> dict[str, str]:
    return {
        "to": f"person{n}@example.org",
        "subject": SUBJECT,
        "text": TEXT,
        "html": HTML,
        "workspace": f"workspace{n % SENDERS}",
        "stream": "campaign",
    }
