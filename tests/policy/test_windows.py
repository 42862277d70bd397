"""When a window is open: as the local clock says, to the minute, even where that clock jumps."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from time import perf_counter
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.model.window import SendingWindow
from fairpost.policy.windows import (
    DAY,
    SEARCH_MAX,
    NeverOpens,
    closes_at,
    is_open,
    local_day,
    next_day,
    next_open,
    problem_of,
    spans,
)
from tests.facts import missing
from tests.thorough import times as tries

MINUTE = timedelta(minutes=1)
EVERY_DAY = frozenset(range(1, 8))
WORKDAYS = frozenset(range(1, 6))
NOW = datetime(2020, 7, 1, 10, tzinfo=UTC)  # a Wednesday

# The moment around which a zone is checked: its clock jumps there, if it ever does. All are in the past, because laws
# change.
JUMPS = [
    ("Europe/Berlin", "2020-03-29 01:00"),
    ("Europe/Berlin", "2020-10-25 01:00"),
    ("America/New_York", "2020-03-08 07:00"),
    ("America/New_York", "2020-11-01 06:00"),
    ("Australia/Lord_Howe", "2020-04-04 15:00"),  # half an hour
    ("Australia/Lord_Howe", "2020-10-03 15:30"),
    ("Asia/Kolkata", "2020-03-29 01:00"),  # never
    ("Pacific/Apia", "2011-12-30 10:00"),  # a whole day
    ("America/Sao_Paulo", "2018-11-04 03:00"),  # skips midnight
    ("America/Sao_Paulo", "2018-02-18 02:00"),  # back to the day before
    ("America/St_Johns", "2010-11-07 02:31"),  # a minute after midnight, back to the day before
    ("America/Havana", "2020-11-01 05:00"),  # midnight twice
]


def open_seconds(window: SendingWindow, start: datetime, end: datetime) -> float:
    return sum((closes - opens for opens, closes in spans(window, start, end)), timedelta()).total_seconds()


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def window(zone: str, hours: str, days: frozenset[int] = EVERY_DAY, *holidays: str) -> SendingWindow:
    start, end = map(time.fromisoformat, hours.split("–"))
    off = frozenset(map(date.fromisoformat, holidays))
    return SendingWindow(timezone=zone, days=days, start=start, end=end, holidays=off)


def on_its_day(zone: str, day: str, hours: str) -> list[str]:
    """Returns the spans on this one local day, as UTC."""
    today = date.fromisoformat(day)
    only = replace(window(zone, hours), days=frozenset({today.isoweekday()}))
    noon = utc(f"{day} 12:00")
    return [f"{a:%d %H:%M}–{b:%d %H:%M}" for a, b in spans(only, noon - 3 * DAY, noon + 3 * DAY)]


@pytest.mark.parametrize(
    ("zone", "day", "hours", "expected"),
    [
        # 02:00 becomes 03:00, at 01:00 UTC
        ("Europe/Berlin", "2020-03-29", "09:00–17:00", ["29 07:00–29 15:00"]),
        ("Europe/Berlin", "2020-03-29", "02:30–05:00", ["29 01:00–29 03:00"]),
        ("Europe/Berlin", "2020-03-29", "01:00–02:30", ["29 00:00–29 01:00"]),
        ("Europe/Berlin", "2020-03-29", "02:00–03:00", []),
        ("Europe/Berlin", "2020-03-29", "02:15–02:45", []),
        ("Europe/Berlin", "2020-03-28", "22:00–06:00", ["28 21:00–29 04:00"]),
        ("Europe/Berlin", "2020-03-29", "00:00–00:00", ["28 23:00–29 22:00"]),
        # 03:00 becomes 02:00, at 01:00 UTC
        ("Europe/Berlin", "2020-10-25", "09:00–17:00", ["25 08:00–25 16:00"]),
        ("Europe/Berlin", "2020-10-25", "02:00–03:00", ["25 00:00–25 02:00"]),
        ("Europe/Berlin", "2020-10-25", "02:30–05:00", ["25 00:30–25 01:00", "25 01:30–25 04:00"]),
        ("Europe/Berlin", "2020-10-25", "01:00–02:30", ["24 23:00–25 00:30", "25 01:00–25 01:30"]),
        ("Europe/Berlin", "2020-10-24", "22:00–06:00", ["24 20:00–25 05:00"]),
        ("Europe/Berlin", "2020-10-25", "00:00–00:00", ["24 22:00–25 23:00"]),
        # 02:00 becomes 03:00, at 07:00 UTC
        ("America/New_York", "2020-03-08", "09:00–17:00", ["08 13:00–08 21:00"]),
        ("America/New_York", "2020-03-08", "02:30–05:00", ["08 07:00–08 09:00"]),
        ("America/New_York", "2020-03-08", "02:00–03:00", []),
        ("America/New_York", "2020-03-07", "22:00–06:00", ["08 03:00–08 10:00"]),
        # 02:00 becomes 01:00, at 06:00 UTC
        ("America/New_York", "2020-11-01", "09:00–17:00", ["01 14:00–01 22:00"]),
        ("America/New_York", "2020-11-01", "01:00–02:00", ["01 05:00–01 07:00"]),
        ("America/New_York", "2020-10-31", "22:00–06:00", ["01 02:00–01 11:00"]),
        # 02:00 becomes 01:30, at 15:00 UTC of the day before
        ("Australia/Lord_Howe", "2020-04-05", "01:30–02:00", ["04 14:30–04 15:30"]),
        ("Australia/Lord_Howe", "2020-04-05", "01:00–03:00", ["04 14:00–04 16:30"]),
        ("Australia/Lord_Howe", "2020-04-05", "09:00–17:00", ["04 22:30–05 06:30"]),
        # 02:00 becomes 02:30, at 15:30 UTC of the day before
        ("Australia/Lord_Howe", "2020-10-04", "02:00–02:30", []),
        ("Australia/Lord_Howe", "2020-10-04", "02:15–04:00", ["03 15:30–03 17:00"]),
        ("Australia/Lord_Howe", "2020-10-04", "09:00–17:00", ["03 22:00–04 06:00"]),
        # always 5:30 ahead
        ("Asia/Kolkata", "2020-03-29", "09:00–17:00", ["29 03:30–29 11:30"]),
        ("Asia/Kolkata", "2020-10-25", "22:00–06:00", ["25 16:30–26 00:30"]),
        # from the 29th at midnight to the 31st, at 10:00 UTC of the 30th
        ("Pacific/Apia", "2011-12-29", "09:00–17:00", ["29 19:00–30 03:00"]),
        ("Pacific/Apia", "2011-12-29", "22:00–06:00", ["30 08:00–30 10:00"]),
        ("Pacific/Apia", "2011-12-30", "09:00–17:00", []),
        ("Pacific/Apia", "2011-12-30", "00:00–00:00", []),
        ("Pacific/Apia", "2011-12-31", "00:00–06:00", ["30 10:00–30 16:00"]),
        # and its summer time
        ("Pacific/Apia", "2012-04-01", "03:00–04:00", ["31 13:00–31 15:00"]),
        ("Pacific/Apia", "2012-09-30", "03:00–04:00", []),
    ],
)
def test_where_the_clock_jumps_the_window_follows_it(zone: str, day: str, hours: str, expected: list[str]) -> None:
    assert on_its_day(zone, day, hours) == expected


@pytest.mark.parametrize(
    ("zone", "now", "today", "begins"),
    [
        ("Europe/Berlin", "2020-03-28 22:59", "2020-03-28", "2020-03-28 23:00"),
        ("Europe/Berlin", "2020-03-28 23:00", "2020-03-29", "2020-03-29 22:00"),  # 23 hours
        ("Europe/Berlin", "2020-10-24 22:00", "2020-10-25", "2020-10-25 23:00"),  # 25 hours
        ("America/New_York", "2020-03-08 05:00", "2020-03-08", "2020-03-09 04:00"),
        ("America/New_York", "2020-11-01 04:00", "2020-11-01", "2020-11-02 05:00"),
        ("Australia/Lord_Howe", "2020-04-04 13:00", "2020-04-05", "2020-04-05 13:30"),
        ("Australia/Lord_Howe", "2020-10-03 13:30", "2020-10-04", "2020-10-04 13:00"),
        ("Asia/Kolkata", "2020-03-28 18:30", "2020-03-29", "2020-03-29 18:30"),
        ("Pacific/Apia", "2011-12-29 10:00", "2011-12-29", "2011-12-30 10:00"),
        ("Pacific/Apia", "2011-12-30 10:00", "2011-12-31", "2011-12-31 10:00"),
        ("America/Sao_Paulo", "2018-11-03 12:00", "2018-11-03", "2018-11-04 03:00"),  # the day begins at 01:00
        ("America/Sao_Paulo", "2018-02-17 12:00", "2018-02-17", "2018-02-18 03:00"),  # 23:00 twice
        ("America/Havana", "2020-10-31 12:00", "2020-10-31", "2020-11-01 04:00"),
        ("America/Havana", "2020-11-01 05:00", "2020-11-01", "2020-11-02 05:00"),  # midnight for the second time
        ("America/St_Johns", "2010-11-07 02:31", "2010-11-06", "2010-11-07 03:30"),  # yesterday again, for 59 minutes
    ],
)
def test_the_next_day_begins_where_the_date_changes(zone: str, now: str, today: str, begins: str) -> None:
    assert local_day(zone, utc(now)) == date.fromisoformat(today)
    assert next_day(zone, utc(now)) == utc(begins)


def clock_says_open(window: SendingWindow, moment: datetime) -> bool:
    """The rule in different terms than the code's: look at the local clock, then at the calendar."""
    wall = moment.astimezone(ZoneInfo(window.timezone))
    at, today, yesterday = wall.time(), wall.date(), wall.date() - DAY

    def is_on(day: date) -> bool:
        return day.isoweekday() in window.days and day not in window.holidays

    if window.start == window.end:
        return is_on(today)
    if window.start < window.end:
        return is_on(today) and window.start <= at < window.end
    return (is_on(today) and at >= window.start) or (is_on(yesterday) and at < window.end)


