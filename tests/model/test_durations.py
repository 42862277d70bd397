"""Durations are parsed as people write them, and formatted for people."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.durations import read_duration, say_duration, say_roughly, write_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("90m", 5_400), ("1h30m", 5_400), ("1d 12h", 129_600), ("2w", 1_209_600), ("0s", 0)],
)
def test_units_come_from_the_largest_to_the_smallest(text: str, seconds: int) -> None:
    assert read_duration(text) == read_duration(text, is_fine=True) == timedelta(seconds=seconds)


@pytest.mark.parametrize(("text", "ms"), [("500ms", 500), ("1.5s", 1_500), ("1m30s", 90_000), ("0.25h", 900_000)])
def test_fractions_of_a_second_are_opt_in(text: str, ms: int) -> None:
    assert read_duration(text, is_fine=True) == timedelta(milliseconds=ms)
    assert text == "1m30s" or read_duration(text) is None


@pytest.mark.parametrize(
    "text", ["", " ", "5", "s", "-5s", "5 days", "1m1h", "5s5s", "1.s", ".5s", "5S", "٣d", "5s\n", "1e3s"]
)
def test_anything_else_is_none(text: str) -> None:
    assert read_duration(text) is None
    assert read_duration(text, is_fine=True) is None


def test_one_that_is_too_long_for_any_clock_is_longer_than_any_limit() -> None:
    assert read_duration("999999999w") == timedelta.max


@given(st.integers(0, 10**9))
def test_a_written_value_reads_back_the_same(seconds: int) -> None:
    assert read_duration(write_duration(seconds)) == timedelta(seconds=seconds)


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    read_duration(text)
    read_duration(text, is_fine=True)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (0.00025, "0.25 ms"),
        (0.25, "250 ms"),
        (1.5, "1.5 s"),
        (59, "59 s"),
        (90, "1 min 30 s"),
        (3_600, "1 h"),
        (90_061, "1 d 1 h"),
        (101_097, "1 d 4 h"),
        (-60, "−1 min"),
    ],
)
def test_a_duration_is_said_in_its_two_largest_units(seconds: float, said: str) -> None:
    assert say_duration(seconds) == said


def test_a_rough_one_has_one_unit_and_two_of_it_at_least() -> None:
    assert [say_roughly(s) for s in (119, 120, 7_199, 7_200, 172_800)] == [
        "119 seconds",
        "2 minutes",
        "120 minutes",
        "2 hours",
        "2 days",
    ]
    assert say_roughly(3_600, is_short=True) == "60 min"
