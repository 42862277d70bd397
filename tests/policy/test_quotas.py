"""How much is sent per day: never more than the quota, less at first, and a clear message if nothing can be sent."""

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.window import RAMP_UP_DAYS, Quota, SendingWindow
from fairpost.policy.quotas import (
    allowed_on,
    day_number,
    problem_of_quota,
)
from tests.facts import missing

DAY = timedelta(days=1)
FRIDAY = date(2026, 7, 3)
RESETS_AT = datetime(2026, 7, 3, 22, tzinfo=UTC)
WORKDAYS = SendingWindow(timezone="Europe/Berlin", days=frozenset(range(1, 6)), start=time(9), end=time(17))


def test_a_ramp_up_grows_by_a_tenth_a_day() -> None:
    quota = Quota(daily_max=45, ramp_up_days=RAMP_UP_DAYS)
    assert [allowed_on(quota, n) for n in range(1, 13)] == [5, 9, 14, 18, 23, 27, 32, 36, 41, 45, 45, 45]


@given(most=st.integers(1, 10**9), days=st.integers(1, 365), day=st.integers(1, 800))
def test_a_ramp_up_is_rounded_up_and_ends_at_the_quota(most: int, days: int, day: int) -> None:
    quota = Quota(daily_max=most, ramp_up_days=days)
    today, tomorrow = allowed_on(quota, day), allowed_on(quota, day + 1)
    assert today is not None
    assert tomorrow is not None
    assert 1 <= today <= tomorrow <= most
    assert (today - 1) * days < most * min(day, days) <= today * days
    assert day < days or today == most


def test_a_ramp_up_may_be_a_list_of_percentages() -> None:
    quota = Quota(daily_max=99, ramp_up_percents=(1, 50, 10))
    assert [allowed_on(quota, n) for n in range(1, 6)] == [1, ceil(49.5), 10, 99, 99]


def test_without_a_ramp_up_the_first_day_is_like_any_other() -> None:
    assert allowed_on(Quota(daily_max=45), 1) == 45
    assert allowed_on(Quota(), 1) is None


def test_days_are_counted_whether_or_not_anything_is_sent() -> None:
    assert [day_number(FRIDAY, FRIDAY + n * DAY) for n in range(4)] == [1, 2, 3, 4]


def test_with_a_window_only_its_own_days_are_counted() -> None:
    """Friday is the first day, the weekend adds nothing, and Monday is the second."""
    assert [day_number(FRIDAY, FRIDAY + n * DAY, WORKDAYS) for n in range(5)] == [1, 1, 1, 2, 3]
    holiday = replace(WORKDAYS, holidays=frozenset({FRIDAY + 3 * DAY, FRIDAY + 1 * DAY}))
    assert [day_number(FRIDAY, FRIDAY + n * DAY, holiday) for n in range(5)] == [1, 1, 1, 1, 2]


@given(
    days=st.frozensets(st.integers(1, 7), min_size=1),
    holidays=st.frozensets(st.integers(-5, 60).map(lambda n: FRIDAY + n * DAY), max_size=20),
    first=st.integers(0, 6),
    length=st.integers(-3, 60),
)
def test_counting_by_weeks_is_counting_day_by_day(
    days: frozenset[int], holidays: frozenset[date], first: int, length: int
) -> None:
    window = replace(WORKDAYS, days=days, holidays=holidays)
    begin = FRIDAY + first * DAY
    counted = sum(window.opens_on(begin + n * DAY) for n in range(length + 1))
    assert day_number(begin, begin + length * DAY, window) == max(1, counted)


def test_a_clock_that_was_moved_to_the_day_before_is_on_the_first_day() -> None:
    assert day_number(FRIDAY, FRIDAY - DAY) == 1


@pytest.mark.parametrize(
    ("quota", "facts"),
    [
        (Quota(daily_max=0), ("daily_max", "1", "0")),
        (Quota(daily_max=9, ramp_up_days=-1), ("ramp_up_days", "0..365", "-1")),
        (Quota(daily_max=9, ramp_up_percents=(10, 0)), ("ramp_up_percents", "1..100", " 0")),
        (Quota(daily_max=9, ramp_up_percents=(1,) * 366), ("ramp_up_percents", "365", "366")),
        (Quota(daily_max=9, ramp_up_days=10, ramp_up_percents=(50,)), ("ramp_up_days", "ramp_up_percents")),
        (Quota(ramp_up_days=10), ("daily_max",)),
        (Quota(), ()),
        (Quota(daily_max=1), ()),
        (Quota(daily_max=500, ramp_up_days=RAMP_UP_DAYS), ()),
        (Quota(daily_max=500, ramp_up_percents=(5, 20, 100)), ()),
    ],
)
def test_errors_in_a_quota_name_field_rule_and_value(quota: Quota, facts: tuple[str, ...]) -> None:
    problem = problem_of_quota(quota)
    assert (problem is not None) == bool(facts)
    assert missing(problem, *facts) == []
