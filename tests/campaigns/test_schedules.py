"""Sending windows, quotas, ramp-ups and gaps, as the real engine applies them."""

from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise, product
from zoneinfo import ZoneInfo

import pytest

from fairpost.model.account import Limits
from fairpost.model.campaign import HUMAN_GAP, CampaignState, Schedule
from fairpost.model.errors import Refusal
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.model.window import Quota, SendingWindow
from fairpost.policy.windows import is_open
from fairpost.store import campaigns, schedules
from tests.campaigns.world import BERLIN, MONDAY, WORKSPACE, World, office_hours
from tests.thorough import IS_FREE

LATER = Report(reached=Reached.REPLIED, step=Step.RCPT, reply=Reply(451, "4.7.1 greylisted, try again"))


def assert_in_window(world: World, window: SendingWindow | None) -> None:
    assert window is not None
    assert [each.at for each in world.post.sent if not is_open(window, each.at)] == []


async def test_nothing_goes_out_outside_the_window(world: World) -> None:
    await world.add_accounts("anna", limits=Limits(delay_ms=20 * 60_000))
    await world.add_people(50)
    schedule = office_hours()
    await world.set_schedule(schedule)
    await world.launch(await world.draft())
    await world.run(days=30)
    assert len(world.post.sent) == 50
    assert_in_window(world, schedule.window)
    assert world.post.by_day(BERLIN) == {date(2030, 1, 7): 24, date(2030, 1, 8): 24, date(2030, 1, 9): 2}
    assert world.post.sent[24].at == datetime(2030, 1, 8, 8, tzinfo=UTC)  # nine o'clock in Berlin, to the second


CHANGES = (
    ("Europe/Berlin", datetime(2030, 3, 29, 22, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2030, 10, 25, 22, tzinfo=UTC)),
    ("America/New_York", datetime(2030, 3, 9, 4, tzinfo=UTC)),
    ("America/New_York", datetime(2030, 11, 2, 4, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2030, 4, 5, 12, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2030, 10, 4, 12, tzinfo=UTC)),
    ("Asia/Kolkata", datetime(2030, 3, 29, 22, tzinfo=UTC)),
)
HOURS = ((time(1), time(4)), (time(22), time(3)), (time(9), time(17)))
# Seven changes and three windows: every second pair has all of both.
PAIRS = list(product(HOURS, CHANGES))[:: 1 if IS_FREE else 2]
DAYS, A_DAY = 4, 5 if IS_FREE else 2


@pytest.mark.thorough
@pytest.mark.parametrize(("hours", "change"), PAIRS)
async def test_windows_and_quotas_across_the_change_of_the_clocks(
    world: World, hours: tuple[time, time], change: tuple[str, datetime]
) -> None:
    zone, start = change
    world.clock.move_to(start)
    await world.add_accounts("anna", limits=Limits(delay_ms=30 * 60_000))
    await world.add_people(DAYS * A_DAY)
    schedule = office_hours(zone, days=range(1, 8), start=hours[0], end=hours[1], quota=Quota(daily_max=A_DAY))
    await world.set_schedule(schedule)
    await world.launch(await world.draft())
    await world.run(days=10)
    assert len(world.post.sent) == DAYS * A_DAY
    assert_in_window(world, schedule.window)
    by_day = world.post.by_day(zone)
    assert max(by_day.values()) <= A_DAY
    offsets = {each.at.astimezone(ZoneInfo(zone)).utcoffset() for each in world.post.sent}
    assert len(offsets) == (1 if zone == "Asia/Kolkata" else 2), "it was sent before the change or after it"


async def test_the_quota_is_for_all_campaigns_of_the_workspace_and_for_what_was_really_sent(world: World) -> None:
    await world.add_accounts("anna", "bert", "carl")
    await world.add_people(8)
    await world.set_schedule(Schedule(timezone=BERLIN, quota=Quota(daily_max=5)))
    one, two = await world.draft("one"), await world.draft("two")
    await world.launch(one)
    await world.launch(two)
    world.post.answers = {f"p{n}@there.test": [LATER] for n in range(2)}
    await world.run(days=10)
    assert len(world.post.sent) == 16
    assert world.post.by_day(BERLIN) == {
        date(2030, 1, 7): 5,
        date(2030, 1, 8): 5,
        date(2030, 1, 9): 5,
        date(2030, 1, 10): 1,
    }
    days = await schedules.quota_days(world.store, WORKSPACE, since=MONDAY, until=MONDAY + timedelta(days=3))
    assert [(day.used, day.allowed) for day in days] == [(5, 5), (5, 5), (5, 5), (1, 5)]


async def test_a_ramp_up_grows_with_the_days_of_the_window(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(50)
    await world.set_schedule(office_hours(quota=Quota(daily_max=10, ramp_up_days=10)))
    await world.launch(await world.draft())
    await world.run(days=30)
    sent = world.post.by_day(BERLIN)
    assert list(sent.values()) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 5]
    assert all(day.isoweekday() <= 5 for day in sent)


