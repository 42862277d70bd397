"""One account, driven for as long as there is work: waking, resting, finishing, ending at once."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairpost.engine.results import Step
from fairpost.engine.runner import Runner
from fairpost.engine.worker import AccountWorker, Ending, Progress
from fairpost.model.account import Account, Limits
from fairpost.model.email import Outgoing
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.report import Report
from fairpost.observe.emails import show_email
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.transports.port import Permission
from fairpost.transports.scripted.send import ScriptedTransport

HANG_S = 50  # only guards against waiting forever


@pytest.fixture
async def account(store: Store) -> AccountId:
    return await store.add_account("anna", address="anna@post.test", limits=Limits())


class Watched(ScriptedTransport):
    """Reports each message, and can delay one before or after its dot."""

    def __init__(self) -> None:
        super().__init__()
        self.came = asyncio.Event()
        self.stuck = asyncio.Event()
        self.free = asyncio.Event()
        self.free.set()
        self.is_stuck_after_dot = False

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        if not self.is_stuck_after_dot:
            await self._hold_up()
        report = await super().send(account, email, permission=permission)
        if self.is_stuck_after_dot:
            await self._hold_up()
        self.came.set()
        return report

    async def _hold_up(self) -> None:
        if not self.free.is_set():
            self.stuck.set()
            await self.free.wait()


async def enqueue(store: Store, *, n: int = 1, **more: Any) -> list[EmailId]:
    rows = await store.enqueue_many([{"to": "ann@there.test", "subject": "s", "text": "t", **more}] * n)
    return [EmailId(row["id"]) for row in rows]


def worker_for(store: Store, account: AccountId, transport: ScriptedTransport, **more: Any) -> AccountWorker:
    given = {"owner": "test", "idle_s_max": 0.05, "look_again_s": 600.0, **more}
    return AccountWorker(store, transport, account, **given)


async def states(store: Store, ids: list[EmailId]) -> list[str]:
    return [(await show_email(store, id_)).state for id_ in ids]


async def test_it_sends_what_there_is_and_ends_when_there_is_no_more(store: Store, account: AccountId) -> None:
    ids = await enqueue(store, n=5)
    transport = Watched()
    assert await worker_for(store, account, transport).run() is Ending.IDLE
    assert [d.email_id for d in transport.delivered] == ids
    assert not (await store.runtimes())[0].is_driven()


async def test_news_wakes_it_at_once(store: Store, account: AccountId) -> None:
    transport = Watched()
    told: list[Progress] = []
    rests = asyncio.Event()

    def tell(progress: Progress) -> None:
        told.append(progress)
        rests.set()

    worker = worker_for(store, account, transport, idle_s_max=600, tell=tell)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(HANG_S):  # much less than the ten minutes after which it would check anyway
        await rests.wait()
        await enqueue(store)
        worker.wake()
        await transport.came.wait()
        worker.finish()
        assert await running is Ending.STOPPED
    assert told[0].is_idle
    assert [p.is_idle for p in told[:2]] == [True, False]


async def test_it_sleeps_until_the_next_one_is_due(store: Store, account: AccountId) -> None:
    due_at = clock.now() + timedelta(seconds=0.5)
    await enqueue(store, due_at=due_at.isoformat())
    transport = Watched()
    worker = worker_for(store, account, transport, idle_s_max=600)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(HANG_S):
        await transport.came.wait()
    assert clock.now() >= due_at
    worker.finish()
    await running


async def test_told_to_finish_it_completes_one_and_gives_the_rest_back(store: Store, account: AccountId) -> None:
    ids = await enqueue(store, n=4)
    transport = Watched()
    transport.free.clear()
    worker = worker_for(store, account, transport)
    running = asyncio.create_task(worker.run())
    await transport.stuck.wait()
    worker.finish()
    transport.free.set()
    assert await running is Ending.STOPPED
    assert await states(store, ids) == ["sent", "ready", "ready", "ready"]


@pytest.mark.parametrize(("after_dot", "first"), [(False, "ready"), (True, "in_doubt")])
async def test_ended_at_once_only_a_complete_message_is_in_doubt(
    store: Store, account: AccountId, after_dot: bool, first: str
) -> None:
    ids = await enqueue(store, n=3, on_doubt="hold")
    transport = Watched()
    transport.free.clear()
    transport.is_stuck_after_dot = after_dot
    worker = worker_for(store, account, transport)
    running = asyncio.create_task(worker.run())
    await transport.stuck.wait()
    worker.stop_sending()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await states(store, ids) == [first, "ready", "ready"]
    assert (await store.account(account)).usage.day_used == int(after_dot)


async def test_two_workers_do_not_share_an_account(store: Store, account: AccountId) -> None:
    transport = Watched()
    worker = worker_for(store, account, transport, idle_s_max=600)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(HANG_S):
        while not (await store.runtimes())[0].is_driven():  # noqa: ASYNC110 - a row sends no event
            await asyncio.sleep(0.01)
    assert await worker_for(store, account, Watched()).run() is Ending.TAKEN
    worker.finish()
    await running


async def test_an_account_with_new_settings_is_restarted(store: Store, account: AccountId) -> None:
    await enqueue(store, n=2)
    transport = Watched()
    transport.free.clear()
    worker = worker_for(store, account, transport)
    running = asyncio.create_task(worker.run())
    await transport.stuck.wait()
    await store.change_account("anna", {"display_name": "Anna"})
    transport.free.set()
    assert await running is Ending.CHANGED
    assert len(transport.delivered) == 1


async def test_an_inactive_account_is_left(store: Store, account: AccountId) -> None:
    await store.value("UPDATE fairpost.accounts SET status = 'paused'")
    assert await worker_for(store, account, Watched()).run() is Ending.INACTIVE


async def test_between_two_sends_it_is_at_work_and_not_to_be_woken(store: Store) -> None:
    account = await store.add_account("bert", address="bert@post.test", limits=Limits(delay_ms=30))
    await enqueue(store, n=5)
    told: list[Progress] = []
    assert await worker_for(store, account, Watched(), idle_s_max=1.5, tell=told.append).run() is Ending.IDLE
    assert [progress.is_idle for progress in told if progress.until is not None] == []


async def test_it_does_not_spin_where_the_clock_of_the_database_is_behind(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = await store.add_account("bert", address="bert@post.test", limits=Limits(delay_ms=200))
    await enqueue(store, n=4)
    monkeypatch.setattr(clock, "now", lambda: datetime.now(UTC) + timedelta(seconds=1))
    steps = 0
    step = Runner.step

    async def counted(runner: Runner) -> Step:
        nonlocal steps
        steps += 1
        return await step(runner)

    monkeypatch.setattr(Runner, "step", counted)
    transport = Watched()
    assert await worker_for(store, account, transport, idle_s_max=1.0).run() is Ending.IDLE
    assert len(transport.delivered) == 4
    assert steps < 40
