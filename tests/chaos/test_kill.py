"""Real processes killed with SIGKILL, PostgreSQL among them: nothing committed is lost, nothing is sent twice."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from fairpost.model.account import Limits
from fairpost.model.ids import AccountId
from fairpost.postgres.embedded import EmbeddedServer
from fairpost.postgres.migrations import migrate
from fairpost.postgres.store import Store
from tests.chaos.worker import LEASE_S
from tests.simulation.world import broken_promises, draft

WORKER = Path(__file__).with_name("worker.py")
SEED = int(os.environ.get("FAIRPOST_SEED", "11"))
ACCOUNTS = 2


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server of its own, with fsync as in production: this one is going to be killed."""
    server = EmbeddedServer(tmp_path_factory.mktemp("c"))
    yield server
    server.stop("immediate")


async def lay_out(url: str, emails: int) -> list[AccountId]:
    conn = await asyncpg.connect(url)
    await migrate(conn)
    await conn.close()
    async with Store.open(url) as store:
        ids = [
            await store.add_account(f"a{i}", address="a@post.test", limits=Limits(batch_max=20))
            for i in range(ACCOUNTS)
        ]
        mail = [draft(workspace=f"w{i % 7}", to=f"p{i}@there.test", on_doubt="hold") for i in range(emails)]
        assert all(row["new"] for row in await store.enqueue_many(mail))
        return ids


def start_worker(url: str, account: AccountId, log: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, str(WORKER), url, str(account), str(log)], stderr=subprocess.DEVNULL)


def read(log: Path) -> Counter[int]:
    return Counter(int(line) for line in log.read_text().split())


async def check(url: str, out: Counter[int], emails: int, kills: int) -> Counter[str]:
    """Everything is sent or in doubt; nothing left us twice; no more doubts than deaths."""
    async with Store.open(url) as store:
        await asyncio.sleep(LEASE_S)
        await store.reap_leases()
        states = Counter(
            row["state"]
            for row in await store.fetch(
                "SELECT state::text FROM fairpost.queue UNION ALL SELECT state::text FROM fairpost.emails"
            )
        )
        sent = {row["id"] for row in await store.fetch("SELECT id FROM fairpost.emails WHERE state = 'sent'")}
        assert sum(states.values()) == emails, "an e-mail was lost"
        assert max(out.values()) == 1, "an e-mail went out twice"
        assert sent <= set(out), "what is called sent did go out"
        assert states["in_doubt"] <= kills, "at most one is in doubt for each death"
        assert await broken_promises(store) == {}
        return states


@pytest.mark.slow
def test_workers_killed_at_any_moment_lose_nothing_and_repeat_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    dice = random.Random(SEED)
    url, log, emails, kills = server.start(), tmp_path / "out", 1500, 0
    accounts = asyncio.run(lay_out(url, emails))
    workers = {account: start_worker(url, account, log) for account in accounts}
    while any(worker.poll() != 0 for worker in workers.values()):
        account = dice.choice(accounts)
        try:
            workers[account].wait(timeout=dice.uniform(0.3, 1.5))  # a moment of its life; it may be over
        except subprocess.TimeoutExpired:
            if kills < 12:
                workers[account].send_signal(signal.SIGKILL)
                workers[account].wait()
                kills += 1
        if workers[account].poll() not in (0, None):
            workers[account] = start_worker(url, account, log)
    states = asyncio.run(check(url, read(log), emails, kills))
    assert kills >= 5, f"the workers were done after {kills} kills: nothing was shown"
    assert states["sent"] >= emails - kills


@pytest.mark.slow
def test_postgres_killed_at_any_moment_forgets_nothing_that_was_committed(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    dice = random.Random(SEED)
    url, log, emails = server.start(), tmp_path / "out", 1500
    accounts = asyncio.run(lay_out(url, emails))
    deaths = 0
    for _ in range(4):
        workers = [start_worker(url, account, log) for account in accounts]
        try:
            workers[0].wait(timeout=dice.uniform(0.5, 1.5))
        except subprocess.TimeoutExpired:
            pid = server.status().pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            deaths += 1
        for worker in workers:
            worker.wait(timeout=60)  # they end by themselves: their connection is gone
        assert server.start() == url
    for account in accounts:
        assert start_worker(url, account, log).wait(timeout=120) == 0
    asyncio.run(check(url, read(log), emails, deaths * ACCOUNTS))
    assert deaths >= 2
