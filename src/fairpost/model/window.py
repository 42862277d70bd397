"""A workspace's sending window, in its time zone, and its daily quota.

This module contains only settings. policy/windows applies the window to a time, and policy/quotas applies the quota to
a day.
"""

from dataclasses import dataclass
from datetime import date, time


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingWindow:
    """A window from `start` until just before `end`, in local time, on its days unless they are holidays. If `end` is
    before `start`, the window ends on the next day. For example, the night from Friday 22:00 to 06:00 belongs to
    Friday, so only Friday determines whether it is open. If `start` and `end` are equal, the window is the whole day,
    from midnight to midnight.
    """

    timezone: str  # such as Europe/Berlin
    days: frozenset[int]  # 1 is Monday, 7 is Sunday
    start: time
    end: time
    holidays: frozenset[date] = frozenset()

    def opens_on(self, day: date) -> bool:
        return day.isoweekday() in self.days and day not in self.holidays


RAMP_UP_DAYS = 10  # default length of a ramp-up


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The maximum number of e-mails sent per local day, and how that number grows at first: evenly, or by the listed
    shares.
    """

    daily_max: int | None = None  # None: no quota
    ramp_up_days: int = 0  # on the n-th of these days, the limit is n/days of the quota
    ramp_up_percents: tuple[int, ...] = ()  # alternatively, the share for the first day, the second day, and so on
