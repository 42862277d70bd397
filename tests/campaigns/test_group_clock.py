"""Whatever the clock does while steps are taken, nothing begins that has expired or is outside its window."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from fairpost.model.campaign import Schedule
from fairpost.model.window import Quota
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.clock import ManualClock
from tests.campaigns.clerks import Clerk, clerks, passes, step_alone, step_together, waits
from tests.campaigns.world import BERLIN, DAY, MONDAY, WORKSPACE, World, office_hours

SOON = "SELECT clock_timestamp() + interval '500 ms'"
BACK = timedelta(seconds=10)
WAYS = ("in a group", "alone")
ENDS = {  # what ends while a step waits, and how its single step is answered
    "e-mail": ("UPDATE fairpost.queue SET expires_at = $1 WHERE state = 'claimed'", "expired"),
    "window": ("UPDATE fairpost.campaign_streams SET open = tstzmultirange(tstzrange(NULL, $1))", "closed"),
    "lease": ("UPDATE fairpost.leases SET until = $1", "stale"),
    "quota's day": ("UPDATE fairpost.quotas SET ends_at = $1 WHERE ends_at = (SELECT min(ends_at) FROM fairpost.quotas)", "closed"),
}  # fmt: skip


@pytest.fixture
async def holder(url: str) -> AsyncIterator["asyncpg.Connection"]:
    conn = await asyncpg.connect(url)
    yield conn
    await conn.close()


async def begun_as(store: Store, clerk: Clerk, way: str) -> str:
    """Returns the verdict."""
    if way == "in a group":
        return "begun" if await step_together(store, [clerk]) == [True] else "left out"
    answer = await step_alone(store, clerk)
    assert answer.begun is not None
    return answer.begun.verdict


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ends", ENDS)
async def test_what_ends_while_a_step_waits_for_the_pause_lock_does_not_begin(
    store: Store, url: str, holder: "asyncpg.Connection", ends: str, way: str
) -> None:
    """By the database's own clock."""
    world = World(store, ManualClock(clock.now()))
    await world.set_schedule(Schedule(quota=Quota(daily_max=10)))
    (clerk,) = await clerks(world, "anna", people=2)
    sql, verdict = ENDS[ends]
    beside = await asyncpg.connect(url)
    try:
        async with holder.transaction():
            await holder.execute("SELECT pg_advisory_xact_lock(fairpost.pause_lock())")
            moment = await beside.fetchval(SOON)
            await beside.execute(sql, moment)
            step = asyncio.create_task(begun_as(store, clerk, way))
            await waits(beside, unless=step.done)
            await passes(beside, moment)
        assert await step == ("left out" if way == "in a group" else verdict)
    finally:
        await beside.close()
    assert await store.value("SELECT count(*) FROM fairpost.queue WHERE state = 'sending'") == 0
    assert await store.value("SELECT sum(used) FROM fairpost.quotas") == 0


@pytest.mark.parametrize("way", WAYS)
async def test_a_window_that_closes_while_a_step_waits_for_the_quota_is_closed(
    store: Store, url: str, holder: "asyncpg.Connection", way: str
) -> None:
    world = World(store, ManualClock(clock.now()))
    await world.set_schedule(Schedule(quota=Quota(daily_max=10)))
    (clerk,) = await clerks(world, "anna", people=2)
    async with holder.transaction():  # as a new calendar does
        await holder.fetch("SELECT FROM fairpost.quotas WHERE workspace = $1 FOR UPDATE", WORKSPACE)
        step = asyncio.create_task(begun_as(store, clerk, way))
        beside = await asyncpg.connect(url)
        assert await waits(beside)
        await beside.close()
        await holder.execute("UPDATE fairpost.campaign_streams SET open = '{}'")
    assert await step == ("left out" if way == "in a group" else "closed")


@pytest.mark.parametrize("way", WAYS)
async def test_when_the_clock_goes_back_before_the_window_opens_nothing_begins(world: World, way: str) -> None:
    """The window opens at MONDAY. What began after it opened is settled although its end is before its begin."""
    await world.set_schedule(office_hours(BERLIN, quota=Quota(daily_max=2)))
    first, second = await clerks(world, "anna", "bert", each=2, people=4)
    assert await begun_as(world.store, first, way) == "begun"
    with clock.stopped_at(MONDAY - BACK):
        assert await begun_as(world.store, second, way) in ("left out", "closed")
        begun, first.claimed = first.claimed, []
        await step_together(world.store, [first])
        assert first.sending is None
        first.claimed = begun
    assert await world.store.value("SELECT count(*) FROM fairpost.queue WHERE state = 'sending'") == 0
    assert await world.store.value("SELECT sum(used) FROM fairpost.quotas") == 1
    assert await begun_as(world.store, first, way) == "begun"
    assert await world.store.value("SELECT sum(used) FROM fairpost.quotas") == 2
    assert second.claimed
    assert await step_together(world.store, [second]) == [False], "the quota is used up"


async def test_an_email_that_has_expired_does_not_begin_after_the_clock_goes_back(world: World) -> None:
    first, second = await clerks(world, "anna", "bert", people=4)
    await world.store.value("UPDATE fairpost.queue SET expires_at = $1 WHERE state = 'claimed'", MONDAY)
    assert await step_together(world.store, [first, second]) == [False, False]
    assert await begun_as(world.store, first, "alone") == "expired"
    with clock.stopped_at(MONDAY - BACK):
        first.claimed = [await world.store.value("SELECT id FROM fairpost.emails")]
        assert await step_together(world.store, [first]) == [False]
        assert await begun_as(world.store, first, "alone") == "gone"


@pytest.mark.parametrize("way", WAYS)
async def test_when_the_clock_goes_back_over_midnight_each_day_keeps_its_quota(world: World, way: str) -> None:
    await world.set_schedule(Schedule(quota=Quota(daily_max=1)))
    midnight = await world.store.value("SELECT ends_at FROM fairpost.quota_at($1, $2)", WORKSPACE, MONDAY)
    first, second, third, fourth = await clerks(world, "anna", "bert", "carl", "dora", people=6)
    with clock.stopped_at(midnight + BACK / 2):
        assert await begun_as(world.store, first, way) == "begun"
        assert await begun_as(world.store, second, way) in ("left out", "closed")
    with clock.stopped_at(midnight - BACK / 2):
        assert await begun_as(world.store, third, way) == "begun"
        assert await begun_as(world.store, fourth, way) in ("left out", "closed")
    used = await world.store.fetch("SELECT used FROM fairpost.quotas WHERE starts_at <= $1 ORDER BY day", midnight)
    assert [row["used"] for row in used] == [1, 1]
    assert midnight < MONDAY + DAY
