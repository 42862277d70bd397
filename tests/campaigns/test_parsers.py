"""Delays, days, hours, gaps and ramp-ups as people write them: printing and parsing gives the same value."""

import re
from collections.abc import Callable
from datetime import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.campaigns.parsers import (
    CHARS_MAX,
    DURATION_S_MAX,
    EVERY_DAY,
    GAP_S_MAX,
    duration_s,
    gap,
    gap_in_words,
    hours,
    hours_in_words,
    ramp_up,
    ramp_up_in_words,
    shown,
    weekdays,
    weekdays_in_words,
)
from fairpost.model.campaign import Gap
from fairpost.model.durations import write_duration
from tests.facts import missing

CLOCKS = st.builds(time, hour=st.integers(0, 23), minute=st.integers(0, 59), second=st.sampled_from([0, 1, 59]))
PAUSES = st.floats(0, GAP_S_MAX)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3d", 259_200),
        ("12h", 43_200),
        ("30m", 1_800),
        ("45s", 45),
        ("1d 12h", 129_600),
        ("1d12h", 129_600),
        (" 1 D  12 H ", 129_600),
        ("2w", 1_209_600),
        ("36h", 129_600),
        ("0s", 0),
        ("366d", DURATION_S_MAX),
    ],
)
def test_a_duration_is_written_in_units(text: str, seconds: int) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize(
    "text", ["", " ", "3", "3 days", "d", "-3d", "1.5d", "12h 1d", "1d 1d", "٣d", "soon", "9999999999s"]
)
def test_an_invalid_duration_is_refused_with_the_format(text: str) -> None:
    with pytest.raises(ValueError, match=r'3d, 12h, 30m .*"1d 12h".*"') as refused:
        duration_s(text)
    assert shown(text) in str(refused.value)


def test_a_duration_ends_after_a_year() -> None:
    with pytest.raises(ValueError, match=r'366d\b.*"366d 1s"'):
        duration_s("366d 1s")


@given(st.integers(0, DURATION_S_MAX))
def test_a_duration_is_read_as_it_was_printed(seconds: int) -> None:
    assert duration_s(write_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("mon-fri", {1, 2, 3, 4, 5}),
        ("mon,wed,fri", {1, 3, 5}),
        ("Mon – Wed, Sunday", {1, 2, 3, 7}),
        ("fri-mon", {5, 6, 7, 1}),
        ("tues,thur", {2, 4}),
        ("sat-sat", {6}),
        ("mon-sun", EVERY_DAY),
        ("all", EVERY_DAY),
    ],
)
def test_days_are_written_as_names_and_spans(text: str, days: set[int]) -> None:
    assert weekdays(text) == days


@pytest.mark.parametrize("text", ["", "mo-fr", "mon-", "-fri", "mon,", "1-5", "mon fri", "mon-wed-fri", "monx", "none"])
def test_invalid_days_are_refused_with_the_format(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        weekdays(text)
    assert missing(str(refused.value), "mon-fri", "mon,wed,fri", f'"{text}"') == []


@given(st.frozensets(st.integers(1, 7), min_size=1))
def test_days_are_read_as_they_were_printed(days: frozenset[int]) -> None:
    assert weekdays(weekdays_in_words(days)) == days


@pytest.mark.parametrize(
    ("days", "text"),
    [({1, 2, 3, 4, 5}, "mon-fri"), ({1, 2}, "mon,tue"), ({1, 3, 4, 5, 7}, "mon,wed-fri,sun"), (EVERY_DAY, "mon-sun")],
)
def test_days_in_a_row_are_printed_as_a_span(days: set[int], text: str) -> None:
    assert weekdays_in_words(frozenset(days)) == text


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("09:00-17:00", time(9), time(17)),
        ("9:00 – 17:30", time(9), time(17, 30)),
        ("22:00-06:00", time(22), time(6)),
        ("18:00-24:00", time(18), time()),
        ("00:00-24:00", time(), time()),
        ("09:00:30-17:00", time(9, 0, 30), time(17)),
        ("all", time(), time()),
    ],
)
def test_hours_are_from_one_time_to_another(text: str, start: time, end: time) -> None:
    assert hours(text) == (start, end)