async def test_a_sequence_leaves_a_human_gap_between_two_e_mails_of_an_account(world: World) -> None:
    await world.add_accounts("anna", "bert")
    await world.add_people(40)
    await world.launch(await world.draft(gap=HUMAN_GAP))
    await world.run(days=1)
    assert len(world.post.sent) == 40
    gaps = []
    for account in ("anna", "bert"):
        at = [each.at for each in world.post.sent if each.account == account]
        gaps += [(after - before).total_seconds() for before, after in pairwise(at)]
    assert min(gaps) >= 30
    assert max(gaps) < 91
    assert len({round(gap) for gap in gaps}) > 15
    counts = [sum(each.account == name for each in world.post.sent) for name in ("anna", "bert")]
    assert min(counts) > 12  # neither holds mail that the other could send


async def test_a_quota_that_is_raised_lets_the_rest_out_at_once(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(30)
    await world.set_schedule(Schedule(quota=Quota(daily_max=10)))
    await world.launch(await world.draft())
    await world.run(days=0.1)
    assert len(world.post.sent) == 10
    await world.set_schedule(Schedule(quota=Quota(daily_max=25)))
    await world.run(days=0.1)
    assert len(world.post.sent) == 25


async def test_a_day_in_another_zone_counts_what_was_sent_on_it(world: World) -> None:
    """Tokyo's day began at 15:00 UTC yesterday, so what was sent on Berlin's day counts for it as well."""
    await world.add_accounts("anna")
    await world.add_people(20)
    await world.set_schedule(Schedule(timezone=BERLIN, quota=Quota(daily_max=10)))
    await world.launch(await world.draft())
    await world.run(days=0.1)
    await world.set_schedule(Schedule(timezone="Asia/Tokyo", quota=Quota(daily_max=15)))
    await world.run(days=0.1)
    assert len(world.post.sent) == 15
    assert max(world.post.by_day("Asia/Tokyo").values()) == 15


async def test_a_window_that_is_opened_or_shut_counts_at_once(world: World) -> None:
    await world.add_accounts("anna", limits=Limits(delay_ms=240_000))
    await world.add_people(25)
    closed = office_hours(days=(2,))
    await world.set_schedule(closed)
    campaign = await world.draft()
    await world.launch(campaign)
    await world.run(days=0.1)
    assert world.post.sent == []
    await world.set_schedule(Schedule())
    await world.drive().run(until=MONDAY + timedelta(minutes=20))
    assert 4 <= len(world.post.sent) <= 6
    before = len(world.post.sent)
    await world.set_schedule(closed)
    await world.run(days=10)
    assert len(world.post.sent) == 25
    assert all(is_open(closed.window, each.at) for each in world.post.sent[before:] if closed.window)
    assert (await world.again(campaign)).state is CampaignState.COMPLETED


async def test_by_the_recipients_own_clocks(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(30, zones=(None, "America/New_York", "Asia/Kolkata"))
    await world.set_schedule(office_hours())
    await world.launch(await world.draft(by_recipients_clock=True))
    await world.run(days=3)
    assert len(world.post.sent) == 30
    zones = {0: BERLIN, 1: "America/New_York", 2: "Asia/Kolkata"}
    for each in world.post.sent:
        zone = zones[int(each.to[1:].partition("@")[0]) % 3]
        window = office_hours(zone).window
        assert window is not None
        assert is_open(window, each.at)
        assert each.at < MONDAY + timedelta(hours=10)


@pytest.mark.parametrize(
    ("schedule", "field"),
    [
        (office_hours(days=()), "days"),
        (office_hours("Mars/Olympus"), "timezone"),
        (Schedule(quota=Quota(daily_max=0)), "daily_max"),
        (
            office_hours(days=(1,), holidays=[date(2030, 1, 7) + timedelta(weeks=n) for n in range(54)]),
            "holidays",
        ),
    ],
)
async def test_a_schedule_that_could_never_send_is_refused_and_changes_nothing(
    world: World, schedule: Schedule, field: str
) -> None:
    await world.set_schedule(office_hours())
    before = await schedules.schedule_of(world.store, WORKSPACE)
    with pytest.raises(Refusal) as refused:
        await world.set_schedule(schedule)
    assert (refused.value.reason.code, refused.value.reason.params["field"]) == ("schedule.invalid", field)
    assert await schedules.schedule_of(world.store, WORKSPACE) == before


async def test_a_calendar_is_kept_ahead_for_a_campaign_of_months(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(20)
    await world.set_schedule(office_hours(days=(3,), quota=Quota(daily_max=1)))
    campaign = await world.draft()
    await world.launch(campaign)
    await world.run(days=300)
    assert len(world.post.sent) == 20
    assert set(world.post.by_day(BERLIN).values()) == {1}
    assert all(day.isoweekday() == 3 for day in world.post.by_day(BERLIN))
    progress = await campaigns.progress(world.store, campaign)
    assert progress.count("sent") == 20
