"""Text formats for delays, days, hours, gaps and ramp-ups: `1d 12h`, `mon-fri`, `09:00-17:00`, `30-90`, `10d`.

Parsing raises ValueError. The message continues a sentence that begins with the name of the value: `must be …, got …`.
Formatting a value and parsing the result returns the same value. policy/ decides whether days, hours and quotas are
consistent.
"""

import re
from collections.abc import Iterator
from datetime import time
from decimal import Decimal

from fairpost.model.campaign import Gap
from fairpost.model.durations import read_duration, write_duration
from fairpost.model.window import RAMP_UP_DAYS

RampUp = tuple[int, tuple[int, ...]]  # days over which the quota grows evenly, or the percentage for each day
Hours = tuple[time, time]

DURATION_S_MAX = 366 * 86_400
GAP_S_MAX = 86_400
CHARS_MAX = 2_000  # enough for a year of daily percentages
SHOWN_CHARS_MAX = 60
RUN_DAYS_MIN = 3  # from this many days on, `mon-wed` is shorter than a list of days

EVERY_DAY = frozenset(range(1, 8))
WHOLE_DAY = (time(), time())
NO_RAMP_UP: RampUp = (0, ())
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_SECONDS = r"([0-9]{1,9}(?:\.[0-9]+)?) ?s?"
_GAP = re.compile(f"{_SECONDS}(?: ?[-–] ?{_SECONDS})?")
_CLOCK = "([0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)"
_HOURS = re.compile(f"{_CLOCK} ?[-–] ?{_CLOCK}")
_RAMP_UP_DAYS = re.compile("([0-9]{1,9}) ?d?")
_PERCENT = re.compile("([0-9]{1,9}) ?%?")


def duration_s(text: str) -> int:
    """Parses a duration: `3d`, `12h`, `1d 12h`."""
    length = read_duration(_tidy(text))
    if length is None:
        raise ValueError(f'must be a duration such as 3d, 12h, 30m or "1d 12h", got {shown(text)}')
    if length.total_seconds() > DURATION_S_MAX:
        raise ValueError(f"must be at most {write_duration(DURATION_S_MAX)}, got {shown(text)}")
    return int(length.total_seconds())


def weekdays(text: str) -> frozenset[int]:
    """Parses days of the week: `mon-fri`, `mon,wed,fri`, `fri-mon`, `all`. Monday is 1."""
    tidy = _tidy(text)
    if tidy == "all":
        return EVERY_DAY
    try:
        return frozenset(day for part in tidy.split(",") for day in _span(part))
    except ValueError:
        raise ValueError(f"must be days such as mon-fri or mon,wed,fri, got {shown(text)}") from None


def weekdays_in_words(days: frozenset[int]) -> str:
    words: list[str] = []
    for first, last in _runs(days):
        if last - first + 1 >= RUN_DAYS_MIN:
            words.append(f"{_short(first)}-{_short(last)}")
        else:
            words.extend(map(_short, range(first, last + 1)))
    return ",".join(words)


def hours(text: str) -> Hours:
    """Parses hours, such as `09:00-17:00`. `22:00-06:00` ends on the next day, and `all` is the whole day."""
    tidy = _tidy(text)
    if tidy == "all":
        return WHOLE_DAY
    found = _HOURS.fullmatch(tidy)
    try:
        if not found:
            raise ValueError
        start, end = _time(found[1]), _time("00:00" if found[2] == "24:00" else found[2])
    except ValueError:
        raise ValueError(f'must be times such as 09:00-17:00, or "all", got {shown(text)}') from None
    if start == end and found[2] != "24:00":
        raise ValueError(f'must not start and end at the same time, got {shown(text)}; for the whole day, use "all"')
    return start, end


def hours_in_words(start: time, end: time) -> str:
    if start == end:
        return "all"
    return f"{_clock(start)}-{_clock(end) if end != time() else '24:00'}"


def gap(text: str) -> Gap | None:
    """Parses a gap in seconds: `30-90` for a random gap, `45` for a constant one, or `none` for no gap."""
    tidy = _tidy(text)
    if tidy == "none":
        return None
    found = _GAP.fullmatch(tidy)
    if not found:
        raise ValueError(f'must be a range of seconds such as 30-90, or "none", got {shown(text)}')
    least, most = float(found[1]), float(found[2] or found[1])
    if least > most:
        raise ValueError(f"must have the smaller number first, got {shown(text)}")
    if most > GAP_S_MAX:
        raise ValueError(f"must be at most {GAP_S_MAX} seconds (one day), got {shown(text)}")
    return Gap(min_s=least, max_s=most) if most else None


def gap_in_words(pause: Gap | None) -> str:
    if pause is None or not pause.max_s:
        return "none"
    if pause.min_s == pause.max_s:
        return _number(pause.min_s)
    return f"{_number(pause.min_s)}-{_number(pause.max_s)}"


def ramp_up(text: str) -> RampUp:
    """Parses a ramp-up.

    `10d` increases the quota evenly over ten days. `10%,20%,50%` gives the percentage for each day. `yes` is the
    default ramp-up. `none` means no ramp-up.
    """
    tidy = _tidy(text)
    if tidy in ("yes", "none"):
        return (RAMP_UP_DAYS, ()) if tidy == "yes" else NO_RAMP_UP
    if days := _RAMP_UP_DAYS.fullmatch(tidy):
        return int(days[1]), ()
    percents = [_PERCENT.fullmatch(part.strip()) for part in tidy.split(",")]
    found = tuple(int(each[1]) for each in percents if each)
    if len(found) != len(percents):
        raise ValueError(
            f'must be days such as 10d, percentages such as 10%,20%,50%, "yes" or "none", got {shown(text)}'
        )
    return 0, found


def ramp_up_in_words(days: int, percents: tuple[int, ...]) -> str:
    if percents:
        return ",".join(f"{each}%" for each in percents)
    return f"{days}d" if days else "none"


def shown(text: str) -> str:
    """Formats text in quotes, on one line of limited length."""
    cut = text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"
    return f'"{"".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)}"'


def _tidy(text: str) -> str:
    if len(text) > CHARS_MAX:
        raise ValueError(f"must be at most {CHARS_MAX:,} characters long, got {len(text):,}")
    return " ".join(text.lower().split())


def _span(part: str) -> Iterator[int]:
    first, dash, last = part.replace("–", "-").partition("-")
    begin = _day(first.strip())
    end = _day(last.strip()) if dash else begin
    for day in range(begin, end + 1 if begin <= end else end + 8):
        yield (day - 1) % 7 + 1


def _day(name: str) -> int:
    """Parses a day name. The first three letters are sufficient."""
    numbers = [number for number, day in enumerate(DAYS, 1) if len(name) >= 3 and day.startswith(name)]
    if not numbers:
        raise ValueError
    return numbers[0]


def _short(day: int) -> str:
    return DAYS[day - 1][:3]


def _runs(days: frozenset[int]) -> list[tuple[int, int]]:
    """Returns the first and last day of each run of consecutive days."""
    begins = sorted(day for day in days if day - 1 not in days)
    ends = sorted(day for day in days if day + 1 not in days)
    return list(zip(begins, ends, strict=True))


def _time(text: str) -> time:
    hour, minute, *second = map(int, text.split(":"))
    return time(hour, minute, second[0] if second else 0)


def _clock(moment: time) -> str:
    return moment.isoformat("seconds" if moment.second else "minutes")


def _number(value: float) -> str:
    """Formats a number without an exponent, and without decimals if it is whole."""
    return f"{Decimal(repr(float(value))):f}".removesuffix(".0")
