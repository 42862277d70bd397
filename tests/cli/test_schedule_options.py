"""Parsing durations, days, windows and gaps, and the errors for invalid ones."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
import typer

from fairpost.cli.schedule_options import (
    parse_day,
    parse_duration,
    parse_gap,
    parse_moment,
    parse_timezone,
    parse_window,
)
from fairpost.model.campaign import Gap
from fairpost.model.window import SendingWindow

WORKDAYS = frozenset(range(1, 6))
BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(("text", "seconds"), [("3d", 259_200), ("12h", 43_200), ("30m", 1800), ("1d 12h", 129_600)])
def test_a_duration(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "days", "start", "end"),
    [
        ("mon-fri 09:00-17:00", WORKDAYS, time(9), time(17)),
        ("mon, fri  9:30 - 17:00", {1, 5}, time(9, 30), time(17)),
        ("fri 22:00-06:00", {5}, time(22), time(6)),
        ("Mon,Wed", {1, 3}, time(), time()),
        ("sat-mon", {6, 7, 1}, time(), time()),
        ("mon-fri", WORKDAYS, time(), time()),
        ("08:00-20:00", set(range(1, 8)), time(8), time(20)),
        ("all", set(range(1, 8)), time(), time()),
    ],
)
def test_a_window(text: str, days: set[int], start: time, end: time) -> None:
    christmas = date(2027, 12, 25)
    assert parse_window(text, BERLIN, [christmas]) == SendingWindow(
        timezone=BERLIN, days=frozenset(days), start=start, end=end, holidays=frozenset({christmas})
    )


def test_a_gap() -> None:
    assert parse_gap("30-90") == Gap(min_s=30, max_s=90)
    assert parse_gap("none") is None


def test_a_moment_is_by_the_clock_of_the_zone_unless_it_says_otherwise() -> None:
    assert parse_moment("2027-03-01T09:00", BERLIN) == datetime(2027, 3, 1, 8, tzinfo=UTC)
    assert parse_moment("2027-03-01T09:00Z", BERLIN) == datetime(2027, 3, 1, 9, tzinfo=UTC)
    assert parse_moment("2027-07-01", BERLIN) == datetime(2027, 7, 1, tzinfo=UTC) - timedelta(hours=2)


@pytest.mark.parametrize(
    ("parse", "text", "example"),
    [
        (parse_duration, "soon", "3d, 12h, 30m"),
        (lambda text: parse_window(text, BERLIN), "weekdays", "mon-fri"),
        (parse_gap, "90-30", "90-30"),
        (parse_day, "christmas", "2027-12-25"),
        (parse_timezone, "Berlin", "Europe/Berlin"),
        (lambda text: parse_moment(text, BERLIN), "tomorrow", "2027-03-01T09:00"),
        (lambda text: parse_window(text, BERLIN), "mon-fri 9-17", "mon-fri"),
        (lambda text: parse_window(text, BERLIN), "mon-fri 09:00", "09:00-17:00"),
    ],
)
def test_errors_include_an_example(parse: Callable[[str], Any], text: str, example: str) -> None:
    with pytest.raises(typer.BadParameter) as error:
        parse(text)
    assert example in error.value.message
    assert text.split()[-1] in error.value.message
