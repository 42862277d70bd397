"""The sending window and quota of a workspace's campaigns."""

from collections.abc import Iterator
from datetime import datetime, time
from typing import Annotated

from fastapi import Query

from fairpost.actions import schedules as actions
from fairpost.api.access import Manages, Reads
from fairpost.api.acting import act
from fairpost.api.answers import Answer, failures
from fairpost.api.errors import invalid
from fairpost.api.routing import Router
from fairpost.api.shapes.schedule import (
    Opening,
    QuotaDay,
    QuotaOut,
    QuotaStatus,
    ScheduleIn,
    ScheduleOut,
    WindowIn,
    WindowOut,
)
from fairpost.campaigns.values import YEARS
from fairpost.model.window import SendingWindow
from fairpost.policy import windows
from fairpost.policy.calendar import day_start
from fairpost.policy.quotas import allowed_on, day_number
from fairpost.store import schedules
from fairpost.store.schedules import QuotaUsed, StoredSchedule

TAG = {"name": "schedule", "description": "The schedule and quota of a workspace's campaigns."}
router = Router(prefix="/v1/schedule", tags=["schedule"])

PLACES = {  # maps fields of the schedule rules to fields of the request
    "timezone": "timezone",
    "days": "window.days",
    "holidays": "window.holidays",
    "daily_max": "quota.daily_max",
    "ramp_up_days": "quota.ramp_up_days",
    "ramp_up_percents": "quota.ramp_up_percents",
}


@router.get("", summary="Get the workspace's sending window and quota", responses=failures())
async def get_schedule(caller: Reads) -> Answer[ScheduleOut]:
    stored = await schedules.schedule_of(caller.store, caller.workspace)
    return Answer(data=_out(stored, await caller.store.now()))


@router.put(
    "",
    summary="Set the workspace's sending window and quota",
    description="The schedule applies immediately, including to queued e-mails. A new ramp-up starts at day one.",
    responses=failures(),
)
async def put_schedule(schedule: ScheduleIn, caller: Manages) -> Answer[ScheduleOut]:
    done = await act(caller, actions.set_, _asked(schedule, caller.workspace), fields=PLACES)
    return Answer(data=_out(done.after, await caller.store.now()))


@router.get("/quota", summary="Get the quota and its usage for today and the coming days", responses=failures())
async def get_quota(
    caller: Reads, days: Annotated[int, Query(ge=1, le=60, description="Number of days, including today.")] = 7
) -> Answer[QuotaStatus]:
    async with caller.store.together() as one:
        now = await one.now()
        stored = await schedules.schedule_of(one, caller.workspace)
        today = day_start(stored.schedule.timezone, now)
        laid = await schedules.quota_days(one, caller.workspace, since=now, until=now)
    status = QuotaStatus(
        timezone=stored.schedule.timezone,
        daily_max=stored.schedule.quota.daily_max,
        days=list(_days(stored, laid[-1] if laid else None, today, now, days)),
    )
    return Answer(data=status)


def _asked(given: ScheduleIn, workspace: str) -> actions.SetSchedule:
    window, quota = given.window or WindowIn(), given.quota
    for number, day in enumerate(window.holidays):
        if day.year not in YEARS:
            raise invalid(f"window.holidays[{number}]", f"must be between the years {YEARS[0]} and {YEARS[-1]}")
    return actions.SetSchedule(
        workspace=workspace,
        timezone=given.timezone,
        days=frozenset(window.days),
        hours=(time.fromisoformat(window.start), time.fromisoformat(window.end)),
        holidays=frozenset(window.holidays),
        daily_max=quota.daily_max,
        ramp_up=(quota.ramp_up_days, quota.ramp_up_percents),
        is_whole=True,
    )


def _out(stored: StoredSchedule, now: datetime) -> ScheduleOut:
    window, quota = stored.schedule.window, stored.schedule.quota
    is_open = window is None or windows.is_open(window, now)
    return ScheduleOut(
        is_set=stored.is_stored,
        timezone=stored.schedule.timezone,
        window=_window_out(window) if window else None,
        quota=QuotaOut(
            daily_max=quota.daily_max,
            ramp_up_days=quota.ramp_up_days,
            ramp_up_percents=list(quota.ramp_up_percents),
        ),
        is_open=is_open,
        opens_at=None if is_open or window is None else _opens_at(window, now),
        closes_at=_closes_at(window, now) if is_open and window else None,
        ramp_up_day=_ramp_up_day(stored, now),
        recipients_timezones=list(stored.zones),
        is_sending=stored.is_sending,
    )


def _window_out(window: SendingWindow) -> WindowOut:
    return WindowOut(
        days=sorted(window.days),
        start=_clock(window.start),
        end=_clock(window.end),
        holidays=sorted(window.holidays),
    )


def _clock(moment: time) -> str:
    return moment.isoformat("seconds" if moment.second else "minutes")


def _opens_at(window: SendingWindow, now: datetime) -> datetime | None:
    try:
        return windows.next_open(window, now)
    except windows.NeverOpens:
        return None


def _closes_at(window: SendingWindow, now: datetime) -> datetime | None:
    end = windows.closes_at(window, now)
    return end if end < now + windows.SEARCH_MAX else None


def _ramp_up_day(stored: StoredSchedule, now: datetime) -> int | None:
    schedule = stored.schedule
    if stored.first_day is None or not (schedule.quota.ramp_up_days or schedule.quota.ramp_up_percents):
        return None
    return day_number(stored.first_day, windows.local_day(schedule.timezone, now), schedule.window)


def _days(
    stored: StoredSchedule, today: QuotaUsed | None, starts_at: datetime, now: datetime, count: int
) -> Iterator[QuotaDay]:
    """Yields the quota for each day. Today's quota comes from the plan `today`, which engines also use."""
    schedule = stored.schedule
    first = stored.first_day or windows.local_day(schedule.timezone, now)
    for number in range(count):
        ends_at = windows.next_day(schedule.timezone, starts_at)
        day = windows.local_day(schedule.timezone, starts_at)
        laid = today if number == 0 and schedule.quota.daily_max is not None else None
        yield QuotaDay(
            day=day,
            starts_at=starts_at,
            ends_at=ends_at,
            open=None if schedule.window is None else _openings(schedule.window, starts_at, ends_at),
            allowed=laid.allowed if laid else allowed_on(schedule.quota, day_number(first, day, schedule.window)),
            used=laid.used if laid else 0,
        )
        starts_at = ends_at


def _openings(window: SendingWindow, starts_at: datetime, ends_at: datetime) -> list[Opening]:
    return [Opening(opens_at=begin, closes_at=end) for begin, end in windows.spans(window, starts_at, ends_at)]
