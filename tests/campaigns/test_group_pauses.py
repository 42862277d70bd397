"""Once a pause, a hold or the end of a campaign has returned, no begin of a group is committed."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from fairpost.model.campaign import Campaign
from fairpost.store import campaigns, pauses
from fairpost.store.store import Store
from tests.campaigns.clerks import Clerk, clerks, step_alone, step_together, waits
from tests.campaigns.world import WORKSPACE, World

STATES = "SELECT state::text, count(*) FROM fairpost.queue WHERE account_id IS NOT NULL AND NOT waiting GROUP BY 1"
Stop = Callable[[Store, Campaign], Awaitable[object]]


async def stream_of(store: Store, campaign: Campaign) -> str:
    return str(await store.value("SELECT stream FROM fairpost.campaign_streams WHERE campaign_id = $1", campaign.id))


async def pause_everything(store: Store, campaign: Campaign) -> None:
    await pauses.pause_everything(store, reason="too much", by="test", until=None)


async def pause_workspace(store: Store, campaign: Campaign) -> None:
    await pauses.pause_workspace(store, WORKSPACE, reason="too much", until=None)


async def hold_workspace(store: Store, campaign: Campaign) -> None:
    await store.hold(WORKSPACE, "workspace", reason="too much")


async def hold_stream(store: Store, campaign: Campaign) -> None:
    await store.hold(WORKSPACE, "stream", await stream_of(store, campaign), reason="too much")


async def pause_campaign(store: Store, campaign: Campaign) -> None:
    assert await campaigns.pause(store, campaign, reason=None, by="test")


async def cancel_campaign(store: Store, campaign: Campaign) -> None:
    assert await campaigns.cancel(store, campaign, reason=None, by="test")


STOPS: dict[str, Stop] = {
    each.__name__: each
    for each in (pause_everything, pause_workspace, hold_workspace, hold_stream, pause_campaign, cancel_campaign)
}


async def states(world: World) -> dict[str, int]:
    return {row["state"]: row["count"] for row in await world.store.fetch(STATES)}


async def group_of_a_campaign(world: World, n: int) -> tuple[Campaign, list[Clerk]]:
    accounts = await clerks(world, *(f"a{i}" for i in range(n)), people=2 * n)
    return await campaigns.campaign_named(world.store, WORKSPACE, "spring"), accounts


@pytest.mark.parametrize("stop", STOPS)
async def test_it_waits_for_the_group_under_way_and_the_next_group_sees_it(world: World, url: str, stop: str) -> None:
    campaign, accounts = await group_of_a_campaign(world, 4)
    first, second = accounts[:2], accounts[2:]
    conn, beside = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        async with conn.transaction():
            assert await step_together(Store(conn), first) == [True, True]
            stopping = asyncio.ensure_future(STOPS[stop](world.store, campaign))
            assert await waits(beside, unless=stopping.done), "it returned before a begin that did not see it"
            late = asyncio.create_task(step_together(Store(beside), second))
        await stopping
        assert await states(world) == {"sending": 2, "claimed": 2}
        assert await late == [False, False]
        for clerk in second:
            answer = await step_alone(world.store, clerk)
            assert answer.begun is not None
            assert answer.begun.verdict == "held"
        assert await states(world) == {"sending": 2, "claimed": 2}
    finally:
        await conn.close()
        await beside.close()


async def test_a_pause_waits_for_the_commits_under_way_and_not_for_groups_of_32_behind_it(
    world: World, url: str
) -> None:
    """A process has at most two commits in progress, and those that ask later wait for the pause."""
    _, accounts = await group_of_a_campaign(world, 64)
    conn, beside, asking = [await asyncpg.connect(url) for _ in range(3)]
    pid = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND mode = 'ExclusiveLock'"
    try:
        async with conn.transaction():
            assert await step_together(Store(conn), accounts[:32]) == [True] * 32
            pausing = asyncio.create_task(pauses.pause_everything(world.store, reason="r", by="test", until=None))
            assert await waits(asking)
            late = asyncio.create_task(step_together(Store(beside), accounts[32:]))
            assert await waits(asking, 2)
            blocking = await asking.fetchval("SELECT pg_blocking_pids($1)", await asking.fetchval(pid))
            assert blocking == [conn.get_server_pid()]
        assert not await pausing
        assert await late == [False] * 32
        assert await states(world) == {"sending": 32, "claimed": 32}
    finally:
        for each in (conn, beside, asking):
            await each.close()
