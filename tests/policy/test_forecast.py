"""When a campaign finishes: the same as in a simulation of single e-mails, exact where possible, and fast."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from unittest.mock import patch
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.account import DailyMode, Limits, Rest, RestReason, Usage, WarmUp
from fairpost.model.campaign import HUMAN_GAP, Gap, Schedule
from fairpost.model.reason import Reason
from fairpost.model.window import Quota, SendingWindow
from fairpost.policy.forecast import (
    Bottleneck,
    Forecast,
    NoForecast,
    Pending,
    Plan,
    Sender,
    forecast,
    suggestions,
    track,
)
from fairpost.policy.forecast.buckets import buckets
from fairpost.policy.forecast.outcome import SendCounts
from fairpost.policy.forecast.pauses import mean_pause
from fairpost.policy.forecast.runs import Run
from fairpost.policy.limits import charge
from fairpost.policy.quotas import allowed_on, day_number
from fairpost.policy.windows import is_open, local_day, next_open
from fairpost.providers.presets import read_presets
from fairpost.reasons.rendering import sentence, soon, suggested
from tests.facts import missing
from tests.policy.reference_forecast import Sent, sends

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
DAY_S = 86_400.0
NOW = datetime(2026, 10, 19, 9, tzinfo=UTC)  # a Monday
PRESETS = read_presets()
GMAIL = PRESETS["gmail"].limits
WORKDAYS = SendingWindow(timezone="Europe/Berlin", days=frozenset(range(1, 6)), start=time(9), end=time(17))
BERLIN = Schedule(timezone="Europe/Berlin", window=WORKDAYS)


def of_preset(name: str, accounts: int = 1) -> list[Sender]:
    return [Sender(name=f"{name}-{n}", limits=PRESETS[name].limits) for n in range(1, accounts + 1)]


def hours(found: Forecast) -> dict[int, int]:
    """Returns the time since the start."""
    return {(hour - NOW) // HOUR: count for hour, count in found.per_hour}


# ── well-known timelines ──────────────────────────────────────────────────────────────────────────────────────


def test_a_thousand_through_one_gmail_account_take_a_day_and_five_hours() -> None:
    found = forecast(Plan(recipients=1000), of_preset("gmail"), now=NOW)
    assert hours(found) == {hour: 100 for day in (0, 24) for hour in range(day, day + 5)}
    assert found.starts_at == NOW
    assert found.ends_at == NOW + DAY + 4 * HOUR + 297 * SECOND
    assert found.finished_after_s == (DAY + 4 * HOUR + 297 * SECOND).total_seconds()
    assert found.per_day == ((date(2026, 10, 19), 500), (date(2026, 10, 20), 500))
    assert found.bottleneck is Bottleneck.DAILY


def test_five_hundred_through_two_gmail_accounts_are_done_in_the_third_hour() -> None:
    found = forecast(Plan(recipients=500), of_preset("gmail", 2), now=NOW)
    assert found.per_account == {"gmail-1": 250, "gmail-2": 250}
    assert hours(found) == {0: 200, 1: 200, 2: 100}
    assert found.ends_at == NOW + 2 * HOUR + 49 * 3 * SECOND
    assert found.bottleneck is Bottleneck.HOURLY


@pytest.mark.parametrize(
    ("preset", "recipients", "ends_after"),
    [
        ("outlook", 300, 4 * HOUR + 59 * 4 * SECOND),  # 60 per hour
        ("outlook", 301, DAY),
        ("yahoo", 500, 6 * HOUR + 19 * 5 * SECOND),  # 80 per hour: 6 hours, and 20 more
        ("custom", 1000, 4 * HOUR + 199 * 2 * SECOND),  # 200 per hour
        ("gmail-api", 500, 9 * MINUTE + 31 * 0.4 * SECOND),  # 6000 units per minute are 52 e-mails
        ("gmail-api", 501, DAY),
        ("relay", 2001, DAY),  # a tenth of 20,000 on the first day
        ("cold", 6, DAY),  # five on the first day
    ],
)
def test_a_preset_takes_as_long_as_its_numbers_say(preset: str, recipients: int, ends_after: timedelta) -> None:
    found = forecast(Plan(recipients=recipients), of_preset(preset), now=NOW)
    assert found.ends_at == NOW + ends_after
    assert found.emails == recipients


def test_earlier_usage_counts() -> None:
    usage = charge(GMAIL, Usage(day_started_at=NOW - HOUR, day_used=498), now=NOW - 4 * SECOND)
    (sender,) = of_preset("gmail")
    found = forecast(Plan(recipients=3), [replace(sender, usage=usage)], now=NOW)
    assert hours(found) == {0: 1, 23: 2}


# ── the schedule ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_window_holds_across_the_end_of_summer_time() -> None:
    """On Friday 23 October 2026 it opens at 07:00 UTC, on Monday at 08:00, because the clocks went back."""
    friday = datetime(2026, 10, 23, 12, tzinfo=UTC)
    sender = Sender(name="slow", limits=Limits(delay_ms=1_800_000))
    found = forecast(Plan(recipients=26, schedule=BERLIN), [sender], now=friday)
    assert found.per_day == ((date(2026, 10, 23), 6), (date(2026, 10, 26), 16), (date(2026, 10, 27), 4))
    monday = [hour for hour, _ in found.per_hour if hour.date() == date(2026, 10, 26)]
    assert (monday[0].hour, monday[-1].hour) == (8, 15)
    assert found.ends_at == datetime(2026, 10, 27, 9, 30, tzinfo=UTC)
    assert found.bottleneck is Bottleneck.WINDOW


def test_a_quota_of_fifty_a_day_ramps_up_over_ten_working_days() -> None:
    schedule = replace(BERLIN, quota=Quota(daily_max=50, ramp_up_days=10))
    found = forecast(Plan(recipients=400, schedule=schedule), of_preset("gmail", 3), now=NOW)
    assert [count for _, count in found.per_day] == [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 50, 50, 25]
    assert all(day.isoweekday() <= 5 for day, _ in found.per_day)
    assert found.bottleneck is Bottleneck.RAMP_UP


def test_a_quota_counts_what_went_out_today_and_since_when() -> None:
    schedule = replace(BERLIN, quota=Quota(daily_max=100, ramp_up_days=10))
    plan = Plan(recipients=100, schedule=schedule, quota_used=25, first_day=date(2026, 10, 15))
    found = forecast(plan, of_preset("gmail"), now=NOW)  # the Monday is the third working day
    assert [count for _, count in found.per_day] == [5, 40, 50, 5]


def test_it_starts_no_earlier_than_it_is_to_and_a_paused_account_later() -> None:
    plan = Plan(recipients=250, starts_at=NOW + 2 * HOUR)
    one, other = of_preset("gmail", 2)
    found = forecast(plan, [one, replace(other, not_before=NOW + 3 * HOUR)], now=NOW)
    assert hours(found) == {2: 100, 3: 150}
    assert found.per_account == {"gmail-1": 175, "gmail-2": 75}
    assert found.waited_s[Bottleneck.PAUSE] == 3600


def test_moments_may_be_given_by_any_clock() -> None:
    """The clocks go back an hour in the night to the 25th, so one day later on the clock is 25 hours later."""
    starts_at = datetime(2026, 10, 24, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    pending = (Pending(account="gmail-1", step=1, due_at=starts_at, count=1),)
    (sender,) = of_preset("gmail")
    plan = Plan(recipients=500, schedule=Schedule(timezone="Europe/Berlin"), starts_at=starts_at, pending=pending)
    found = forecast(plan, [replace(sender, not_before=starts_at)], now=NOW.astimezone(ZoneInfo("Asia/Tokyo")))
    assert found.ends_at - found.starts_at == DAY
    assert found.per_day == ((date(2026, 10, 24), 500), (date(2026, 10, 25), 1))
    assert all(moment.utcoffset() == timedelta() for moment in (found.starts_at, found.ends_at, found.per_hour[0][0]))


def test_a_rest_is_waited_for() -> None:
    resting = Usage(rest=Rest(NOW + HOUR, RestReason.BACK_OFF))
    found = forecast(Plan(recipients=1), [Sender(name="a", limits=GMAIL, usage=resting)], now=NOW)
    assert found.ends_at == NOW + HOUR
    assert found.bottleneck is Bottleneck.PAUSE


# ── steps, gaps and waiting e-mails ───────────────────────────────────────────────────────────────────────────


def test_three_steps_three_days_apart() -> None:
    found = forecast(Plan(recipients=100, delays_s=(3 * DAY_S, 3 * DAY_S)), of_preset("gmail"), now=NOW)
    assert found.per_step == tuple((100, NOW + d * DAY, NOW + d * DAY + 297 * SECOND) for d in (0, 3, 6))
    assert found.emails == 300
    assert found.bottleneck is Bottleneck.STEP_DELAY


def test_follow_ups_go_through_the_account_of_the_first_step() -> None:
    one, other = of_preset("gmail", 2)
    plan = Plan(recipients=10, delays_s=(3600,))
    found = forecast(plan, [one, replace(other, not_before=NOW + 30 * MINUTE)], now=NOW)
    assert found.per_account == {"gmail-1": 20, "gmail-2": 0}


def test_a_delay_counts_from_the_end_of_the_send() -> None:
    sender = Sender(name="a", limits=Limits(), seconds_per_send=20)
    found = forecast(Plan(recipients=2, delays_s=(3600,)), [sender], now=NOW)
    assert [step.first_at for step in found.per_step] == [NOW, NOW + HOUR + 20 * SECOND]


def test_due_follow_ups_go_before_the_pool_and_are_followed_themselves() -> None:
    pending = (
        Pending(account="a", step=2, due_at=NOW - HOUR, count=3),
        Pending(account="a", step=3, due_at=NOW + DAY, count=1),
    )
    plan = Plan(recipients=2, delays_s=(3600, 3600), pending=pending)
    found = forecast(plan, [Sender(name="a", limits=Limits(delay_ms=1000))], now=NOW)
    second, third = found.per_step[1:]
    assert found.per_step[0] == (2, NOW + 3 * SECOND, NOW + 4 * SECOND)
    assert second == (5, NOW, NOW + HOUR + 4 * SECOND)
    assert third == (6, NOW + HOUR, NOW + DAY)
    assert found.emails == plan.emails == 13


def test_a_gap_is_counted_with_its_mean() -> None:
    found = forecast(Plan(recipients=61, gap=HUMAN_GAP), of_preset("custom"), now=NOW)
    assert found.ends_at == NOW + HOUR
    assert found.bottleneck is Bottleneck.GAP


@pytest.mark.parametrize(
    ("limits", "gap", "sending_s", "mean_s", "reason"),
    [
        (Limits(delay_ms=3000), None, 0, 3, Bottleneck.DELAY),
        (Limits(delay_ms=3000), None, 4, 4, Bottleneck.SENDING),
        (Limits(delay_ms=30_000, gap_max_ms=90_000), None, 0, 60, Bottleneck.DELAY),
        (Limits(delay_ms=30_000, gap_max_ms=90_000), HUMAN_GAP, 0, 60, Bottleneck.DELAY),
        (Limits(delay_ms=3000), HUMAN_GAP, 0, 60, Bottleneck.GAP),
        (Limits(delay_ms=60_000), HUMAN_GAP, 0, 75, Bottleneck.GAP),  # the engine draws from 60 to 90
        (Limits(delay_ms=200_000), HUMAN_GAP, 0, 200, Bottleneck.DELAY),
        (Limits(), Gap(min_s=0, max_s=10), 5, 6.25, Bottleneck.GAP),  # half of the gaps end before the send does
        (Limits(), None, 0, 0.001, Bottleneck.DELAY),
    ],
)
def test_the_mean_pause(limits: Limits, gap: Gap | None, sending_s: float, mean_s: float, reason: Bottleneck) -> None:
    assert mean_pause(limits, gap, seconds_per_send=sending_s) == (timedelta(seconds=mean_s), reason)


# ── impossible plans ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("plan", "senders", "code"),
    [
        (Plan(recipients=1), [], "no_account"),
        (Plan(recipients=-1), of_preset("gmail"), "bad_recipients"),
        (Plan(recipients=1, delays_s=(-1.0,)), of_preset("gmail"), "bad_delay"),
        (Plan(recipients=1), of_preset("gmail") * 2, "same_name"),
        (Plan(recipients=1, schedule=Schedule(timezone="Mars")), of_preset("gmail"), "bad_window"),
        (
            Plan(recipients=1, schedule=replace(BERLIN, window=replace(WORKDAYS, days=frozenset()))),
            of_preset("gmail"),
            "bad_window",
        ),
        (
            Plan(recipients=1, schedule=Schedule(quota=Quota(daily_max=0))),
            of_preset("gmail"),
            "bad_quota",
        ),
        (Plan(recipients=1), [Sender(name="a", limits=Limits(daily_max=0))], "never_sends"),
        (
            Plan(recipients=1),
            [Sender(name="a", limits=Limits(units_per_minute=100, units_per_send=101))],
            "never_sends",
        ),
        (
            Plan(recipients=1, pending=(Pending(account="b", step=1, due_at=NOW, count=1),)),
            of_preset("gmail"),
            "account_missing",
        ),
        (
            Plan(recipients=1, pending=(Pending(account="gmail-1", step=2, due_at=NOW, count=1),)),
            of_preset("gmail"),
            "unknown_step",
        ),
        (
            Plan(recipients=10**6, schedule=Schedule(quota=Quota(daily_max=1))),
            of_preset("gmail"),
            "too_long",
        ),
    ],
)
def test_a_plan_that_would_never_finish_is_refused_with_advice(plan: Plan, senders: list[Sender], code: str) -> None:
    with pytest.raises(NoForecast) as refused:
        forecast(plan, senders, now=NOW)
    assert refused.value.reason.code == f"forecast.{code}"
    assert sentence(refused.value.reason)


def test_nothing_to_send_is_done_at_once() -> None:
    found = forecast(Plan(recipients=0), of_preset("gmail"), now=NOW)
    assert (found.emails, found.ends_at, found.finished_after_s) == (0, NOW, 0)
    assert found.bottleneck is Bottleneck.NOTHING
    assert found.per_step == ((0, None, None),)


# ── compared with the simulation of single e-mails ────────────────────────────────────────────────────────────


@st.composite
def some_limits(draw: st.DrawFn) -> Limits:
    """Small limits, so that small plans reach them."""
    units = draw(st.none() | st.integers(100, 900))
    delay_ms = draw(st.sampled_from([0, 400, 3000, 30_000, 600_000]))
    return Limits(
        delay_ms=delay_ms,
        gap_max_ms=draw(st.none() | st.just(delay_ms + 60_000)),
        hourly_max=draw(st.none() | st.integers(1, 20)),
        daily_max=draw(st.none() | st.integers(2, 40)),
        daily_mode=draw(st.sampled_from(DailyMode)),
        units_per_minute=units,
        units_per_send=100 if units else 1,
        warm_up=draw(st.none() | st.builds(WarmUp, start=st.integers(1, 9), step=st.integers(1, 5))),
    )


@st.composite
def some_senders(draw: st.DrawFn) -> list[Sender]:
    usages = st.builds(
        lambda day, hour: Usage(
            day_started_at=NOW - 5 * HOUR, day_used=day, hour_started_at=NOW - 10 * MINUTE, hour_used=hour
        ),
        st.integers(1, 5),
        st.integers(1, 5),
    )
    return [
        Sender(
            name=f"account-{n}",
            limits=draw(some_limits()),
            usage=draw(st.just(Usage()) | usages),
            seconds_per_send=draw(st.sampled_from([0, 0.5, 20])),
            not_before=draw(st.none() | st.just(NOW + 90 * MINUTE)),
        )
        for n in range(draw(st.integers(1, 4)))
    ]


schedules = st.builds(
    lambda window, quota: Schedule(timezone="Europe/Berlin", window=window, quota=quota),
    st.none()
    | st.builds(
        lambda days, start, end: replace(WORKDAYS, days=days, start=start, end=end),
        st.frozensets(st.integers(1, 7), min_size=1),
        st.sampled_from([time(0), time(9), time(22)]),
        st.sampled_from([time(0), time(9, 30), time(17)]),
    ),
    st.just(Quota()) | st.builds(Quota, daily_max=st.integers(3, 60), ramp_up_days=st.sampled_from([0, 5])),
)


@st.composite
def some_plan(draw: st.DrawFn, senders: list[Sender]) -> Plan:
    delays = draw(st.lists(st.sampled_from([0.0, 1, 60, 3600, 10_000, DAY_S, 3 * DAY_S]), max_size=2))
    pending = [
        Pending(
            account=draw(st.sampled_from(senders)).name,
            step=draw(st.integers(1, len(delays) + 1)),
            due_at=NOW + draw(st.sampled_from([-10, 0, 5, 1000, 100_000])) * SECOND,
            count=draw(st.integers(1, 30)),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    return Plan(
        recipients=draw(st.integers(0, 120)),
        delays_s=tuple(delays),
        gap=draw(st.none() | st.just(HUMAN_GAP)),
        schedule=draw(schedules),
        quota_used=draw(st.integers(0, 5)),
        starts_at=draw(st.none() | st.just(NOW + HOUR)),
        pending=tuple(pending),
    )


@given(data=st.data(), senders=some_senders())
def test_it_ends_when_the_simulation_one_by_one_does(data: st.DataObject, senders: list[Sender]) -> None:
    plan = data.draw(some_plan(senders))
    with recorded() as moments:
        found = forecast(plan, senders, now=NOW)
    expected = sends(plan, senders, now=NOW)
    assert found.emails == len(expected) == len(moments) == plan.emails == sum(found.per_account.values())
    assert sum(count for _, count in found.per_hour) == sum(count for _, count in found.per_day) == plan.emails
    _keeps_the_schedule(found, moments, plan)
    if len(senders) == 1:
        assert sorted(moments) == [each.at for each in expected]
    if expected:
        ends_at = expected[-1].at
        longest = max(mean_pause(s.limits, plan.gap, seconds_per_send=s.seconds_per_send)[0] for s in senders)
        assert abs(found.ends_at - ends_at) <= max((ends_at - NOW) / 100, longest)


@contextmanager
def recorded() -> Iterator[list[datetime]]:
    """Returns every time at which something is sent."""
    moments: list[datetime] = []
    add = SendCounts.add

    def record(counts: SendCounts, sent: dict[str, dict[int, list[Run]]]) -> None:
        runs = [run for steps in sent.values() for of_step in steps.values() for run in of_step]
        moments.extend(run.start + n * run.interval for run in runs for n in range(run.size))
        add(counts, sent)

    with patch.object(SendCounts, "add", record):
        yield moments


def _keeps_the_schedule(found: Forecast, moments: list[datetime], plan: Plan) -> None:
    schedule = plan.schedule
    starts_at = plan.starts_at or NOW
    if schedule.window is not None:
        assert all(is_open(schedule.window, moment) for moment in moments)
        starts_at = next_open(schedule.window, starts_at)
    today, first_day = (local_day(schedule.timezone, moment) for moment in (NOW, starts_at))
    for day, count in found.per_day:
        allowed = allowed_on(schedule.quota, day_number(first_day, day, schedule.window))
        assert allowed is None or count + (plan.quota_used if day == today else 0) <= allowed


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_a_sequence_of_every_preset_goes_out_as_one_by_one(preset: str) -> None:
    plan = Plan(recipients=400, delays_s=(2 * DAY_S, 3 * DAY_S), gap=HUMAN_GAP, schedule=BERLIN)
    found, expected = forecast(plan, of_preset(preset, 3), now=NOW), sends(plan, of_preset(preset, 3), now=NOW)
    assert found.ends_at == expected[-1].at
    assert found.per_step == tuple(_figures(expected, step) for step in (1, 2, 3))
    assert dict(found.per_hour) == _by_hour(expected)


def _figures(sent: list[Sent], step: int) -> tuple[int, datetime, datetime]:
    moments = [each.at for each in sent if each.step == step]
    return len(moments), moments[0], moments[-1]


def _by_hour(sent: list[Sent]) -> dict[datetime, int]:
    counts: dict[datetime, int] = {}
    for each in sent:
        hour = each.at.replace(minute=0, second=0, microsecond=0)
        counts[hour] = counts.get(hour, 0) + 1
    return counts


# ── large plans ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_large_plan_that_is_taken_roughly_ends_within_a_hundredth_of_the_exact_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = Plan(recipients=6000, delays_s=(3 * DAY_S + 600, 4 * DAY_S), gap=HUMAN_GAP)
    for preset in ("gmail", "workspace", "outlook", "microsoft365"):
        exact = forecast(plan, of_preset(preset, 2), now=NOW)
        with monkeypatch.context() as roughly:
            roughly.setattr(track, "EXACT_MAX", 0)
            roughly.setattr(track, "BURSTS_MAX", 0)
            rough = forecast(plan, of_preset(preset, 2), now=NOW)
        assert rough.emails == exact.emails
        assert rough.finished_after_s == pytest.approx(exact.finished_after_s, rel=0.01)


def test_a_million_take_little_more_than_a_thousand() -> None:
    """In runs instead of one by one: the number of runs is decisive, and depends on the number of hours."""
    found = forecast(Plan(recipients=1_000_000), [Sender(name="a", limits=Limits(delay_ms=10))], now=NOW)
    assert found.emails == 1_000_000
    assert found.ends_at == NOW + 999_999 * 10 * timedelta(milliseconds=1)


def test_the_days_of_a_year_are_whole() -> None:
    found = forecast(Plan(recipients=365 * 24), [Sender(name="a", limits=Limits(delay_ms=3_600_000))], now=NOW)
    assert all(later - earlier == HOUR for (earlier, _), (later, _) in pairwise(found.per_hour))


# ── suggestions ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_suggestion_is_a_variant_that_was_computed() -> None:
    plan, senders = Plan(recipients=1000), of_preset("gmail")
    (one_more,) = suggestions(plan, senders, now=NOW)
    assert one_more.ends_at == forecast(plan, of_preset("gmail", 2), now=NOW).ends_at
    assert one_more.saves_s == DAY_S
    assert one_more.change == Reason("suggestion.account", account="gmail-1")
    assert missing(suggested(one_more, "UTC", now=NOW), "gmail-1", "today 13:04", "Tuesday 13:04") == []


def test_the_best_come_first_and_no_more_than_three() -> None:
    schedule = replace(BERLIN, quota=Quota(daily_max=50, ramp_up_days=10))
    plan = Plan(recipients=1000, delays_s=(3 * DAY_S, 3 * DAY_S), gap=HUMAN_GAP, schedule=schedule)
    senders = of_preset("gmail", 2)
    found = suggestions(plan, senders, now=NOW)
    without_quota = replace(schedule, quota=Quota())
    around_the_clock = replace(schedule, window=None)
    without_ramp_up = replace(schedule, quota=Quota(daily_max=50))
    assert [each.ends_at for each in found] == [
        forecast(replace(plan, schedule=changed), senders, now=NOW).ends_at
        for changed in (without_quota, around_the_clock, without_ramp_up)
    ]
    saved = [each.saves_s for each in found]
    assert saved == sorted(saved, reverse=True)


def test_small_gains_are_not_suggested() -> None:
    assert suggestions(Plan(recipients=1), of_preset("gmail"), now=NOW) == []
    assert suggestions(Plan(recipients=100_000), of_preset("gmail", 60), now=NOW) == []
    (halved,) = suggestions(Plan(recipients=100, delays_s=(3 * DAY_S,)), of_preset("gmail"), now=NOW)
    shorter = Plan(recipients=100, delays_s=(1.5 * DAY_S,))
    assert halved.ends_at == forecast(shorter, of_preset("gmail"), now=NOW).ends_at


def test_without_a_pause_of_the_campaign_it_goes_as_fast_as_the_accounts_let_it() -> None:
    plan = Plan(recipients=100, gap=HUMAN_GAP)
    best, *_ = suggestions(plan, of_preset("gmail"), now=NOW, found=forecast(plan, of_preset("gmail"), now=NOW))
    assert best.ends_at == NOW + 297 * SECOND


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        (NOW + HOUR, "today 12:00"),
        (NOW + DAY, "Tuesday 11:00"),
        (NOW + 6 * DAY, "Sunday 10:00"),
        (NOW + 7 * DAY, "Mon 26 Oct 10:00"),
        (NOW + 100 * DAY, "Wed 27 Jan 2027 10:00"),
    ],
)
def test_a_moment_is_said_by_the_clock_there(moment: datetime, words: str) -> None:
    assert soon(moment, "Europe/Berlin", NOW) == words


def test_every_bottleneck_has_a_code() -> None:
    for bottleneck in Bottleneck:
        waits: dict[Bottleneck, timedelta] = {bottleneck: HOUR} if bottleneck is not Bottleneck.NOTHING else {}
        why = SendCounts(["a"], steps=1, timezone="UTC").forecast(waits, now=NOW).why
        assert sentence(why).endswith("." if bottleneck is Bottleneck.NOTHING else ": 100% of their waiting time.")


# ── over time ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("accounts", "recipients", "size", "pieces"),
    [(1, 500, "hour", 5), (1, 2000, "six hours", 14), (1, 5000, "day", 10), (1, 50_000, "week", 15)],
)
def test_it_is_divided_into_as_many_pieces_as_can_be_looked_at(
    accounts: int, recipients: int, size: str, pieces: int
) -> None:
    found = buckets(forecast(Plan(recipients=recipients), of_preset("gmail", accounts), now=NOW), "Europe/Berlin")
    assert (found.size, len(found.counts)) == (size, pieces)
    assert sum(count for _, count in found.counts) == recipients
    assert all(later - earlier == found.length for (earlier, _), (later, _) in pairwise(found.counts))


def test_a_week_begins_on_monday() -> None:
    found = buckets(forecast(Plan(recipients=50_000), of_preset("gmail"), now=NOW + 2 * DAY), "UTC")
    assert found.counts[0] == (datetime(2026, 10, 19, tzinfo=UTC), 2500)
