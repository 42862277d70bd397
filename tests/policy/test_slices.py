"""Slices of an account's limits: together they never allow more than the whole."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.account import Limits, WarmUp
from fairpost.policy.slices import PAUSE_MS_MAX, sliced

NUMBERS = st.none() | st.integers(100, 10**6)
WARM_UPS = (
    st.none()
    | st.builds(WarmUp, days=st.integers(1, 90))
    | st.builds(WarmUp, start=st.integers(100, 1000), step=st.integers(100, 999))
)


@st.composite
def wholes(draw: st.DrawFn) -> Limits:
    delay_ms = draw(st.integers(0, 3_600_000))
    return Limits(
        delay_ms=delay_ms,
        gap_max_ms=draw(st.none() | st.integers(delay_ms, 2 * delay_ms + 1000)),
        hourly_max=draw(NUMBERS),
        daily_max=draw(NUMBERS),
        units_per_minute=draw(NUMBERS),
        warm_up=draw(WARM_UPS),
    )


@st.composite
def percents(draw: st.DrawFn) -> list[int]:
    found: list[int] = []
    while (left := 100 - sum(found)) and len(found) < 5:
        found.append(draw(st.integers(1, left)))
    return found


@given(wholes(), percents())
def test_the_parts_never_allow_more_than_the_whole(whole: Limits, parts: list[int]) -> None:
    slices = [sliced(whole, percent) for percent in parts]
    for name in ("daily_max", "hourly_max", "units_per_minute"):
        most = getattr(whole, name)
        numbers = [getattr(each, name) for each in slices]
        assert all(n is None for n in numbers) if most is None else sum(numbers) <= most
        assert most is None or min(numbers) >= 1
    if whole.delay_ms:
        assert sum(1 / each.delay_ms for each in slices) <= 1 / whole.delay_ms * (1 + 1e-9)
    if whole.gap_max_ms:
        assert sum(1 / (each.gap_max_ms or 1) for each in slices) <= 1 / whole.gap_max_ms * (1 + 1e-9)
        assert all((each.gap_max_ms or 0) >= each.delay_ms for each in slices)
    if whole.warm_up and not whole.warm_up.days:
        for name in ("start", "step"):
            assert sum(getattr(each.warm_up, name) for each in slices) <= getattr(whole.warm_up, name)


@given(wholes())
def test_all_of_it_is_the_whole(whole: Limits) -> None:
    assert sliced(whole, 100) == whole


def test_a_limit_too_small_to_share_is_1_in_each_region() -> None:
    tiny = sliced(Limits(daily_max=1, hourly_max=3, warm_up=WarmUp(start=2, step=1)), 10)
    assert (tiny.daily_max, tiny.hourly_max, tiny.warm_up) == (1, 1, WarmUp(start=1, step=1))
    still = sliced(Limits(warm_up=WarmUp(start=20, step=0)), 50)
    assert still.warm_up == WarmUp(start=10, step=0)


def test_a_part_that_allows_no_send_at_all_is_refused() -> None:
    whole = Limits(units_per_minute=250, units_per_send=100)
    assert sliced(whole, 40).units_per_minute == 100
    with pytest.raises(ValueError, match=r"39 % of 250 .*100"):
        sliced(whole, 39)
    with pytest.raises(ValueError, match=rf"49% .*{PAUSE_MS_MAX}"):
        sliced(Limits(delay_ms=PAUSE_MS_MAX // 2), 49)


def test_limits_that_are_not_rates_are_unchanged() -> None:
    whole = Limits(batch_max=7, bounce_percent_max=3.0, bounce_sample_min=9, cool_down_s=60, units_per_send=5)
    assert sliced(whole, 10) == replace(whole)
