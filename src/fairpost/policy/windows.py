"""When a sending window is open: a moment is, when the clock on the wall there shows an open time.

All else follows from that. An hour that the clock skips is never shown, so that a window which would begin in it begins
where it ends; an hour that the clock shows twice is open twice. Moments in and out are UTC, searches end after a year.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from fairpost.model.errors import FairpostError
from fairpost.model.window import SendingWindow

DAY = timedelta(days=1)
SEARCH_MAX = timedelta(days=366)
Span = tuple[datetime, datetime]  # from the first moment to before the second


class NeverOpens(FairpostError):
    """A window has no open moment for a year. It was not checked, or its holidays have caught up with it."""


def problem_of(window: SendingWindow, now: datetime) -> str | None:
    """What is wrong with a window, by field, rule and value; None: it can be used."""
    if not is_zone(window.timezone):
        return f'timezone must be a name like Europe/Berlin, got "{window.timezone}"'
    if not window.days:
        return "days must name at least one of 1 (Monday) to 7 (Sunday), got none"
    if wrong := sorted(window.days - set(range(1, 8))):
        return f"days must be 1 (Monday) to 7 (Sunday), got {', '.join(map(str, wrong))}"
    if next(_openings(window, now, now + SEARCH_MAX), None) is None:
        return f"holidays must leave a day open within a year, got none before {_horizon(window, now)}"
    return None


def is_open(window: SendingWindow, now: datetime) -> bool:
    wall = now.astimezone(ZoneInfo(window.timezone)).replace(tzinfo=UTC)
    today = wall.date()
    return any(opens <= wall < closes for opens, closes in _hours(window, (today - DAY, today)))


def next_open(window: SendingWindow, now: datetime) -> datetime:
    """The first open moment from now on: now itself, if it is one."""
    opening = next(_openings(window, now, now + SEARCH_MAX), None)
    if opening is None:
        raise NeverOpens(
            f"The sending window stays closed until {_horizon(window, now)}. Give it days, or fewer holidays."
        )
    return opening[0]


def closes_at(window: SendingWindow, now: datetime) -> datetime:
    """When the open span that holds now is over. One that never ends is said to do so after a year."""
    if not is_open(window, now):
        raise ValueError(f"the window is closed at {now}")
    return next(spans(window, now, now + SEARCH_MAX))[1]


def spans(window: SendingWindow, start: datetime, end: datetime) -> Iterator[Span]:
    """The open spans from `start` to `end`, in order, as long as they can be: where one meets the next, they are one."""
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


def open_seconds(window: SendingWindow, start: datetime, end: datetime) -> float:
    return sum((closes - opens for opens, closes in _openings(window, start, end)), timedelta()).total_seconds()


def local_day(timezone: str, now: datetime) -> date:
    return now.astimezone(ZoneInfo(timezone)).date()


def next_day(timezone: str, now: datetime) -> datetime:
    """When the date there is first a later one. That is not always at midnight: some clocks skip it, one skipped a day."""
    tomorrow = _midnight(local_day(timezone, now) + DAY)
    stretches = _stretches(ZoneInfo(timezone), now, now + 3 * DAY)
    return next(max(begin, tomorrow - offset) for begin, stop, offset in stretches if tomorrow < stop + offset)


def _openings(window: SendingWindow, start: datetime, end: datetime) -> Iterator[Span]:
    """The open spans in order, cut where a stretch ends."""
    for begin, stop, offset in _stretches(ZoneInfo(window.timezone), start, end):
        today = (begin + offset).date()
        for opens, closes in _hours(window, (today - DAY, today, today + DAY)):
            first, last = max(begin, opens - offset), min(stop, closes - offset)
            if first < last:
                yield first, last


def _hours(window: SendingWindow, days: Iterable[date]) -> Iterator[Span]:
    """What the clock on the wall shows as each of the days opens and closes, written as UTC: less the offset, a moment."""
    for day in filter(window.opens_on, days):
        opens = datetime.combine(day, window.start, UTC)
        closes = datetime.combine(day, window.end, UTC)
        if opens == closes:
            yield _midnight(day), _midnight(day + DAY)
        else:
            yield opens, closes if opens < closes else closes + DAY


def _stretches(zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime, timedelta]]:
    """The time from `start` to `end` in pieces of a day at most, each with its one offset from UTC.

    No zone has ever changed its offset twice within a day, so that one look at each end of a day is enough.
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
    """The moment between the two at which the offset changes, by halving."""
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
    """By its proper name: what the files of a system offer beside those means something else on the next one."""
    return name in _zones()


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones() - {"localtime", "Factory"})
