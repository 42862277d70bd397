"""Campaigns: how they are made, listed and shown."""

from typing import Annotated

from fastapi import Path
from pydantic import Field, StrictBool, StrictFloat, StrictInt

from fairpost.api.answers import (
    Moment,
    Name,
    Reasoned,
    RequestModel,
    ResponseModel,
    Text,
    When,
)
from fairpost.api.shapes.sequences import STEPS_MAX, Delayed, OwnSubject
from fairpost.api.shapes.templates import Words
from fairpost.campaigns import values
from fairpost.campaigns.words import GAP_S_MAX
from fairpost.model.campaign import CampaignState

CampaignName = Annotated[Name, Path(alias="id", description="The campaign's name.")]


class GapOut(ResponseModel):
    min_s: float
    max_s: float


class CampaignItem(Reasoned):
    id: Annotated[str, Field(description="Its name.")]
    state: CampaignState
    sequence: str
    steps: int
    lists: list[str]
    pool: str | None
    account: str | None
    created_at: Moment
    starts_at: Moment | None
    launched_at: Moment | None
    planned_at: Annotated[Moment | None, Field(description="When all prospects on its lists were planned.")]
    finished_at: Moment | None


class StepProgress(ResponseModel):
    step: int
    template: str
    delay_s: int
    emails: Annotated[dict[str, int], Field(description="Number of e-mails by state.")]


class CampaignOut(Reasoned):
    id: Annotated[str, Field(description="Its name.")]
    state: CampaignState
    waits_for: Annotated[str, Field(description="What it does or waits for, in words.")]
    condition: Annotated[str, Field(description="The same as a code: see docs/conditions.md.")]
    waits_until: Annotated[Moment | None, Field(description="Null: unknown, or it is not waiting.")]
    sequence: str
    steps: list[StepProgress]
    lists: list[str]
    prospects: Annotated[int, Field(description="Prospects on its lists now.")]
    scheduled: Annotated[int, Field(description="E-mails.")]
    skipped: Annotated[int, Field(description="E-mails that had been scheduled before, under the same key.")]
    left_out: Annotated[int, Field(description="Prospects with missing fields.")]
    pool: str | None
    account: str | None
    gap: GapOut | None
    by_recipients_clock: bool
    user: str
    created_at: Moment
    starts_at: Moment | None
    launched_at: Moment | None
    planned_at: Annotated[Moment | None, Field(description="When all prospects on its lists were planned.")]
    finished_at: Moment | None


class Scheduling(ResponseModel):
    """`is_done` false: an engine plans the rest."""

    id: str
    state: CampaignState
    scheduled: Annotated[int, Field(description="E-mails scheduled by this request.")]
    skipped: Annotated[int, Field(description="E-mails that had been scheduled before.")]
    left_out: Annotated[int, Field(description="Prospects with missing fields.")]
    errors: Annotated[list[str], Field(description="The first 100 prospects left out, and why.")]
    inherited_subjects: Annotated[list[int], Field(description="Steps that use the subject of the first step.")]
    leaving_thread: Annotated[
        list[int], Field(description="Steps whose own subject takes them out of the thread in Gmail.")
    ]
    is_done: bool


class Launch(RequestModel):
    skip_incomplete: Annotated[
        StrictBool, Field(description="Leave out prospects with missing fields, instead of refusing the launch.")
    ] = False


class CampaignMoved(ResponseModel):
    """`state` is the campaign's state now. `changed`: whether this request changed it."""

    id: str
    state: CampaignState
    changed: bool


Seconds = Annotated[StrictFloat | StrictInt, Field(ge=0, le=GAP_S_MAX)]


class GapIn(RequestModel):
    """The random pause of an account before each e-mail, in seconds."""

    min_s: Seconds
    max_s: Seconds


class CampaignStep(Delayed):
    """A template, or content of its own: a subject, and a text or HTML. A follow-up without a subject has the first step's."""

    template: Name | None = None
    own_subject: OwnSubject = False
    subject: Words | None = None
    text: Words | None = None
    html: Words | None = None


class CampaignIn(RequestModel):
    """Either `sequence` or `steps` says what is sent."""

    sequence: Name | None = None
    steps: Annotated[list[CampaignStep] | None, Field(min_length=1, max_length=STEPS_MAX)] = None
    lists: Annotated[
        list[Name], Field(min_length=1, max_length=values.LISTS_MAX, description="The prospect lists it goes to.")
    ]
    pool: Annotated[
        Name | None,
        Field(description="The accounts that send it, in turn. [default: `default`, unless `account` is given]"),
    ] = None
    account: Annotated[Name | None, Field(description="The one account that sends it, instead of a pool.")] = None
    gap: Annotated[
        GapIn | None, Field(description="Null: none. Left out: 30 to 90 seconds for a sequence or several steps.")
    ] = None
    by_recipients_clock: Annotated[
        StrictBool, Field(description="Apply the sending window in each prospect's own timezone, where it is known.")
    ] = False
    user: Annotated[Text, Field(max_length=values.LINE_CHARS_MAX, description="The user it is sent for.")] = ""
    starts_at: Annotated[When | None, Field(description="Not before this moment.")] = None
