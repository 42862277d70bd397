"""The only place that reads clocks; everything else is handed the time.

Waiting and scheduling do not belong here. A simulation stops the clock and moves it by hand.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

# On Linux CLOCK_MONOTONIC stands still while a laptop sleeps, and leases and deadlines must not.
_STEADY_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class ManualClock:
    """Stands still until somebody moves it."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def advance(self, by: timedelta) -> None:
        self.move_to(self.now + by)

    def move_to(self, moment: datetime) -> None:
        if moment < self.now:
            raise ValueError(f"time does not go back: from {self.now} to {moment}")
        self.now = moment


_manual: ManualClock | None = None


def monotonic() -> float:
    """Seconds since some fixed moment; never goes back, counts the time spent suspended."""
    return _manual.now.timestamp() if _manual else steady()


def steady() -> float:
    """As `monotonic`, by the machine's own clock, also where a simulation has stopped the time."""
    return time.clock_gettime(_STEADY_CLOCK)


def now() -> datetime:
    """The wall clock, aware, in UTC."""
    return _manual.now if _manual else datetime.now(UTC)


def stated() -> datetime | None:
    """What the database is to take for the time: None is its own clock."""
    return _manual.now if _manual else None


@contextmanager
def stopped_at(moment: datetime) -> Iterator[ManualClock]:
    """For this process, until the end: the time is what the clock given says."""
    global _manual
    before, _manual = _manual, ManualClock(moment)
    try:
        yield _manual
    finally:
        _manual = before
