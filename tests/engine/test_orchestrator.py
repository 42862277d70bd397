"""The orchestrator: which workers it starts, wakes, kills and gives up. The test acts as the parent and the workers."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from fairpost.engine.channel import Lines, Message, encode
from fairpost.engine.fleet import BEAT_S_MAX, STUCK_S_MAX
from fairpost.engine.orchestrator import FAULT_REST_S_MAX, FAULTS_MAX, LOOK_S, LOOK_S_MAX, Orchestrator
from fairpost.engine.process import AT_ONCE, WorkerOptions
from fairpost.engine.runner import Runner
from fairpost.model.account import Limits
from fairpost.model.fault import Bounces
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason
from fairpost.store.blocks import block
from fairpost.store.postmaster import is_alive
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.clock import ManualClock
from fairpost.transports.scripted.send import ScriptedTransport
from fairpost.transports.smtp.settings import SmtpSettings

SERVER = SmtpSettings(host="127.0.0.1", port=9)
OWNER = "here:1:a"
HANG_S = 60  # only guards against waiting forever
NO_PROCESS = 2**22 + 1  # larger than any pid


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url) as store:
        yield store


@pytest.fixture
def hands() -> Iterator[ManualClock]:
    with clock.stopped_at(clock.now()) as hands:
        yield hands


def received(sock: socket.socket) -> list[Message]:
    """Returns what has arrived by now."""
    try:
        return Lines().feed(sock.recv(65_536))
    except BlockingIOError:
        return []


@dataclass
class Worker:
    """A worker as the orchestrator sees it: a pid, and the other end of a socket."""

    pid: int
    sock: socket.socket
    account: AccountId

    def say(self, **word: Any) -> None:
        self.sock.sendall(encode(word))

    def rests(self) -> None:
        self.say(account=self.account, idle=True, until=None)

    def told(self) -> list[Message]:
        return received(self.sock)


@dataclass
class Parent:
    """Receives requests for workers, and reports which were forked and which have ended."""

    ours: socket.socket
    its: socket.socket
    workers: list[Worker] = field(default_factory=list)

    def asked(self) -> int:
        """Returns the number of forks."""
        return len(received(self.ours))

    async def fork(self, pid: int = NO_PROCESS) -> Worker:
        """Answers the oldest request."""
        mine, orchestrators = socket.socketpair()
        mine.setblocking(False)
        socket.send_fds(self.ours, [encode({"forked": 1, "pid": pid})], [orchestrators.fileno()])
        orchestrators.close()
        async with asyncio.timeout(HANG_S):
            while not (told := received(mine)):  # noqa: ASYNC110 - the socket is looked at without waiting
                await asyncio.sleep(0)
        word = told[0]
        self.workers.append(Worker(pid, mine, AccountId(word["drive"])))
        return self.workers[-1]

    def exited(self, worker: Worker, code: int = -9) -> None:
        self.ours.sendall(encode({"exited": worker.pid, "code": code}))

    def die(self, worker: Worker) -> None:
        worker.sock.close()
        self.exited(worker)


@pytest.fixture
def parent() -> Iterator[Parent]:
    parent = Parent(*socket.socketpair())
    parent.ours.setblocking(False)
    yield parent
    for sock in (parent.ours, parent.its, *(worker.sock for worker in parent.workers)):
        sock.close()


@dataclass
class Engine:
    store: Store
    parent: Parent
    orchestrator: Orchestrator
    log: list[Reason]

    async def heard(self) -> None:
        """Waits until all messages have been processed: a query takes many turns of the loop."""
        await self.store.value("SELECT 1")

    async def asks(self) -> int:
        """Returns how many workers one check requests, after earlier messages have been processed."""
        await self.orchestrator.step()
        return self.parent.asked()

    async def start(self, pid: int = NO_PROCESS) -> Worker:
        assert await self.asks() == 1
        return await self.parent.fork(pid)


def engine_of(store: Store, parent: Parent, *, look_s: float = LOOK_S, owner: str = OWNER, **more: Any) -> Engine:
    options = WorkerOptions(url="postgresql://none", owner=owner, poll_only=True, **more)
    log: list[Reason] = []
    made = Orchestrator(store, options, parent.its, processes_max=10, look_s=look_s, log=log.append)
    return Engine(store, parent, made, log)


@pytest.fixture
async def engine(store: Store, parent: Parent) -> AsyncIterator[Engine]:
    engine = engine_of(store, parent)
    with engine.orchestrator.hearing():
        yield engine


@pytest.fixture
async def other(store: Store) -> AsyncIterator[Engine]:
    """Another engine on the same database."""
    parent = Parent(*socket.socketpair())
    parent.ours.setblocking(False)
    engine = engine_of(store, parent, owner="there:2:b")
    with engine.orchestrator.hearing():
        yield engine
    for sock in (parent.ours, parent.its, *(worker.sock for worker in parent.workers)):
        sock.close()


async def add_account(store: Store, name: str, **more: Any) -> AccountId:
    return await store.add_account(name, address=f"{name}@post.test", limits=Limits(), transport=SERVER, **more)


async def enqueue(store: Store, n: int = 1, **more: Any) -> list[Any]:
    return await store.enqueue_many([{"to": "ann@there.test", "subject": "s", "text": "t", **more}] * n)


async def send_one(store: Store, account: AccountId) -> None:
    """Acts as its worker."""
    runner = await Runner.start(store, ScriptedTransport(), account, owner=OWNER)
    assert runner is not None
    assert len(await runner.run_until_idle()) == 1
    await runner.stop()
    await enqueue(store)


async def test_an_account_with_work_gets_a_process_and_one_without_does_not(engine: Engine) -> None:
    await add_account(engine.store, "anna")
    await add_account(engine.store, "bert", pool="quiet")
    await engine.store.add_account("carl", address="carl@post.test", limits=Limits())  # no server: it cannot send
    assert await engine.asks() == 0
    await enqueue(engine.store)
    assert await engine.asks() == 1
    assert await engine.asks() == 0, "it is being started"


async def test_it_looks_as_often_as_it_is_told_and_often_enough_to_be_counted_on(store: Store, parent: Parent) -> None:
    await add_account(store, "anna")
    await enqueue(store, due_at=(clock.now() + timedelta(seconds=60)).isoformat())
    looks = [engine_of(store, parent, look_s=s).orchestrator for s in (0.2, LOOK_S, 600.0)]
    assert [await each.step() for each in looks] == [0.2, LOOK_S, LOOK_S_MAX]


async def test_packed_accounts_share_a_process(store: Store, parent: Parent) -> None:
    for name in ("anna", "bert", "carl"):
        await add_account(store, name)
    await enqueue(store, 9)
    assert await engine_of(store, parent, accounts_max=2).asks() == 2


async def test_mailboxes_share_processes_before_there_are_too_many_of_them(store: Store, parent: Parent) -> None:
    """Even if all start in the same check, before the first is forked."""
    for nth in range(12):
        limits = Limits(delay_ms=1000)
        await store.add_account(f"m{nth}", address=f"m{nth}@post.test", limits=limits, transport=SERVER)
    await enqueue(store, 30)
    engine = engine_of(store, parent, accounts_max=None)  # at most ten processes
    assert await engine.asks() == 6, "five with a process each, and one for all others"


async def test_there_are_never_more_processes_than_allowed(store: Store, parent: Parent) -> None:
    for nth in range(12):  # relays of workspaces that may not share
        pool = f"w{nth}/default"
        await store.add_account(f"w{nth}/relay", address="r@post.test", limits=Limits(), transport=SERVER, pool=pool)
        await enqueue(store, workspace=f"w{nth}", pool=pool)
    engine = engine_of(store, parent, accounts_max=None)
    assert await engine.asks() == 10
    assert await engine.asks() == 0


async def test_a_worker_at_rest_is_released_when_its_account_has_new_settings(engine: Engine) -> None:
    account = await add_account(engine.store, "anna")
    await enqueue(engine.store)
    worker = await engine.start()
    lease = await engine.store.take_lease(account, owner=OWNER, seconds=60)
    assert lease is not None
    await engine.store.claim(lease, limit=1)  # nothing is waiting any more
    worker.rests()
    await engine.heard()
    assert await engine.asks() == 0
    assert worker.told() == []
    await engine.store.change_account("anna", {"delay_ms": 5})
    assert await engine.asks() == 0
    assert worker.told() == [{"finish": account}]


async def test_nothing_is_started_while_everything_is_paused(engine: Engine) -> None:
    await add_account(engine.store, "anna")
    await enqueue(engine.store)
    await engine.store.value("SELECT fairpost.pause('a test', 'a test')")
    assert await engine.asks() == 0


async def test_an_account_blocked_for_all_waiting_senders_is_not_started(engine: Engine) -> None:
    blocked = await add_account(engine.store, "anna")
    lease = await engine.store.take_lease(blocked, owner="test", seconds=60)
    assert lease is not None
    fault = Bounces(sent=20, bounced=3, percent_max=5.0)
    assert await block(engine.store, lease, "bad", fault)
    await engine.store.drop_lease(lease)
    await enqueue(engine.store, 3, workspace="bad")
    assert await engine.asks() == 0
    await add_account(engine.store, "bert")
    worker = await engine.start()
    assert worker.account != blocked
    await enqueue(engine.store, workspace="good")
    assert (await engine.start()).account == blocked


async def test_one_sleeping_worker_is_woken_for_one_e_mail(engine: Engine) -> None:
    for name in ("anna", "bert", "carl"):
        await add_account(engine.store, name)
    rows = await enqueue(engine.store, 3)
    assert await engine.asks() == 3
    busy, *resting = [await engine.parent.fork(NO_PROCESS + n) for n in range(3)]
    for row in rows:
        await engine.store.cancel(row["id"])
    for worker in resting:
        worker.rests()
    await engine.heard()

    def woken(route: str) -> list[AccountId]:
        engine.orchestrator.notified(route)
        told = {worker.account: worker.told() for worker in (busy, *resting)}
        assert all(words in ([], [{"wake": account}]) for account, words in told.items())
        return [account for account, words in told.items() if words]

    assert woken("@other") == []
    one, other = woken("default"), woken("default")
    assert len(one) == len(other) == 1
    assert {*one, *other} == {worker.account for worker in resting}
    assert woken("default") == []


@pytest.fixture
async def workers(engine: Engine, hands: ManualClock) -> AsyncIterator[list[Worker]]:
    """Creates three, with a real process each."""
    processes = [await asyncio.create_subprocess_exec("sleep", "600") for _ in range(3)]
    workers = []
    for n, process in enumerate(processes):
        await add_account(engine.store, f"a{n}", pool=f"p{n}")
        await enqueue(engine.store, pool=f"p{n}")
        workers.append(await engine.start(process.pid))
    yield workers
    for process in processes:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def killed(engine: Engine, workers: list[Worker]) -> list[Worker]:
    """Checks once. The log names each, so that one that dies slowly is not missed."""
    await engine.asks()
    named = [worker for worker in workers if any(each.params.get("pid") == str(worker.pid) for each in engine.log)]
    async with asyncio.timeout(HANG_S):
        while any(is_alive(worker.pid) for worker in named):  # noqa: ASYNC110 - the fixture has their processes
            await asyncio.sleep(0.01)
    assert [worker for worker in workers if not is_alive(worker.pid)] == named
    return named


async def test_a_silent_worker_is_killed(engine: Engine, workers: list[Worker], hands: ManualClock) -> None:
    silent, *well = workers
    hands.advance(timedelta(seconds=BEAT_S_MAX))
    for worker in well:
        worker.say(beat=[[worker.account, 5]])
    await engine.heard()
    assert await killed(engine, workers) == []
    hands.advance(timedelta(seconds=1))
    assert await killed(engine, workers) == [silent]


async def test_one_that_is_stuck_is_killed_and_not_one_that_moves_or_rests(
    engine: Engine, workers: list[Worker], hands: ManualClock
) -> None:
    stuck, moving, resting = workers
    resting.rests()

    async def all_beat(handled: int) -> None:
        for worker in workers:
            worker.say(beat=[[worker.account, handled if worker is moving else 5]])
        await engine.heard()

    await all_beat(5)
    hands.advance(timedelta(seconds=STUCK_S_MAX))
    await all_beat(6)
    assert await killed(engine, workers) == []
    hands.advance(timedelta(seconds=1))
    await all_beat(6)
    assert await killed(engine, workers) == [stuck]


async def test_the_accounts_of_a_dead_worker_are_freed_at_once_but_not_before(engine: Engine) -> None:
    account = await add_account(engine.store, "anna")
    await enqueue(engine.store)
    worker = await engine.start()
    lease = await engine.store.take_lease(account, owner=OWNER, seconds=600)
    assert lease is not None
    worker.say(holds=account, epoch=lease.epoch)
    worker.sock.close()
    await engine.asks()
    assert (await engine.store.runtimes())[0].is_driven(), "it may only have closed its socket"
    engine.parent.exited(worker)
    await engine.heard()
    assert await engine.asks() == 0, "it rests for a moment"
    assert not (await engine.store.runtimes())[0].is_driven()


def rest_of(faults: int) -> timedelta:
    return timedelta(seconds=min(FAULT_REST_S_MAX, 0.25 * 2**faults))


INSTANT = timedelta(milliseconds=1)


async def test_an_account_whose_workers_die_again_and_again_rests_longer_each_time_and_is_suspended(
    engine: Engine, hands: ManualClock
) -> None:
    account = await add_account(engine.store, "anna")
    await enqueue(engine.store)
    hands.advance(timedelta(seconds=1))
    for faults in range(1, FAULTS_MAX + 1):
        worker = await engine.start()
        engine.parent.die(worker)
        assert await engine.asks() == 0
        hands.advance(rest_of(faults) - INSTANT)
        assert await engine.asks() == 0
        hands.advance(2 * INSTANT)
    suspended = await engine.store.account(account)
    assert suspended.status == "suspended"
    assert suspended.status_reason == Reason("account.worker_died", times=FAULTS_MAX)
    assert await engine.asks() == 0


async def test_something_sent_forgives_all_faults(engine: Engine, hands: ManualClock) -> None:
    account = await add_account(engine.store, "anna")
    await enqueue(engine.store)
    hands.advance(timedelta(seconds=1))
    for faults in (1, 2):
        engine.parent.die(await engine.start())
        assert await engine.asks() == 0
        hands.advance(rest_of(faults) + INSTANT)
    worker = await engine.start()
    await send_one(engine.store, account)
    engine.parent.die(worker)
    assert await engine.asks() == 0
    hands.advance(rest_of(1) + INSTANT)
    assert await engine.asks() == 1, "as after the first"


async def deaths(store: Store) -> int:
    return int(await store.value("SELECT deaths FROM fairpost.leases"))


async def test_deaths_are_counted_over_all_engines(engine: Engine, other: Engine, hands: ManualClock) -> None:
    account = await add_account(engine.store, "anna")
    await enqueue(engine.store)
    for nth in range(1, FAULTS_MAX + 1):
        one = (engine, other)[nth % 2]
        one.parent.die(await one.start())
        assert await one.asks() == 0
        assert await deaths(engine.store) == nth
        assert await engine.asks() == await other.asks() == 0, "every engine sees that it rests"
        hands.advance(rest_of(nth) + INSTANT)
    assert (await engine.store.account(account)).status == "suspended"


@pytest.mark.parametrize("code", [0, AT_ONCE, -signal.SIGTERM])
async def test_an_end_that_no_account_can_have_caused_is_not_counted(engine: Engine, code: int) -> None:
    await add_account(engine.store, "anna")
    await enqueue(engine.store)
    worker = await engine.start()
    worker.sock.close()
    engine.parent.exited(worker, code)
    await engine.heard()
    assert await engine.asks() == 1
    assert await deaths(engine.store) == 0


async def test_the_death_of_a_shared_process_counts_for_none_and_each_starts_alone_until_it_has_sent_ten(
    store: Store, parent: Parent
) -> None:
    engine = engine_of(store, parent, accounts_max=2)
    with engine.orchestrator.hearing():
        accounts = {await add_account(store, name) for name in ("anna", "bert")}
        await enqueue(store, n=20)
        assert await engine.asks() == 1
        worker = await engine.parent.fork()
        engine.parent.die(worker)
        await engine.heard()
        assert await engine.asks() == 2
        rows = await store.fetch("SELECT deaths FROM fairpost.leases")
        assert [row["deaths"] for row in rows] == [0, 0]
        first, second = await engine.parent.fork(NO_PROCESS + 1), await engine.parent.fork(NO_PROCESS + 2)
        await engine.heard()
        assert {first.account, second.account} == accounts
        first.say(beat=[[first.account, 10]])
        await engine.heard()
        assert first.told() == [{"finish": first.account}], "it may share a process again"
        engine.parent.die(second)
        await engine.heard()
        await engine.asks()
        rows = await store.fetch("SELECT account_id, deaths FROM fairpost.leases")
        assert {row["account_id"]: row["deaths"] for row in rows} == {first.account: 0, second.account: 1}


async def test_deaths_during_an_outage_are_not_counted_and_their_accounts_are_freed_later(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpost.engine.orchestrator.REAP_S", 0.5)
    store = engine.store
    account = await add_account(store, "anna")
    await enqueue(store)
    running = asyncio.create_task(engine.orchestrator.run())
    async with asyncio.timeout(HANG_S):
        while not (asked := engine.parent.asked()):  # noqa: ASYNC110 - the socket is looked at without waiting
            await asyncio.sleep(0.01)
        assert asked == 1
        worker = await engine.parent.fork()
        lease = await store.take_lease(account, owner=OWNER, seconds=600)
        assert lease is not None
        worker.say(holds=account, epoch=lease.epoch)
        await engine.heard()
        away = asyncio.Event()

        async def gone(self: Store, *_: Any) -> Any:
            away.set()
            raise asyncpg.ConnectionDoesNotExistError("away")

        with monkeypatch.context() as patch:
            patch.setattr(Store, "newest_migration", gone)
            await away.wait()
            away.clear()
            await away.wait()  # the second time, it is known
            engine.parent.die(worker)
            away.clear()
            await away.wait()
        while (await store.runtimes())[0].is_driven():  # noqa: ASYNC110 - a row sends no event
            await asyncio.sleep(0.01)
        running.cancel()  # a regular end would wait for the worker that it has requested again
        await asyncio.wait([running])
    assert await deaths(store) == 0


async def test_a_worker_that_did_not_get_to_the_database_is_started_again_later_each_time(
    engine: Engine, hands: ManualClock
) -> None:
    account = await add_account(engine.store, "anna")
    await enqueue(engine.store)
    for pause_s in (0.25, 0.5):
        worker = await engine.start()
        worker.say(ended=account, why="too many connections", fault=False, trouble=True, unreleased=None)
        await engine.heard()
        assert await engine.asks() == 0
        hands.advance(timedelta(seconds=pause_s - 0.01))
        assert await engine.asks() == 0
        hands.advance(timedelta(seconds=0.02))
    assert await engine.asks() == 1
    assert await deaths(engine.store) == 0
