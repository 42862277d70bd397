"""Maps values to positions, and chooses ticks: round numbers, durations, and local times."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import chain, count, takewhile
from zoneinfo import ZoneInfo

from fairpost.model.durations import say_duration

VALUE_MAX = 1e15  # up to this value, floats are precise enough
TICKS_MAX = 12
MINUTE, HOUR, DAY = 60, 3_600, 86_400
CLOCK_STEPS = (1, 2, 5, 10, 15, 30, *(n * MINUTE for n in (1, 2, 5, 10, 15, 30)), *(n * HOUR for n in (1, 2, 3, 6, 12)))
DAY_STEPS = (1, 2, 4, 7, 14)
MONTH_STEPS = (1, 2, 3, 6, *(12 * n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)))
DURATION_DECADES = (1, 10, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY, 364 * DAY)
MOMENTS = (datetime(1, 1, 3, tzinfo=UTC).timestamp(), datetime(9998, 1, 1, tzinfo=UTC).timestamp())


class Unit(StrEnum):
    NUMBER = "number"
    COUNT = "count"  # all ticks are integers
    PERCENT = "percent"  # 0.5 is shown as 50%
    DURATION = "duration"  # in seconds
    MOMENT = "moment"  # in seconds since 1970, as in `datetime.timestamp`


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis, which always covers the values in `includes`. With `log`, equal ratios are drawn at equal distances."""

    unit: Unit = Unit.NUMBER
    label: str = ""
    includes: tuple[float, ...] = ()
    timezone: str = "UTC"
    log: bool = False

    def words(self, value: float) -> str:
        """Formats one value for a tooltip."""
        match self.unit:
            case Unit.COUNT:
                return f"{value:,.0f}"
            case Unit.PERCENT:
                return f"{value * 100:,.1f}".removesuffix(".0") + "%"
            case Unit.DURATION:
                return say_duration(value) if value else "0"
            case Unit.MOMENT:
                return f"{datetime.fromtimestamp(value, ZoneInfo(self.timezone)):%Y-%m-%d %H:%M:%S}".removesuffix(":00")
            case Unit.NUMBER:
                return _rounded(value)


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to positions, linearly or logarithmically. The mapping is monotonic."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        part = (
            math.log(value / self.low) / math.log(self.high / self.low)
            if self.log
            else (value - self.low) / (self.high - self.low)
        )
        return self.start + (self.end - self.start) * part


@dataclass(frozen=True, slots=True)
class Tick:
    value: float
    words: str


def checked(value: float) -> float:
    if not abs(value) <= VALUE_MAX:
        raise ValueError(f"a chart can show values up to {VALUE_MAX:g}, got {value}")
    return value


def span(axis: Axis, values: Iterable[float]) -> tuple[float, float]:
    """Returns the range from the minimum to the maximum. The range is never empty."""
    found = [*values, *map(checked, axis.includes)]
    low, high = min(found), max(found)
    if axis.unit is Unit.MOMENT and not MOMENTS[0] <= low <= high <= MOMENTS[1]:
        raise ValueError(f"a time must be between the years 1 and 9998, got {low if low < MOMENTS[0] else high}")
    if axis.log and low <= 0:
        raise ValueError(f"a logarithmic axis requires values above 0, got {low}")
    least = {Unit.MOMENT: 2.0, Unit.COUNT: 1.0}.get(axis.unit, 1e-9)
    least = max(least, 1e-9 * max(abs(low), abs(high)))
    if high - low >= least:
        return low, high
    if axis.log:
        return low, max(low * 10, low + least)
    if axis.unit is Unit.MOMENT:
        return low - 30, low + 30
    return (0, low) if low >= least else (low, low + max(1.0, least))


def ticks_inside(axis: Axis, low: float, high: float, fits: Callable[[Sequence[Tick]], bool]) -> Sequence[Tick]:
    """Returns the finest ticks that fit, all of them within the range. Returns no ticks if not even one fits."""
    if axis.log:
        every = _logarithmic(axis, low, high)
        return next((chosen for n in range(1, len(every) + 1) if fits(chosen := every[::n])), ())
    if axis.unit is Unit.MOMENT:
        candidates = _moments(axis, low, high)
    else:
        candidates = (_multiples(axis, step, low, high) for step in _steps(axis, high - low))
    return next((ticks for ticks in candidates if ticks and fits(ticks)), ())


def ticks_around(axis: Axis, low: float, high: float, *, most: int) -> Sequence[Tick]:
    """Returns ticks that enclose the range: the first is at most `low`, and the last is at least `high`."""
    for step in _steps(axis, high - low):
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first < max(3, most):
            return _multiples(axis, step, first * step, last * step)
    raise AssertionError("three ticks can enclose any range")


def days_in_words(axis: Axis, low: float, high: float) -> str:
    """Returns the days that a time axis shows, and their time zone."""
    first, last = (f"{at.day} {at:%b} {at.year}" for at in (_local(axis, low), _local(axis, high)))
    return f"{first} – {last}, {axis.timezone}" if first != last else f"{first}, {axis.timezone}"


