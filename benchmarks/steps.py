"""Measures the CPU time that one step costs the database: settling an e-mail and beginning the next one.

    python benchmarks/steps.py          # takes some minutes, with an embedded PostgreSQL that is removed afterwards

Prints the CPU time per step, first with a transaction for each account's step, then with the steps of several accounts
in one transaction. There is a single connection, and the CPU time is that of the database process that serves it.
"""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

import asyncpg

from fairpost.dev.bench.cpu import since, spent_s
from fairpost.dev.bench.engine import add_accounts
from fairpost.dev.bench.workload import bench_database
from fairpost.model.account import Lease, Limits, Usage
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.step import Begins, Settles, StepRequest
from fairpost.model.verdict import Sent
from fairpost.policy.limits import charge
from fairpost.store.embedded import EmbeddedServer
from fairpost.store.step_groups import take_steps
from fairpost.store.store import Store
from fairpost.system import clock

EMAILS = 3000
SENT = Report(reached=Reached.REPLIED, reply=Reply(250, "2.0.0 Ok"), message_id="<1@example.com>", response_ms=3)


async def measured_us(url: str, accounts: int, *, together: bool) -> float:
    async with bench_database(url) as own:
        conn = await asyncpg.connect(own)
        store, usage = Store(conn), charge(Limits(), Usage(), now=clock.now())
        for start in range(0, EMAILS, 500):
            emails = [
                {"to": f"p{n}@example.org", "workspace": f"w{n % 50}", "subject": "s", "text": "t"} for n in range(500)
            ]
            await store.enqueue_many([{**email, "stream": str(start)} for email in emails])
        leases: list[Lease] = []
        claimed = []
        for id_ in await add_accounts(store, accounts, host="127.0.0.1", port=9):
            lease = await store.take_lease(id_, owner="benchmark", seconds=3600)
            assert lease is not None
            leases.append(lease)
            claimed.append([*(await store.claim(lease, limit=50)).ids])
        while sum(map(len, claimed)) < EMAILS:
            for lease, ids in zip(leases, claimed, strict=True):
                ids += (await store.claim(lease, limit=50)).ids
        rounds, before = min(map(len, claimed)), {}
        for turn in range(rounds):
            if turn == rounds // 5:  # warmed up
                before = spent_s([conn.get_server_pid()])
            requests = [
                StepRequest(
                    lease=replace(lease, step=lease.step + turn),
                    number=lease.step + turn + 1,
                    settles=Settles(email_id=ids[turn - 1], verdict=Sent(), report=SENT) if turn else None,
                    begins=Begins(email_id=ids[turn], usage=usage),
                )
                for lease, ids in zip(leases, claimed, strict=True)
            ]
            if together:
                assert all(await take_steps(store, requests))
            else:
                assert all([(await store.take_step(request)).is_taken for request in requests])
        spent = since(before, spent_s([conn.get_server_pid()]))
        await conn.close()
    return 1e6 * spent / (accounts * (rounds - rounds // 5))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="fp-steps-") as home:
        server = EmbeddedServer(Path(home))
        url = server.start()
        try:
            print(f"separately: {asyncio.run(measured_us(url, 4, together=False)):,.0f} µs")
            for accounts in (1, 4, 8, 16):
                print(
                    f"{accounts} together: {asyncio.run(measured_us(url, accounts, together=True)):,.0f} µs", flush=True
                )
        finally:
            server.stop()


if __name__ == "__main__":
    main()
