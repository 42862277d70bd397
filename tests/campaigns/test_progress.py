"""The forecast compared with reality: stored progress matches what was sent by then, however it is read."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import pairwise

import pytest

from fairpost.campaigns import forecasting, launching
from fairpost.dev.simulate.drive import Drive
from fairpost.maintenance.campaigns import CampaignWatch
from fairpost.maintenance.progress import ProgressWatch
from fairpost.model.account import Limits
from fairpost.model.campaign import Campaign, CampaignState
from fairpost.model.ids import EmailId
from fairpost.observe.campaign_progress import ProgressView, view_progress
from fairpost.observe.campaigns import view_campaign
from fairpost.policy.forecast import KeptForecast, NoKeptForecast, forecast_by
from fairpost.store import campaign_progress, campaigns
from fairpost.store.store import Store
from tests.campaigns.answers import BAD_MESSAGE
from tests.campaigns.world import MONDAY, World, office_hours

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
POINTS_MAX = 600


def orchestrate(world: World) -> Callable[[], Awaitable[None]]:
    """Runs an engine's periodic tasks, including progress."""
    moving, counting = CampaignWatch(world.store, log=print), ProgressWatch(world.store, log=print)

    async def look() -> None:
        await moving.step()
        await counting.step()

    return look


async def run(world: World, *, days: float, every: timedelta = 30 * MINUTE) -> None:
    """Advances a little at a time, because an engine also checks while nothing is sent."""
    ends_at = world.clock.now + timedelta(days=days)
    drive, look = Drive(world.store, world.clock, world.accounts, orchestrate=orchestrate(world)), orchestrate(world)
    while world.clock.now < ends_at:
        at = min(ends_at, world.clock.now + every)
        await drive.run(until=at)
        world.clock.move_to(at)
        await look()
        drive.wake_all()


async def progress_of(world: World, campaign: Campaign) -> ProgressView:
    return await view_progress(world.store, await world.again(campaign), now=world.clock.now)


async def finish(store: Store, campaign: Campaign, state: str, most: int) -> int:
    """As if an engine had sent some, or had been refused."""
    return int(
        await store.value(
            """SELECT count(*) FROM (
                   SELECT fairpost.note(ARRAY[q.id], -1), fairpost.finish(q.id, $1::fairpost.email_state, 'as it is', clock_timestamp())
                   FROM (SELECT q.id FROM fairpost.queue q WHERE q.campaign_id = $3 AND q.waiting ORDER BY q.id LIMIT $2 FOR UPDATE SKIP LOCKED) q) done""",
            *(state, most, campaign.id),
        )
    )


async def launched(world: World, people: int = 100) -> Campaign:
    await world.add_accounts("anna")
    await world.add_people(people)
    campaign = await world.draft()
    await world.launch(campaign)
    return await world.again(campaign)


async def count(world: World) -> int:
    return await campaign_progress.count(world.store, seconds_max=60)


# ── reality ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_every_point_is_what_had_been_sent_by_then(world: World) -> None:
    await world.add_accounts("anna", "bert", limits=Limits(delay_ms=60_000))
    await world.add_people(15)
    await world.set_schedule(office_hours())
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    await run(world, days=1.5, every=60 * MINUTE)
    view = await progress_of(world, campaign)
    assert view.campaign.state is CampaignState.COMPLETED
    assert (view.points[0].at, view.points[0].sent) == (MONDAY, 0)
    assert (view.points[-1].at, view.points[-1].sent) == (view.campaign.finished_at, 30)
    for point in view.points[1:]:
        assert point.sent == sum(each.at <= point.at for each in world.post.sent), point
    assert all(before.at < after.at for before, after in pairwise(view.points))
    # Nothing is sent at night, so the line does not rise.
    assert all(
        after.at - before.at <= 60 * MINUTE for before, after in pairwise(view.points) if after.sent > before.sent
    )
    assert len(view.points) <= POINTS_MAX + 1


