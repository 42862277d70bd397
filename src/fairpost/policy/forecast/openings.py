"""When a campaign's e-mails may be started, and how many: spans of at most one day, within the window and the quota."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta

from fairpost.policy.forecast.outcome import Bottleneck
from fairpost.policy.forecast.plan import Plan
from fairpost.policy.limits import ROOM_MAX
from fairpost.policy.quotas import allowed_on, day_number
from fairpost.policy.windows import local_day, next_day, next_open, spans

DAY = timedelta(days=1)
Closed = tuple[datetime, Bottleneck]  # when sending may start again, and what prevents it until then


@dataclass(frozen=True, slots=True)
class Opening:
    start: datetime
    end: datetime
    left: int  # how many sends may start in this period
    closed: tuple[Closed, ...]  # what prevented sending before the opening, in order


class Openings:
    def __init__(self, plan: Plan, *, now: datetime) -> None:
        self._schedule = plan.schedule
        starts_at = self._opens_at(max(now, plan.starts_at or now))
        self._first_day = plan.first_day or local_day(plan.schedule.timezone, starts_at)
        self._used: dict[date, int] = {local_day(plan.schedule.timezone, now): plan.quota_used}

    def first_from(self, moment: datetime) -> Opening:
        closed: list[Closed] = []
        while True:
            start = self._opens_at(moment)
            if start > moment:
                closed.append((start, Bottleneck.WINDOW))
            left, reason = self._left(start)
            if left > 0:
                return Opening(start, self._ends_at(start), left, tuple(closed))
            moment = next_day(self._schedule.timezone, start)
            closed.append((moment, reason))

    def use(self, opening: Opening, count: int) -> None:
        day = local_day(self._schedule.timezone, opening.start)
        self._used[day] = self._used.get(day, 0) + count

    def _opens_at(self, moment: datetime) -> datetime:
        window = self._schedule.window
        return moment if window is None else next_open(window, moment)

    def _ends_at(self, start: datetime) -> datetime:
        schedule, end = self._schedule, start + DAY
        if schedule.window is not None:
            _, end = next(spans(schedule.window, start, end))
        return end if schedule.quota.daily_max is None else min(end, next_day(schedule.timezone, start))

    def _left(self, moment: datetime) -> tuple[int, Bottleneck]:
        """Return how much of the quota is left on the local day of `moment`, and what limits the quota."""
        day, quota = local_day(self._schedule.timezone, moment), self._schedule.quota
        allowed = allowed_on(quota, day_number(self._first_day, day, self._schedule.window))
        if allowed is None:
            return ROOM_MAX, Bottleneck.QUOTA
        is_growing = allowed != quota.daily_max
        return allowed - self._used.get(day, 0), Bottleneck.RAMP_UP if is_growing else Bottleneck.QUOTA
