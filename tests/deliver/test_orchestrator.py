"""The mind of an engine: whom it wakes, whom it kills, whom it gives up. Its processes are put in place by hand."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest

from fairpost.deliver.channel import Channel, Lines, Word
from fairpost.deliver.orchestrator import BEAT_S_MAX, FAULTS_MAX, LOOK_S, LOOK_S_MAX, STUCK_S_MAX, Hand, Orchestrator
from fairpost.deliver.process import WorkerOptions
from fairpost.model.account import Limits
from fairpost.model.ids import AccountId
from fairpost.model.transport import SmtpSettings
from fairpost.postgres.store import Store
from fairpost.system import clock

SERVER = SmtpSettings(host="127.0.0.1", port=9)


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url) as store:
        yield store


@pytest.fixture
def nursery() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, its = socket.socketpair()
    ours.setblocking(False)
    yield ours, its
    ours.close()
    its.close()


class Told(Channel):
    """A worker's channel that keeps what it was told."""

    def __init__(self) -> None:
        super().__init__(lambda _: None, lambda: None)
        self.words: list[Word] = []

    def say(self, word: Word) -> None:
        self.words.append(word)


def mind(
    store: Store,
    nursery: tuple[socket.socket, socket.socket],
    log: list[str] | None = None,
    look_s: float = LOOK_S,
    **more: Any,
) -> Orchestrator:
    options = WorkerOptions(url="postgresql://none", owner="here:1:a", poll_only=True, **more)
    said = log if log is not None else []
    return Orchestrator(store, options, nursery[1], processes_max=10, look_s=look_s, log=said.append)


def asked_to_fork(nursery: tuple[socket.socket, socket.socket]) -> list[Word]:
    try:
        return Lines().feed(nursery[0].recv(65_536))
    except BlockingIOError:
        return []


async def sleeper() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(600)")


async def test_an_account_with_work_gets_a_process_and_one_without_does_not(store: Store, nursery: Any) -> None:
    await store.add_account("anna", address="anna@post.test", limits=Limits(), transport=SERVER)
    await store.add_account("bert", address="bert@post.test", pool="quiet", limits=Limits(), transport=SERVER)
    await store.add_account("carl", address="carl@post.test", limits=Limits())  # no server: it cannot send
    orchestrator = mind(store, nursery)
    await orchestrator.step()
    assert asked_to_fork(nursery) == []
    await store.enqueue_many([{"to": "ann@there.test", "subject": "s", "text": "t"}])
    await orchestrator.step()
    assert len(asked_to_fork(nursery)) == 1
    await orchestrator.step()
    assert asked_to_fork(nursery) == [], "it is on its way"


async def test_it_looks_as_often_as_it_is_told_and_often_enough_to_be_counted_on(store: Store, nursery: Any) -> None:
    await store.add_account("anna", address="anna@post.test", limits=Limits(), transport=SERVER)
    due_at = (clock.now() + timedelta(seconds=60)).isoformat()
    await store.enqueue_many([{"to": "ann@there.test", "subject": "s", "text": "t", "due_at": due_at}])
    assert [await mind(store, nursery, look_s=s).step() for s in (0.2, LOOK_S, 600.0)] == [0.2, LOOK_S, LOOK_S_MAX]


async def test_packed_accounts_share_a_process(store: Store, nursery: Any) -> None:
    for name in ("anna", "bert", "carl"):
        await store.add_account(name, address=f"{name}@post.test", limits=Limits(), transport=SERVER)
    await store.enqueue_many([{"to": "ann@there.test", "subject": "s", "text": "t"}] * 9)
    await mind(store, nursery, accounts_max=2).step()
    assert len(asked_to_fork(nursery)) == 2


async def test_a_worker_at_rest_is_let_go_when_its_account_has_new_settings(store: Store, nursery: Any) -> None:
    account = await store.add_account("anna", address="anna@post.test", limits=Limits(), transport=SERVER)
    orchestrator = mind(store, nursery)
    channel = Told()
    orchestrator._hands[7] = Hand(7, channel, clock.monotonic(), {account})
    orchestrator._ours[account] = True
    await store.take_lease(account, owner="here:1:a", seconds=60)
    await orchestrator.step()
    assert channel.words == []
    await store.change_account("anna", {"delay_ms": 5})
    await orchestrator.step()
    assert channel.words == [{"finish": account}]


async def test_nothing_is_started_while_everything_is_paused(store: Store, nursery: Any) -> None:
    await store.add_account("anna", address="anna@post.test", limits=Limits(), transport=SERVER)
    await store.enqueue_many([{"to": "ann@there.test", "subject": "s", "text": "t"}])
    await store.value("SELECT fairpost.pause('a test', 'a test')")
    await mind(store, nursery).step()
    assert asked_to_fork(nursery) == []


