"""When an account may send next, and what a send costs it.

The hour begins with its first send and ends 60 minutes later; the day likewise, 24 hours. Charged when a send
begins, so that a crash never forgets one.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from fairpost.model.account import Limits, Usage

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class Reason(StrEnum):
    DELAY = "delay"
    HOURLY = "hourly limit"
    DAILY = "daily limit"


@dataclass(frozen=True, slots=True)
class Go:
    usage: Usage  # as it is once the send has begun


@dataclass(frozen=True, slots=True)
class NotBefore:
    moment: datetime
    reason: Reason


def admit(limits: Limits, usage: Usage, *, now: datetime) -> Go | NotBefore:
    """May this account begin a send now? If so, what it has used then; if not, when and why."""
    usage = roll_windows(usage, now=now)
    barriers = [
        *_barrier(usage.day_started_at, DAY, usage.day_used, limits.daily_max, Reason.DAILY),
        *_barrier(usage.hour_started_at, HOUR, usage.hour_used, limits.hourly_max, Reason.HOURLY),
    ]
    if usage.last_begun_at is not None:
        free_at = usage.last_begun_at + timedelta(milliseconds=limits.delay_ms)
        if free_at > now:
            barriers.append(NotBefore(free_at, Reason.DELAY))
    if barriers:
        return max(barriers, key=lambda barrier: barrier.moment)
    return Go(charge(usage, now=now))


def charge(usage: Usage, *, now: datetime) -> Usage:
    return replace(
        usage,
        hour_started_at=usage.hour_started_at or now,
        hour_used=usage.hour_used + 1,
        day_started_at=usage.day_started_at or now,
        day_used=usage.day_used + 1,
        last_begun_at=now,
    )


def refund(usage: Usage) -> Usage:
    """Gives a charge back: the transport was never touched."""
    return replace(usage, hour_used=max(0, usage.hour_used - 1), day_used=max(0, usage.day_used - 1))


def roll_windows(usage: Usage, *, now: datetime) -> Usage:
    """Windows that have ended are forgotten; the next send begins new ones."""
    if usage.hour_started_at is not None and now >= usage.hour_started_at + HOUR:
        usage = replace(usage, hour_started_at=None, hour_used=0)
    if usage.day_started_at is not None and now >= usage.day_started_at + DAY:
        usage = replace(usage, day_started_at=None, day_used=0)
    return usage


def batch_size(limits: Limits, usage: Usage, *, now: datetime) -> int:
    """How many to claim: what every limit leaves, and no more than about a second's worth; at least one if any."""
    usage = roll_windows(usage, now=now)
    room = limits.batch_max
    if limits.delay_ms:
        room = min(room, max(1, 1000 // limits.delay_ms))
    for used, most in ((usage.hour_used, limits.hourly_max), (usage.day_used, limits.daily_max)):
        if most is not None:
            room = min(room, most - used)
    return max(0, room)


def _barrier(
    started_at: datetime | None, length: timedelta, used: int, most: int | None, reason: Reason
) -> list[NotBefore]:
    if started_at is None or most is None or used < most:
        return []
    return [NotBefore(started_at + length, reason)]
