"""Pauses, holds and throttles in requests and responses."""

from typing import Annotated, Literal

from pydantic import Field

from fairpost.api.answers import Moment, Reasoned, RequestModel, ResponseModel, Text, When
from fairpost.api.shapes.users import StopOut

MINUTES_MAX = 525_600  # a year
Reason = Annotated[Text, Field(min_length=1, max_length=500)]
Minutes = Annotated[int | None, Field(ge=1, le=MINUTES_MAX, description="Duration in minutes, instead of `until`.")]


class PauseIn(RequestModel):
    reason: Reason
    until: Annotated[
        When | None,
        Field(
            description="When the pause ends automatically. Null means that sending stays paused until it is resumed manually."
        ),
    ] = None


class PauseOut(Reasoned):
    """The global pause. If `restored` is true, the database is a restored copy, and an admin must resume sending."""

    since: Moment
    until: Moment | None
    paused_by: str
    restored: bool


class Paused(ResponseModel):
    """The pause after the request, and whether the request changed it."""

    region: str
    pause: PauseOut | None
    changed: bool


class Named(RequestModel):
    workspace: Annotated[Text, Field(min_length=1, max_length=200)]
    level: Literal["workspace", "domain", "user", "stream"] = "workspace"
    name: Annotated[
        Text, Field(max_length=200, description="The name of the domain, user or stream. Empty for a workspace.")
    ] = ""


class Hold(Named):
    reason: Reason
    minutes: Minutes = None
    until: Annotated[
        When | None,
        Field(
            description="When the hold ends. If neither this nor `minutes` is given, the hold lasts until you release it."
        ),
    ] = None


class SenderNamed(RequestModel):
    workspace: Annotated[Text, Field(min_length=1, max_length=200)]
    level: Literal["workspace", "user"] = "user"
    name: Annotated[Text, Field(max_length=200, description="The user's name. Empty for a workspace.")] = ""


class ThrottleIn(SenderNamed):
    reason: Reason
    minutes: Minutes = None
    until: Annotated[
        When | None,
        Field(
            description="When the throttle ends. If neither this nor `minutes` is given, the throttle lasts for a day."
        ),
    ] = None


class Lift(SenderNamed):
    immune_minutes: Annotated[
        int | None,
        Field(
            ge=1,
            le=MINUTES_MAX,
            description="Number of minutes during which abuse detection cannot throttle the sender again. [default: a day]",
        ),
    ] = None


class StopsNow(ResponseModel):
    """All holds and throttles that apply to this sender. If the list is empty, nothing holds back the sender's e-mails."""

    workspace: str
    level: str
    name: str
    region: str
    stops: list[StopOut]
    waiting: Annotated[
        int | None,
        Field(
            description="Number of the sender's e-mails that are waiting. Null for domains and streams, whose e-mails are not counted."
        ),
    ]
