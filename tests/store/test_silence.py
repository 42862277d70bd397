"""A server that vanishes silently: every statement gives up in time, and the next one reaches the server that responds
now."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
from tests.chaos.driver import LONG_KILLS, eventually
from tests.peers.swallowing import Swallowing

from fairpost.engine import worker as worker_module
from fairpost.engine.worker import AccountWorker, Ending
from fairpost.model.account import Lease, Limits
from fairpost.model.errors import DatabaseUnavailable
from fairpost.store import connections
from fairpost.store.connections import connect
from fairpost.store.store import Store
from fairpost.store.trouble import is_trouble
from fairpost.system import clock
from fairpost.transports.scripted.send import ScriptedTransport

ANSWER_S_MAX = 0.3
EVERY = 1 if LONG_KILLS else 8  # request
HANG_S = 100  # only guards against waiting forever
ACTIVE = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()"
TOLD = "SELECT state::text, attempts FROM fairpost.emails WHERE id = ANY ($1) ORDER BY id"


@pytest.fixture
async def proxy(url: str) -> AsyncIterator[Swallowing]:
    async with Swallowing(url).open() as proxy:
        yield proxy


@pytest.fixture
async def silent(proxy: Swallowing) -> AsyncIterator[Store]:
    """A store behind the proxy."""
    store = await Store.connect(proxy.url, answer_s_max=ANSWER_S_MAX)
    yield store
    await store.close()


async def test_a_connection_that_does_not_answer_is_given_up_with_all_that_lie_idle(
    proxy: Swallowing, silent: Store
) -> None:
    await asyncio.gather(*(silent.value("SELECT pg_sleep(0.05)") for _ in range(3)))
    before = proxy.accepted
    proxy.swallow()
    with pytest.raises(DatabaseUnavailable) as caught:
        await silent.value("SELECT 1")
    assert is_trouble(caught.value)
    assert [await silent.value("SELECT 1") for _ in range(3)] == [1, 1, 1]
    assert proxy.accepted >= before + 1


async def test_a_transaction_that_hears_nothing_is_given_up_and_nothing_of_it_stays(
    proxy: Swallowing, silent: Store, store: Store
) -> None:
    async def add() -> None:
        async with silent.together() as one:
            await one.value("INSERT INTO fairpost.lists (workspace, name, created_at) VALUES ('main', 'silent', now())")
            proxy.swallow()
            await one.value("SELECT 1")

    with pytest.raises(DatabaseUnavailable):
        await add()
    assert await silent.value("SELECT 1") == 1
    assert await store.value("SELECT count(*) FROM fairpost.lists WHERE name = 'silent'") == 0


async def test_a_statement_that_takes_too_long_is_also_ended_on_the_server(url: str, store: Store) -> None:
    async with Store.open(url, answer_s_max=10 * ANSWER_S_MAX) as hasty:
        with pytest.raises(DatabaseUnavailable):
            await hasty.value("SELECT pg_sleep(1000)")

        async def is_over() -> bool:
            return bool(await store.value(ACTIVE) == 0)

        await eventually(is_over, "the statement is ended")
        assert await hasty.value("SELECT 1") == 1


async def test_a_statement_whose_client_is_gone_is_ended_on_the_server(
    url: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its process was killed: nothing asks the server to cancel it."""
    monkeypatch.setattr(connections, "LOOK_MS", 50)
    conn = await connect(url)

    async def is_asleep() -> bool:
        return bool(await store.value(ACTIVE) == 1)

    async def is_over() -> bool:
        return not await is_asleep()

    sleeping = asyncio.create_task(conn.fetchval("SELECT pg_sleep(1000)"))
    await eventually(is_asleep, "the statement is under way")
    conn.terminate()
    await asyncio.wait([sleeping])
    assert sleeping.exception() is not None
    await eventually(is_over, "the statement is ended")


async def test_work_in_bulk_may_take_longer(url: str) -> None:
    async with Store.open(url, connections_max=1, answer_s_max=ANSWER_S_MAX) as hasty:
        sleep = f"SELECT true FROM pg_sleep({ANSWER_S_MAX * 2})"
        assert await hasty.in_bulk().value(sleep)
        async with hasty.together() as one:
            assert await one.in_bulk().value(sleep)
        with pytest.raises(DatabaseUnavailable):
            await hasty.value(sleep)


async def test_a_server_that_says_nothing_from_the_start_is_given_up(proxy: Swallowing) -> None:
    proxy.is_silent = True
    with pytest.raises(TimeoutError):
        await connect(proxy.url, timeout_s=ANSWER_S_MAX)


async def test_stores_whose_server_is_silent_are_closed(proxy: Swallowing) -> None:
    store = await Store.connect(proxy.url)
    proxy.swallow()
    async with asyncio.timeout(HANG_S):
        await store.close()


async def drive(store: Store, proxy: Swallowing, at: int, transport: ScriptedTransport) -> None:
    """Sends all mail, and does what the orchestrator does for a worker that could not return its lease."""
    account = (await store.accounts())[0].id
    async with Store.open(proxy.url, connections_max=1, answer_s_max=ANSWER_S_MAX) as through:
        worker = AccountWorker(through, transport, account, owner="test", idle_s_max=0.0)
        proxy.requests, proxy.swallow_at = 0, at
        async with asyncio.timeout(HANG_S):
            assert await worker.run() in (Ending.IDLE, Ending.RESTING)
    proxy.swallow_at = None
    if worker.unreleased is not None:
        await store.drop_lease(Lease(account_id=account, epoch=worker.unreleased, until=clock.now()))


async def each_is_sent_once(store: Store, proxy: Swallowing, *, every: int) -> None:
    """Whichever request the server vanishes at, before it was received or after."""
    await store.add_account("anna", address="anna@post.test", limits=Limits())
    at = 1 - every
    while True:
        at += every
        for swallows in (("requests", "answers"), ("answers",)):
            rows = await store.enqueue_many(
                [{"to": "ann@there.test", "subject": "s", "text": "t", "on_doubt": "hold"}] * 2
            )
            ids = sorted(row["id"] for row in rows)
            proxy.swallows = frozenset(swallows)
            transport = ScriptedTransport()
            await drive(store, proxy, at, transport)
            what = (at, swallows)
            assert sorted(each.email_id for each in transport.delivered) == ids, what
            assert [tuple(row) for row in await store.fetch(TOLD, ids)] == [("sent", 1)] * 2, what
            blamed = await store.row("SELECT a.status::text, l.deaths FROM fairpost.accounts a, fairpost.leases l")
            assert tuple(blamed) == ("active", 0), what
        if proxy.requests < at:
            break
    assert at > 10


async def test_a_worker_sends_each_email_once_whenever_its_server_vanishes(
    store: Store, proxy: Swallowing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "TRY_AGAIN_S_MIN", 0.0)
    await each_is_sent_once(store, proxy, every=EVERY)


async def test_behind_a_pooler_it_is_the_same(store: Store, pooled_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "TRY_AGAIN_S_MIN", 0.0)
    async with Swallowing(pooled_url).open() as proxy:
        await each_is_sent_once(store, proxy, every=EVERY)


async def test_a_call_on_a_connection_of_its_own_has_a_limit_as_well(proxy: Swallowing) -> None:
    conn = await connect(proxy.url, answer_s_max=ANSWER_S_MAX)
    proxy.swallow()
    with pytest.raises((TimeoutError, asyncpg.InterfaceError)) as caught:
        await conn.fetchval("SELECT 1")
    assert is_trouble(caught.value)
    conn.terminate()
