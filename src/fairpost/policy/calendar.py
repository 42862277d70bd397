"""A schedule, computed for the coming weeks: the open times and the quota for each local day."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from fairpost.model.campaign import Schedule
from fairpost.policy import windows
from fairpost.policy.quotas import allowed_on, day_number, problem_of_quota
from fairpost.policy.windows import Span

HORIZON = timedelta(days=60)  # how far ahead a calendar reaches
RENEWED_BEFORE = timedelta(days=30)  # the calendar is recomputed when less than this remains


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaDay:
    day: date
    starts_at: datetime
    ends_at: datetime
    allowed: int


def problem_of_schedule(schedule: Schedule, now: datetime) -> str | None:
    """Return what is wrong with the schedule (field, rule and value), or None if it is valid."""
    if schedule.window is not None:
        problem = windows.problem_of(schedule.window, now)
        if problem is not None:
            return problem
    elif not windows.is_zone(schedule.timezone):
        return f'timezone must be a name such as Europe/Berlin, got "{schedule.timezone}"'
    return problem_of_quota(schedule.quota)


def openings(schedule: Schedule, timezone: str | None, *, now: datetime, until: datetime) -> tuple[Span, ...] | None:
    """Return the times when the window is open, or None if it is always open.

    If a time zone is given, the window applies to its local time.
    """
    if schedule.window is None:
        return None
    window = schedule.window if timezone is None else replace(schedule.window, timezone=timezone)
    return tuple(windows.spans(window, now, until))


def quota_days(schedule: Schedule, first_day: date | None, *, now: datetime, until: datetime) -> Iterator[QuotaDay]:
    """Yield the local days, starting with the day of `now`.

    A ramp-up starts on `first_day`, or today if that is None.
    """
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
    """Return when the local day of `now` began."""
    begin = now - timedelta(days=3)
    while (after := windows.next_day(timezone, begin)) <= now:
        begin = after
    return begin