async def test_progress_follows_the_forecast_and_the_revised_forecast_follows_progress(world: World) -> None:
    await world.add_accounts("anna", limits=Limits(delay_ms=60_000))
    await world.add_people(60)
    campaign = await world.draft()
    await world.launch(campaign)
    await run(world, days=0.03)
    half = await progress_of(world, campaign)
    assert half.snapshot is not None
    assert half.expected is not None
    assert isinstance(half.foretold, KeptForecast)
    assert isinstance(half.revised_forecast, KeptForecast)
    assert abs(half.snapshot.sent - half.expected) <= 3
    assert half.revised_forecast.points[0][1] == half.revised_forecast.sent > 0
    assert half.revised_forecast.points[-1][1] == 60
    assert half.revised_forecast.made_at > half.foretold.made_at
    assert abs(half.drift_s or 0) < 120
    await run(world, days=0.2)
    whole = await progress_of(world, campaign)
    assert whole.revised_forecast is None
    assert abs((world.post.sent[-1].at - half.revised_forecast.ends_at).total_seconds()) < 120
    assert abs(whole.drift_s or 0) < 180
    assert all(abs(forecast_by(half.foretold, point.at) - point.sent) <= 5 for point in whole.points)


async def test_a_slow_watcher_is_told_so(world: World) -> None:
    await world.add_accounts("anna", limits=Limits(delay_ms=60_000))
    await world.add_people(100)
    campaign = await world.draft()
    await world.launch(campaign)
    await campaigns.pause(world.store, await world.again(campaign), reason="wrong price", by="test")
    await count(world)
    world.clock.move_to(MONDAY + DAY)
    await campaigns.resume(world.store, await world.again(campaign), by="test")
    await orchestrate(world)()
    view = await progress_of(world, campaign)
    assert (view.snapshot and view.snapshot.sent, view.expected) == (0, 100)
    assert view.drift_s is not None
    assert abs(view.drift_s - DAY.total_seconds()) < 120


async def test_steps_and_accounts_add_up(world: World) -> None:
    await world.add_accounts("anna", "bert")
    await world.add_people(40)
    campaign = await world.draft(delays=(DAY,))
    world.post.answers = {"p3@there.test": [BAD_MESSAGE], "p4@there.test": [BAD_MESSAGE]}
    await world.launch(campaign)
    await run(world, days=0.03)
    view = await progress_of(world, campaign)
    snapshot = view.snapshot
    assert snapshot is not None
    progress = (await view_campaign(world.store, await world.again(campaign), now=world.clock.now)).progress
    assert {step: dict(states) for step, states in progress.by_step.items()} == snapshot.by_step
    assert (snapshot.sent, snapshot.missed, snapshot.waiting) == (38, 4, 38)
    assert [share.account for share in view.by_account] == ["anna", "bert", None]
    assert sum(share.sent for share in view.by_account) == 38
    assert sum(share.waiting for share in view.by_account[:2]) == 38  # follow-ups belong to their account
    assert sum(share.missed for share in view.by_account) == 4


