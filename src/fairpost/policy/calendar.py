"""What a schedule means, worked out for weeks ahead: when mail may go out, and how much on each local day."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from fairpost.model.campaign import Schedule
from fairpost.policy import windows
from fairpost.policy.quotas import allowed_on, day_number, problem_of_quota
from fairpost.policy.windows import Span

HORIZON = timedelta(days=60)  # so far a calendar reaches
RENEWED_BEFORE = timedelta(days=30)  # with less than this left, it is worked out anew


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaDay:
    day: date
    starts_at: datetime
    ends_at: datetime
    allowed: int


def problem_of_schedule(schedule: Schedule, now: datetime) -> str | None:
    """What is wrong with it, by field, rule and value; None: it can be used."""
    if schedule.window is not None:
        problem = windows.problem_of(schedule.window, now)
        if problem is not None:
            return problem
    elif not windows.is_zone(schedule.timezone):
        return f'timezone must be a name like Europe/Berlin, got "{schedule.timezone}"'
    return problem_of_quota(schedule.quota)


def openings(schedule: Schedule, timezone: str | None, *, now: datetime, until: datetime) -> tuple[Span, ...] | None:
    """When the window is open, on the clock of another timezone where one is given; None: always."""
    if schedule.window is None:
        return None
    window = schedule.window if timezone is None else replace(schedule.window, timezone=timezone)
    return tuple(windows.spans(window, now, until))


def quota_days(schedule: Schedule, first_day: date | None, *, now: datetime, until: datetime) -> Iterator[QuotaDay]:
    """The local days from the one that `now` lies in. `first_day`: where a ramp-up counts from; None: today."""
    if schedule.quota.daily_max is None:
        return
    first_day = first_day or windows.local_day(schedule.timezone, now)
    starts_at = day_start(schedule.timezone, now)
    while starts_at < until:
        ends_at = windows.next_day(schedule.timezone, starts_at)
        day = windows.local_day(schedule.timezone, starts_at)
        allowed = allowed_on(schedule.quota, day_number(first_day, day, schedule.window))
        assert allowed is not None
        yield QuotaDay(day=day, starts_at=starts_at, ends_at=ends_at, allowed=allowed)
        starts_at = ends_at


def day_start(timezone: str, now: datetime) -> datetime:
    """When the local day that `now` lies in began."""
    begin = now - timedelta(days=3)
    while (after := windows.next_day(timezone, begin)) <= now:
        begin = after
    return begin
