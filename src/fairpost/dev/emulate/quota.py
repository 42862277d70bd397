"""Limits per user: units per minute and messages per 24 hours, both as rolling windows."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType

# Units per call. A call that is not listed costs as much as a read.
UNITS: Mapping[str, int] = MappingProxyType(
    {
        "messages.send": 100,
        "drafts.send": 100,
        "drafts.create": 10,
        "drafts.update": 15,
        "drafts.delete": 10,
        "getProfile": 1,
        "history.list": 2,
        "labels.list": 1,
        "labels.get": 1,
        "settings.sendAs.list": 1,
        "threads.get": 10,
        "threads.list": 10,
    }
)
LOOK = 5

MINUTE = timedelta(minutes=1)
DAY = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    units_per_minute: int = 6_000
    messages_per_day: int = 2_000


@dataclass(slots=True)
class Window:
    """The amount used within the time span."""

    span: timedelta
    used: int = 0
    _uses: deque[tuple[datetime, int]] = field(default_factory=deque)

    def add(self, amount: int, *, now: datetime) -> None:
        self._uses.append((now, amount))
        self.used += amount

    def free_at(self, amount: int, *, most: int, now: datetime) -> datetime:
        """Returns the earliest time at which the quota allows this amount, which may be now."""
        while self._uses and self._uses[0][0] <= now - self.span:
            self.used -= self._uses.popleft()[1]
        missing = self.used + amount - most
        if missing <= 0:
            return now
        for at, used in self._uses:
            missing -= used
            if missing <= 0:
                return at + self.span
        return now + self.span  # more than the quota can ever allow


class Quota:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._units = dict[str, Window]()
        self._messages = dict[str, Window]()

    def units_free_at(self, user: str, method: str, *, now: datetime) -> datetime:
        """Uses the call's units if the quota allows them now. Returns the earliest time at which it allows them."""
        units = UNITS.get(method, LOOK)
        window = self._units.setdefault(user.lower(), Window(MINUTE))
        free_at = window.free_at(units, most=self.limits.units_per_minute, now=now)
        if free_at <= now:
            window.add(units, now=now)
        return free_at

    def message_free_at(self, user: str, *, now: datetime) -> datetime:
        return self._day(user).free_at(1, most=self.limits.messages_per_day, now=now)

    def count_message(self, user: str, *, now: datetime) -> None:
        self._day(user).add(1, now=now)

    def clear(self) -> None:
        self._units.clear()
        self._messages.clear()

    def _day(self, user: str) -> Window:
        return self._messages.setdefault(user.lower(), Window(DAY))