async def test_the_cause_of_waiting_is_worded_as_elsewhere(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(5)
    await world.set_schedule(office_hours())
    campaign = await world.draft(delays=(DAY,), starts_at=MONDAY + DAY)
    for moment in (MONDAY, MONDAY + DAY, MONDAY + 1.5 * DAY, MONDAY + 4 * DAY):
        if campaign.state is CampaignState.DRAFT and moment > MONDAY:
            await world.launch(campaign)
        await run(world, days=(moment - world.clock.now) / DAY, every=DAY / 4)
        world.clock.move_to(max(world.clock.now, moment))
        campaign = await world.again(campaign)
        told = (await view_campaign(world.store, campaign, now=world.clock.now)).waiting
        assert (await progress_of(world, campaign)).waiting == told


# ── totals ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_no_count_misses_or_doubles_an_email_that_moves_in_the_meantime(world: World) -> None:
    people = 240
    campaign = await launched(world, people)
    is_done = False

    async def move() -> None:
        nonlocal is_done
        for n in range(24):
            await finish(world.store, campaign, "failed" if n % 3 else "sent", 15)
            failed = [r async for r in campaigns.receipts(world.store, campaign, states=["failed"], most=7)]
            await campaigns.retry(world.store, [EmailId(each.email_id) for each in failed])
        is_done = True

    async def watch() -> int:
        looks = 0
        while not is_done:
            await world.store.value("SELECT fairpost.count_campaign($1, $2)", campaign.id, MONDAY + looks * MINUTE)
            snapshot = await campaign_progress.snapshot(world.store, campaign)
            assert snapshot is not None
            assert snapshot.sent + snapshot.missed + snapshot.waiting == people
            assert sum(sum(states.values()) for states in snapshot.by_step.values()) == people
            assert sum(sum(kinds.values()) for kinds in snapshot.by_account.values()) == people
            looks += 1
        return looks

    _, looks = await asyncio.gather(move(), watch())
    assert looks > 1


async def test_a_count_that_is_cut_off_leaves_nothing(world: World) -> None:
    campaign = await launched(world)
    await count(world)
    await finish(world.store, campaign, "sent", 30)
    world.clock.move_to(MONDAY + 2 * MINUTE)
    before = await progress_of(world, campaign)
    async with world.store.connection() as conn:
        transaction = conn.transaction()
        await transaction.start()
        assert await conn.fetchval("SELECT fairpost.count_campaigns(60, $1)", world.clock.now) == 1
        assert await count(world) == 0, "only one process counts at a time"
        await transaction.rollback()
    assert (await progress_of(world, campaign)).points == before.points
    assert await count(world) == 1
    assert [point.sent for point in (await progress_of(world, campaign)).points] == [0, 30]
    assert await count(world) == 0, "not before a minute has passed"


async def test_sent_emails_still_count_after_history_is_dropped(world: World) -> None:
    campaign = await launched(world)
    await finish(world.store, campaign, "sent", 30)
    await count(world)
    await world.store.value("DELETE FROM fairpost.emails WHERE campaign_id = $1", campaign.id)
    world.clock.move_to(MONDAY + 2 * MINUTE)
    await count(world)
    assert [point.sent for point in (await progress_of(world, campaign)).points] == [0, 30]
    await world.store.value("DELETE FROM fairpost.queue")
    await world.store.value("DELETE FROM fairpost.arrivals")


async def test_a_retry_continues_the_progress(world: World) -> None:
    campaign = await launched(world, 10)
    world.post.answers = {"p3@there.test": [BAD_MESSAGE]}
    await run(world, days=0.1)
    ended = await progress_of(world, campaign)
    assert (ended.campaign.state, ended.points[-1].sent, ended.points[-1].missed) == (CampaignState.COMPLETED, 9, 1)
    world.clock.move_to(MONDAY + 2 * DAY)
    failed = [r async for r in campaigns.receipts(world.store, campaign, states=["failed", "bounced"])]
    await world.store.value("SELECT fairpost.unsuppress('acme', 'p3@there.test')")
    assert await campaigns.retry(world.store, [EmailId(each.email_id) for each in failed]) == 1
    await run(world, days=0.1)
    again = await progress_of(world, campaign)
    assert (again.points[-1].sent, again.points[-1].missed) == (10, 0)
    assert again.points[-1].at == again.campaign.finished_at
    assert ended.points == again.points[: len(ended.points)]


# ── limits ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_long_progress_is_thinned_evenly(world: World) -> None:
    campaign = await launched(world, 650)
    await world.store.value(
        f"""DO $$ BEGIN
            FOR minute IN 0..649 LOOP
                PERFORM fairpost.note(ARRAY[q.id], -1), fairpost.finish(q.id, 'sent', NULL, clock_timestamp())
                FROM (SELECT q.id FROM fairpost.queue q WHERE q.campaign_id = {campaign.id} ORDER BY q.id LIMIT 1) q;
                PERFORM fairpost.count_campaign({campaign.id}, '{MONDAY.isoformat()}'::timestamptz + minute * interval '1 minute');
            END LOOP; END $$"""
    )
    view = await progress_of(world, campaign)
    assert POINTS_MAX / 4 < len(view.points) <= POINTS_MAX + 1
    assert (view.points[0].at, view.points[-1].sent) == (MONDAY, 650)
    assert all(point.sent == 1 + (point.at - MONDAY) // MINUTE for point in view.points[1:])
    assert max(after.at - before.at for before, after in pairwise(view.points)) <= 4 * MINUTE


async def test_nothing_is_written_where_nothing_changes(world: World) -> None:
    campaign = await launched(world)
    for minute in range(20):
        world.clock.move_to(MONDAY + minute * MINUTE)
        await count(world)
    rows = await campaign_progress.points(world.store, campaign)
    assert [(point.at, point.sent) for point in rows] == [(MONDAY, 0)]
    assert [point.at for point in (await progress_of(world, campaign)).points] == [MONDAY, MONDAY + 19 * MINUTE]


async def test_one_that_is_over_is_counted_once_more_and_then_left_alone(world: World) -> None:
    campaign = await launched(world, 5)
    await run(world, days=0.1)
    assert (await world.again(campaign)).state is CampaignState.COMPLETED
    world.clock.move_to(MONDAY + 300 * DAY)
    assert await count(world) == 0


async def test_progress_is_removed_with_its_campaign(world: World) -> None:
    campaign = await launched(world, 5)
    await run(world, days=0.1)
    await world.store.value("DELETE FROM fairpost.campaigns WHERE id = $1", campaign.id)
    assert await campaign_progress.points(world.store, campaign) == []
    assert await campaign_progress.snapshot(world.store, campaign) is None


# ── forecast at launch ────────────────────────────────────────────────────────────────────────────────


async def test_a_launch_without_a_forecast_continues_and_stores_the_reason(world: World) -> None:
    await world.add_accounts("anna")
    await world.store.value("UPDATE fairpost.accounts SET status = 'paused'")
    await world.add_people(5)
    campaign = await world.draft()
    assert (await world.launch(campaign)).scheduled == 5
    view = await progress_of(world, campaign)
    assert isinstance(view.foretold, NoKeptForecast)
    assert view.foretold.why.code == "forecast.no_account"
    assert (view.expected, view.drift_s) == (None, None)


async def test_a_forecast_that_takes_too_long_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasting, "SECONDS_MAX", -1.0)
    campaign = await launched(world, 5)
    view = await progress_of(world, campaign)
    assert isinstance(view.foretold, NoKeptForecast)
    assert (view.foretold.why.code, view.foretold.why.params["emails"]) == ("forecast.too_slow", 5)


async def test_an_engine_foresees_what_a_launch_that_was_cut_off_did_not(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(50)
    campaign = await world.draft(starts_at=MONDAY + DAY)
    await launching.set_going(world.store, campaign, skip_incomplete=False, by="test", now=MONDAY)
    await orchestrate(world)()
    assert (await progress_of(world, campaign)).foretold is None, "the launch may still be storing it"
    world.clock.move_to(MONDAY + 2 * MINUTE)
    await orchestrate(world)()
    foretold = (await progress_of(world, campaign)).foretold
    assert isinstance(foretold, KeptForecast)
    assert (foretold.emails, foretold.points[-1]) == (50, (foretold.ends_at, 50))
    assert foretold.points[0] == (MONDAY + DAY, 0)


async def test_forecasts_stored_by_hour_can_still_be_read(world: World) -> None:
    campaign = await launched(world, 5)
    await world.store.value(
        """UPDATE fairpost.campaigns SET forecast = '{"made_at": "2030-01-07T08:00:00+00:00", "ends_at": "2030-01-07T10:30:00+00:00", "emails": 30,
           "per_hour": [["2030-01-07T08:00:00+00:00", 10], ["2030-01-07T10:00:00+00:00", 20]]}'"""
    )
    foretold = (await progress_of(world, campaign)).foretold
    assert isinstance(foretold, KeptForecast)
    hours = [forecast_by(foretold, MONDAY + n * timedelta(minutes=30)) for n in range(7)]
    assert hours == [0, 5, 10, 10, 10, 30, 30]
