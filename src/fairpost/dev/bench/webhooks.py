"""Measures how many webhooks per second one engine delivers to one healthy endpoint.

Each webhook is read, signed, posted, logged and committed.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from fairpost.dev.bench.cpu import since, spent_by_database, spent_s
from fairpost.dev.bench.workload import Progress, bench_database
from fairpost.maintenance.webhooks import WebhookOptions, WebhookWatch
from fairpost.model.webhook import owner_of_secret
from fairpost.smtp.guard import NetworkGuard
from fairpost.store import events, webhooks
from fairpost.store.store import Store
from fairpost.system import chance, clock
from fairpost.vault.keyring import Keyring
from fairpost.vault.vault import Vault
from fairpost.webhooks.signing import SECRET_BYTES, written

EMAILS = 10_000
ROUNDS = 3
WORKSPACE = "bench"


async def bench_webhooks(url: str, progress: Progress) -> dict[str, float]:
    rounds = []
    with TemporaryDirectory() as home:
        async with bench_database(url) as own, Store.open(own) as store, _sink() as (port, pid):
            vault = Vault(Keyring(Path(home)))
            await _add(store, vault, f"http://127.0.0.1:{port}/")
            options = WebhookOptions(engine="bench", open_secret=vault.open_secret, guard=NetworkGuard())
            watch = WebhookWatch(store, options, lambda event: None)
            for number in range(ROUNDS):
                progress(f"{EMAILS:,} webhooks, round {number + 1} of {ROUNDS}")
                rounds.append(await _round(store, watch, pid))
            await watch.stop()
    return {name: median(each[name] for each in rounds) for name in rounds[0]}


async def _round(store: Store, watch: WebhookWatch, sink: int) -> dict[str, float]:
    await _write(store)
    before = sum(os.times()[:2]), await spent_by_database(store), spent_s([sink])
    delivered, began_s = await _delivered(store), clock.steady()
    while await watch.step():
        await watch.settle()
    took_s = clock.steady() - began_s
    assert await _delivered(store) == delivered + EMAILS
    engine_s = sum(os.times()[:2]) - before[0]
    spent = {
        "cpu_us_engine": engine_s,
        "cpu_us_database": since(before[1], await spent_by_database(store)),
        "cpu_us_sink": since(before[2], spent_s([sink])),
    }
    each_us = {name: 1e6 * seconds / EMAILS for name, seconds in spent.items()}
    return {"webhooks_per_s": EMAILS / took_s, "cpu_us_per_webhook": sum(each_us.values()), **each_us}


async def _delivered(store: Store) -> int:
    return int(await store.value("SELECT count(*) FROM fairpost.webhook_deliveries WHERE reason IS NULL"))


async def _add(store: Store, vault: Vault, url: str) -> None:
    """Adds an operator endpoint, which may be on this machine."""
    hook = await webhooks.add(store, None, url=url, description="", kinds=(), tags={}, now=clock.now())
    secret_id = await webhooks.next_secret_id(store)
    in_use, _ = await store.keys_in_use(None)
    secret = written(chance.secret_bytes(SECRET_BYTES))
    sealed = vault.seal_for(owner_of_secret(secret_id), secret, key=vault.key_for(in_use))
    await webhooks.add_secret(store, hook, secret_id, sealed=sealed, keys=in_use, overlap=timedelta(0))


async def _write(store: Store) -> None:
    """Finishes e-mails that have labels, so that an event is written for each e-mail."""
    for start in range(0, EMAILS, 1_000):
        emails = [
            {
                "workspace": WORKSPACE,
                "to": f"u{start + n}@there.test",
                "subject": "Hi",
                "text": "Hi",
                "type": "reset",
                "tags": {"order": str(start + n), "region": "north"},
                "metadata": {"customer": start + n},
            }
            for n in range(1_000)
        ]
        rows = await store.enqueue_many(emails)
        ids = [row["id"] for row in rows]
        sql = "SELECT count(fairpost.finish(i, 'failed', 'a benchmark', clock_timestamp())) FROM unnest($1::bigint[]) i"
        await store.in_bulk().value(sql, ids)
    while await events.take_turn(store):
        pass


@asynccontextmanager
async def _sink() -> AsyncIterator[tuple[int, int]]:
    """Yields the receiver's port and PID."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fairpost.dev.bench.webhook_sink"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline()), process.pid
    finally:
        process.stdin.close()
        await process.wait()
