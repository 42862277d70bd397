"""When a workspace may send by its own clock, and how much on one day.

Only what was set: what it means for a moment is decided in policy/windows, for a day in policy/quotas.
"""

from dataclasses import dataclass
from datetime import date, time


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingWindow:
    """From `start` to before `end` as the clock on the wall there shows it, on its days unless they are holidays.

    An `end` before `start` is one of the next day: the night from Friday 22:00 to 06:00 is Friday's, and Friday alone says
    whether it is open. The same time twice is the whole day, from midnight to midnight.
    """

    timezone: str  # as in Europe/Berlin
    days: frozenset[int]  # 1 is Monday, 7 is Sunday
    start: time
    end: time
    holidays: frozenset[date] = frozenset()

    def opens_on(self, day: date) -> bool:
        return day.isoweekday() in self.days and day not in self.holidays


RAMP_UP_DAYS = 10  # where a ramp-up is wanted and nobody says how long


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How much a workspace sends on one day of its own clock, and how that grows at first: evenly, or as listed."""

    daily_max: int | None = None  # None: no quota
    ramp_up_days: int = 0  # on day n of these, n of so many parts
    ramp_up_percents: tuple[int, ...] = ()  # instead: the share of the first day, the second, and so on
