"""The only place that reads clocks; everything else is handed the time.

Waiting and scheduling do not belong here.
"""

import time
from datetime import UTC, datetime

# On Linux CLOCK_MONOTONIC stands still while a laptop sleeps, and leases and deadlines must not.
_STEADY_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def monotonic() -> float:
    """Seconds since some fixed moment; never goes back, counts the time spent suspended."""
    return time.clock_gettime(_STEADY_CLOCK)


def now() -> datetime:
    """The wall clock, aware, in UTC."""
    return datetime.now(UTC)
