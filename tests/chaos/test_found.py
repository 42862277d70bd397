"""Regression tests for faults that the chaos tests found, each as small as possible."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

from fairpost.engine.runner import Runner
from fairpost.model.account import Lease, Limits
from fairpost.model.engine import Claim
from fairpost.model.report import Reached, Report
from fairpost.store.store import Store
from fairpost.transports.scripted.send import ScriptedTransport
from tests.simulation.world import draft


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url) as store:
        yield store


async def test_a_route_has_work_while_something_waits_also_after_the_first_claim(store: Store) -> None:
    """Otherwise, a worker that dies or ends at a limit is not restarted until something new arrives."""
    account = await store.add_account("anna", address="a@post.test", limits=Limits())
    await store.enqueue_many([draft(to=f"p{i}@x.test") for i in range(10)])
    lease = await store.take_lease(account, owner="one", seconds=60)
    assert lease is not None
    assert (await store.claim(lease, limit=3)).ids
    assert [(each.route, each.due) for each in await store.routes_with_work()] == [("default", True)]


class SlowToClaim(Store):
    async def claim(self, lease: Lease, *, limit: int, now: datetime | None = None) -> Claim:
        await asyncio.sleep(0.15)
        return await super().claim(lease, limit=limit, now=now)


async def test_the_pause_between_two_sends_counts_from_the_begin_however_long_the_claim_takes(url: str) -> None:
    delay = timedelta(milliseconds=200)
    async with SlowToClaim.open(url) as store:
        account = await store.add_account("anna", address="a@post.test", limits=Limits(delay_ms=200))
        await store.enqueue_many([draft(to=f"p{i}@x.test") for i in range(2)])
        runner = await Runner.start(store, ScriptedTransport(), account, owner="one")
        assert runner is not None
        sent = 0
        while sent < 2:
            sent += len(await runner.run_until_idle())
            await asyncio.sleep(0.01)
        await runner.stop()
        first, second = [r["begun_at"] for r in await store.fetch("SELECT begun_at FROM fairpost.attempts ORDER BY 1")]
        assert second - first >= delay


async def test_an_email_in_doubt_that_may_be_resent_is_resent_also_by_an_account_with_nothing_else_to_do(
    store: Store,
) -> None:
    """By the worker that left it in doubt, and not only when another one begins."""
    account = await store.add_account("anna", address="a@post.test", limits=Limits())
    await store.enqueue_many([draft(on_doubt="resend")])
    runner = await Runner.start(store, ScriptedTransport([Report(reached=Reached.AFTER_DOT)]), account, owner="one")
    assert runner is not None
    await runner.run_until_idle()
    assert tuple((await store.fetch("SELECT state::text, attempts FROM fairpost.queue"))[0]) == ("waiting", 1)
    await runner.stop()
