"""The global pause: once it is committed, nothing is begun, whatever is in progress."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from fairpost.engine.results import Handled, Idle, Rested
from fairpost.engine.runner import Runner
from fairpost.model.account import Account, Limits
from fairpost.model.email import Outgoing
from fairpost.model.ids import AccountId
from fairpost.model.report import Report
from fairpost.store.store import Store
from fairpost.transports.port import Permission
from fairpost.transports.scripted.send import OK, ScriptedTransport
from tests.simulation.world import broken_promises

WORKERS = 4
ROUNDS = 6


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url, connections_max=WORKERS + 2) as store:
        yield store
        assert await broken_promises(store) == {}


@pytest.fixture
async def account(store: Store) -> AccountId:
    return await store.add_account("anna", address="anna@post.test", limits=Limits())


async def enqueue(store: Store, n: int, **more: Any) -> list[Any]:
    email = {"to": "ann@there.test", "subject": "s", "text": "t", **more}
    return [row["id"] for row in await store.enqueue_many([email] * n)]


async def pause(store: Store, *, until: datetime | None = None) -> bool:
    sql = "SELECT fairpost.pause('too much', 'me', coalesce($1, 'infinity'::timestamptz))"
    return bool(await store.value(sql, until))


async def resume(store: Store) -> bool:
    return await store.row("SELECT * FROM fairpost.resume('me')") is not None


async def begun(store: Store) -> int:
    """Returns how many begins there were in total."""
    return int(
        await store.value(
            """SELECT coalesce(sum(attempts), 0) FROM (SELECT attempts FROM fairpost.queue
               UNION ALL SELECT attempts FROM fairpost.emails) e"""
        )
    )


async def start(store: Store, account: AccountId) -> Runner:
    runner = await Runner.start(store, ScriptedTransport(), account, owner="test")
    assert runner is not None
    return runner


async def test_a_claim_under_a_pause_takes_nothing_and_says_until_when(store: Store, account: AccountId) -> None:
    (email,) = await enqueue(store, 1)
    now: datetime = await store.value("SELECT clock_timestamp()")
    end = now + timedelta(hours=1)
    await pause(store, until=end)
    runner = await start(store, account)
    assert await runner.step() == Rested(Idle.PAUSED, end)
    await pause(store)
    assert await runner.step() == Rested(Idle.PAUSED, None)
    await resume(store)
    assert await runner.run_until_idle() == [Handled(email, "sent")]


async def test_a_pause_ends_by_itself_at_its_moment(store: Store, account: AccountId) -> None:
    await enqueue(store, 1)
    end = await store.value("SELECT clock_timestamp() + interval '1 hour'")
    await pause(store, until=end)
    lease = await store.take_lease(account, owner="test", seconds=7200)
    assert lease is not None
    assert (await store.claim(lease, limit=1, now=end - timedelta(seconds=1))).verdict == "paused"
    assert (await store.claim(lease, limit=1, now=end)).verdict == "ok"


async def test_a_worker_in_the_middle_of_its_batch_gives_the_rest_back(store: Store, account: AccountId) -> None:
    emails = await enqueue(store, 5)
    runner = await start(store, account)
    assert await runner.step() == Handled(emails[0], "sent")
    before = await begun(store)
    await pause(store)
    steps = [await runner.step() for _ in range(5)]
    assert Rested(Idle.PAUSED) in steps
    assert await begun(store) == before
    waiting = await store.value("SELECT count(*) FROM fairpost.queue WHERE waiting")
    assert waiting == 5 - before
    await resume(store)
    assert len(await runner.run_until_idle()) == waiting


class BusyTransport:
    """Takes its time, so that a pause may come at any point of a worker's cycle."""

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        await asyncio.sleep(0.001)
        return OK


async def test_nothing_is_begun_after_a_pause_was_committed_however_many_are_at_work(store: Store) -> None:
    await enqueue(store, 1500)
    accounts = [await store.add_account(f"a{i}", address=f"a{i}@post.test", limits=Limits()) for i in range(WORKERS)]
    runners = [await Runner.start(store, BusyTransport(), account, owner="test") for account in accounts]
    over = False

    async def work(runner: Runner) -> None:
        while not over:
            match await runner.step():
                case Rested(Idle.PAUSED):
                    await asyncio.sleep(0.005)
                case Rested(Idle.BUSY):
                    await runner.await_turn()

    tasks = [asyncio.create_task(work(runner)) for runner in runners if runner]
    for _ in range(ROUNDS):
        enough = await begun(store) + 2 * WORKERS
        while await begun(store) < enough:  # noqa: ASYNC110 - a row sends no event
            await asyncio.sleep(0.005)
        await pause(store)
        at_pause = await begun(store)
        await asyncio.sleep(0.05)
        assert await begun(store) == at_pause
        await resume(store)
    over = True
    await asyncio.gather(*tasks)
    assert await store.value("SELECT count(*) FROM fairpost.queue WHERE waiting") > 0