def minutes(start: datetime, end: datetime) -> Iterator[datetime]:
    while start < end:
        yield start
        start += MINUTE


times = st.builds(time, st.integers(0, 23), st.sampled_from([0, 0, 15, 30, 59]))


@st.composite
def near_a_jump(draw: st.DrawFn) -> tuple[SendingWindow, datetime]:
    """A window, and a minute within a week of the moment its clock jumps; some days around it are holidays."""
    zone, jump = draw(st.sampled_from(JUMPS))
    near = st.integers(-7, 7).map(lambda n: utc(jump).date() + n * DAY)
    picked = SendingWindow(
        timezone=zone,
        days=draw(st.frozensets(st.integers(1, 7), min_size=1)),
        start=draw(times),
        end=draw(times),
        holidays=draw(st.frozensets(near, max_size=5)),
    )
    return picked, utc(jump) + draw(st.integers(-7 * 1440, 7 * 1440)) * MINUTE


@settings(max_examples=tries(15))  # each checks 20,160 minutes
@given(near_a_jump())
def test_spans_are_what_the_clock_says_minute_by_minute(case: tuple[SendingWindow, datetime]) -> None:
    window, start = case
    end = start + 14 * DAY
    found = list(spans(window, start, end))
    expected = {minute for minute in minutes(start, end) if clock_says_open(window, minute)}
    assert {minute for a, b in found for minute in minutes(a, b)} == expected
    assert open_seconds(window, start, end) == 60 * len(expected)
    assert all(start <= a < b <= end for a, b in found)
    assert all(end < begin for (_, end), (begin, _) in pairwise(found)), "adjacent spans are not merged"


