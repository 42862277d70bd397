"""The server ends, or is replaced by an older copy, around the commit of a group."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from fairpost.engine.confirm import KnownServer
from fairpost.engine.process import WorkerOptions
from fairpost.engine.steps import Steps
from fairpost.model.ids import EmailId
from fairpost.model.step import Settles, StepRequest
from fairpost.model.verdict import Sent, Untouched
from fairpost.store import pauses
from fairpost.store.embedded import EmbeddedServer
from fairpost.store.step_groups import take_steps
from fairpost.store.store import Store
from fairpost.system import clock
from tests.chaos.conftest import database_on
from tests.chaos.driver import until
from tests.chaos.processes import still_alive
from tests.conftest import at_database
from tests.settle.test_group import NOW, OK, Desk, desks

K = 4
ENGINE = "the-engine"
STATES = "SELECT id, state::text FROM fairpost.queue UNION ALL SELECT id, state::text FROM fairpost.emails"


@asynccontextmanager
async def stopped_at_once(server: EmbeddedServer) -> AsyncIterator[None]:
    """Ends the server without a checkpoint, and starts it again; then the engines confirm it."""
    pid = server.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGQUIT)
    await until(lambda: not still_alive([pid]), "PostgreSQL is dead")
    yield
    await asyncio.to_thread(server.start)


async def states(store: Store) -> dict[EmailId, str]:
    return {EmailId(row["id"]): row["state"] for row in await store.fetch(STATES)}


@pytest.mark.slow
@pytest.mark.parametrize("is_committed", [False, True])
async def test_a_server_that_ends_around_a_groups_commit_has_all_of_it_or_nothing(
    mortal: EmbeddedServer, is_committed: bool
) -> None:
    """The e-mails of the last step were sent, and the workers never hear whether their next step was committed."""
    url = await database_on(mortal)
    async with Store.open(url) as store:
        group = await desks(store, K)
    conn = await asyncpg.connect(url)
    with clock.stopped_at(NOW):
        transaction = conn.transaction()
        await transaction.start()
        assert all(await take_steps(Store(conn), [each.request() for each in group]))
        if is_committed:
            await transaction.commit()
    async with stopped_at_once(mortal):
        conn.terminate()
    async with Store.open(url) as store:
        assert (await store.confirm_server(ENGINE, life=None, steps={})).verdict == "confirmed"
        sent, begun = {each.sending for each in group}, {each.claimed for each in group}
        with clock.stopped_at(NOW):
            for desk in group:
                await settle_as_it_is(store, desk, is_committed=is_committed)
        after = await states(store)
        assert {id_ for id_, state in after.items() if state == "sent"} == sent
        assert {id_ for id_, state in after.items() if state == "waiting"} == begun
        twice = "SELECT count(*) FROM fairpost.attempts GROUP BY email_id HAVING count(*) > 1"
        assert await store.fetch(twice) == []


async def settle_as_it_is(store: Store, desk: Desk, *, is_committed: bool) -> None:
    """As a worker does once it has resumed its lease. The begun e-mail was never handed over."""
    taken = await store.take_up(desk.lease, seconds=600, life=None)
    assert (taken.verdict, taken.sending) == ("held", desk.claimed if is_committed else desk.sending)
    assert taken.step is not None
    settles = (
        Settles(email_id=desk.claimed, verdict=Untouched())
        if is_committed
        else Settles(email_id=desk.sending, verdict=Sent(), report=OK)
    )
    assert (await store.take_step(StepRequest(lease=desk.lease, number=taken.step + 1, settles=settles))).is_taken


async def test_a_copy_from_before_a_groups_commit_is_behind_for_each_of_its_accounts(
    mortal: EmbeddedServer, tmp_path: Path
) -> None:
    """As a lagging standby or a restored backup would be. Nothing is sent from it before a person resumes."""
    url = await database_on(mortal)
    copy = at_database(url, "copied")
    async with Store.open(url) as store:
        await store.value("SELECT fairpost.remember_identity(NULL)")
        life = await store.current_life()
        group = await desks(store, K)
        steps = Steps((tmp_path,), life)
        for desk in group:
            steps.of(desk.lease.account_id).acknowledge(desk.lease.step, desk.sending)
    conn = await asyncpg.connect(mortal.url)
    await conn.execute(f"CREATE DATABASE copied TEMPLATE {urlsplit(url).path[1:]}")
    await conn.close()
    async with Store.open(url) as store:
        with clock.stopped_at(NOW):
            assert all(await take_steps(store, [each.request() for each in group]))
        for desk in group:
            steps.of(desk.lease.account_id).acknowledge(desk.lease.step + 1, desk.claimed)
    async with Store.open(copy) as store:
        said: list[Any] = []
        known = KnownServer(store, WorkerOptions(url=copy, owner=ENGINE, steps=(tmp_path,)), said.append)
        assert not await known.confirm()
        last = {each.account_id: each.step for each in steps.known()}
        answer = await store.confirm_server(ENGINE, life=life, steps=last)
        assert answer.verdict == "behind"
        assert answer.behind == {desk.lease.account_id: desk.lease.step for desk in group}
        pause = await pauses.pause_now(store)
        assert pause is not None
        assert pause["restored"]
        for desk in group:
            acknowledged = replace(desk.lease, step=desk.lease.step + 1)
            taken = await store.take_up(acknowledged, seconds=600, life=life, now=NOW)
            assert taken.verdict == "behind"
            assert str(desk.claimed) in str(said)
        with clock.stopped_at(NOW):
            assert await take_steps(store, [each.request() for each in group]) == [None] * K
    steps.close()
