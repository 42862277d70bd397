"""Campaigns: how they are made, listed and shown."""

from typing import Annotated

from fastapi import Path
from pydantic import AwareDatetime, BeforeValidator, Field, StrictBool, StrictFloat, StrictInt

from fairpost.api.answers import (
    Moment,
    Name,
    RequestModel,
    ResponseModel,
    Text,
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


class CampaignItem(ResponseModel):
    id: Annotated[str, Field(description="Its name.")]
    state: CampaignState
    reason: Annotated[str | None, Field(description="Why it is in this state, where that needs a word.")]
    sequence: str
    steps: int
    lists: list[str]
    pool: str | None
    account: str | None
    created_at: Moment
    starts_at: Moment | None
    launched_at: Moment | None
    planned_at: Annotated[Moment | None, Field(description="When everybody on its lists had his e-mails.")]
    finished_at: Moment | None


class StepProgress(ResponseModel):
    step: int
    template: str
    delay_s: int
    emails: Annotated[dict[str, int], Field(description="How many are in each state.")]


class CampaignOut(ResponseModel):
    id: Annotated[str, Field(description="Its name.")]
    state: CampaignState
    reason: Annotated[str | None, Field(description="Why it is in this state, where that needs a word.")]
    waits_for: Annotated[str, Field(description="What it does or waits for, in words.")]
    condition: Annotated[str, Field(description="The same as a code: see docs/conditions.md.")]
    waits_until: Annotated[Moment | None, Field(description="Null: nobody can say, or it does not wait.")]
    sequence: str
    steps: list[StepProgress]
    lists: list[str]
    prospects: Annotated[int, Field(description="On its lists now.")]
    scheduled: Annotated[int, Field(description="E-mails.")]
    skipped: Annotated[int, Field(description="E-mails that had been scheduled before, under the same key.")]
    left_out: Annotated[int, Field(description="Prospects who lack a field.")]
    pool: str | None
    account: str | None
    gap: GapOut | None
    by_recipients_clock: bool
    user: str
    created_at: Moment
    starts_at: Moment | None
    launched_at: Moment | None
    planned_at: Annotated[Moment | None, Field(description="When everybody on its lists had his e-mails.")]
    finished_at: Moment | None


class Scheduling(ResponseModel):
    """`is_done` false: more is to be planned, and an engine does it."""

    id: str
    state: CampaignState
    scheduled: Annotated[int, Field(description="E-mails, by this request.")]
    skipped: Annotated[int, Field(description="E-mails that had been scheduled before.")]
    left_out: Annotated[int, Field(description="Prospects who lack a field that the templates need.")]
    errors: Annotated[list[str], Field(description="The first hundred of those left out, and why.")]
    inherited_subjects: Annotated[list[int], Field(description="Steps with the subject of the first one.")]
    leaving_thread: Annotated[
        list[int], Field(description="Steps whose own subject takes them out of the first one's thread in Gmail.")
    ]
    is_done: bool


class Launch(RequestModel):
    skip_incomplete: Annotated[
        StrictBool, Field(description="Leave out people who lack a field, instead of launching nothing.")
    ] = False


class CampaignMoved(ResponseModel):
    """`state` is what the campaign is in now; `changed`: whether this request did it."""

    id: str
    state: CampaignState
    changed: bool


def _is_text(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("must be a moment like 2027-03-01T09:00:00+01:00")
    return value


GivenMoment = Annotated[AwareDatetime, BeforeValidator(_is_text)]
Seconds = Annotated[StrictFloat | StrictInt, Field(ge=0, le=GAP_S_MAX)]


class GapIn(RequestModel):
    """The pause of an account before each e-mail: random, in seconds, between the two."""

    min_s: Seconds
    max_s: Seconds


class CampaignStep(Delayed):
    """A template of this name; or words of its own: a subject, and a text or html. A follow-up without a subject has the first step's."""

    template: Name | None = None
    own_subject: OwnSubject = False
    subject: Words | None = None
    text: Words | None = None
    html: Words | None = None


class CampaignIn(RequestModel):
    """Either `sequence` or `steps` says what is sent."""

    sequence: Name | None = None
    steps: Annotated[list[CampaignStep] | None, Field(min_length=1, max_length=STEPS_MAX)] = None
    lists: Annotated[list[Name], Field(min_length=1, max_length=values.LISTS_MAX, description="Who gets it.")]
    pool: Annotated[
        Name | None, Field(description="The accounts that send it, in turn: default, unless an account is named.")
    ] = None
    account: Annotated[Name | None, Field(description="The one account that sends it, instead of a pool.")] = None
    gap: Annotated[
        GapIn | None, Field(description="Null: none. Left out: 30 to 90 seconds for a sequence or several steps.")
    ] = None
    by_recipients_clock: Annotated[
        StrictBool, Field(description="The window is read on the clock of each prospect whose timezone is known.")
    ] = False
    user: Annotated[Text, Field(max_length=values.LINE_CHARS_MAX, description="Whose mail it is.")] = ""
    starts_at: Annotated[GivenMoment | None, Field(description="Not before this moment.")] = None