@given(near_a_jump())
def test_the_next_opening_is_open_and_nothing_before_it_is(case: tuple[SendingWindow, datetime]) -> None:
    window, now = case
    opens = next_open(window, now)
    assert opens >= now
    assert clock_says_open(window, opens)
    assert is_open(window, opens)
    assert not any(clock_says_open(window, minute) for minute in minutes(now, opens))


@given(near_a_jump())
def test_it_is_open_until_it_closes(case: tuple[SendingWindow, datetime]) -> None:
    window, now = case
    opens = next_open(window, now)
    closes = closes_at(window, opens)
    assert opens < closes <= opens + SEARCH_MAX
    assert not is_open(window, closes) or closes == opens + SEARCH_MAX
    assert all(is_open(window, minute) for minute in minutes(opens, min(closes, opens + DAY)))
    assert is_open(window, closes - timedelta.resolution)


@given(near_a_jump(), st.timedeltas(timedelta(), 9 * DAY), st.timedeltas(timedelta(), 9 * DAY))
def test_open_time_adds_up_wherever_it_is_cut(
    case: tuple[SendingWindow, datetime], first: timedelta, second: timedelta
) -> None:
    window, start = case
    middle, end = start + first, start + first + second
    both = open_seconds(window, start, middle) + open_seconds(window, middle, end)
    assert both == pytest.approx(open_seconds(window, start, end), abs=1e-6)
    assert open_seconds(window, end, start) == (both if start == end else 0)


