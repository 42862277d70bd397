"""The only module that reads clocks. All other code receives the time as an argument.

Waiting and scheduling do not belong here. A simulation can stop the clock and advance it manually.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import clock_gettime

# On Linux, CLOCK_MONOTONIC stops while a laptop sleeps, but leases and deadlines must not.
_STEADY_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class ManualClock:
    """A clock that stands still until you move it."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def advance(self, by: timedelta) -> None:
        self.move_to(self.now + by)

    def move_to(self, moment: datetime) -> None:
        if moment < self.now:
            raise ValueError(f"time cannot run backwards: from {self.now} to {moment}")
        self.now = moment


_manual: ManualClock | None = None


def monotonic() -> float:
    """Return the seconds since a fixed point in time. The value never decreases and keeps increasing while the machine
    is suspended.
    """
    return _manual.now.timestamp() if _manual else clock_gettime(_STEADY_CLOCK)


def steady() -> float:
    """Return the seconds as `monotonic` does, but always from the machine's own clock, even if a simulation has stopped
    time.
    """
    return clock_gettime(_STEADY_CLOCK)


def now() -> datetime:
    """Return the current time as an aware datetime in UTC."""
    return _manual.now if _manual else datetime.now(UTC)


def stated() -> datetime | None:
    """Return the time to pass to the database, or None to use the database's own clock."""
    return _manual.now if _manual else None


@contextmanager
def stopped_at(moment: datetime) -> Iterator[ManualClock]:
    """Inside this context, the yielded clock determines the process's time."""
    global _manual
    before, _manual = _manual, ManualClock(moment)
    try:
        yield _manual
    finally:
        _manual = before
