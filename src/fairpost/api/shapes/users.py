"""Users of a workspace and their details."""

from typing import Annotated

from fastapi import Path
from pydantic import Field

from fairpost.api.answers import (
    Count,
    Moment,
    ReasonCode,
    Reasoned,
    RequestModel,
    ResponseModel,
    StopKind,
    Text,
    When,
)

UserName = Annotated[Text, Path(min_length=1, max_length=200, description="The `user` value of the user's e-mails.")]


class UserIn(RequestModel):
    """All settings of a user. Omitted fields are cleared."""

    plan: Annotated[
        Text | None,
        Field(max_length=100, description="The user's plan."),
    ] = None
    since: Annotated[When | None, Field(description="When the user was created in your application.")] = None
    daily_max: Annotated[Count | None, Field(description="Maximum number of e-mails submitted in 24 hours.")] = None
    waiting_max: Annotated[Count | None, Field(description="Maximum number of waiting e-mails.")] = None
    home: Annotated[
        Text | None,
        Field(
            max_length=253,
            description="The domain that the user's e-mails count towards, regardless of the From address. If omitted, the domain does not change.",
        ),
    ] = None


class ThrottleOut(ResponseModel):
    """A throttle. None of the user's e-mails are sent before `until`."""

    since: Moment
    until: Moment
    is_by_hand: Annotated[
        bool,
        Field(description="Whether the operator set the throttle. If false, it was derived from what the user sent."),
    ]
    reasons: list[str]
    reason_codes: list[ReasonCode]


class UserItem(ResponseModel):
    name: str
    plan: str | None
    since: Moment | None
    tier: Annotated[str, Field(description="`high`, `normal`, `low` or `throttled`, decided by an engine.")]
    throttle: ThrottleOut | None
    daily_max: int | None
    waiting_max: int | None


class Last24Hours(ResponseModel):
    volume: Annotated[int, Field(description="Number of e-mails that became due.")]
    sent: int
    bounced: int
    rejected: int


class StopOut(Reasoned):
    """A stop. None of the sender's e-mails are sent before `until`. If `until` is null, the stop lasts until it is
    released."""

    level: Annotated[str, Field(description="`workspace` or `user`.")]
    until: Moment | None
    kind: StopKind
    is_throttle: bool


class UserOut(UserItem):
    waiting: int
    home: Annotated[
        str | None,
        Field(
            description="The domain that the user's e-mails count towards. Empty means the account's own domain. Null if nothing has been sent yet."
        ),
    ]
    last_24h: Last24Hours
    stops: list[StopOut]
