"""Computes a workspace's calendar for the coming weeks, and stores it for use when mail is released."""

from datetime import datetime

from fairpost.model.campaign import Schedule
from fairpost.model.errors import FairpostError, Refusal
from fairpost.policy.calendar import HORIZON, openings, problem_of_schedule, quota_days
from fairpost.policy.windows import is_zone, local_day
from fairpost.store import schedules
from fairpost.store.store import Store

TRIES_MAX = 20


async def set_schedule(store: Store, workspace: str, schedule: Schedule, *, now: datetime) -> None:
    """Stores a schedule. The schedule takes effect at once for all of the workspace's campaign e-mails, including those
    already queued.

    Raises Refusal.
    """
    problem = problem_of_schedule(schedule, now)
    if problem is not None:
        field, _, why = problem.partition(" ")
        raise Refusal("schedule.invalid", field=field, problem=why)
    await schedules.write_schedule(store, workspace, schedule)
    await lay(store, workspace, now=now)


async def lay(store: Store, workspace: str, *, now: datetime) -> None:
    """Computes and stores the calendar. Starts over if the schedule is changed concurrently."""
    for _ in range(TRIES_MAX):
        stored = await schedules.schedule_of(store, workspace)
        if not stored.is_stored:
            return
        today = local_day(stored.schedule.timezone, now)
        if stored.first_day is None and stored.is_sending:
            await schedules.begin_ramp_up(store, workspace, today)
            continue
        until = now + HORIZON
        # An unknown time zone is replaced with the workspace's own.
        zones = {"": None, **{zone: zone if is_zone(zone) else None for zone in stored.zones}}
        has_quota = stored.schedule.quota.daily_max is not None
        is_laid = await schedules.materialize_calendar(
            store,
            workspace,
            stored.revision,
            open_spans={key: openings(stored.schedule, zone, now=now, until=until) for key, zone in zones.items()},
            days=list(quota_days(stored.schedule, stored.first_day, now=now, until=until)) if has_quota else None,
            known_until=until,
        )
        if is_laid:
            return
    raise FairpostError(f"Conflicting updates to workspace {workspace}'s schedule. Try again.")
