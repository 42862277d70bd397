"""Parse and format durations. Limits are checked elsewhere."""

import re
from datetime import timedelta

UNITS_S = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_WHOLE = re.compile(" ?".join(f"(?:([0-9]{{1,9}}) ?{unit})?" for unit in UNITS_S))
_FINE_UNITS_S = {**UNITS_S, "ms": 0.001}
_FINE = re.compile(" ?".join(rf"(?:([0-9]{{1,9}}(?:\.[0-9]{{1,9}})?) ?{unit})?" for unit in _FINE_UNITS_S))
_SAID_S = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}
_ROUGHLY_S = {("d", "days"): 86_400, ("h", "hours"): 3_600, ("min", "minutes"): 60}


def read_duration(text: str, *, is_fine: bool = False) -> timedelta | None:
    """Parse a duration such as `3d`, `1h30m` or `1d 12h`, largest unit first. Return None if the text is not a
    duration.

    With `is_fine`, `500ms` and `1.5s` are also accepted.
    """
    found = (_FINE if is_fine else _WHOLE).fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    units_s = _FINE_UNITS_S if is_fine else UNITS_S
    seconds = sum(float(count or 0) * unit_s for count, unit_s in zip(found.groups(), units_s.values(), strict=True))
    return timedelta(milliseconds=round(seconds * 1_000)) if seconds < timedelta.max.total_seconds() else timedelta.max


def write_duration(seconds: int) -> str:
    """Format a duration as `1d 12h`, which can be parsed again. Weeks are not used, because 14d is clearer than 2w."""
    counts = _counted(seconds, {unit: unit_s for unit, unit_s in UNITS_S.items() if unit != "w"})
    return " ".join(f"{count}{unit}" for unit, count in counts) or "0s"


def say_duration(seconds: float, *, units: int = 2) -> str:
    """Format a duration in its largest units, such as `1 h 30 min`."""
    if seconds < 0:
        return f"−{say_duration(-seconds, units=units)}"
    if 0 < seconds < 1:
        return f"{seconds * 1_000:.3g} ms" if seconds < 0.1 else f"{seconds * 1_000:.0f} ms"
    if seconds < 10 and seconds != int(seconds):
        return f"{seconds:.1f} s"
    return " ".join(f"{count:,} {unit}" for unit, count in _counted(round(seconds), _SAID_S)[:units]) or "0 s"


def say_roughly(seconds: float, *, is_short: bool = False) -> str:
    """Format a duration in a single unit with a count of at least two: `3 days` or `3 d`."""
    for (short, long), unit_s in _ROUGHLY_S.items():
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {short if is_short else long}"
    return f"{seconds:.0f} {'s' if is_short else 'seconds'}"


def _counted(seconds: int, units_s: dict[str, int]) -> list[tuple[str, int]]:
    counts = []
    for unit, unit_s in units_s.items():
        count, seconds = divmod(seconds, unit_s)
        counts.append((unit, count))
    return [(unit, count) for unit, count in counts if count]