@pytest.mark.parametrize("whom", ["everything", "the workspace"])
async def test_a_pause_waits_for_the_begins_under_way_and_those_after_it_see_it(
    url: str, store: Store, account: AccountId, whom: str
) -> None:
    first, second = await enqueue(store, 2)
    lease = await store.take_lease(account, owner="test", seconds=60)
    assert lease is not None
    await store.claim(lease, limit=2)
    other, third = await store.add_account("bert", address="b@post.test", limits=Limits()), await enqueue(store, 1)
    others = await store.take_lease(other, owner="test", seconds=60)
    assert others is not None
    assert (await store.claim(others, limit=1)).ids == tuple(third)
    conn = await asyncpg.connect(url)
    try:
        async with conn.transaction():
            assert await conn.fetchval(_begin(first), lease.account_id, lease.epoch) == "begun"
            pausing = asyncio.create_task(
                pause(store)
                if whom == "everything"
                else store.value("SELECT fairpost.pause_workspace('default', 'too much')")
            )
            await asyncio.sleep(0.2)
            assert not pausing.done(), "it was committed before a begin that did not see it"
            late = asyncio.create_task(store.value(_begin(third[0]), others.account_id, others.epoch))
            await asyncio.sleep(0.1)
            assert not late.done()
        await pausing
        assert await late == "held"
        assert await conn.fetchval(_begin(second), lease.account_id, lease.epoch) == "held"
    finally:
        await conn.close()


def _begin(email: Any) -> str:
    usage = """'{"hour_used": 1, "day_used": 1}'"""
    return f"SELECT verdict FROM fairpost.begin_send($1, $2, {email}, {usage})"


async def test_a_hanging_begin_does_not_prevent_a_pause(url: str, store: Store, account: AccountId) -> None:
    (email,) = await enqueue(store, 1)
    lease = await store.take_lease(account, owner="test", seconds=60)
    assert lease is not None
    await store.claim(lease, limit=1)
    await store.value("ALTER FUNCTION fairpost.await_begins() SET lock_timeout = '200ms'")
    conn = await asyncpg.connect(url)
    try:
        async with conn.transaction():
            await conn.fetchval(_begin(email), lease.account_id, lease.epoch)
            assert await pause(store) is False
            assert await store.row("SELECT * FROM fairpost.pause_now()") is not None
    finally:
        await conn.close()


async def test_pausing_again_says_so_and_gives_it_a_new_reason(store: Store) -> None:
    assert await pause(store) is False
    since = await store.value("SELECT since FROM fairpost.pause_now()")
    assert await store.value("SELECT fairpost.pause('worse', 'you')") is True
    now = await store.row("SELECT * FROM fairpost.pause_now()")
    assert (now["since"], json.loads(now["params"]), now["paused_by"]) == (since, {"note": "worse"}, "you")
    assert await resume(store)
    assert not await resume(store)
    kinds = [row["kind"] for row in await store.fetch("SELECT kind FROM fairpost.events ORDER BY id")]
    assert kinds == ["paused", "paused", "resumed"]


async def test_the_pause_of_a_restored_database_is_not_shortened_by_another(store: Store) -> None:
    await store.value("SELECT fairpost.pause('restored', 'guard', p_restored => true)")
    await pause(store, until=await store.value("SELECT clock_timestamp() + interval '1 minute'"))
    now = await store.row("SELECT * FROM fairpost.pause_now()")
    assert (now["until"], json.loads(now["params"])) == (None, {"note": "restored"})


@pytest.mark.fresh
async def test_a_look_at_the_pause_reads_one_row_by_its_index(store: Store) -> None:
    await pause(store)
    async with store.connection() as conn, conn.transaction():
        await conn.execute("SET LOCAL enable_seqscan = off")
        plan = await conn.fetch(
            "EXPLAIN SELECT FROM fairpost.pauses p WHERE p.everything AND p.until > clock_timestamp()"
        )
    assert "pauses_pkey" in plan[0][0]
