"""Measures the private memory of an idle worker process and the cost of one idle account among a thousand. For
comparison, it measures a Python process that has imported the same modules and does nothing.
"""

import asyncio
import sys

from fairpost.dev.bench.arrivals import arriving
from fairpost.dev.bench.engine import add_accounts, children, private_kb, running_engine
from fairpost.dev.bench.workload import Progress, bench_database
from fairpost.model.ids import AccountId
from fairpost.store.store import Store

PACKED = 1000
SINGLE = 4


async def bench_memory(url: str, progress: Progress) -> dict[str, float]:
    async with bench_database(url) as own, Store.open(own) as store, arriving() as (_, port):
        progress(f"{SINGLE} accounts, one process each")
        accounts = await add_accounts(store, SINGLE, host="127.0.0.1", port=port)
        await _one_each(store, accounts)
        async with running_engine(own) as parent:
            await _all_idle(store, SINGLE)
            _, *workers = sorted(children(parent))  # the first process is the orchestrator
            figures = {"worker_private_mb": sum(map(private_kb, workers)) / len(workers) / 1024}
        progress(f"{PACKED} accounts in one process")
        few = await _packed_kb(own, store)
        more = await add_accounts(store, PACKED - SINGLE, host="127.0.0.1", port=port, first=SINGLE)
        await _one_each(store, more)
        many = await _packed_kb(own, store)
        figures["packed_account_kb"] = (many - few) / (PACKED - SINGLE)
    figures["bare_python_mb"] = await _bare_mb()
    return figures


async def _packed_kb(url: str, store: Store) -> int:
    """Returns the memory used by the only worker once it drives all accounts and no account has work left."""
    accounts = await store.value("SELECT count(*) FROM fairpost.accounts")
    names = await store.fetch("SELECT id FROM fairpost.accounts")
    await _one_each(store, [AccountId(row["id"]) for row in names])
    async with running_engine(url, "--accounts-per-process", str(PACKED)) as parent:
        await _all_idle(store, accounts)
        return max(map(private_kb, children(parent)))


async def _one_each(store: Store, accounts: list[AccountId]) -> None:
    """Enqueues one e-mail for each account so that every account is driven by a worker."""
    names = await store.fetch("SELECT name FROM fairpost.accounts WHERE id = ANY ($1)", accounts)
    emails = [{"to": "p@example.org", "subject": "s", "text": "t", "account": row["name"]} for row in names]
    for start in range(0, len(emails), 500):
        await store.enqueue_many(emails[start : start + 500])


async def _all_idle(store: Store, accounts: int) -> None:
    while True:
        waiting = await store.value("SELECT count(*) FROM fairpost.queue")
        driven = await store.value("SELECT count(*) FROM fairpost.leases WHERE until > clock_timestamp()")
        if not waiting and driven == accounts:
            return
        await asyncio.sleep(0.1)


async def _bare_mb() -> float:
    code = "import fairpost.startup.engine, sys; print(flush=True); sys.stdin.read()"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdout.readline()
    kb = private_kb(process.pid)
    process.stdin.close()
    await process.wait()
    return kb / 1024
