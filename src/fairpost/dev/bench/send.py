"""E-mails a second end to end: database, engine and Postfix's smtp-sink on this one machine, a durable commit for each.

Beside it, in the same run: the plain way (a table, EmailMessage, aiosmtplib), and the ceiling: the same SQL from as many
processes, without composing and sending.
"""

import asyncio
import json
import sys
from typing import Any

from fairpost.dev.bench.compose import HTML, SUBJECT, TEXT
from fairpost.dev.bench.engine import add_accounts, running_engine
from fairpost.dev.bench.sink import running_sink
from fairpost.dev.bench.workload import Progress, bench_database
from fairpost.store.store import Store
from fairpost.system import clock

ACCOUNTS = 8
EMAILS = 15_000
WARM = 300
NAIVE_CONNECTIONS = 8


async def bench_send(url: str, progress: Progress, *, seconds: float = 6) -> dict[str, float]:
    figures = {}
    async with running_sink() as (host, port):
        async with bench_database(url) as own, Store.open(own) as store:
            accounts = await add_accounts(store, ACCOUNTS, host=host, port=port)
            await _enqueue(store, progress)
            progress("emails_per_s: the engine at work")
            async with running_engine(own):
                figures["emails_per_s"] = await _rate(store, seconds)
            progress("ceiling_emails_per_s: the same without composing and sending")
            await store.reap_leases()
            drivers = [await _start("fairpost.dev.bench.ceiling", own, str(id_)) for id_ in accounts]
            figures["ceiling_emails_per_s"] = await _rate(store, seconds)
            await _end(drivers)
        async with bench_database(url) as own, Store.open(own) as store:
            await _naive_table(store)
            for key, processes in (("naive_emails_per_s", 1), ("naive_2_processes_per_s", 2)):
                progress(f"{key}: a table, EmailMessage and aiosmtplib")
                figures[key] = await _naive(store, own, host, port, processes, seconds)
    figures["times_naive"] = figures["emails_per_s"] / figures["naive_emails_per_s"]
    figures["share_of_ceiling"] = figures["emails_per_s"] / figures["ceiling_emails_per_s"]
    return figures


async def _enqueue(store: Store, progress: Progress) -> None:
    """Each with a content of its own: nothing is encoded once for all."""
    for start in range(0, EMAILS, 500):
        progress(f"enqueueing {start:,} of {EMAILS:,}")
        await store.enqueue_many([_email(n) for n in range(start, start + 500)])


def _email(n: int) -> dict[str, Any]:
    return {
        "to": f"person{n}@example.org",
        "subject": SUBJECT,
        "text": TEXT,
        "html": HTML,
        "workspace": f"workspace{n % 50}",
        "stream": "campaign",
    }


async def _rate(store: Store, seconds: float, done: str = "SELECT sum(sent_total) FROM fairpost.leases") -> float:
    """From when it has warmed up."""
    before = first = int(await store.value(done) or 0)
    while before < first + WARM:
        await asyncio.sleep(0.05)
        before = int(await store.value(done) or 0)
    started_s = clock.monotonic()
    await asyncio.sleep(seconds)
    return (int(await store.value(done)) - before) / (clock.monotonic() - started_s)


async def _naive(store: Store, url: str, host: str, port: int, processes: int, seconds: float) -> float:
    arguments = (url, host, str(port), str(NAIVE_CONNECTIONS // processes))
    started = [await _start("fairpost.dev.bench.naive", *arguments) for _ in range(processes)]
    try:
        return await _rate(store, seconds, done="SELECT count(*) FROM mail WHERE sent")
    finally:
        await _end(started)


async def _naive_table(store: Store) -> None:
    await store.value(
        "CREATE TABLE mail (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email jsonb, sent boolean DEFAULT false)"
    )
    await store.value("CREATE INDEX ON mail (id) WHERE NOT sent")
    for start in range(0, EMAILS, 500):
        rows = json.dumps([_email(n) for n in range(start, start + 500)])
        await store.value("INSERT INTO mail (email) SELECT jsonb_array_elements($1::jsonb)", rows)


async def _start(module: str, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-m", module, *arguments)


async def _end(processes: list[asyncio.subprocess.Process]) -> None:
    for process in processes:
        if process.returncode is None:
            process.kill()
        await process.wait()
