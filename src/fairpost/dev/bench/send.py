"""Measures e-mails per second end to end, durably committed, with the database, the engine and Postfix's smtp-sink on
one machine.

For comparison, the same run measures the naive approach (a table, EmailMessage, aiosmtplib) and the ceiling, which is
the same SQL from the same number of processes, without composing or sending.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from fairpost.dev.bench.cpu import Spent, since, spent_by_database, spent_s
from fairpost.dev.bench.engine import DOMAIN, add_accounts, children, running_engine
from fairpost.dev.bench.mail import WORKSPACES, enqueue, launch_campaigns, single
from fairpost.dev.bench.sink import running_sink
from fairpost.dev.bench.workload import Progress, bench_database
from fairpost.model.dkim import Algorithm, DkimKey
from fairpost.store import dkim, workspaces
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.vault.dkim import new_private_key, public_text, write_private_key
from fairpost.vault.keyring import Keyring
from fairpost.vault.keys import Key, new_key, write_key
from fairpost.vault.vault import Vault

ACCOUNTS = 8
EMAILS = 40_000
WARM = 300
SENT = "SELECT sum(sent_total) FROM fairpost.leases"
NAIVE_CONNECTIONS = 8


async def bench_send(
    url: str,
    progress: Progress,
    *,
    seconds: float = 6,
    accounts: int = ACCOUNTS,
    options: Sequence[str] = (),
    is_signed: bool = False,
    is_campaign: bool = False,
) -> dict[str, float]:
    """Runs the benchmark. `options` are passed to the engine. With `is_signed`, the engine is also measured with DKIM.
    With `is_campaign`, the e-mails belong to campaigns with quotas and follow-ups.
    """
    figures: dict[str, float] = {}
    async with running_sink() as (host, port, sink):
        async with bench_database(url) as own, Store.open(own) as store:
            ids = await add_accounts(store, accounts, host=host, port=port)
            await (launch_campaigns if is_campaign else enqueue)(store, EMAILS, progress)
            progress("emails_per_s: the engine")
            async with running_engine(own, *options) as parent:
                figures |= await _measured(store, seconds, engine=parent, sink=sink)
            if is_signed:
                figures |= await _signed(store, own, progress, seconds, options=options, sink=sink)
            progress("ceiling_emails_per_s: the same without composing or sending")
            await store.reap_leases()
            driver = await _start("fairpost.dev.bench.ceiling", own, *map(str, ids))
            figures["ceiling_emails_per_s"] = await _rate(store, seconds)
            await _end([driver])
        async with bench_database(url) as own, Store.open(own) as store:
            await _naive_table(store)
            for key, processes in (("naive_emails_per_s", 1), ("naive_2_processes_per_s", 2)):
                progress(f"{key}: a table, EmailMessage and aiosmtplib")
                figures[key] = await _naive(store, own, host, port, processes, seconds)
    figures["times_naive"] = figures["emails_per_s"] / figures["naive_emails_per_s"]
    figures["share_of_ceiling"] = figures["emails_per_s"] / figures["ceiling_emails_per_s"]
    return figures


async def _signed(
    store: Store, url: str, progress: Progress, seconds: float, *, options: Sequence[str], sink: int
) -> dict[str, float]:
    """Measures the engine again, with a DKIM key (RSA-2048) in each workspace."""
    progress("generating DKIM keys")
    key = new_key()
    vault = Vault(Keyring(Path("/nonexistent"), given=key))
    for n in range(WORKSPACES):
        await _add_signing_key(store, f"workspace{n}", vault, key)
    await enqueue(store, EMAILS, progress)
    progress("signed_emails_per_s: the engine, with DKIM signatures")
    async with running_engine(url, *options, environment={"FAIRPOST_SECRET_KEY": write_key(key)}) as parent:
        found = await _measured(store, seconds, engine=parent, sink=sink)
    return {f"signed_{name}": value for name, value in found.items()}


async def _add_signing_key(store: Store, workspace: str, vault: Vault, key: Key) -> None:
    await workspaces.add_workspace(store, workspace)
    await workspaces.add_domain(store, workspace, DOMAIN)
    private = new_private_key(Algorithm.RSA)
    made = DkimKey(
        id=await dkim.next_key_id(store),
        domain=DOMAIN,
        selector=workspace,
        algorithm=Algorithm.RSA,
        public=public_text(private),
        created_at=clock.now(),
    )
    in_use, _ = await store.keys_in_use(None)
    sealed = vault.seal_for(f"dkim {made.id}", write_private_key(private), key=key)
    await dkim.add_key(store, workspace, made, sealed=sealed, keys=in_use)
    await dkim.key_checked(store, workspace, made.id, is_there=True)


async def _measured(store: Store, seconds: float, *, engine: int, sink: int) -> dict[str, float]:
    """Measures the e-mails per second, and the CPU time per e-mail by kind of process."""
    await _warmed_up(store, SENT)
    before, spent_before, started_s = await _done(store, SENT), await _spent(store, engine, sink), clock.monotonic()
    await asyncio.sleep(seconds)
    after, spent, ended_s = await _done(store, SENT), await _spent(store, engine, sink), clock.monotonic()
    emails = max(1, after - before)
    each = {f"cpu_us_{kind}": 1e6 * since(spent_before[kind], spent[kind]) / emails for kind in spent}
    return {"emails_per_s": emails / (ended_s - started_s), "cpu_us_per_email": sum(each.values()), **each}


async def _spent(store: Store, engine: int, sink: int) -> dict[str, Spent]:
    return {
        "database": await spent_by_database(store),
        "engine": spent_s([engine, *children(engine)]),
        "sink": spent_s([sink]),
    }


async def _rate(store: Store, seconds: float, done: str = SENT) -> float:
    await _warmed_up(store, done)
    before, started_s = await _done(store, done), clock.monotonic()
    await asyncio.sleep(seconds)
    return (await _done(store, done) - before) / (clock.monotonic() - started_s)


async def _warmed_up(store: Store, done: str) -> None:
    first = await _done(store, done)
    while await _done(store, done) < first + WARM:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.05)


async def _done(store: Store, done: str) -> int:
    return int(await store.value(done) or 0)


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
        rows = json.dumps([single(n) for n in range(start, start + 500)])
        await store.value("INSERT INTO mail (email) SELECT jsonb_array_elements($1::jsonb)", rows)


async def _start(module: str, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-m", module, *arguments)


async def _end(processes: list[asyncio.subprocess.Process]) -> None:
    for process in processes:
        if process.returncode is None:
            process.kill()
        await process.wait()
