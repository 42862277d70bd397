"""The schedule and quota of a workspace's campaigns."""

from datetime import date
from typing import Annotated

from pydantic import BeforeValidator, Field, StrictInt, StringConstraints

from fairpost.api.answers import Moment, RequestModel, ResponseModel, Text
from fairpost.campaigns.parsers import EVERY_DAY
from fairpost.campaigns.values import HOLIDAYS_MAX, WHOLE_MAX
from fairpost.policy.quotas import RAMP_UP_DAYS_MAX


def _is_day(value: object) -> object:
    if not isinstance(value, str) or len(value) != len("2027-12-25"):
        raise ValueError("must be a date such as 2027-12-25")
    return value


Weekday = Annotated[StrictInt, Field(ge=1, le=7, description="A weekday, from 1 (Monday) to 7 (Sunday).")]
ClockTime = Annotated[str, StringConstraints(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$")]
Day = Annotated[date, BeforeValidator(_is_day)]
Percent = Annotated[StrictInt, Field(ge=1, le=100)]


class WindowIn(RequestModel):
    """A window from `start` until `end` in local time.

    If the end is before the start, the window ends on the next day. If the two times are equal, the window is open all
    day."""

    days: Annotated[tuple[Weekday, ...], Field(min_length=1, max_length=7)] = tuple(sorted(EVERY_DAY))
    start: ClockTime = "00:00"
    end: ClockTime = "00:00"
    holidays: Annotated[tuple[Day, ...], Field(max_length=HOLIDAYS_MAX)] = ()


class QuotaIn(RequestModel):
    daily_max: Annotated[
        StrictInt | None,
        Field(ge=1, le=WHOLE_MAX, description="Daily maximum for all campaigns together. Null means no quota."),
    ] = None
    ramp_up_days: Annotated[
        StrictInt, Field(ge=0, le=RAMP_UP_DAYS_MAX, description="Number of days over which the quota grows evenly.")
    ] = 0
    ramp_up_percents: Annotated[
        tuple[Percent, ...],
        Field(
            max_length=RAMP_UP_DAYS_MAX,
            description="The percentage of the quota on each of the first days. Use this instead of `ramp_up_days`.",
        ),
    ] = ()


class ScheduleIn(RequestModel):
    """The whole schedule. Omitted fields are reset to their defaults."""

    timezone: Annotated[Text, Field(max_length=100, examples=["Europe/Berlin"])] = "UTC"
    window: Annotated[
        WindowIn | None, Field(description="The sending window. Null means that campaigns send at any time.")
    ] = None
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
    is_set: Annotated[bool, Field(description="False if there is no schedule and e-mails are sent at any time.")]
    timezone: str
    window: WindowOut | None
    quota: QuotaOut
    is_open: Annotated[bool, Field(description="Whether the window is open now.")]
    opens_at: Annotated[
        Moment | None,
        Field(description="When the window opens. Null if it is already open or will stay closed for a year."),
    ]
    closes_at: Annotated[
        Moment | None, Field(description="When the window closes. Null if it is closed or always open.")
    ]
    ramp_up_day: Annotated[
        int | None,
        Field(description="The current day of the ramp-up. Null if there is no ramp-up or it has not begun."),
    ]
    recipients_timezones: Annotated[
        list[str], Field(description="The recipients' time zones, for campaigns that use them.")
    ]
    is_sending: Annotated[bool, Field(description="Whether campaigns are running.")]


class Opening(ResponseModel):
    opens_at: Moment
    closes_at: Moment


class QuotaDay(ResponseModel):
    day: date
    starts_at: Moment
    ends_at: Moment
    open: Annotated[
        list[Opening] | None, Field(description="The times when the window is open. Null means the whole day.")
    ]
    allowed: Annotated[int | None, Field(description="Number of e-mails allowed on this day. Null means no limit.")]
    used: Annotated[int, Field(description="Number of e-mails that count towards the quota.")]


class QuotaStatus(ResponseModel):
    """The quota for each day in the workspace's time zone, starting today."""

    timezone: str
    daily_max: int | None
    days: list[QuotaDay]
