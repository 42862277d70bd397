"""What a campaign sends: forecast, preview, and each recipient's e-mails."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StrictInt

from fairpost.api.answers import Id, Moment, Reasoned, RequestModel, ResponseModel, Text
from fairpost.api.shapes.emails import MailboxOut
from fairpost.api.shapes.sequences import STEPS_MAX
from fairpost.model.campaign import CampaignState
from fairpost.policy.forecast import Bottleneck


class ReceiptState(StrEnum):
    """`to_follow`: it waits for the previous step. `parked`: its prospect is paused."""

    SENT = "sent"
    FAILED = "failed"
    BOUNCED = "bounced"
    SUPPRESSED = "suppressed"
    CANCELLED = "cancelled"
    IN_DOUBT = "in_doubt"
    READY = "ready"
    SCHEDULED = "scheduled"
    TO_FOLLOW = "to_follow"
    PARKED = "parked"
    CLAIMED = "claimed"
    SENDING = "sending"


class PlanningOut(ResponseModel):
    id: str
    state: CampaignState
    prospects: Annotated[int, Field(description="How many were checked last time.")]
    scheduled: Annotated[int, Field(description="E-mails since the launch.")]
    skipped: Annotated[int, Field(description="E-mails that had been scheduled before, under the same key.")]
    left_out: Annotated[int, Field(description="Prospects with missing fields.")]
    is_done: Annotated[bool, Field(description="All prospects on its lists are planned.")]
    planned_at: Moment | None
    next_due_at: Annotated[Moment | None, Field(description="When the next one is due. Null: none is scheduled.")]


class StepForecast(ResponseModel):
    step: int
    emails: int
    first_at: Moment | None
    last_at: Moment | None


class AccountForecast(ResponseModel):
    account: Annotated[str | None, Field(description="Null: the operator's accounts together.")]
    emails: int


class DayForecast(ResponseModel):
    day: date
    emails: int


class Hour(ResponseModel):
    starts_at: Moment
    emails: int


class SuggestionOut(ResponseModel):
    change: str
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
    per_account: list[AccountForecast]
    per_step: list[StepForecast]
    per_day: Annotated[list[DayForecast], Field(description="By day in the workspace's timezone.")]
    per_hour: list[Hour]
    waited_s: dict[Bottleneck, float]
    suggestions: Annotated[list[SuggestionOut], Field(description="What would make it finish sooner.")]


class ForeseenOut(ResponseModel):
    made_at: Moment
    ends_at: Moment
    emails: int
    by_now: Annotated[int, Field(description="How many should have been sent by now.")]


class CampaignForecast(ResponseModel):
    id: str
    state: CampaignState
    sent: int
    sent_per_hour: list[Hour]
    foreseen_at_launch: ForeseenOut | None
    not_counted: Annotated[int, Field(description="Follow-ups of accounts that cannot send, without a known end.")]
    gives_up_at: Annotated[
        Moment | None, Field(description="When the first of these fail, because their account is suspended.")
    ]
    forecast: Annotated[ForecastOut | None, Field(description="The forecast for the rest. Null: nothing is left.")]


class CampaignPreviewIn(RequestModel):
    to: Annotated[
        Text | None, Field(max_length=320, description="A prospect's address. [default: the first on its lists]")
    ] = None
    step: Annotated[StrictInt, Field(ge=1, le=STEPS_MAX)] = 1


class CampaignPreview(ResponseModel):
    step: int
    sender: Annotated[
        MailboxOut | None, Field(serialization_alias="from", description="Null: there is no account to send it.")
    ]
    to: str
    subject: str
    is_subject_inherited: Annotated[bool, Field(description="It is the subject of the first step.")]
    leaves_thread: Annotated[bool, Field(description="In Gmail, because its subject differs from the first step's.")]
    text: str | None
    html: str | None


class ReceiptOut(Reasoned):
    email_id: Id
    step: int
    address: str
    state: ReceiptState
    account: Annotated[str | None, Field(description="Null: none yet, or an account of the operator's.")]
    at: Annotated[Moment | None, Field(description="When it ended, or is due.")]
    attempts: int


class Retry(RequestModel):
    states: Annotated[
        tuple[Literal["failed", "bounced", "cancelled", "suppressed"], ...], Field(min_length=1, max_length=4)
    ] = ("failed",)


class Retried(ResponseModel):
    retried: int
    is_done: Annotated[bool, Field(description="False: there were too many for one request. Send it again.")]


class StopIn(RequestModel):
    address: Annotated[Text, Field(max_length=320, description="The prospect to stop it for.")]
    reason: Annotated[Text, Field(max_length=500)] = "stopped by request"


class Stopped(ResponseModel):
    address: str
    cancelled: Annotated[int, Field(description="How many waiting e-mails were stopped.")]