@given(st.sampled_from(JUMPS), st.integers(-2 * 1440, 2 * 1440))
def test_until_the_next_day_it_is_no_later_than_today(jump: tuple[str, str], offset: int) -> None:
    zone, now = jump[0], utc(jump[1]) + offset * MINUTE
    begins, today = next_day(zone, now), local_day(zone, now)
    assert local_day(zone, begins) > today
    assert all(local_day(zone, minute) <= today for minute in minutes(now, begins))


def test_a_night_belongs_to_the_day_on_which_it_begins() -> None:
    nights = window("Asia/Kolkata", "22:00–06:00", WORKDAYS, "2020-07-07")
    opens = [f"{a.astimezone(ZoneInfo('Asia/Kolkata')):%a %d}" for a, _ in spans(nights, NOW, NOW + 8 * DAY)]
    assert opens == ["Wed 01", "Thu 02", "Fri 03", "Mon 06", "Wed 08"]  # Tuesday the 7th is a holiday
    assert closes_at(nights, utc("2020-07-03 17:00")) == utc("2020-07-04 00:30")  # on Saturday, which opens no night
    assert is_open(nights, utc("2020-07-07 00:00"))  # the night before the holiday extends into it
    assert next_open(nights, utc("2020-07-07 00:30")) == utc("2020-07-08 16:30")


def test_the_same_time_twice_is_the_whole_day_whatever_the_time() -> None:
    week = [(utc("2020-07-05 22:00"), utc("2020-07-10 22:00"))]
    for hours in ("00:00–00:00", "09:00–09:00"):
        assert list(spans(window("Europe/Berlin", hours, WORKDAYS), utc("2020-07-05"), utc("2020-07-12"))) == week


def test_until_midnight_is_written_as_midnight() -> None:
    evening = window("UTC", "18:00–00:00")
    assert closes_at(evening, utc("2020-07-01 23:59")) == utc("2020-07-02 00:00")


def test_a_span_is_cut_at_what_was_asked_for() -> None:
    office = window("UTC", "09:00–17:00")
    assert list(spans(office, utc("2020-07-01 10:00"), utc("2020-07-01 11:00"))) == [
        (utc("2020-07-01 10:00"), utc("2020-07-01 11:00"))
    ]
    assert list(spans(office, NOW, NOW)) == []


