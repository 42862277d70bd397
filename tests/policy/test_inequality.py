"""The figures compared with their definitions, and waits in buckets compared with the waits themselves."""

import json
import math
from collections import Counter
from datetime import timedelta
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.policy.inequality import (
    BUCKET_ENDS_US,
    Summary,
    Waits,
    gini,
    jain,
    largest_share,
    quantile,
    summary,
)

counts = st.lists(st.integers(0, 10_000), max_size=40)
rates = st.lists(st.floats(0.001, 1e6), max_size=40)
MILLISECOND = timedelta(milliseconds=1)


@given(counts | rates)
def test_the_gini_coefficient_is_half_the_mean_difference_by_the_mean(values: list[float]) -> None:
    differences = sum(abs(a - b) for a in values for b in values)
    expected = differences / (2 * len(values) * sum(values)) if sum(values) else 0.0
    assert gini(values) == pytest.approx(expected, abs=1e-9)


@given(counts | rates)
def test_jains_index_is_the_squared_sum_by_the_sum_of_squares(values: list[float]) -> None:
    squares = math.fsum(v * v for v in values)
    expected = math.fsum(values) ** 2 / (len(values) * squares) if squares else 1.0
    assert jain(values) == pytest.approx(expected, abs=1e-9)
    assert jain(values) <= 1.0


@pytest.mark.parametrize("values", [[], [0], [0, 0, 0]])
def test_nothing_is_even(values: list[int]) -> None:
    assert (gini(values), jain(values), largest_share(values)) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize("values", [[7], [3, 3, 3, 3], {5: 1_000}])
def test_equal_parts_are_even(values: list[int] | dict[float, int]) -> None:
    assert (gini(values), jain(values)) == (0.0, 1.0)


def test_one_who_has_everything() -> None:
    values = [0] * 9 + [100]
    assert (gini(values), jain(values), largest_share(values)) == (0.9, 0.1, 1.0)


def test_the_largest_share() -> None:
    assert largest_share([1, 2, 5, 2]) == 0.5
    assert largest_share({1: 5, 5: 1}) == 0.5


@given(counts)
def test_frequencies_give_the_same_figures_as_single_values(values: list[int]) -> None:
    counts = {float(value): times for value, times in Counter(values).items()} | {99_999.0: 0}
    assert gini(counts) == pytest.approx(gini(values))
    assert jain(counts) == pytest.approx(jain(values))
    assert largest_share(counts) == largest_share(values)
    assert summary(counts) == summary(values)


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=300), st.integers(0, 100))
def test_a_quantile_is_the_smallest_value_that_enough_do_not_exceed(values: list[int], percent: int) -> None:
    found = quantile(values, percent / 100)
    enough = (v for v in sorted(values) if sum(w <= v for w in values) * 100 >= percent * len(values))
    assert found == next(enough)


def test_a_summary() -> None:
    assert summary(range(1, 101)) == Summary(count=100, mean=50.5, p50=50, p99=99)
    assert quantile(range(1, 101), 0.07) == 7
    assert summary([4]) == Summary(count=1, mean=4, p50=4, p99=4)
    assert summary([]) is None
    assert quantile([], 0.5) is None


# ── waits ────────────────────────────────────────────────────────────────────────────────────────────────

some_waits = st.lists(
    st.integers(0, 10**13) | st.sampled_from(BUCKET_ENDS_US[:200]) | st.integers(0, 5_000), min_size=1, max_size=100
)


def waits_of(waits_us: list[int]) -> Waits:
    found = Waits()
    for wait_us in waits_us:
        found.add(timedelta(microseconds=wait_us))
    return found


@given(some_waits, st.sampled_from([0.0, 0.01, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles_are_within_5_percent_or_a_millisecond(waits_us: list[int], q: float) -> None:
    found, true_us = waits_of(waits_us).quantile(q), quantile(waits_us, q)
    assert found is not None
    assert true_us is not None
    true = timedelta(microseconds=true_us)
    assert abs(found - true) <= max(0.05 * true, MILLISECOND)


@given(some_waits)
def test_count_and_mean_are_exact(waits_us: list[int]) -> None:
    found = waits_of(waits_us)
    assert found.count == len(waits_us)
    assert found.mean is not None
    assert abs(found.mean - timedelta(microseconds=fmean(waits_us))) <= timedelta(microseconds=1)


@given(some_waits, some_waits)
def test_merged_is_as_if_counted_together(one: list[int], other: list[int]) -> None:
    merged = waits_of(one)
    merged.merge(waits_of(other))
    assert merged == waits_of(one + other)


@given(some_waits)
def test_stored_waits_read_back_the_same(waits_us: list[int]) -> None:
    found = waits_of(waits_us)
    assert Waits.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_many_at_once() -> None:
    found = Waits()
    found.add(timedelta(seconds=2), 1_000_000)
    assert found.to_json() == {"total_us": 2_000_000_000_000, "buckets": {"80": 1_000_000}}
    assert gini(found.values_us()) == 0.0


def test_a_bucket_holds_its_end_and_not_its_beginning() -> None:
    assert waits_of([0, 1_000]).buckets == {0: 2}
    assert waits_of([1_001, 1_100]).buckets == {1: 2}


def test_no_waits() -> None:
    assert (Waits().count, Waits().mean, Waits().quantile(0.5)) == (0, None, None)
    assert Waits.from_json(Waits().to_json()) == Waits()


def test_a_wait_may_be_as_odd_as_it_likes() -> None:
    found = Waits()
    found.add(timedelta(seconds=-1))
    found.add(timedelta(days=365 * 1_000))
    assert found.quantile(0) == timedelta()
    assert sorted(found.buckets) == [0, 300]
    assert found.total_us == 365_000 * 86_400 * 10**6


def test_the_buckets_are_a_few_and_never_change() -> None:
    assert len(BUCKET_ENDS_US) == 301
    assert BUCKET_ENDS_US[:4] == (1_000, 1_100, 1_210, 1_331)
    assert sum(end <= 86_400_000_000 for end in BUCKET_ENDS_US) == 192  # up to a day
