"""Forecast, preview and recipients of a campaign."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StrictInt

from fairpost.api.answers import Id, Moment, Reasoned, RequestModel, ResponseModel, Text
from fairpost.api.shapes.emails import MailboxOut
from fairpost.api.shapes.findings import FindingOut
from fairpost.api.shapes.sequences import STEPS_MAX
from fairpost.model.campaign import CampaignState
from fairpost.policy.forecast import Bottleneck


class ReceiptState(StrEnum):
    """The state of a recipient's e-mail.

    `to_follow` means that it is waiting for the previous step, and `parked` that its prospect is paused.
    """

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
    prospects: Annotated[int, Field(description="How many prospects were checked last time.")]
    scheduled: Annotated[int, Field(description="E-mails since the launch.")]
    skipped: Annotated[int, Field(description="E-mails already scheduled with the same key.")]
    left_out: Annotated[int, Field(description="Prospects with missing fields.")]
    is_done: Annotated[bool, Field(description="Whether all prospects on the lists have been scheduled.")]
    planned_at: Moment | None
    next_due_at: Annotated[Moment | None, Field(description="When the next e-mail is due. Null if none is scheduled.")]


class StepForecast(ResponseModel):
    step: int
    emails: int
    first_at: Moment | None
    last_at: Moment | None


class AccountForecast(ResponseModel):
    account: Annotated[str | None, Field(description="Null means all of the operator's accounts.")]
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
        int, Field(description="Follow-ups waiting for accounts that cannot send, with no known end.")
    ]
    gives_up_at: Annotated[
        Moment | None, Field(description="When the first of these will fail because their account is suspended.")
    ]
    forecast: Annotated[
        ForecastOut | None, Field(description="The forecast for the rest. Null if nothing is left to send.")
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
        MailboxOut | None, Field(serialization_alias="from", description="Null if there is no account to send it.")
    ]
    to: str
    subject: str
    is_subject_inherited: Annotated[bool, Field(description="Whether it is the first step's subject.")]
    leaves_thread: Annotated[bool, Field(description="In Gmail, because its subject differs from the first step's.")]
    text: str | None
    html: str | None
    checks: Annotated[
        list[FindingOut], Field(description="Problems that receivers or readers would notice, and what is good.")
    ]


class ReceiptOut(Reasoned):
    email_id: Id
    step: int
    address: str
    state: ReceiptState
    account: Annotated[
        str | None, Field(description="Null if there is none yet, or if the account belongs to the operator.")
    ]
    at: Annotated[Moment | None, Field(description="When the e-mail finished or is due.")]
    attempts: int


class Retry(RequestModel):
    states: Annotated[
        tuple[Literal["failed", "bounced", "cancelled", "suppressed"], ...], Field(min_length=1, max_length=4)
    ] = ("failed",)


class Retried(ResponseModel):
    retried: int
    is_done: Annotated[
        bool, Field(description="False if there were too many for one request. In that case, send the request again.")
    ]


class StopIn(RequestModel):
    address: Annotated[Text, Field(max_length=320, description="The prospect to stop it for.")]
    reason: Annotated[Text, Field(max_length=500)] = "stopped by request"


class Stopped(ResponseModel):
    address: str
    cancelled: Annotated[int, Field(description="How many waiting e-mails were cancelled.")]
