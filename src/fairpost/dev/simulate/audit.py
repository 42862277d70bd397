"""Checks that every account stayed within its limits. Counts the actual sends by brute force, without using the
engine's records.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from fairpost.model.account import DailyMode, Limits

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def violations(limits: Limits, sent: Sequence[datetime]) -> list[str]:
    """Returns the violations. `sent` contains the start times of one account's sends, in order. The warm-up is ignored."""
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
    return [f"delay: {b} is only {b - a} after the previous send" for a, b in pairwise(sent) if b - a < pause]


def _anchored(sent: Sequence[datetime], length: timedelta, most: int | None, name: str) -> list[str]:
    """Checks windows. A window begins with its first send, and the next window begins with the first send after the
    previous one has ended.
    """
    found, started, used = list[str](), None, 0
    for at in sent:
        if started is None or at >= started + length:
            started, used = at, 0
        used += 1
        if most is not None and used > most:
            found.append(f"{name}: {at} is number {used} of a window that allows {most}")
    return found


def _sliding(sent: Sequence[datetime], length: timedelta, most: int | None, name: str) -> list[str]:
    """Checks that each send starts at least `length` after the send that is `most` places before it."""
    if most is None:
        return []
    return [
        f"{name}: {b} is {b - a} after the send {most} places before it"
        for a, b in zip(sent, sent[most:], strict=False)
        if b - a < length
    ]