@pytest.mark.parametrize("text", ["", "9-17", "09:00", "09:00-25:00", "24:00-06:00", "09:60-10:00", "9am-5pm", "none"])
def test_invalid_hours_are_refused_with_the_format(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        hours(text)
    assert missing(str(refused.value), "09:00-17:00", '"all"', f'"{text}"') == []


def test_hours_that_end_as_they_begin_are_more_likely_a_slip_than_a_day() -> None:
    with pytest.raises(ValueError, match=r'"09:00-09:00".*"all"'):
        hours("09:00-09:00")


@given(CLOCKS, CLOCKS)
def test_hours_are_read_as_they_were_printed(start: time, end: time) -> None:
    assert hours(hours_in_words(start, end)) == ((time(), time()) if start == end else (start, end))


@pytest.mark.parametrize(
    ("text", "pause"),
    [
        ("30-90", Gap(min_s=30, max_s=90)),
        ("30s – 90s", Gap(min_s=30, max_s=90)),
        ("0.5-2", Gap(min_s=0.5, max_s=2)),
        ("45", Gap(min_s=45, max_s=45)),
        ("0-5", Gap(min_s=0, max_s=5)),
        ("none", None),
        ("0", None),
        ("0-0", None),
    ],
)
def test_a_gap_is_written_in_seconds(text: str, pause: Gap | None) -> None:
    assert gap(text) == pause


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", ("30-90", '"none"')),
        ("1m-2m", ("30-90", '"none"')),
        ("-5", ("30-90", '"none"')),
        ("90-30", ()),
        ("1-86401", ("86400",)),
    ],
)
def test_an_invalid_gap_is_refused_with_the_reason(text: str, facts: tuple[str, ...]) -> None:
    with pytest.raises(ValueError) as refused:
        gap(text)
    assert missing(str(refused.value), *facts, f'"{text}"') == []


@given(PAUSES, PAUSES)
def test_a_gap_is_read_as_it_was_printed(one: float, other: float) -> None:
    pause = Gap(min_s=min(one, other), max_s=max(one, other))
    assert gap(gap_in_words(pause)) == (pause if pause.max_s else None)


def test_no_gap_is_read_as_it_was_printed() -> None:
    assert gap(gap_in_words(None)) is None


@pytest.mark.parametrize(
    ("text", "days", "percents"),
    [
        ("yes", 10, ()),
        ("none", 0, ()),
        ("20d", 20, ()),
        ("20", 20, ()),
        ("5%, 10%, 50%", 0, (5, 10, 50)),
        ("5,10", 0, (5, 10)),
        ("50%", 0, (50,)),
    ],
)
def test_a_ramp_up_is_a_number_of_days_or_the_share_of_each(text: str, days: int, percents: tuple[int, ...]) -> None:
    assert ramp_up(text) == (days, percents)


@pytest.mark.parametrize("text", ["", "fast", "10%,", "-3d", "1.5%"])
def test_an_invalid_ramp_up_is_refused_with_the_format(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        ramp_up(text)
    facts = ("10d", "10%,20%,50%", '"yes"', '"none"', f'"{text}"')
    assert missing(str(refused.value), *facts) == []


@given(
    st.one_of(
        st.tuples(st.integers(0, 365), st.just(())),
        st.tuples(st.just(0), st.lists(st.integers(1, 100), max_size=365).map(tuple)),
    )
)
def test_a_ramp_up_is_read_as_it_was_printed(ramp: tuple[int, tuple[int, ...]]) -> None:
    assert ramp_up(ramp_up_in_words(*ramp)) == ramp


@pytest.mark.parametrize("read", [duration_s, weekdays, hours, gap, ramp_up])
def test_a_novel_is_refused_by_its_length(read: Callable[[str], Any]) -> None:
    with pytest.raises(ValueError, match=f"{CHARS_MAX:,} .*1,000,000"):
        read(" " * 1_000_000)


@given(st.text(), st.sampled_from([duration_s, weekdays, hours, gap, ramp_up]))
def test_any_text_is_read_or_refused_in_one_line(text: str, read: Callable[[str], Any]) -> None:
    try:
        read(text)
    except ValueError as error:
        assert re.fullmatch(".+", str(error))  # noqa: PT017 - it need not be raised


def test_shown_text_is_short_and_on_one_line() -> None:
    assert shown("a\nb\x1b[31m\u202e") == r'"a\nb\x1b[31m\u202e"'
    assert shown("x" * 100) == f'"{"x" * 60}…"'