def test_moments_of_any_zone_are_understood_and_come_back_as_utc() -> None:
    office = window("Europe/Berlin", "09:00–17:00")
    noon = datetime(2020, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    assert is_open(office, noon)
    assert next_open(office, noon) == noon
    assert next_open(office, noon).tzinfo is UTC
    assert closes_at(office, noon).tzinfo is UTC
    assert next_day("Europe/Berlin", noon).tzinfo is UTC


def test_a_window_that_never_closes_is_open_for_the_whole_search() -> None:
    assert closes_at(window("Europe/Berlin", "00:00–00:00"), NOW) == NOW + SEARCH_MAX


def test_a_closed_window_has_no_closing_time() -> None:
    with pytest.raises(ValueError, match="2020-07-01"):
        closes_at(window("UTC", "11:00–12:00"), NOW)


def every_day_for(days: int) -> frozenset[date]:
    return frozenset(NOW.date() + n * DAY for n in range(-1, days))


def test_a_window_without_an_open_day_is_said_to_be_so_and_never_searched_forever() -> None:
    shut = replace(window("Europe/Berlin", "09:00–17:00"), holidays=every_day_for(1000))
    with pytest.raises(NeverOpens, match="2021-07-02"):
        next_open(shut, NOW)
    with pytest.raises(NeverOpens):
        next_open(window("Europe/Berlin", "09:00–17:00", frozenset()), NOW)
    assert not is_open(shut, NOW)
    late = replace(shut, holidays=every_day_for(365))
    assert next_open(late, NOW) == utc("2021-07-01 07:00")


@pytest.mark.parametrize(
    ("wrong", "facts"),
    [
        ({"timezone": "Mars/Base"}, ("timezone", "Europe/Berlin", '"Mars/Base"')),
        ({"timezone": "Europe"}, ("timezone", "Europe/Berlin", '"Europe"')),
        ({"timezone": ""}, ("timezone", "Europe/Berlin", '""')),
        ({"timezone": "../secret"}, ("timezone", "Europe/Berlin", '"../secret"')),
        ({"timezone": "x" * 300}, ("timezone", "Europe/Berlin", "x" * 300)),
        ({"days": frozenset()}, ("days", "1 (Monday)", "7 (Sunday)")),
        ({"days": frozenset({0, 1, 8})}, ("days", "1 (Monday)", "7 (Sunday)", "0, 8")),
        ({"holidays": every_day_for(1000)}, ("holidays", "2021-07-02")),
        ({}, ()),
        ({"holidays": every_day_for(300)}, ()),
    ],
)
def test_errors_in_a_window_name_field_rule_and_value(wrong: dict[str, object], facts: tuple[str, ...]) -> None:
    office = window("Europe/Berlin", "09:00–17:00")
    problem = problem_of(replace(office, **wrong), NOW)  # type: ignore[arg-type]
    assert (problem is not None) == bool(facts)
    assert missing(problem, *facts) == []


def test_a_year_costs_little_and_the_next_opening_next_to_nothing() -> None:
    office = window("Europe/Berlin", "09:00–17:00")
    shut = replace(office, holidays=every_day_for(1000))
    always = window("Europe/Berlin", "00:00–00:00")
    looks: dict[str, Callable[[], object]] = {
        "spans of a year": lambda: list(spans(office, NOW, NOW + 365 * DAY)),
        "next_open tomorrow": lambda: next_open(office, utc("2020-07-01 20:00")),
        "next_open on Monday": lambda: next_open(replace(office, days=WORKDAYS), utc("2020-07-03 20:00")),
        "is_open": lambda: is_open(office, NOW),
        "closes_at today": lambda: closes_at(office, NOW),
        "closes_at never": lambda: closes_at(always, NOW),
        "problem_of a year of holidays": lambda: problem_of(shut, NOW),
        "next_day": lambda: next_day("Europe/Berlin", NOW),
    }
    assert len(list(spans(office, NOW, NOW + 365 * DAY))) == 366  # the first and the last are cut
    for name, look in looks.items():
        look()
        started = perf_counter()
        for _ in range(20):
            look()
        sys.stdout.write(f"\n{name}: {(perf_counter() - started) / 20 * 1e6:.0f} µs")
