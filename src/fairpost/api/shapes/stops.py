"""Pauses, holds and throttles."""

from typing import Annotated, Literal

from pydantic import Field

from fairpost.api.answers import Moment, Reasoned, RequestModel, ResponseModel, Text, When
from fairpost.api.shapes.users import StopOut

MINUTES_MAX = 525_600  # a year
Reason = Annotated[Text, Field(min_length=1, max_length=500)]
Minutes = Annotated[int | None, Field(ge=1, le=MINUTES_MAX, description="For how long, instead of `until`.")]


class PauseIn(RequestModel):
    reason: Reason
    until: Annotated[
        When | None, Field(description="When it ends by itself. Null: when sending is resumed by hand.")
    ] = None


class PauseOut(Reasoned):
    """`restored`: the database was restored from a copy. Sending waits until an admin resumes it."""

    since: Moment
    until: Moment | None
    paused_by: str
    restored: bool


class Paused(ResponseModel):
    """`pause` is the pause now. `changed`: whether this request changed it."""

    region: str
    pause: PauseOut | None
    changed: bool


class Named(RequestModel):
    workspace: Annotated[Text, Field(min_length=1, max_length=200)]
    level: Literal["workspace", "domain", "user", "stream"] = "workspace"
    name: Annotated[Text, Field(max_length=200, description="The domain, user or stream. Empty for a workspace.")] = ""


class Hold(Named):
    reason: Reason
    minutes: Minutes = None
    until: Annotated[When | None, Field(description="Without `until` and `minutes`: until released.")] = None


class SenderNamed(RequestModel):
    workspace: Annotated[Text, Field(min_length=1, max_length=200)]
    level: Literal["workspace", "user"] = "user"
    name: Annotated[Text, Field(max_length=200, description="The user. Empty for a workspace.")] = ""


class ThrottleIn(SenderNamed):
    reason: Reason
    minutes: Minutes = None
    until: Annotated[When | None, Field(description="Without it and `minutes`: for a day.")] = None


class Lift(SenderNamed):
    immune_minutes: Annotated[
        int | None,
        Field(ge=1, le=MINUTES_MAX, description="For how long no score throttles it again. [default: a day]"),
    ] = None


class StopsNow(ResponseModel):
    """`stops` of this sender and its workspace now. Empty: nothing holds its mail back here."""

    workspace: str
    level: str
    name: str
    region: str
    stops: list[StopOut]
    waiting: Annotated[
        int | None, Field(description="E-mails waiting behind it. Null: not counted for a domain or a stream.")
    ]
