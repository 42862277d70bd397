"""Works out what a workspace's schedule means for the weeks ahead, and lays it where mail is let out."""

from datetime import datetime

from fairpost.model.campaign import Schedule
from fairpost.model.errors import FairpostError, Refusal
from fairpost.policy.calendar import HORIZON, openings, problem_of_schedule, quota_days
from fairpost.policy.windows import is_zone, local_day
from fairpost.store import schedules
from fairpost.store.store import Store

TRIES_MAX = 20


async def set_schedule(store: Store, workspace: str, schedule: Schedule, *, now: datetime) -> None:
    """From now on, for everything of the workspace's campaigns, also what is queued already. Raises Refusal."""
    problem = problem_of_schedule(schedule, now)
    if problem is not None:
        field, _, why = problem.partition(" ")
        raise Refusal("schedule.invalid", field=field, problem=why)
    await schedules.write_schedule(store, workspace, schedule)
    await lay(store, workspace, now=now)


async def lay(store: Store, workspace: str, *, now: datetime) -> None:
    """As often as it takes: whoever changes the schedule meanwhile makes us begin anew."""
    for _ in range(TRIES_MAX):
        stored = await schedules.schedule_of(store, workspace)
        if not stored.is_stored:
            return
        today = local_day(stored.schedule.timezone, now)
        if stored.first_day is None and stored.is_sending:
            await schedules.begin_ramp_up(store, workspace, today)
            continue
        until = now + HORIZON
        # A clock that is not known here is the workspace's own: better than none.
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
    raise FairpostError(f"The schedule of workspace {workspace} is being changed all the time. Try again.")
