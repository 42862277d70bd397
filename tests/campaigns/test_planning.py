"""Planning gives every prospect its rows. Whether interrupted, concurrent, paused or restarted, it ends complete and
without duplicates."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta

import asyncpg
import pytest

from fairpost.campaigns import launching
from fairpost.dev.simulate.drive import Drive
from fairpost.maintenance.campaigns import CampaignWatch
from fairpost.model.account import Limits
from fairpost.model.campaign import Campaign, CampaignState, Schedule
from fairpost.model.window import Quota
from fairpost.store import campaigns, prospects, schedules
from fairpost.store.campaigns import Planned
from fairpost.store.store import Store
from fairpost.system import clock
from tests.campaigns.world import BERLIN, LIST, MONDAY, WORKSPACE, World, office_hours

DAY = timedelta(days=1)


class Killed(Exception):
    """The process ends here."""


async def launched(world: World, name: str = "spring", **more: object) -> Campaign:
    draft = await world.draft(name, **more)  # type: ignore[arg-type]
    return await launching.launch(world.store, draft, skip_incomplete=False, by="test", now=world.clock.now)


async def look(world: World) -> None:
    await CampaignWatch(world.store, log=lambda words: None).step()


async def rows(world: World) -> Counter[tuple[str, int]]:
    found = await world.store.fetch(
        "SELECT addresses[1] AS a, step FROM fairpost.queue UNION ALL SELECT addresses[1], step FROM fairpost.emails"
    )
    return Counter((row["a"], row["step"]) for row in found)


def complete(n: int, steps: int = 1) -> dict[tuple[str, int], int]:
    return {(f"p{i}@there.test", step): 1 for i in range(n) for step in range(1, steps + 1)}


# ── interruptions ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("point", ["after_launch", "after_plan"])
@pytest.mark.parametrize("by", ["the same command again", "an engine"])
async def test_an_interrupted_launch_is_completed_by_the_next_process(
    world: World, monkeypatch: pytest.MonkeyPatch, point: str, by: str
) -> None:
    monkeypatch.setattr(launching, "BATCH", 3)
    await world.add_accounts("anna")
    await world.add_people(16)
    schedule = office_hours(quota=Quota(daily_max=12))
    await world.set_schedule(schedule)
    campaign = await world.draft(delays=(DAY,))
    passes = 0

    def failpoint(name: str) -> None:
        nonlocal passes
        passes += name == point
        if passes == (1 if point == "after_launch" else 3):
            raise Killed

    with monkeypatch.context() as killing:
        killing.setattr(launching, "failpoint", failpoint)
        with pytest.raises(Killed):
            await world.launch(campaign)
    halfway = await world.again(campaign)
    assert (halfway.state, halfway.planned_at) == (CampaignState.RUNNING, None)
    assert len(await rows(world)) == (0 if point == "after_launch" else 18)
    if by == "an engine":
        watch = CampaignWatch(world.store, log=lambda words: None)
        while await watch.step():
            pass
    else:
        result = await world.launch(await world.again(campaign))
        assert result.is_done
    assert await rows(world) == complete(16, 2)
    progress = await campaigns.progress(world.store, campaign)
    assert (progress.scheduled, progress.skipped) == (32, 0)
    await world.run(days=20)
    assert Counter(each.to for each in world.post.sent) == {f"p{n}@there.test": 2 for n in range(16)}
    assert max(world.post.by_day(BERLIN).values()) == 12
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


@pytest.mark.parametrize("size", [1, 2, 5, 10, 11])
async def test_batches_of_any_size_come_to_the_same(world: World, size: int) -> None:
    await world.add_accounts("anna")
    await world.add_people(10)
    campaign = await launched(world, delays=(DAY, DAY))
    for _ in range(12):
        if (await campaigns.plan_batch(world.store, campaign.id, most=size)).done:
            break
    assert await rows(world) == complete(10, 3)
    assert (await world.again(campaign)).planned_at == MONDAY
    assert (await campaigns.plan_batch(world.store, campaign.id, most=size)).prospects == 0


async def test_mail_goes_out_while_the_rest_is_still_planned(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(30)
    campaign = await launched(world)
    await campaigns.plan_batch(world.store, campaign.id, most=10)
    await Drive(world.store, world.clock, world.accounts).run(until=MONDAY + DAY)  # no engine is running
    assert len(world.post.sent) == 10
    await campaigns.advance(world.store)
    assert (await world.again(campaign)).state is CampaignState.RUNNING, (
        "not completed, because planning has not finished"
    )
    await world.run(days=1)
    await world.run(days=1)
    assert Counter(each.to for each in world.post.sent) == {f"p{n}@there.test": 1 for n in range(30)}


async def test_a_schedule_that_was_written_and_never_worked_out_is_by_the_next_engine(world: World) -> None:
    """The process that set it was killed in between."""
    await world.add_accounts("anna")
    await world.add_people(5)
    await world.set_schedule(office_hours(days=(3,)))
    await world.launch(await world.draft())
    await world.run(days=0.5)
    assert world.post.sent == []
    await schedules.write_schedule(world.store, WORKSPACE, Schedule())
    await world.run(days=1)
    await world.run(days=1)
    assert len(world.post.sent) == 5


# ── concurrency ───────────────────────────────────────────────────────────────────────────────────────────


async def planners(url: str, ids: Sequence[int], *, each: int, most: int) -> list[Planned]:
    """Runs this many at once for each campaign, each on its own connection."""

    async def plan(campaign_id: int) -> list[Planned]:
        done: list[Planned] = []
        async with Store.open(url, connections_max=1) as store:
            while not done or not done[-1].done:
                done.append(await campaigns.plan_batch(store, campaign_id, most=most))
        return done

    results = await asyncio.gather(*(plan(id_) for id_ in ids for _ in range(each)))
    return [planned for batches in results for planned in batches]


async def test_several_who_plan_the_same_campaign_at_once(world: World, url: str) -> None:
    await world.add_accounts("anna")
    await world.add_people(2000)
    campaign = await launched(world, delays=(DAY,))
    done = await planners(url, [campaign.id], each=4, most=90)
    assert await rows(world) == complete(2000, 2)
    assert sum(each.scheduled for each in done) == 4000
    assert sum(each.skipped for each in done) == 0
    assert sum(each.prospects for each in done) == 2000


async def test_two_campaigns_with_one_sequence_planned_at_once(world: World, url: str) -> None:
    """Each prospect gets all steps from one of them, and nothing from the other."""
    await world.add_accounts("anna")
    await world.add_people(800, list_name="one")
    await world.add_people(1500, list_name="two")
    one = await launched(world, "one", sequence="same", lists=("one",), delays=(DAY, DAY))
    two = await launched(world, "two", sequence="same", lists=("two",), delays=(DAY, DAY))
    done = await planners(url, [one.id, two.id], each=2, most=70)
    assert await rows(world) == complete(1500, 3)
    assert sum(each.scheduled for each in done) == 4500
    assert sum(each.skipped for each in done) == 3 * 800
    owners = await world.store.fetch(
        "SELECT prospect_id, count(DISTINCT campaign_id) AS n FROM fairpost.queue GROUP BY 1 HAVING count(DISTINCT campaign_id) > 1"
    )
    assert owners == []


async def test_two_campaigns_of_one_workspace_launched_at_the_same_moment_keep_its_quota_to_the_last_e_mail(
    world: World, url: str
) -> None:
    await world.add_accounts("anna", "bert", "carl", limits=Limits())
    await world.add_people(60)
    await world.set_schedule(Schedule(timezone=BERLIN, quota=Quota(daily_max=25)))
    drafts = [await world.draft(name, delays=(DAY,)) for name in ("one", "two")]

    async def launch(campaign: Campaign) -> None:
        async with Store.open(url) as store:
            await World(store, world.clock).launch(campaign)

    await asyncio.gather(*(launch(campaign) for campaign in drafts for _ in range(2)))
    assert len(await rows(world)) == 120
    assert sum((await rows(world)).values()) == 240
    await world.run(days=30)
    assert len(world.post.sent) == 240
    counts = list(world.post.by_day(BERLIN).values())
    assert counts[:8] == [25] * 8, "as long as there is enough to send: the last follow-ups wait for their first steps"
    assert len(counts) in (10, 11), "the follow-up of a first step sent on the tenth day is due on the eleventh"
    assert max(counts) == 25
    days = await schedules.quota_days(world.store, WORKSPACE, since=MONDAY, until=MONDAY + 12 * DAY)
    assert {day.day: day.used for day in days if day.used} == world.post.by_day(BERLIN)


async def test_a_quota_holds_when_many_accounts_begin_at_the_same_instant(world: World, url: str) -> None:
    names = [f"a{n}" for n in range(6)]
    await world.add_accounts(*names, limits=Limits())
    await world.add_people(100)
    await world.set_schedule(Schedule(quota=Quota(daily_max=17)))
    await world.launch(await world.draft("one"))
    await world.launch(await world.draft("two"))

    async def drive(account_id: int) -> None:
        async with Store.open(url) as store:
            mine = {id_: post for id_, post in world.accounts.items() if id_ == account_id}
            await World(store, world.clock, world.post, mine).drive().run(until=world.clock.now)

    await asyncio.gather(*(drive(id_) for id_ in world.accounts))
    assert len(world.post.sent) == 17
    assert len({(each.to, each.email.stream) for each in world.post.sent}) == 17


# ── paused and started again ─────────────────────────────────────────────────────────────────────────────────


async def test_paused_in_the_middle_it_stops_and_continues_when_resumed(world: World, url: str) -> None:
    await world.add_accounts("anna")
    await world.add_people(3000)
    campaign = await launched(world)

    async def pause_soon() -> int:
        async with Store.open(url) as store:
            while not await store.value("SELECT count(*) FROM fairpost.queue"):
                pass
            assert await campaigns.pause(store, campaign, reason=None, by="test")
            return int(await store.value("SELECT count(*) FROM fairpost.queue"))

    _, planned = await asyncio.gather(planners(url, [campaign.id], each=1, most=20), pause_soon())
    assert 0 < planned < 3000
    assert sum((await rows(world)).values()) == planned, "nothing is planned after the pause"
    await look(world)
    assert sum((await rows(world)).values()) == planned
    assert await campaigns.resume(world.store, campaign, by="test")
    await look(world)
    assert await rows(world) == complete(3000)


async def test_cancelled_in_the_middle_it_is_cleared_and_never_completed(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(10)
    campaign = await launched(world)
    await campaigns.plan_batch(world.store, campaign.id, most=4)
    assert await campaigns.cancel(world.store, campaign, reason=None, by="test")
    await world.run(days=1)
    assert world.post.sent == []
    assert len(await rows(world)) == 4
    assert (await world.again(campaign)).planned_at is None
    assert (await world.again(campaign)).state is CampaignState.CANCELLED


async def test_a_prospect_added_later_gets_it_when_scheduled_again(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(5)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    await world.run(days=0.5)
    await world.add_people(8)
    await campaigns.replan(world.store, campaign.id)
    result = await world.launch(await world.again(campaign))
    assert (result.scheduled, result.skipped, result.is_done) == (6, 10, True)
    await world.run(days=5)
    assert Counter(each.to for each in world.post.sent) == {f"p{n}@there.test": 2 for n in range(8)}


async def test_scheduled_again_just_when_it_is_completed_it_is_planned_to_its_end(world: World, url: str) -> None:
    """An engine has found nothing left to send when the campaign is scheduled again."""
    await world.add_accounts("anna")
    await world.add_people(1)
    campaign = await world.draft()
    await world.launch(campaign)
    await Drive(world.store, world.clock, world.accounts).run(until=MONDAY + DAY)  # no engine is running
    await world.add_people(3)
    asking, advancing = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        again = asking.transaction()
        await again.start()
        await asking.execute(
            "UPDATE fairpost.campaigns SET planned_through = 0, planned_at = NULL WHERE id = $1 AND state IN ('scheduled', 'running')",
            campaign.id,
        )
        engine = asyncio.create_task(advancing.fetch("SELECT * FROM fairpost.advance_campaigns($1)", clock.stated()))
        await asyncio.wait({engine}, timeout=0.3)
        await again.commit()
        assert await engine == []
    finally:
        await asking.close()
        await advancing.close()
    await world.run(days=1)
    await world.run(days=1)
    assert len(world.post.sent) == 3


async def test_a_prospect_removed_from_the_list_during_planning_keeps_its_emails(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(4)
    campaign = await launched(world)
    await campaigns.plan_batch(world.store, campaign.id, most=2)
    await world.store.value(
        "DELETE FROM fairpost.list_members m USING fairpost.lists l WHERE l.id = m.list_id AND l.name = $1", LIST
    )
    await world.run(days=1)
    assert len(world.post.sent) == 2
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


@pytest.mark.parametrize("end_first", [True, False])
async def test_a_pause_that_ends_while_its_prospect_is_planned_leaves_nothing_aside(
    world: World, url: str, end_first: bool
) -> None:
    await world.add_accounts("anna")
    await world.add_people(3)
    prospect = await prospects.known_by(world.store, WORKSPACE, "p1@there.test")
    await prospects.pause(world.store, prospect, is_paused=True)
    campaign = await launched(world)
    first, second = await asyncpg.connect(url), await asyncpg.connect(url)
    calls = [
        ("SELECT * FROM fairpost.pause_prospect($1, false, $2)", prospect.id),
        ("SELECT done FROM fairpost.plan_batch($1, 10, $2)", campaign.id),
    ]
    if not end_first:
        calls.reverse()
    try:
        transaction = first.transaction()
        await transaction.start()
        await first.fetchval(calls[0][0], calls[0][1], clock.stated())
        other = asyncio.create_task(second.fetchval(calls[1][0], calls[1][1], clock.stated()))
        await asyncio.wait({other}, timeout=0.3)
        await transaction.commit()
        await other
    finally:
        await first.close()
        await second.close()
    await world.run(days=1)
    assert Counter(each.to for each in world.post.sent) == {f"p{n}@there.test": 1 for n in range(3)}


async def test_a_quota_day_is_recounted_if_another_began_at_the_same_moment(world: World) -> None:
    """Berlin's day of 25 hours begins like any other, and ends an hour later."""
    world.clock.move_to(MONDAY.replace(month=10, day=27, hour=10))
    await world.add_accounts("anna", limits=Limits(delay_ms=1000))
    await world.add_people(60)
    fixed = "Etc/GMT-2"
    await world.set_schedule(Schedule(timezone=fixed, quota=Quota(daily_max=10)))
    await world.launch(await world.draft())
    await world.run(days=0.1)
    world.clock.move_to(MONDAY.replace(month=10, day=27, hour=22))
    await world.run(days=0.01)
    assert len(world.post.sent) == 20
    world.clock.move_to(MONDAY.replace(month=10, day=27, hour=22, minute=30))
    await world.set_schedule(Schedule(timezone=BERLIN, quota=Quota(daily_max=20)))
    await world.run(days=0.01)
    assert world.post.by_day(BERLIN)[date(2030, 10, 27)] == 20
