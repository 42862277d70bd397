"""When a workspace sends its campaigns, and how much a day."""

from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BeforeValidator, Field, StrictInt, StringConstraints

from fairpost.actions import schedules as actions
from fairpost.api.access import Manages, Reads
from fairpost.api.acting import act
from fairpost.api.answers import Answer, Moment, RequestModel, ResponseModel, Text, failures
from fairpost.api.errors import invalid
from fairpost.campaigns.values import HOLIDAYS_MAX, WHOLE_MAX, YEARS
from fairpost.campaigns.words import EVERY_DAY
from fairpost.model.window import SendingWindow
from fairpost.policy import windows
from fairpost.policy.calendar import day_start
from fairpost.policy.quotas import RAMP_UP_DAYS_MAX, allowed_on, day_number
from fairpost.store import schedules
from fairpost.store.schedules import QuotaUsed, StoredSchedule

TAG = {"name": "schedule", "description": "When and how much a workspace sends in campaigns."}
router = APIRouter(prefix="/api/schedule", tags=["schedule"])

PLACES = {  # how the rules call a field, and where it stands here
    "timezone": "timezone",
    "days": "window.days",
    "holidays": "window.holidays",
    "daily_max": "quota.daily_max",
    "ramp_up_days": "quota.ramp_up_days",
    "ramp_up_percents": "quota.ramp_up_percents",
}


def _is_day(value: object) -> object:
    if not isinstance(value, str) or len(value) != len("2027-12-25"):
        raise ValueError("must be a day like 2027-12-25")
    return value


Weekday = Annotated[StrictInt, Field(ge=1, le=7, description="1 is Monday.")]
ClockTime = Annotated[str, StringConstraints(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$")]
Day = Annotated[date, BeforeValidator(_is_day)]
Percent = Annotated[StrictInt, Field(ge=1, le=100)]


class WindowIn(RequestModel):
    """From `start` to before `end` by the clock there. An end before the start is one of the next day; the same time twice is the whole day."""

    days: Annotated[tuple[Weekday, ...], Field(min_length=1, max_length=7)] = tuple(sorted(EVERY_DAY))
    start: ClockTime = "00:00"
    end: ClockTime = "00:00"
    holidays: Annotated[tuple[Day, ...], Field(max_length=HOLIDAYS_MAX)] = ()


class QuotaIn(RequestModel):
    daily_max: Annotated[
        StrictInt | None, Field(ge=1, le=WHOLE_MAX, description="Of all campaigns together. Null: no quota.")
    ] = None
    ramp_up_days: Annotated[StrictInt, Field(ge=0, le=RAMP_UP_DAYS_MAX, description="It grows evenly so long.")] = 0
    ramp_up_percents: Annotated[
        tuple[Percent, ...],
        Field(max_length=RAMP_UP_DAYS_MAX, description="Instead: the share of each of the first days."),
    ] = ()


class ScheduleIn(RequestModel):
    """The whole schedule: what is left out has its default."""

    timezone: Annotated[Text, Field(max_length=100, examples=["Europe/Berlin"])] = "UTC"
    window: Annotated[WindowIn | None, Field(description="Null: at any time.")] = None
    quota: QuotaIn = QuotaIn()


class WindowOut(ResponseModel):
    days: list[int]
    start: str
    end: str
    holidays: list[date]


class QuotaOut(ResponseModel):
    daily_max: int | None
    ramp_up_days: int
    ramp_up_percents: list[int]


class ScheduleOut(ResponseModel):
    is_set: Annotated[bool, Field(description="False: nobody has set one, and mail goes out at any time.")]
    timezone: str
    window: WindowOut | None
    quota: QuotaOut
    is_open: Annotated[bool, Field(description="Whether the window is open now.")]
    opens_at: Annotated[Moment | None, Field(description="Null: it is open, or stays shut for a year.")]
    closes_at: Annotated[Moment | None, Field(description="Null: it is shut, or always open.")]
    ramp_up_day: Annotated[int | None, Field(description="Null: there is none, or it has not begun.")]
    recipients_timezones: Annotated[
        list[str], Field(description="Of campaigns that go by the clocks of their recipients.")
    ]
    is_sending: Annotated[bool, Field(description="Campaigns are under way.")]


class Opening(ResponseModel):
    opens_at: Moment
    closes_at: Moment


class QuotaDay(ResponseModel):
    day: date
    starts_at: Moment
    ends_at: Moment
    open: Annotated[list[Opening] | None, Field(description="Null: the whole day.")]
    allowed: Annotated[int | None, Field(description="Null: as much as you like.")]
    used: Annotated[int, Field(description="Counted where there is a quota.")]


class QuotaStatus(ResponseModel):
    """Days are those of the workspace's own clock; the first is today."""

    timezone: str
    daily_max: int | None
    days: list[QuotaDay]


@router.get("", summary="When and how much it sends", responses=failures())
async def shown(caller: Reads) -> Answer[ScheduleOut]:
    stored = await schedules.schedule_of(caller.store, caller.workspace)
    return Answer(data=_out(stored, await caller.store.now()))


@router.put(
    "",
    summary="Set when and how much it sends",
    description="It counts at once, also for what is queued already. A new ramp-up begins with its first day.",
    responses=failures(),
)
async def put(schedule: ScheduleIn, caller: Manages) -> Answer[ScheduleOut]:
    done = await act(caller, actions.set_, _asked(schedule, caller.workspace), fields=PLACES)
    return Answer(data=_out(done.after, await caller.store.now()))


@router.get("/quota", summary="Today and the days to come: what is allowed, what is used", responses=failures())
async def quota(
    caller: Reads, days: Annotated[int, Query(ge=1, le=60, description="Today, and those after it.")] = 7
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
            raise invalid(f"window.holidays.{number}", f"must lie in the years {YEARS[0]}..{YEARS[-1]}")
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
    """`today`: as it was laid for those who send."""
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
