"""Workers and PostgreSQL are killed at any moment: nothing committed is lost, and nothing is sent twice."""

import asyncio
import multiprocessing
import os
import random
import signal
from collections import Counter
from multiprocessing.context import ForkServerProcess

import pytest

from fairpost.model.account import Limits
from fairpost.model.ids import AccountId
from fairpost.store.embedded import EmbeddedServer
from fairpost.store.store import Store
from tests.chaos.conftest import database_on
from tests.chaos.driver import LONG_KILLS
from tests.chaos.victims import LEASE_S, fork, send_into_pipe, send_together_into_pipe
from tests.simulation.world import broken_promises, draft

SEED = int(os.environ.get("FAIRPOST_SEED", "11"))
EMAILS = 1500 if LONG_KILLS else 150
WORKERS_KILLED = 10 if LONG_KILLS else 3
SERVERS_KILLED = 4 if LONG_KILLS else 1
ACCOUNTS = 2
GROUPED = 6  # accounts that share a process
GROUPS_KILLED = 8 if LONG_KILLS else 2


class World:
    """The outside: every message that left a worker arrives here, whatever happens to the worker."""

    def __init__(self, url: str, seed: int, *, accounts: int = ACCOUNTS) -> None:
        self.url = url
        self.dice = random.Random(seed)
        self.accounts = asyncio.run(lay_out(url, accounts))
        self.out: Counter[int] = Counter()
        self._read, self._write = multiprocessing.Pipe(duplex=False)
        self._rest = b""

    def start_worker(self, account: AccountId) -> ForkServerProcess:
        return fork(send_into_pipe, self.url, account, self._write)

    def start_group(self) -> ForkServerProcess:
        return fork(send_together_into_pipe, self.url, self.accounts, self._write)

    def listen(self, seconds: float) -> bool:
        """Reads what arrives, for at most this long."""
        if not self._read.poll(seconds):
            return False
        *lines, self._rest = (self._rest + os.read(self._read.fileno(), 65536)).split(b"\n")
        self.out.update(int(line) for line in lines)
        return True

    def deaths(self, n: int) -> list[int]:
        """Returns how many messages had been sent by the time of each."""
        return sorted(self.dice.sample(range(EMAILS // 50, EMAILS * 4 // 5), n))

    def close(self) -> None:
        while self.listen(0):
            pass
        self._read.close()
        self._write.close()


async def lay_out(url: str, accounts: int) -> list[AccountId]:
    async with Store.open(url) as store:
        limits = Limits(batch_max=20)
        ids = [await store.add_account(f"a{i}", address="a@post.test", limits=limits) for i in range(accounts)]
        mail = [draft(workspace=f"w{i % 7}", to=f"p{i}@there.test", on_doubt="hold") for i in range(EMAILS)]
        assert all(row["new"] for row in await store.enqueue_many(mail))
        return ids


async def check(url: str, out: Counter[int]) -> None:
    """Everything is sent or in doubt; nothing was sent twice; and there are no more doubts than leases that were taken
    over.

    A worker that is killed loses its lease, and so does one that stands still for half a second on a busy machine.
    """
    async with Store.open(url) as store:
        await asyncio.sleep(LEASE_S)
        await store.reap_leases()
        sql = "SELECT id, state::text FROM fairpost.queue UNION ALL SELECT id, state::text FROM fairpost.emails"
        states = {row["id"]: row["state"] for row in await store.fetch(sql)}
        assert len(states) == EMAILS, "an e-mail was lost"
        assert set(states.values()) <= {"sent", "in_doubt"}
        assert max(out.values()) == 1, "an e-mail went out twice"
        assert {i for i, state in states.items() if state == "sent"} <= set(out), "every e-mail marked as sent was sent"
        takeovers = await store.value("SELECT sum(epoch) - count(*) FROM fairpost.leases")
        assert list(states.values()).count("in_doubt") <= takeovers, "at most one is in doubt for each lease lost"
        assert await broken_promises(store) == {}


def test_workers_killed_at_any_moment_lose_nothing_and_repeat_nothing(url: str) -> None:
    world = World(url, SEED)
    workers = {account: world.start_worker(account) for account in world.accounts}
    to_come = world.deaths(WORKERS_KILLED)
    deaths = 0
    while to_come or any(worker.is_alive() for worker in workers.values()):
        world.listen(0.1)
        if to_come and world.out.total() >= to_come[0]:
            victim = workers[world.dice.choice(world.accounts)]
            victim.kill()
            victim.join()
            deaths += victim.exitcode == -signal.SIGKILL
            del to_come[0]
        for account, worker in workers.items():
            if worker.exitcode not in (None, 0):
                workers[account] = world.start_worker(account)
    world.close()
    assert deaths >= WORKERS_KILLED - 2
    asyncio.run(check(url, world.out))


async def confirm(url: str) -> None:
    """As an engine does after each start of the server, before its workers send."""
    async with Store.open(url) as store:
        await store.ask_about_server()
        assert (await store.confirm_server("chaos", life=None, steps={})).verdict == "confirmed"


@pytest.mark.slow
def test_postgres_killed_at_any_moment_forgets_nothing_that_was_committed(mortal: EmbeddedServer) -> None:
    url = asyncio.run(database_on(mortal))
    world = World(url, SEED)
    for out_by_then in [*world.deaths(SERVERS_KILLED), EMAILS]:
        workers = [world.start_worker(account) for account in world.accounts]
        while world.out.total() < out_by_then and any(worker.is_alive() for worker in workers):
            world.listen(0.1)
        if out_by_then < EMAILS:
            pid = mortal.status().pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        for worker in workers:
            worker.join(timeout=150)  # they end by themselves, because they are done or have lost their connection
            assert worker.exitcode is not None
        mortal.start()
        asyncio.run(confirm(url))
    world.close()
    asyncio.run(check(url, world.out))


@pytest.mark.slow
def test_servers_stopped_at_once_and_workers_killed_between_groups_lose_and_repeat_nothing(
    mortal: EmbeddedServer,
) -> None:
    """The server gets SIGQUIT, which ends it without a checkpoint, and the worker SIGKILL, by turns."""
    url = asyncio.run(database_on(mortal))
    world = World(url, SEED, accounts=GROUPED)
    for nth, out_by_then in enumerate([*world.deaths(GROUPS_KILLED), EMAILS]):
        worker = world.start_group()
        while world.out.total() < out_by_then and worker.is_alive():
            world.listen(0.1)
        if out_by_then < EMAILS and nth % 2:
            worker.kill()
        elif out_by_then < EMAILS:
            pid = mortal.status().pid
            assert pid is not None
            os.kill(pid, signal.SIGQUIT)
        worker.join(timeout=150)  # it ends by itself, because it is done or has lost its connections
        assert worker.exitcode is not None
        mortal.start()
        asyncio.run(confirm(url))
    world.close()
    asyncio.run(check(url, world.out))
