"""Sequences and their steps in requests and responses."""

from typing import Annotated

from fastapi import Path
from pydantic import Field, StrictBool, StrictInt

from fairpost.api.answers import Moment, Name, RequestModel, ResponseModel, Text
from fairpost.campaigns.parsers import CHARS_MAX, DURATION_S_MAX

STEPS_MAX = 100
SequenceName = Annotated[Name, Path(alias="name", description="The sequence's name.")]


class Delayed(RequestModel):
    """The delay after the previous step was sent. Not allowed for the first step."""

    delay: Annotated[Text | None, Field(max_length=CHARS_MAX, examples=["3d", "1d 12h"])] = None
    delay_s: Annotated[StrictInt | None, Field(ge=0, le=DURATION_S_MAX, description="The delay in seconds.")] = None


OwnSubject = Annotated[
    StrictBool,
    Field(
        description="Whether to use the template's subject instead of the first step's. With a different subject, the follow-up leaves the thread in Gmail."
    ),
]


class StepIn(Delayed):
    template: Name
    own_subject: OwnSubject = False


class SequenceIn(RequestModel):
    steps: Annotated[list[StepIn], Field(min_length=1, max_length=STEPS_MAX)]


class StepOut(ResponseModel):
    step: int
    template: str
    delay: Annotated[str, Field(description="The delay as text, for example `1d 12h`.")]
    delay_s: int
    own_subject: Annotated[bool, Field(description="False if the step uses the first step's subject.")]


class SequenceOut(ResponseModel):
    name: str
    steps: list[StepOut]
    created_at: Moment
    campaigns: Annotated[list[str], Field(description="Campaigns that use the sequence.")]
    is_launched: Annotated[
        bool, Field(description="Whether a campaign has started, in which case the steps can no longer be changed.")
    ]
