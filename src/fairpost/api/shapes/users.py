"""Users of a workspace, and what is known of each."""

from typing import Annotated

from fastapi import Path
from pydantic import Field

from fairpost.api.answers import Count, Moment, RequestModel, ResponseModel, Text, When

UserName = Annotated[Text, Path(min_length=1, max_length=200, description="As e-mails name it in `user`.")]


class UserIn(RequestModel):
    """All that is known of a user: what is left out is not known any more."""

    plan: Annotated[
        Text | None,
        Field(
            max_length=100, description="What it pays for. Where tiers are lanes that all share, the operator says so."
        ),
    ] = None
    since: Annotated[When | None, Field(description="Since when it exists.")] = None
    daily_max: Annotated[Count | None, Field(description="Most it may submit in 24 hours, on any way.")] = None
    waiting_max: Annotated[Count | None, Field(description="Most of it that may wait.")] = None
    home: Annotated[
        Text | None,
        Field(
            max_length=253,
            description="The domain among whose users it is served, whatever its From. Left out, it stays.",
        ),
    ] = None


class ThrottleOut(ResponseModel):
    """Nothing of the user goes out before `until`."""

    since: Moment
    until: Moment
    is_by_hand: Annotated[bool, Field(description="The operator's decision; else it follows from what was sent.")]
    reasons: list[str]


class UserItem(ResponseModel):
    name: str
    plan: str | None
    since: Moment | None
    tier: Annotated[str, Field(description="high, normal, low or throttled; an engine decides it.")]
    throttle: ThrottleOut | None
    daily_max: int | None
    waiting_max: int | None


class Last24Hours(ResponseModel):
    volume: Annotated[int, Field(description="E-mails that became due.")]
    sent: int
    bounced: int
    rejected: int


class StopOut(ResponseModel):
    """Nothing of this name goes out before `until`; null: until released."""

    level: Annotated[str, Field(description="workspace or user")]
    until: Moment | None
    reason: str | None
    is_throttle: bool


class UserOut(UserItem):
    waiting: int
    home: Annotated[
        str | None,
        Field(
            description="The domain among whose users it is served. Empty: the account's own. Null: nothing was sent yet."
        ),
    ]
    last_24h: Last24Hours
    stops: list[StopOut]
