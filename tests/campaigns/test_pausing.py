"""Campaigns that are paused and resumed, at any moment."""

import asyncio

from fairpost.engine.results import Handled, Rested
from fairpost.engine.runner import Runner
from fairpost.model.account import Account
from fairpost.model.campaign import CampaignState
from fairpost.model.email import Outgoing
from fairpost.model.report import Report
from fairpost.model.window import Quota
from fairpost.store import campaigns
from fairpost.transports.port import Permission
from tests.campaigns.world import (
    BERLIN,
    DAY,
    HOUR,
    MONDAY,
    QUICK,
    Post,
    World,
    counts,
    look,
    office_hours,
    once,
    runner_of,
    subjects,
)


async def test_emails_in_flight_finish_and_no_others_begin(world: World) -> None:
    await world.add_accounts("anna", limits=QUICK)
    await world.add_people(10)
    campaign = await world.draft()
    await world.launch(campaign)
    anna = await runner_of(world, "anna")
    assert isinstance(await anna.step(), Handled)
    assert isinstance(await anna.step(), Handled)  # its pace is known now: one is sent, and the next is begun
    assert await campaigns.pause(world.store, campaign, reason="wait", by="test")
    for _ in range(20):
        await anna.step()
    assert len(world.post.sent) == 3
    await anna.stop()
    await world.run(days=10)
    assert len(world.post.sent) == 3
    assert await campaigns.resume(world.store, campaign, by="test")
    await world.run(days=1)
    assert counts(world) == once(10)
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


class Slow(Post):
    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        await asyncio.sleep(0.002)
        return await super().send(account, email, permission=permission)


async def test_pausing_and_resuming_while_many_send_repeats_nothing_and_skips_nothing(world: World) -> None:
    world.post = Slow()
    names = ("anna", "bert", "carl")
    await world.add_accounts(*names, limits=QUICK)
    await world.add_people(150)
    campaign = await world.draft()
    await world.launch(campaign)
    runners = [await runner_of(world, name) for name in names]
    is_over = False

    async def keep_on(runner: Runner) -> None:
        while not is_over:
            if isinstance(await runner.step(), Rested):
                await asyncio.sleep(0.005)

    tasks = [asyncio.create_task(keep_on(runner)) for runner in runners]
    for _ in range(12):
        await asyncio.sleep(0.03)
        assert await campaigns.pause(world.store, campaign, reason=None, by="test")
        before = len(world.post.sent)
        await asyncio.sleep(0.03)
        assert len(world.post.sent) - before <= len(names)
        assert await campaigns.resume(world.store, campaign, by="test")
    async with asyncio.timeout(60):
        while len(world.post.sent) < 150:
            await look(world)
    is_over = True
    await asyncio.gather(*tasks)
    for runner in runners:
        await runner.stop()
    await look(world)
    assert counts(world) == once(150)
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


async def test_a_sequence_paused_between_steps_continues_where_it_was(world: World) -> None:
    await world.add_accounts("anna", "bert")
    await world.add_people(6)
    campaign = await world.draft(delays=(DAY, DAY))
    await world.launch(campaign)
    await world.run(days=1.5)
    assert len(world.post.sent) == 12
    await campaigns.pause(world.store, campaign, reason=None, by="test")
    await world.run(days=9)
    world.clock.advance(9 * DAY)
    assert len(world.post.sent) == 12
    await campaigns.resume(world.store, campaign, by="test")
    await world.run(days=3)
    assert counts(world) == once(6, steps=3)
    for n in range(6):
        assert subjects(world, f"p{n}@there.test") == ["1", "2", "3"]
        assert len({each.account for each in world.post.of(f"p{n}@there.test")}) == 1
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


async def test_a_pause_outside_the_window_and_with_a_used_quota_ends_within_them(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(30)
    await world.set_schedule(office_hours(quota=Quota(daily_max=10)))
    campaign = await world.draft()
    await world.launch(campaign)
    await world.run(days=0.2)
    assert len(world.post.sent) == 10
    await campaigns.pause(world.store, campaign, reason=None, by="test")
    world.clock.move_to(MONDAY + 12 * HOUR)
    await campaigns.resume(world.store, campaign, by="test")
    await world.run(days=3)
    assert list(world.post.by_day(BERLIN).values()) == [10, 10, 10]
    assert all(8 <= each.at.hour < 16 for each in world.post.sent)
