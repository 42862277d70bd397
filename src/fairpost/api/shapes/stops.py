"""Pauses, holds and throttles."""

from typing import Annotated, Literal

from pydantic import Field

from fairpost.api.answers import Moment, RequestModel, ResponseModel, Text, When
from fairpost.api.shapes.users import StopOut

MINUTES_MAX = 525_600  # a year
Reason = Annotated[Text, Field(min_length=1, max_length=500)]
Minutes = Annotated[int | None, Field(ge=1, le=MINUTES_MAX, description="How long; or say `until`.")]


class PauseIn(RequestModel):
    reason: Reason
    until: Annotated[When | None, Field(description="It ends by itself then; null: when somebody resumes.")] = None


class PauseOut(ResponseModel):
    """`restored`: this database is not the one it was, and waits for somebody who says that it is to be gone on with."""

    since: Moment
    until: Moment | None
    reason: str
    paused_by: str
    restored: bool


class Paused(ResponseModel):
    """`pause` is what is so now; `changed`: whether this request did it."""

    region: str
    pause: PauseOut | None
    changed: bool


class Named(RequestModel):
    workspace: Annotated[Text, Field(min_length=1, max_length=200)]
    level: Literal["workspace", "domain", "user", "stream"] = "workspace"
    name: Annotated[
        Text, Field(max_length=200, description="Of the domain, user or stream; a workspace has none here.")
    ] = ""


class Hold(Named):
    reason: Reason
    minutes: Minutes = None
    until: Annotated[When | None, Field(description="Without it and `minutes`: until released.")] = None


class SenderNamed(RequestModel):
    workspace: Annotated[Text, Field(min_length=1, max_length=200)]
    level: Literal["workspace", "user"] = "user"
    name: Annotated[Text, Field(max_length=200, description="Of the user; a workspace has none here.")] = ""


class ThrottleIn(SenderNamed):
    reason: Reason
    minutes: Minutes = None
    until: Annotated[When | None, Field(description="Without it and `minutes`: for a day.")] = None


class Lift(SenderNamed):
    immune_minutes: Annotated[
        int | None,
        Field(ge=1, le=MINUTES_MAX, description="So long no score throttles it again. [default: a day]"),
    ] = None


class StopsNow(ResponseModel):
    """What is so now: `stops` of this name and of its workspace; none: nothing holds its mail back here."""

    workspace: str
    level: str
    name: str
    region: str
    stops: list[StopOut]
    waiting: Annotated[int | None, Field(description="E-mails behind it; null: not counted for a domain or a stream.")]
