"""The forecast compared with reality: the same campaign in the forecast and in the real engine, on a manual clock."""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from fairpost.campaigns.forecasting import asked, compute, kept_forecast
from fairpost.model.account import Limits, RestReason
from fairpost.model.campaign import HUMAN_GAP, Gap, Schedule
from fairpost.model.window import Quota
from fairpost.policy.forecast import forecast_by
from fairpost.providers.presets import read_presets
from fairpost.store import campaigns
from tests.campaigns.answers import REVOKED
from tests.campaigns.world import MONDAY, World, office_hours
from tests.simulation.world import SHARE, shared

GMAIL = shared(read_presets()["gmail"].limits)
API = shared(read_presets()["gmail-api"].limits)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True)
class Case:
    people: int
    accounts: int = 1
    limits: Limits = GMAIL
    delays: tuple[timedelta, ...] = ()
    gap: Gap | None = None
    schedule: Schedule = field(default_factory=Schedule)


CASES = {
    "one Gmail account": Case(600 // SHARE),
    "two Gmail accounts": Case(500 // SHARE, accounts=2),
    "the API's sliding day": Case(600 // SHARE, limits=API),
    "a sequence with its gap": Case(18, accounts=3, delays=(2 * DAY,), gap=HUMAN_GAP),
    "office hours": Case(30, accounts=2, limits=Limits(delay_ms=40 * 60_000), schedule=office_hours()),
    "a quota that grows": Case(38, accounts=2, schedule=office_hours(quota=Quota(daily_max=10, ramp_up_days=5))),
    # There is room for every step on its day: if steps and a random gap compete for a quota, chance decides which are
    # delayed.
    "everything at once": Case(
        16, accounts=2, delays=(DAY, 2 * DAY), gap=HUMAN_GAP, schedule=office_hours(quota=Quota(daily_max=16))
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
async def test_the_engine_finishes_when_the_forecast_says(world: World, name: str) -> None:
    case = CASES[name]
    await world.add_accounts(*(f"a{n}" for n in range(case.accounts)), limits=case.limits)
    await world.add_people(case.people)
    await world.set_schedule(case.schedule)
    campaign = await world.draft(delays=case.delays, gap=case.gap)
    forecast = await compute(world.store, campaign, now=MONDAY)
    assert forecast.emails == case.people * (1 + len(case.delays))
    await world.launch(campaign)
    await world.run(days=60)
    assert len(world.post.sent) == forecast.emails
    really_s = (world.post.sent[-1].at - MONDAY).total_seconds()
    assert abs(really_s - forecast.finished_after_s) <= 0.01 * really_s
    foretold = await kept_forecast(world.store, campaign)
    assert foretold is not None
    assert foretold.ends_at == forecast.ends_at
    middle = MONDAY + (world.post.sent[-1].at - MONDAY) / 2
    came = sum(each.at <= middle for each in world.post.sent)
    assert abs(forecast_by(foretold, middle) - came) <= 0.15 * len(world.post.sent)
    assert sum(n for _, n in await campaigns.sent_by_hour(world.store, campaign)) == forecast.emails


async def test_a_campaign_in_progress_is_forecast_from_its_current_state(world: World) -> None:
    await world.add_accounts("anna", "bert", limits=GMAIL)
    await world.add_people(60)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    await world.run(days=1.02)  # the first follow-ups are in progress
    now = world.clock.now
    before = len(world.post.sent)
    forecast = await compute(world.store, await world.again(campaign), now=now)
    assert forecast.emails == 120 - before
    await world.run(days=30)
    really_s = (world.post.sent[-1].at - now).total_seconds()
    assert abs(really_s - forecast.finished_after_s) <= 0.02 * really_s + 60


async def test_a_rest_of_an_account_is_part_of_the_forecast(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(3)
    campaign = await world.draft()
    until = world.clock.now + HOUR
    await world.store.value("UPDATE fairpost.leases SET rest_until = $1, rest_reason = $2", until, RestReason.BACK_OFF)
    assert (await compute(world.store, campaign, now=world.clock.now)).starts_at == until


async def test_the_forecast_says_when_follow_ups_of_a_suspended_account_fail(world: World) -> None:
    await world.add_accounts("anna", "bert")
    await world.add_people(8)
    campaign = await world.draft(delays=(DAY,))
    await world.launch(campaign)
    await world.run(days=0.5)
    of_anna = [each.to for each in world.post.sent if each.account == "anna"]
    before = await asked(world.store, campaign, now=world.clock.now)
    assert (before.not_counted, before.gives_up_at) == (0, None)
    world.post.answers = {to: [REVOKED] for to in of_anna}
    await world.run(days=3)
    after = await asked(world.store, campaign, now=world.clock.now)
    suspended_at = await world.store.value("SELECT max(suspended_at) FROM fairpost.leases")
    assert (after.not_counted, after.gives_up_at) == (len(of_anna), suspended_at + 7 * DAY)
    world.clock.advance(8 * DAY)
    await world.give_up_pinned()
    assert (await asked(world.store, campaign, now=world.clock.now)).not_counted == 0
