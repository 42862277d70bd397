"""Forecast, preview and recipients of a campaign."""

from datetime import date
from typing import Annotated, Literal

from pydantic import Field, StrictInt

from fairpost.api.answers import Id, Moment, ReasonCode, Reasoned, RequestModel, ResponseModel, Text
from fairpost.api.shapes.emails import MailboxOut
from fairpost.api.shapes.findings import FindingOut
from fairpost.api.shapes.sequences import STEPS_MAX
from fairpost.model.campaign import CampaignState
from fairpost.model.states import ReceiptState
from fairpost.policy.forecast import Bottleneck


class PlanningOut(ResponseModel):
    id: str
    state: CampaignState
    prospects: Annotated[int, Field(description="Number of prospects checked in the most recent scheduling run.")]
    scheduled: Annotated[int, Field(description="Number of e-mails scheduled since launch.")]
    skipped: Annotated[int, Field(description="Number of e-mails that were already scheduled with the same key.")]
    left_out: Annotated[int, Field(description="Number of prospects with missing fields.")]
    is_done: Annotated[bool, Field(description="Whether all prospects on the lists have been scheduled.")]
    planned_at: Moment | None
    next_due_at: Annotated[Moment | None, Field(description="When the next e-mail is due. Null if none is scheduled.")]


class StepForecast(ResponseModel):
    step: int
    emails: int
    first_at: Moment | None
    last_at: Moment | None


class AccountForecast(ResponseModel):
    account: Annotated[str | None, Field(description="The account's name. Null means all of the operator's accounts.")]
    emails: int


class DayForecast(ResponseModel):
    day: date
    emails: int


class Hour(ResponseModel):
    starts_at: Moment
    emails: int


class SuggestionOut(ResponseModel):
    change: str
    change_code: ReasonCode
    ends_at: Moment
    saves_s: float
    words: str


class ForecastOut(ResponseModel):
    emails: int
    starts_at: Moment
    ends_at: Moment
    finished_after_s: float
    bottleneck: Bottleneck
    why: str
    why_code: ReasonCode
    per_account: list[AccountForecast]
    per_step: list[StepForecast]
    per_day: Annotated[list[DayForecast], Field(description="The forecast for each day, in the workspace's time zone.")]
    per_hour: list[Hour]
    waited_s: dict[Bottleneck, float]
    suggestions: Annotated[
        list[SuggestionOut], Field(description="Changes that would help the campaign finish sooner.")
    ]


class KeptForecastOut(ResponseModel):
    made_at: Moment
    ends_at: Moment
    emails: int
    by_now: Annotated[int, Field(description="Number of e-mails that should have been sent by now.")]


class CampaignForecast(ResponseModel):
    id: str
    state: CampaignState
    sent: int
    sent_per_hour: list[Hour]
    foreseen_at_launch: KeptForecastOut | None
    not_counted: Annotated[
        int,
        Field(
            description="Number of follow-ups waiting for accounts that cannot send. It is not known when they will be sent."
        ),
    ]
    gives_up_at: Annotated[
        Moment | None,
        Field(description="When the first of these follow-ups will fail because its account is suspended."),
    ]
    forecast: Annotated[
        ForecastOut | None, Field(description="The forecast for the remaining e-mails. Null if there are none.")
    ]


class CampaignPreviewIn(RequestModel):
    to: Annotated[
        Text | None,
        Field(max_length=320, description="A prospect's address. [default: the first on the campaign's lists]"),
    ] = None
    step: Annotated[StrictInt, Field(ge=1, le=STEPS_MAX)] = 1


class CampaignPreview(ResponseModel):
    step: int
    sender: Annotated[
        MailboxOut | None,
        Field(serialization_alias="from", description="The sender. Null if no account can send the e-mail."),
    ]
    to: str
    subject: str
    is_subject_inherited: Annotated[bool, Field(description="Whether the subject is the first step's.")]
    leaves_thread: Annotated[
        bool,
        Field(
            description="Whether Gmail shows the e-mail in a new thread because its subject differs from the first step's."
        ),
    ]
    text: str | None
    html: str | None
    checks: Annotated[
        list[FindingOut],
        Field(description="Problems that mail servers or readers would notice, and checks that passed."),
    ]


class ReceiptOut(Reasoned):
    email_id: Id
    step: int
    address: str
    state: ReceiptState
    account: Annotated[
        str | None,
        Field(
            description="The account's name. Null if no account has been chosen yet, or if it belongs to the operator."
        ),
    ]
    at: Annotated[Moment | None, Field(description="When the e-mail was finished or is due.")]
    attempts: int


class Retry(RequestModel):
    states: Annotated[
        tuple[Literal["failed", "bounced", "cancelled", "suppressed"], ...], Field(min_length=1, max_length=4)
    ] = ("failed",)


class Retried(ResponseModel):
    retried: int
    is_done: Annotated[
        bool,
        Field(description="False if there were too many e-mails for one request. In that case, repeat the request."),
    ]


class StopIn(RequestModel):
    address: Annotated[
        Text, Field(max_length=320, description="The address of the prospect for whom to stop the campaign.")
    ]
    reason: Annotated[Text, Field(max_length=500)] = "stopped by request"


class Stopped(ResponseModel):
    address: str
    cancelled: Annotated[int, Field(description="Number of waiting e-mails that were cancelled.")]