async def test_one_sleeping_worker_is_woken_for_one_e_mail(store: Store, nursery: Any) -> None:
    orchestrator = mind(store, nursery)
    channels = {AccountId(n): Told() for n in (1, 2, 3)}
    for account_id, channel in channels.items():
        orchestrator._hands[account_id] = Hand(account_id, channel, clock.monotonic(), {account_id})
        orchestrator._routes[account_id] = {"default"}
        orchestrator._ours[account_id] = True
    orchestrator._hear(2, {"account": 2, "idle": True, "until": None, "sent": 0})
    orchestrator._hear(3, {"account": 3, "idle": True, "until": None, "sent": 0})
    orchestrator._notified(None, 0, "fairpost", "default")
    assert [channel.words for channel in channels.values()] == [[], [{"wake": 2}], []]
    orchestrator._notified(None, 0, "fairpost", "default")
    assert channels[AccountId(3)].words == [{"wake": 3}]
    orchestrator._notified(None, 0, "fairpost", "@somebody")
    assert sum(len(channel.words) for channel in channels.values()) == 2


@pytest.mark.parametrize("how", ["silent", "stuck"])
async def test_a_worker_that_hangs_is_killed(store: Store, nursery: Any, how: str) -> None:
    log: list[str] = []
    orchestrator = mind(store, nursery, log)
    well, hanging = await sleeper(), await sleeper()
    now_s = clock.monotonic()
    good = Hand(well.pid, Told(), now_s, {AccountId(1)}, {AccountId(1): (5, now_s - 60)})
    bad = Hand(hanging.pid, Told(), now_s, {AccountId(2)}, {AccountId(2): (5, now_s)})
    if how == "silent":
        bad.heard_s -= BEAT_S_MAX + 1
    else:
        bad.moved[AccountId(2)] = (5, now_s - STUCK_S_MAX - 1)
    orchestrator._hands = {well.pid: good, hanging.pid: bad}
    orchestrator._kill_the_hanging()
    assert await hanging.wait() == -signal.SIGKILL
    assert well.returncode is None
    assert len(log) == 1
    os.kill(well.pid, signal.SIGKILL)
    await well.wait()


async def test_whoever_moves_or_rests_is_not_stuck(store: Store, nursery: Any) -> None:
    orchestrator = mind(store, nursery)
    hand = orchestrator._hands[7] = Hand(7, Told(), 0.0, {AccountId(1)})
    orchestrator._ours[AccountId(1)] = False
    orchestrator._hear(7, {"beat": [[1, 5]]})
    since_s = hand.moved[AccountId(1)][1]
    orchestrator._hear(7, {"beat": [[1, 5]]})
    assert hand.moved[AccountId(1)] == (5, since_s)
    orchestrator._hear(7, {"beat": [[1, 6]]})
    assert hand.moved[AccountId(1)][0] == 6
    assert hand.moved[AccountId(1)][1] >= since_s
    hand.moved[AccountId(1)] = (6, 0.0)
    orchestrator._ours[AccountId(1)] = True
    orchestrator._hear(7, {"beat": [[1, 6]]})
    assert hand.moved[AccountId(1)][1] > 0


async def test_what_a_dead_worker_held_is_free_at_once_and_not_before_it_is_dead(store: Store, nursery: Any) -> None:
    account = await store.add_account("anna", address="anna@post.test", limits=Limits(), transport=SERVER)
    lease = await store.take_lease(account, owner="here:1:a", seconds=600)
    assert lease is not None
    orchestrator = mind(store, nursery)
    orchestrator._hands[7] = Hand(7, Told(), clock.monotonic(), {account})
    orchestrator._hear(7, {"holds": account, "epoch": lease.epoch})
    orchestrator._lost(7)
    await orchestrator.step()
    assert (await store.stations())[0].is_driven, "it may only have closed its socket"
    orchestrator._exited(7, -9)
    orchestrator._news.clear()
    await orchestrator._news.wait()
    assert not (await store.stations())[0].is_driven


async def test_an_account_whose_workers_die_again_and_again_is_suspended(store: Store, nursery: Any) -> None:
    account = await store.add_account("anna", address="anna@post.test", limits=Limits(), transport=SERVER)
    orchestrator = mind(store, nursery)
    rests = []
    for pid in range(FAULTS_MAX):
        orchestrator._hands[pid] = Hand(pid, Told(), clock.monotonic(), {account})
        orchestrator._lost(pid)
        rests.append(round(orchestrator._faults[account].until_s - clock.monotonic(), 1))
    assert rests == sorted(rests), "each time it rests longer"
    async with asyncio.timeout(60):
        while (await store.account(account)).status == "active":  # noqa: ASYNC110 - a row tells nobody
            await asyncio.sleep(0.01)
    assert (await store.account(account)).status_reason == f"its worker died {FAULTS_MAX} times in a row"


async def test_a_word_of_something_sent_forgives_all_faults(store: Store, nursery: Any) -> None:
    orchestrator = mind(store, nursery)
    orchestrator._hands[7] = Hand(7, Told(), clock.monotonic(), {AccountId(1)})
    orchestrator._blame(AccountId(1))
    orchestrator._hear(7, {"account": 1, "idle": False, "until": None, "sent": 3})
    assert orchestrator._faults == {}
