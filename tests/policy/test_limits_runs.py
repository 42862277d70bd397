"""Sends in a run are charged like single sends, and there are never more than `admit` would allow."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.account import Charge, DailyMode, Limits, Rest, RestReason, Usage, WarmUp
from fairpost.policy.limits import Go, NotBefore, admit, charge, charge_many, room

START = datetime(2030, 1, 1, 9, 30, tzinfo=UTC)
SECOND = timedelta(seconds=1)
STEPS_MAX = 120


@st.composite
def some_limits(draw: st.DrawFn) -> Limits:
    delay_ms = draw(st.sampled_from([0, 1, 400, 3000, 90_000]))
    units = draw(st.none() | st.integers(100, 900))
    plan = st.builds(WarmUp, start=st.integers(1, 9), step=st.integers(0, 9)) | st.builds(
        WarmUp, days=st.integers(1, 9)
    )
    return Limits(
        delay_ms=delay_ms,
        gap_max_ms=draw(st.none() | st.just(delay_ms + 60_000)),
        hourly_max=draw(st.none() | st.integers(1, 30)),
        daily_max=draw(st.none() | st.integers(1, 60)),
        daily_mode=draw(st.sampled_from(DailyMode)),
        units_per_minute=units,
        units_per_send=draw(st.sampled_from([30, 100])) if units else 1,
        warm_up=draw(st.none() | plan),
    )


gaps = st.lists(st.sampled_from([0.0, 0.4, 1, 7, 59, 60, 600, 3599, 3600, 20_000, 86_400]), max_size=60)
intervals = st.sampled_from([0.001, 0.4, 1, 3, 20, 60, 61, 700, 3600, 5000, 40_000, 86_400, 100_000]).map(
    lambda s: timedelta(seconds=s)
)


def used_so_far(limits: Limits, gaps: list[float], roll: float) -> tuple[datetime, Usage]:
    now, usage = START, Usage()
    for gap in gaps:
        now += gap * SECOND
        if isinstance(answer := admit(limits, usage, now=now, roll=roll), Go):
            usage = answer.usage
    return now, usage


def one_by_one(
    limits: Limits, usage: Usage, *, now: datetime, interval: timedelta, roll: float
) -> list[tuple[datetime, Usage]]:
    """Returns the state after each of the sends that begin without a wait."""
    after: list[tuple[datetime, Usage]] = []
    while len(after) < STEPS_MAX and isinstance(answer := admit(limits, usage, now=now, roll=roll), Go):
        usage = answer.usage
        after.append((now, usage))
        now += interval
    return after


@given(limits=some_limits(), gaps=gaps, interval=intervals, roll=st.sampled_from([0, 0.5, 1]), some=st.integers(1, 100))
def test_a_run_is_charged_like_its_sends(
    limits: Limits, gaps: list[float], interval: timedelta, roll: float, some: int
) -> None:
    now, usage = used_so_far(limits, gaps, roll)
    answer = room(limits, usage, now=now, interval=interval, roll=roll)
    single = one_by_one(limits, usage, now=now, interval=interval, roll=roll)
    if isinstance(answer, NotBefore):
        assert answer == admit(limits, usage, now=now)
        return
    assert 1 <= min(answer, STEPS_MAX) <= len(single)
    n = min(answer, len(single), some)
    assert charge_many(limits, usage, now=now, interval=interval, count=n, roll=roll) == single[n - 1][1]


@given(limits=some_limits(), gaps=gaps, interval=intervals, roll=st.sampled_from([0, 0.5, 1]))
def test_asked_again_where_a_run_ends_it_comes_as_far_as_single_sends(
    limits: Limits, gaps: list[float], interval: timedelta, roll: float
) -> None:
    now, usage = used_so_far(limits, gaps, roll)
    single = one_by_one(limits, usage, now=now, interval=interval, roll=roll)
    sent = 0
    while sent < STEPS_MAX and isinstance(n := room(limits, usage, now=now, interval=interval, roll=roll), int):
        n = min(n, STEPS_MAX - sent)
        usage = charge_many(limits, usage, now=now, interval=interval, count=n, roll=roll)
        now, sent = now + n * interval, sent + n
    assert sent == len(single)
    assert not single or usage == single[-1][1]


def test_a_rest_leaves_no_room() -> None:
    resting = Usage(rest=Rest(START + SECOND, RestReason.BACK_OFF))
    assert isinstance(room(Limits(), resting, now=START, interval=SECOND), NotBefore)
    assert isinstance(room(Limits(), resting, now=START + SECOND, interval=SECOND), int)


def test_a_run_faster_than_the_pause_is_one_send() -> None:
    limits = Limits(delay_ms=1000, gap_max_ms=3000)
    assert room(limits, Usage(), now=START, interval=2 * SECOND, roll=0.5) > 1  # type: ignore[operator]
    assert room(limits, Usage(), now=START, interval=2 * SECOND, roll=0.6) == 1


def test_sends_that_cost_something_else_a_minute_ago_leave_what_is_free() -> None:
    limits = Limits(units_per_minute=100, units_per_send=30)
    usage = Usage(charges=(Charge(START, 50),))
    assert room(limits, usage, now=START + SECOND, interval=SECOND) == 1


def test_a_day_that_bounced_does_not_count_when_it_ends_within_a_run() -> None:
    limits = Limits(warm_up=WarmUp(start=100, step=10))
    usage = charge(limits, Usage(day_bounces=1), now=START)
    hours = timedelta(hours=8)
    after = charge_many(limits, usage, now=START + hours, interval=hours, count=4)
    assert (after.warm_day, after.day_used, after.day_bounces) == (1, 2, 0)
