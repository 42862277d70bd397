"""Counts what was really sent, by brute force and without the engine's records: did every account keep its limits?"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from fairpost.model.account import DailyMode, Limits

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def violations(limits: Limits, sent: Sequence[datetime]) -> list[str]:
    """Returns violations. `sent` is when each send of one account began, in order. Ignores the warm-up."""
    found = [
        *_too_close(sent, timedelta(milliseconds=limits.delay_ms)),
        *_anchored(sent, HOUR, limits.hourly_max, "hourly"),
    ]
    match limits.daily_mode:
        case DailyMode.ANCHORED:
            found += _anchored(sent, DAY, limits.daily_max, "daily")
        case DailyMode.SLIDING:
            found += _sliding(sent, DAY, limits.daily_max, "daily")
        case DailyMode.CALENDAR:
            found += _anchored(
                [at.replace(hour=0, minute=0, second=0, microsecond=0) for at in sent], DAY, limits.daily_max, "daily"
            )
    if limits.units_per_minute is not None:
        found += _sliding(sent, MINUTE, limits.units_per_minute // limits.units_per_send, "units")
    return found


def _too_close(sent: Sequence[datetime], pause: timedelta) -> list[str]:
    return [f"delay: {b} is only {b - a} after the one before" for a, b in pairwise(sent) if b - a < pause]


def _anchored(sent: Sequence[datetime], length: timedelta, most: int | None, name: str) -> list[str]:
    """Checks windows that begin with their first send; the next one begins with the first send after its end."""
    found, started, used = list[str](), None, 0
    for at in sent:
        if started is None or at >= started + length:
            started, used = at, 0
        used += 1
        if most is not None and used > most:
            found.append(f"{name}: {at} is number {used} of a window that allows {most}")
    return found


def _sliding(sent: Sequence[datetime], length: timedelta, most: int | None, name: str) -> list[str]:
    """Checks that each send is at least `length` after the one `most` places before it."""
    if most is None:
        return []
    return [
        f"{name}: {b} comes {b - a} after the {most}th before it"
        for a, b in zip(sent, sent[most:], strict=False)
        if b - a < length
    ]