def _rounded(value: float) -> str:
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"


def _steps(axis: Axis, width: float) -> Iterator[float]:
    """Yields steps from fine to coarse.

    The last steps are longer than the axis, so there is always a step that needs at most three ticks.
    """
    finest = width / TICKS_MAX
    steps = _round_steps(max(1.0, finest) if axis.unit is Unit.COUNT else finest)
    if axis.unit is Unit.DURATION and finest > 1:
        ladder = (step for step in (*CLOCK_STEPS, *(n * DAY for n in DAY_STEPS)) if step >= finest)
        steps = chain(ladder, (step * DAY for step in _round_steps(max(28.0, finest / DAY))))
    return takewhile(lambda step: step <= 10 * width, steps)


def _round_steps(finest: float) -> Iterator[float]:
    for exponent in count(math.floor(math.log10(finest))):
        for digit in (1, 2, 5):
            step = digit * 10.0**exponent
            if step >= finest:
                yield step


def _multiples(axis: Axis, step: float, low: float, high: float) -> list[Tick]:
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    values = [round(n * step, 12) for n in range(first, last + 1)]
    return [Tick(value, _tick_words(axis, value, step)) for value in values]


def _tick_words(axis: Axis, value: float, step: float) -> str:
    if axis.unit is Unit.DURATION and step >= 1:
        return say_duration(value, units=4) if value else "0"
    percent = axis.unit is Unit.PERCENT
    shown, step = (value * 100, step * 100) if percent else (value, step)
    unit = "%" if percent else " s" if axis.unit is Unit.DURATION else ""
    decimals = min(9, max(0, -math.floor(math.log10(step) + 1e-9)))
    return f"{shown:,.{decimals}f}{unit}"


def _logarithmic(axis: Axis, low: float, high: float) -> list[Tick]:
    if axis.unit is Unit.DURATION:
        values: Iterable[float] = DURATION_DECADES
    else:
        values = (10.0**n for n in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1))
    return [Tick(value, axis.words(value)) for value in values if low <= value <= high]


def _moments(axis: Axis, low: float, high: float) -> Iterator[list[Tick]]:
    enough = (high - low) / TICKS_MAX
    for step in CLOCK_STEPS:
        if step >= enough:
            yield [Tick(at, _hour(wall, step)) for at, wall in _on_the_wall(axis, low, high, _by_clock(step))]
    for days in DAY_STEPS:
        if days * DAY >= enough:
            yield [Tick(at, f"{wall.day} {wall:%b}") for at, wall in _on_the_wall(axis, low, high, _by_calendar(days))]
    for months in MONTH_STEPS:
        if months * 28 * DAY >= enough:
            form = "%Y" if months % 12 == 0 else "%b %Y"
            yield [Tick(at, f"{wall:{form}}") for at, wall in _on_the_wall(axis, low, high, _by_months(months))]


Walls = Callable[[datetime], Iterator[datetime]]


def _on_the_wall(axis: Axis, low: float, high: float, walls: Walls) -> Iterator[tuple[float, datetime]]:
    """Yields local times with their positions, except times that the zone skips.

    `walls` yields local times without a zone, of which the first is never later than the time passed to it.
    """
    zone = ZoneInfo(axis.timezone)
    for wall in walls(_local(axis, low).replace(tzinfo=None)):
        at = _utc(wall, zone)
        if at > high:
            return
        if at >= low and datetime.fromtimestamp(at, zone).replace(tzinfo=None) == wall:
            yield at, wall


def _by_clock(step: int) -> Walls:
    def walls(first: datetime) -> Iterator[datetime]:
        midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
        steps = (first - midnight) // timedelta(seconds=step)
        return (midnight + timedelta(seconds=step) * n for n in count(steps))

    return walls


def _by_calendar(days: int) -> Walls:
    def walls(first: datetime) -> Iterator[datetime]:
        monday_or_so = (first.toordinal() - 1) // days * days + 1
        return map(datetime.fromordinal, range(monday_or_so, date.max.toordinal(), days))

    return walls


def _by_months(months: int) -> Walls:
    def walls(first: datetime) -> Iterator[datetime]:
        begun = max(12, (first.year * 12 + first.month - 1) // months * months)
        months_max = 12 * (date.max.year + 1)
        return (datetime(number // 12, number % 12 + 1, 1) for number in range(begun, months_max, months))  # noqa: DTZ001

    return walls


def _hour(wall: datetime, step: int) -> str:
    if step < MINUTE:
        return f"{wall:%H:%M:%S}"
    return f"{wall.day} {wall:%b}" if (wall.hour, wall.minute) == (0, 0) else f"{wall:%H:%M}"


def _local(axis: Axis, at: float) -> datetime:
    return datetime.fromtimestamp(at, ZoneInfo(axis.timezone))


def _utc(wall: datetime, zone: tzinfo) -> float:
    return wall.replace(tzinfo=zone).timestamp()
