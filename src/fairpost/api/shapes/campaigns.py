"""Campaigns in requests and responses."""

from typing import Annotated, Any

from fastapi import Path
from pydantic import Field, StrictBool, StrictFloat, StrictInt

from fairpost.api.answers import (
    JsonObject,
    Moment,
    Name,
    Reasoned,
    RequestModel,
    ResponseModel,
    Text,
    When,
)
from fairpost.api.shapes.campaign_progress import Waiting
from fairpost.api.shapes.emails import Address, EmailType, HeaderName, HeaderValue, MailboxOut, Tags, about
from fairpost.api.shapes.sequences import STEPS_MAX, Delayed, OwnSubject
from fairpost.api.shapes.templates import Subject, Words
from fairpost.campaigns import values
from fairpost.campaigns.parsers import GAP_S_MAX
from fairpost.model.campaign import CampaignState

CampaignName = Annotated[Name, Path(alias="id", description="The campaign's name.")]


class GapOut(ResponseModel):
    min_s: float
    max_s: float


class CampaignFacts(Reasoned):
    id: Annotated[str, Field(description="The campaign's name.")]
    state: CampaignState
    sequence: str
    lists: list[str]
    pool: str | None
    account: str | None
    created_at: Moment
    starts_at: Moment | None
    launched_at: Moment | None
    planned_at: Annotated[
        Moment | None, Field(description="When all prospects on the campaign's lists had been scheduled.")
    ]
    finished_at: Moment | None


class CampaignItem(CampaignFacts):
    steps: int


class StepProgress(ResponseModel):
    step: int
    template: str
    delay_s: int
    emails: Annotated[dict[str, int], Field(description="Number of e-mails by state.")]


class CampaignOut(CampaignFacts, Waiting):
    steps: list[StepProgress]
    prospects: Annotated[int, Field(description="Number of prospects currently on the campaign's lists.")]
    scheduled: Annotated[int, Field(description="E-mails.")]
    skipped: Annotated[int, Field(description="Number of e-mails that were already scheduled with the same key.")]
    left_out: Annotated[int, Field(description="Number of prospects with missing fields.")]
    gap: GapOut | None
    by_recipients_clock: bool
    footer: bool
    user: str
    type: str | None
    tags: dict[str, str]
    metadata: dict[str, Any]
    reply_to: MailboxOut | None
    headers: dict[str, str]


class WarningOut(ResponseModel):
    code: str
    message: str


class Scheduling(ResponseModel):
    """The progress of scheduling. If `is_done` is false, an engine will schedule the remaining e-mails."""

    id: str
    state: CampaignState
    scheduled: Annotated[int, Field(description="Number of e-mails scheduled by this request.")]
    skipped: Annotated[int, Field(description="Number of e-mails that were already scheduled.")]
    left_out: Annotated[int, Field(description="Number of prospects with missing fields.")]
    errors: Annotated[list[str], Field(description="The first 100 prospects that were left out, and why.")]
    inherited_subjects: Annotated[list[int], Field(description="Steps that use the first step's subject.")]
    leaving_thread: Annotated[
        list[int], Field(description="Steps that leave the thread in Gmail because they have their own subject.")
    ]
    warnings: Annotated[
        list[WarningOut], Field(description="Problems that may cause receivers to reject the campaign.")
    ]
    is_done: bool


class Launch(RequestModel):
    skip_incomplete: Annotated[
        StrictBool, Field(description="Whether to skip prospects with missing fields, instead of rejecting the launch.")
    ] = False


class CampaignMoved(ResponseModel):
    """The campaign's state after the request, and whether the request changed it."""

    id: str
    state: CampaignState
    changed: bool


Seconds = Annotated[StrictFloat | StrictInt, Field(ge=0, le=GAP_S_MAX)]


class GapIn(RequestModel):
    """The bounds of the random gap, in seconds, that an account leaves before each e-mail."""

    min_s: Seconds
    max_s: Seconds


class CampaignStep(Delayed):
    """A step with a template, or with its own content: a subject, and text or HTML.

    A follow-up without a subject uses the subject of the first step.
    """

    template: Name | None = None
    own_subject: OwnSubject = False
    subject: Subject | None = None
    text: Words | None = None
    html: Words | None = None


class CampaignIn(RequestModel):
    """A campaign. Set either `sequence` or `steps`."""

    sequence: Name | None = None
    steps: Annotated[list[CampaignStep] | None, Field(min_length=1, max_length=STEPS_MAX)] = None
    lists: Annotated[
        list[Name],
        Field(
            min_length=1, max_length=values.LISTS_MAX, description="The prospect lists to which the campaign is sent."
        ),
    ]
    pool: Annotated[
        Name | None,
        Field(
            description="The pool whose accounts take turns sending the campaign. [default: `default`, unless `account` is given]"
        ),
    ] = None
    account: Annotated[
        Name | None, Field(description="A single account that sends the campaign, instead of a pool.")
    ] = None
    gap: Annotated[
        GapIn | None,
        Field(
            description="The random gap before each e-mail. Null means no gap. If omitted, the gap is 30 to 90 seconds for a sequence or for several steps."
        ),
    ] = None
    by_recipients_clock: Annotated[
        StrictBool,
        Field(description="Whether to apply the sending window in each prospect's own time zone, if it is known."),
    ] = False
    footer: Annotated[
        StrictBool,
        Field(
            description="Whether to add an unsubscribe line to templates that have none. Use false only for one-to-one sequences."
        ),
    ] = True
    user: Annotated[
        Text, Field(max_length=values.LINE_CHARS_MAX, description="The user on whose behalf the campaign is sent.")
    ] = ""
    type: Annotated[EmailType | None, about("type")] = None
    tags: Annotated[Tags | None, about("tags")] = None
    metadata: Annotated[JsonObject | None, about("metadata")] = None
    reply_to: Annotated[
        Address | None, Field(description="The Reply-To address of the e-mails, instead of the template's.")
    ] = None
    headers: Annotated[
        dict[HeaderName, HeaderValue] | None,
        Field(description="Additional headers for the e-mails. They replace the template's headers."),
    ] = None
    starts_at: Annotated[When | None, Field(description="The earliest start.")] = None
