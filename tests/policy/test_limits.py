"""When an account may send: exactly within its limits, whatever the times, and never later than necessary."""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.account import DailyMode, Limits, Rest, RestReason, Usage, WarmUp
from fairpost.policy.limits import (
    DAY,
    HOUR,
    MINUTE,
    Barrier,
    Go,
    NotBefore,
    admit,
    batch_size,
    charge,
    daily_limit,
    refund,
    roll_windows,
)

START = datetime(2030, 1, 1, 9, 30, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@st.composite
def some_limits(draw: st.DrawFn) -> Limits:
    delay_ms = draw(st.sampled_from([0, 100, 3000, 90_000]))
    units = draw(st.none() | st.integers(100, 400))
    return Limits(
        delay_ms=delay_ms,
        gap_max_ms=draw(st.none() | st.just(delay_ms + 60_000)),
        hourly_max=draw(st.none() | st.integers(1, 20)),
        daily_max=draw(st.none() | st.integers(1, 40)),
        daily_mode=draw(st.sampled_from(DailyMode)),
        units_per_minute=units,
        units_per_send=100 if units else 1,
        warm_up=draw(st.none() | st.builds(WarmUp, start=st.integers(1, 9), step=st.integers(0, 5))),
        batch_max=draw(st.integers(1, 50)),
    )


gaps = st.lists(st.sampled_from([0, 1, 7, 59, 60, 600, 3599, 3600, 20_000, 86_399, 86_400]), max_size=150)


@given(limits=some_limits(), gaps=gaps, roll=st.floats(0, 1))
def test_no_window_ever_holds_more_than_its_limit(limits: Limits, gaps: list[int], roll: float) -> None:
    now, usage, sent = START, Usage(), list[datetime]()
    for gap in gaps:
        now += timedelta(seconds=gap)
        match admit(limits, usage, now=now, roll=roll):
            case Go(after):
                usage = after
                sent.append(now)
            case NotBefore(moment, _):
                assert moment is not None
                assert moment > now
    _windows_hold(sent, HOUR, limits.hourly_max)
    match limits.daily_mode:
        case DailyMode.ANCHORED:
            _windows_hold(sent, DAY, limits.daily_max)
        case DailyMode.CALENDAR:
            for day in {at.date() for at in sent}:
                assert limits.daily_max is None or sum(at.date() == day for at in sent) <= limits.daily_max
        case DailyMode.SLIDING:
            _any_window_holds(sent, DAY, limits.daily_max)
    if limits.units_per_minute is not None:
        _any_window_holds(sent, MINUTE, limits.units_per_minute // limits.units_per_send)
    shortest = limits.delay_ms + ((limits.gap_max_ms or limits.delay_ms) - limits.delay_ms) * roll
    assert all(b - a >= timedelta(milliseconds=shortest) for a, b in pairwise(sent))


def _windows_hold(sent: list[datetime], length: timedelta, most: int | None) -> None:
    """A window begins with its first send and ends after its length; the next one begins with the next send."""
    started, used = None, 0
    for at in sent:
        if started is None or at >= started + length:
            started, used = at, 0
        used += 1
        assert most is None or used <= most


def _any_window_holds(sent: list[datetime], length: timedelta, most: int | None) -> None:
    for end in sent:
        assert most is None or sum(end - length < at <= end for at in sent) <= most


@given(limits=some_limits(), gaps=gaps)
def test_the_moment_it_names_is_the_first_at_which_it_may_send(limits: Limits, gaps: list[int]) -> None:
    """An account with work is never idle for longer than that, so no capacity is lost."""
    now, usage = START, Usage()
    for gap in gaps[:40]:
        now += timedelta(seconds=gap)
        answer = admit(limits, usage, now=now)
        if isinstance(answer, NotBefore):
            assert answer.moment is not None
            assert isinstance(admit(limits, usage, now=answer.moment - timedelta(microseconds=1)), NotBefore)
            now = answer.moment
            answer = admit(limits, usage, now=now)
        assert isinstance(answer, Go)
        usage = answer.usage


def test_the_reason_is_the_limit_that_lasts_longest() -> None:
    both = Limits(hourly_max=1, daily_max=1)
    usage = charge(both, Usage(), now=START)
    assert admit(both, usage, now=START + SECOND) == NotBefore(START + DAY, Barrier.DAILY)
    hourly = Limits(hourly_max=1, daily_max=5, delay_ms=1000)
    assert admit(hourly, usage, now=START) == NotBefore(START + HOUR, Barrier.HOURLY)


def test_a_providers_quota_is_used_to_the_last_send_that_fits() -> None:
    limits = Limits(delay_ms=0, units_per_minute=250, units_per_send=100)
    usage = charge(limits, charge(limits, Usage(), now=START), now=START + SECOND)
    assert admit(limits, usage, now=START + 2 * SECOND) == NotBefore(START + MINUTE, Barrier.UNITS)
    assert isinstance(admit(limits, usage, now=START + MINUTE), Go)


def test_a_rest_is_kept_whatever_the_limits_allow() -> None:
    resting = Usage(rest=Rest(START + HOUR, RestReason.BACK_OFF, "421 slow down"))
    assert admit(Limits(), resting, now=START) == NotBefore(START + HOUR, Barrier.BACK_OFF, "421 slow down")
    assert isinstance(admit(Limits(), resting, now=START + HOUR), Go)


def test_a_calendar_day_ends_at_midnight() -> None:
    limits = Limits(daily_max=1, daily_mode=DailyMode.CALENDAR)
    usage = charge(limits, Usage(), now=START)
    midnight = datetime.combine(START.date() + DAY, time(), UTC)
    assert admit(limits, usage, now=START + SECOND) == NotBefore(midnight, Barrier.DAILY)
    assert isinstance(admit(limits, usage, now=midnight), Go)


def test_a_new_delay_counts_at_once_and_the_gap_stays_drawn() -> None:
    limits = Limits(delay_ms=30_000, gap_max_ms=90_000)
    usage = charge(limits, Usage(), now=START, roll=0.5)
    assert admit(limits, usage, now=START) == NotBefore(START + 60 * SECOND, Barrier.DELAY)
    assert admit(Limits(delay_ms=5000), usage, now=START) == NotBefore(START + 5 * SECOND, Barrier.DELAY)


def test_a_refund_gives_back_one_and_never_more() -> None:
    limits = Limits(daily_max=2, daily_mode=DailyMode.SLIDING)
    once = charge(limits, Usage(), now=START)
    assert refund(once).day_used == 0
    assert refund(once).charges == ()
    assert refund(Usage()).hour_used == 0


@given(limits=some_limits(), n=st.integers(0, 60), gap=st.integers(0, 100))
def test_a_batch_is_no_more_than_any_limit_leaves(limits: Limits, n: int, gap: int) -> None:
    now, usage = START, Usage()
    for _ in range(n):
        now += timedelta(seconds=gap)
        if isinstance(answer := admit(limits, usage, now=now), Go):
            usage = answer.usage
    unhurried = replace(limits, delay_ms=0, gap_max_ms=None)
    size, room = batch_size(limits, usage, now=now, each_s=0.0), 0
    while room < limits.batch_max and isinstance(answer := admit(unhurried, usage, now=now), Go):
        usage, room = answer.usage, room + 1
    assert 0 <= size <= room
    assert size == room or limits.delay_ms or limits.gap_max_ms


@given(limits=some_limits(), each_s=st.none() | st.floats(0, 100))
def test_a_batch_is_one_e_mail_and_a_quarter_of_a_second_of_work(limits: Limits, each_s: float | None) -> None:
    """The longest pause counts, because any pause may be that long."""
    size = batch_size(limits, Usage(), now=START, each_s=each_s)
    longest_s = max(each_s or 0.0, limits.delay_ms / 1000, (limits.gap_max_ms or 0) / 1000)
    assert size <= 1 or (each_s is not None and (size - 1) * longest_s <= 0.25 + 1e-9)


# ── warm-up ───────────────────────────────────────────────────────────────────────────────────────────────────


def a_day(limits: Limits, usage: Usage, *, now: datetime, bounces: int = 0) -> tuple[int, Usage]:
    """Returns how many the account may send on this day."""
    n = 0
    while isinstance(answer := admit(limits, usage, now=now), Go):
        usage, n = answer.usage, n + 1
    return n, replace(usage, day_bounces=bounces)


def days(limits: Limits, *, bounces: dict[int, int] | None = None, n: int = 12) -> list[int]:
    usage, sent = Usage(), list[int]()
    for day in range(n):
        count, usage = a_day(limits, usage, now=START + day * DAY, bounces=(bounces or {}).get(day, 0))
        sent.append(count)
    return sent


def test_a_warm_up_grows_by_its_step_up_to_the_daily_limit() -> None:
    plan = Limits(daily_max=50, warm_up=WarmUp(start=5, step=20))
    for mode in DailyMode:
        assert days(replace(plan, daily_mode=mode), n=5) == [5, 25, 45, 50, 50]


def test_a_warm_up_over_ten_days_allows_a_tenth_more_each_day_rounded_up() -> None:
    assert days(Limits(daily_max=15, warm_up=WarmUp(days=10))) == [2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 15, 15]
    assert days(Limits(daily_max=7, warm_up=WarmUp(days=10)))[:10] == [1, 2, 3, 3, 4, 5, 5, 6, 7, 7]


def test_a_warm_up_holds_while_too_much_bounces_and_counts_only_days_that_send() -> None:
    plan = Limits(daily_max=500, warm_up=WarmUp(start=100, step=100))
    assert days(plan, bounces={0: 3, 1: 2}, n=4) == [100, 100, 200, 300]
    _, usage = a_day(plan, Usage(), now=START)
    later = roll_windows(plan, usage, now=START + 30 * DAY)
    assert daily_limit(plan, later) == (200, Barrier.WARM_UP)


def test_the_reason_is_the_warm_up_only_while_it_lowers_the_limit() -> None:
    plan = Limits(daily_max=3, warm_up=WarmUp(start=1, step=2))
    _, usage = a_day(plan, Usage(), now=START)
    assert admit(plan, usage, now=START) == NotBefore(START + DAY, Barrier.WARM_UP)
    _, usage = a_day(plan, usage, now=START + DAY)
    assert admit(plan, usage, now=START + DAY) == NotBefore(START + 2 * DAY, Barrier.DAILY)
