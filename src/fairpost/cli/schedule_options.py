"""How durations, days, windows, gaps and zones are written as options. A wrong one is told at once, by the words of the campaign files."""

from collections.abc import Callable, Iterable
from datetime import date, datetime
from typing import TypeVar
from zoneinfo import ZoneInfo, available_timezones

import typer

from fairpost.campaigns import words
from fairpost.model.campaign import Gap
from fairpost.model.window import SendingWindow

T = TypeVar("T")


def parse_duration(text: str) -> int:
    """In seconds: 3d, 12h, 30m."""
    return _read(words.duration_s, text)


def parse_window(text: str, timezone: str, holidays: Iterable[date] = ()) -> SendingWindow:
    """mon-fri 09:00-17:00. Days alone are open all day, hours alone are of every day."""
    days, hours = _parts(text)
    start, end = _read(words.hours, hours or "all")
    return SendingWindow(
        timezone=timezone,
        days=_read(words.weekdays, days or "all"),
        start=start,
        end=end,
        holidays=frozenset(holidays),
    )


def parse_gap(text: str) -> Gap | None:
    """In seconds: 30-90, or none."""
    return _read(words.gap, text)


def parse_ramp_up(text: str) -> words.RampUp:
    return _read(words.ramp_up, text)


def parse_timezone(text: str) -> str:
    """Only by its very name: one that merely this machine understands would fail on another."""
    if text not in available_timezones():
        raise typer.BadParameter(f"must be a name like Europe/Berlin, got {words.shown(text)}")
    return text


def parse_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"must be a day like 2027-12-25, got {words.shown(text)}") from None


def parse_moment(text: str, timezone: str) -> datetime:
    """With its distance from UTC, or else by the clock of the zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"must be a time like 2027-03-01T09:00, got {words.shown(text)}") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=ZoneInfo(timezone))


def _parts(text: str) -> tuple[str, str]:
    """The days and the hours: those are what has colons."""
    given = text.split()
    first = next((n for n, each in enumerate(given) if ":" in each), len(given))
    return " ".join(given[:first]), " ".join(given[first:])


def _read(parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
