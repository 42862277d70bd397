"""Why a campaign is sending nothing right now: one sentence, true at every moment."""

from datetime import UTC, datetime, timedelta

import pytest

from fairpost.campaigns.forecasting import compute
from fairpost.model.account import Limits
from fairpost.model.campaign import Campaign, CampaignState, Schedule
from fairpost.model.fault import Bounces
from fairpost.model.reason import Reason
from fairpost.model.window import Quota
from fairpost.observe.campaigns import view_campaign
from fairpost.policy.forecast import NoForecast
from fairpost.providers.presets import read_presets
from fairpost.reasons.rendering import Shown, shown
from fairpost.store import campaigns
from fairpost.store.blocks import block, unblock
from fairpost.store.prospects import known_by, pause
from tests.campaigns.world import MONDAY, WORKSPACE, World, office_hours
from tests.facts import missing
from tests.simulation.world import SHARE, shared

GMAIL = shared(read_presets()["gmail"].limits)

# Measured by the real clock, however long the test takes.
ENGINE_BESIDE = "SELECT fairpost.engine_here('test', false, clock_timestamp() + interval '1 hour')"


async def waits(world: World, campaign: Campaign) -> Shown:
    view = await view_campaign(world.store, await world.again(campaign), now=world.clock.now)
    return shown(view.waiting, zone=view.timezone)


@pytest.fixture
async def running(world: World) -> Campaign:
    """Launches a campaign while an engine is running."""
    await world.add_accounts("anna", limits=GMAIL)
    await world.add_people(600 // SHARE)
    campaign = await world.draft()
    await world.launch(campaign)
    await world.store.value(ENGINE_BESIDE)
    return campaign


async def test_a_draft_and_a_start_still_to_come(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(3)
    campaign = await world.draft(starts_at=MONDAY + timedelta(days=2))
    waiting = await waits(world, campaign)
    assert (waiting.until, waiting.then) == (None, "fairpost campaign launch spring --workspace acme")
    await world.launch(campaign)
    waiting = await waits(world, campaign)
    assert "Wednesday 2030-01-09 08:00 (UTC)" in waiting.text
    assert (waiting.until, waiting.code) == (MONDAY + timedelta(days=2), "campaign.starts")


async def test_without_an_engine(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(3)
    campaign = await world.draft()
    await world.launch(campaign)
    waiting = await waits(world, campaign)
    assert (waiting.until, waiting.then) == (None, "fairpost work")
    assert "engine" in waiting.text


async def test_sending_and_then_the_hourly_and_the_daily_limit(world: World, running: Campaign) -> None:
    assert (await waits(world, running)).code == "account.no_worker"  # the running engine drives no account
    await world.drive().run(until=MONDAY + timedelta(minutes=30))
    waiting = await waits(world, running)
    assert missing(waiting.text, "anna", "hourly", "Monday 2030-01-07 09:00 (UTC)") == []
    assert waiting.until == MONDAY + timedelta(hours=1)
    await world.run(days=0.5)
    waiting = await waits(world, running)
    assert waiting.code == "account.daily_limit"
    assert waiting.until == MONDAY + timedelta(days=1)


async def test_the_window(world: World, running: Campaign) -> None:
    await world.set_schedule(office_hours(days=(2,)))
    waiting = await waits(world, running)
    assert missing(waiting.text, "window", "Tuesday 2030-01-08 09:00 (Europe/Berlin)") == []
    assert waiting.until == datetime(2030, 1, 8, 8, tzinfo=UTC)


async def test_the_quota_and_then_the_window(world: World, running: Campaign) -> None:
    await world.set_schedule(office_hours(quota=Quota(daily_max=5)))
    await world.drive().run(until=MONDAY + timedelta(hours=1))
    waiting = await waits(world, running)
    facts = ("quota", "5 of 5", "Tuesday 2030-01-08 09:00 (Europe/Berlin)")
    assert missing(waiting.text, *facts) == []


async def test_a_pause_of_it_of_everything_and_a_hold_of_its_workspace(world: World, running: Campaign) -> None:
    await campaigns.pause(world.store, running, reason="wrong price", by="test")
    waiting = await waits(world, running)
    assert "wrong price" in waiting.text
    assert waiting.then == "fairpost campaign resume spring --workspace acme"
    await campaigns.resume(world.store, running, by="test")
    await world.store.hold(WORKSPACE, "workspace", reason="unpaid")
    assert missing((await waits(world, running)).text, WORKSPACE, "unpaid") == []
    await world.store.release(WORKSPACE, "workspace")
    await world.store.value("SELECT fairpost.pause('maintenance', 'test', p_now => $1)", world.clock.now)
    assert "maintenance" in (await waits(world, running)).text


async def test_no_account_is_able_to_send(world: World, running: Campaign) -> None:
    await world.store.change_account(
        "anna", {"status": "suspended", "status_reason": Reason("account.paused_by_hand", note="its login was refused")}
    )
    waiting = await waits(world, running)
    facts = ("anna", "suspended", "its login was refused")
    assert missing(waiting.text, *facts) == []
    assert (waiting.code, waiting.then) == ("account.suspended", "fairpost account verify anna")


async def test_its_workspace_is_blocked_on_the_only_account_and_the_forecast_knows_until_when(
    world: World, running: Campaign
) -> None:
    lease = await world.store.take_lease((await world.store.account_named("anna")).id, owner="test", seconds=60)
    assert lease is not None
    until = world.clock.now + timedelta(days=2)
    assert await block(world.store, lease, WORKSPACE, Bounces(sent=40, bounced=7, percent_max=5.0), until=until)
    assert "7 of 40" in (await waits(world, running)).text
    found = await compute(world.store, running, now=world.clock.now)
    assert found.starts_at >= until
    await world.store.value("UPDATE fairpost.blocks SET until = 'infinity'")
    with pytest.raises(NoForecast):
        await compute(world.store, running, now=world.clock.now)
    await unblock(world.store, "anna")
    found = await compute(world.store, running, now=world.clock.now)
    assert found.starts_at < until


async def test_follow_ups_to_come_and_what_is_held(world: World) -> None:
    await world.add_accounts("anna", limits=Limits(delay_ms=1000))
    await world.add_people(3)
    await world.set_schedule(Schedule())
    campaign = await world.draft(delays=(timedelta(days=3),))
    await world.launch(campaign)
    await world.drive().run(until=MONDAY + timedelta(hours=1))
    await world.store.value(ENGINE_BESIDE)
    waiting = await waits(world, campaign)
    assert "Thursday 2030-01-10 08:00 (UTC)" in waiting.text
    assert waiting.until == MONDAY + timedelta(days=3)
    for n in range(3):
        await pause(world.store, await known_by(world.store, WORKSPACE, f"p{n}@there.test"), is_paused=True)
    waiting = await waits(world, campaign)
    assert (waiting.until, "3" in waiting.text) == (None, True)
    await world.run(days=1)
    assert (await world.again(campaign)).state is CampaignState.COMPLETED
    assert "3" in (await waits(world, campaign)).text
