"""Parsers for durations, days, windows, gaps and time zones in options. Errors are the same as for campaign files."""

from collections.abc import Callable, Iterable
from datetime import date, datetime
from typing import TypeVar
from zoneinfo import ZoneInfo, available_timezones

import typer

from fairpost.campaigns import parsers
from fairpost.model.campaign import Gap
from fairpost.model.window import SendingWindow

T = TypeVar("T")


def parse_duration(text: str) -> int:
    """Parse a duration such as 3d, 12h or 30m and return it in seconds."""
    return _read(parsers.duration_s, text)


def parse_window(text: str, timezone: str, holidays: Iterable[date] = ()) -> SendingWindow:
    """Parse a window such as "mon-fri 09:00-17:00". Days alone mean all day; hours alone mean every day."""
    days, hours = _parts(text)
    start, end = _read(parsers.hours, hours or "all")
    return SendingWindow(
        timezone=timezone,
        days=_read(parsers.weekdays, days or "all"),
        start=start,
        end=end,
        holidays=frozenset(holidays),
    )


def parse_gap(text: str) -> Gap | None:
    """Parse a gap in seconds, such as 30-90, or "none"."""
    return _read(parsers.gap, text)


def parse_ramp_up(text: str) -> parsers.RampUp:
    return _read(parsers.ramp_up, text)


def parse_timezone(text: str) -> str:
    """Parse a time zone. The name must be exact, because a spelling that works on this machine may fail on another."""
    if text not in available_timezones():
        raise typer.BadParameter(f"must be a name such as Europe/Berlin, got {parsers.shown(text)}")
    return text


def parse_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"must be a date such as 2027-12-25, got {parsers.shown(text)}") from None


def parse_moment(text: str, timezone: str) -> datetime:
    """Parse a time with an offset from UTC, or else in the given time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"must be a time such as 2027-03-01T09:00, got {parsers.shown(text)}") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=ZoneInfo(timezone))


def _parts(text: str) -> tuple[str, str]:
    """Split the text into days and hours. The hours are the part with colons."""
    given = text.split()
    first = next((n for n, each in enumerate(given) if ":" in each), len(given))
    return " ".join(given[:first]), " ".join(given[first:])


def _read(parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
