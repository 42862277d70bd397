"""Compute when a sending window is open. A window is open whenever the local clock shows an open time, and the other
rules follow from this rule. A window that would begin in an hour that the clock skips begins at the end of that hour.
If the clock shows an open hour twice, the window is open twice. Arguments and results are in UTC, and searches end
after a year.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from fairpost.model.errors import FairpostError
from fairpost.model.window import SendingWindow

DAY = timedelta(days=1)
SEARCH_MAX = timedelta(days=366)
Span = tuple[datetime, datetime]  # start included, end excluded


class NeverOpens(FairpostError):
    """A window has no open time within a year. Either the window was never checked, or its holidays now cover every
    open day.
    """


def problem_of(window: SendingWindow, now: datetime) -> str | None:
    """Return what is wrong with a window (field, rule and value), or None if it is valid."""
    if not is_zone(window.timezone):
        return f'timezone must be a name such as Europe/Berlin, got "{window.timezone}"'
    if not window.days:
        return "days must include at least one of 1 (Monday) to 7 (Sunday), got none"
    if wrong := sorted(window.days - set(range(1, 8))):
        return f"days must be 1 (Monday) to 7 (Sunday), got {', '.join(map(str, wrong))}"
    if next(_openings(window, now, now + SEARCH_MAX), None) is None:
        return f"holidays must leave at least one day open within a year, got none before {_horizon(window, now)}"
    return None


def is_open(window: SendingWindow, now: datetime) -> bool:
    wall = now.astimezone(ZoneInfo(window.timezone)).replace(tzinfo=UTC)
    today = wall.date()
    return any(opens <= wall < closes for opens, closes in _hours(window, (today - DAY, today)))


def next_open(window: SendingWindow, now: datetime) -> datetime:
    """Return the first open moment from now on, which is now if the window is open."""
    opening = next(_openings(window, now, now + SEARCH_MAX), None)
    if opening is None:
        raise NeverOpens(f"The sending window stays closed until {_horizon(window, now)}. Add days or remove holidays.")
    return opening[0]


def closes_at(window: SendingWindow, now: datetime) -> datetime:
    """Return when the current open span ends. A span without an end is cut off after a year."""
    if not is_open(window, now):
        raise ValueError(f"the window is closed at {now}")
    return next(spans(window, now, now + SEARCH_MAX))[1]


def spans(window: SendingWindow, start: datetime, end: datetime) -> Iterator[Span]:
    """Yield the open spans from `start` to `end`, in order. Adjacent spans are merged."""
    last: Span | None = None
    for opening in _openings(window, start, end):
        if last is None:
            last = opening
        elif last[1] == opening[0]:
            last = (last[0], opening[1])
        else:
            yield last
            last = opening
    if last is not None:
        yield last


def local_day(timezone: str, now: datetime) -> date:
    return now.astimezone(ZoneInfo(timezone)).date()


def next_day(timezone: str, now: datetime) -> datetime:
    """Return when the next local date begins, which is not always at midnight. Some clocks skip midnight, and one clock
    skipped a whole day.
    """
    tomorrow = _midnight(local_day(timezone, now) + DAY)
    stretches = _stretches(ZoneInfo(timezone), now, now + 3 * DAY)
    return next(max(begin, tomorrow - offset) for begin, stop, offset in stretches if tomorrow < stop + offset)


def _openings(window: SendingWindow, start: datetime, end: datetime) -> Iterator[Span]:
    """Yield the open spans in order. A span is split wherever one of the `_stretches` ends."""
    for begin, stop, offset in _stretches(ZoneInfo(window.timezone), start, end):
        today = (begin + offset).date()
        for opens, closes in _hours(window, (today - DAY, today, today + DAY)):
            first, last = max(begin, opens - offset), min(stop, closes - offset)
            if first < last:
                yield first, last


def _hours(window: SendingWindow, days: Iterable[date]) -> Iterator[Span]:
    """Yield the local times at which each day opens and closes, represented as UTC.

    Subtract the offset to get a moment.
    """
    for day in filter(window.opens_on, days):
        opens = datetime.combine(day, window.start, UTC)
        closes = datetime.combine(day, window.end, UTC)
        if opens == closes:
            yield _midnight(day), _midnight(day + DAY)
        else:
            yield opens, closes if opens < closes else closes + DAY


def _stretches(zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime, timedelta]]:
    """Split the time from `start` to `end` into pieces of at most a day, each with a single offset from UTC.

    No zone has ever changed its offset twice within a day, so checking both ends of a day is enough.
    """
    begin, end = start.astimezone(UTC), end.astimezone(UTC)
    while begin < end:
        stop = min(begin + DAY, end)
        offset = _offset(zone, begin)
        if _offset(zone, stop) != offset:
            stop = _change(zone, begin, stop)
        yield begin, stop, offset
        begin = stop


def _change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """Find, by bisection, the moment between these two at which the offset changes."""
    old = _offset(zone, before)
    while after - before > timedelta.resolution:
        middle = before + (after - before) / 2
        if _offset(zone, middle) == old:
            before = middle
        else:
            after = middle
    return after


def _offset(zone: ZoneInfo, moment: datetime) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _horizon(window: SendingWindow, now: datetime) -> date:
    return local_day(window.timezone, now + SEARCH_MAX)


def is_zone(name: str) -> bool:
    """Return whether this is the name of a time zone. Names such as `localtime` do not count, because their meaning
    differs from system to system.
    """
    return name in _zones()


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones() - {"localtime", "Factory"})
