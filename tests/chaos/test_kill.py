"""Real processes killed with SIGKILL, PostgreSQL among them: nothing committed is lost, nothing is sent twice."""

import asyncio
import os
import random
import select
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
EMAILS = 1500
ACCOUNTS = 2


class World:
    """The outside: every message that left a worker arrives here, whatever became of the worker."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._rest = b""
        self.out: Counter[int] = Counter()

    def start_worker(self, url: str, account: AccountId) -> "subprocess.Popen[bytes]":
        command = [sys.executable, str(WORKER), url, str(account), str(self._write)]
        return subprocess.Popen(command, pass_fds=(self._write,), stderr=subprocess.DEVNULL)

    def listen(self, seconds: float) -> None:
        """Takes in what arrives, at the latest after so long."""
        if select.select([self._read], [], [], seconds)[0]:
            *lines, self._rest = (self._rest + os.read(self._read, 65536)).split(b"\n")
            self.out.update(int(line) for line in lines)

    def close(self) -> None:
        while select.select([self._read], [], [], 0)[0]:
            self.listen(0)
        os.close(self._read)
        os.close(self._write)


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server of its own, with fsync as in production: this one is going to be killed."""
    server = EmbeddedServer(tmp_path_factory.mktemp("c"))
    yield server
    server.stop("immediate")


async def lay_out(url: str) -> list[AccountId]:
    conn = await asyncpg.connect(url)
    await migrate(conn)
    await conn.close()
    async with Store.open(url) as store:
        limits = Limits(batch_max=20)
        ids = [await store.add_account(f"a{i}", address="a@post.test", limits=limits) for i in range(ACCOUNTS)]
        mail = [draft(workspace=f"w{i % 7}", to=f"p{i}@there.test", on_doubt="hold") for i in range(EMAILS)]
        assert all(row["new"] for row in await store.enqueue_many(mail))
        return ids


async def check(url: str, out: Counter[int], deaths: int) -> None:
    """Everything is sent or in doubt; nothing left us twice; no more doubts than deaths."""
    async with Store.open(url) as store:
        await asyncio.sleep(LEASE_S)
        await store.reap_leases()
        sql = "SELECT id, state::text FROM fairpost.queue UNION ALL SELECT id, state::text FROM fairpost.emails"
        states = {row["id"]: row["state"] for row in await store.fetch(sql)}
        assert len(states) == EMAILS, "an e-mail was lost"
        assert set(states.values()) <= {"sent", "in_doubt"}
        assert max(out.values()) == 1, "an e-mail went out twice"
        assert {i for i, state in states.items() if state == "sent"} <= set(out), "what is called sent did go out"
        assert list(states.values()).count("in_doubt") <= deaths, "at most one is in doubt for each death"
        assert await broken_promises(store) == {}


@pytest.mark.slow
def test_workers_killed_at_any_moment_lose_nothing_and_repeat_nothing(server: EmbeddedServer) -> None:
    dice, world, url = random.Random(SEED), World(), server.start()
    accounts = asyncio.run(lay_out(url))
    workers = {account: world.start_worker(url, account) for account in accounts}
    to_come = sorted(dice.sample(range(20, EMAILS - 200), 10))  # so many are out when somebody dies
    deaths = 0
    while to_come or any(worker.poll() is None for worker in workers.values()):
        world.listen(0.1)
        if to_come and sum(world.out.values()) >= to_come[0]:
            victim = workers[dice.choice(accounts)]
            victim.kill()
            deaths += victim.wait() == -signal.SIGKILL
            del to_come[0]
        for account, worker in workers.items():
            if worker.poll() not in (None, 0):
                workers[account] = world.start_worker(url, account)
    world.close()
    assert deaths >= 8
    asyncio.run(check(url, world.out, deaths))


@pytest.mark.slow
def test_postgres_killed_at_any_moment_forgets_nothing_that_was_committed(server: EmbeddedServer) -> None:
    dice, world, url = random.Random(SEED), World(), server.start()
    accounts = asyncio.run(lay_out(url))
    deaths = sorted(dice.sample(range(20, EMAILS - 300), 4))
    for out_by_then in [*deaths, EMAILS]:
        workers = [world.start_worker(url, account) for account in accounts]
        while sum(world.out.values()) < out_by_then and any(worker.poll() is None for worker in workers):
            world.listen(0.1)
        if out_by_then < EMAILS:
            pid = server.status().pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        for worker in workers:
            worker.wait(timeout=150)  # they end by themselves: done, or their connection is gone
        assert server.start() == url
    world.close()
    asyncio.run(check(url, world.out, len(deaths) * ACCOUNTS))
