"""Accounts of a workspace, as requests give them and answers show them."""

from typing import Annotated

from fastapi import Path
from pydantic import Field

from fairpost.api.answers import (
    Moment,
    Name,
    RequestModel,
    ResponseModel,
    Text,
    When,
)
from fairpost.api.limits import LimitsIn, LimitsOut
from fairpost.api.shapes.servers import (
    AnyServer,
    with_servers,
)
from fairpost.model.account import AccountStatus
from fairpost.transports.registry import kinds

AccountName = Annotated[Name, Path(description="The account's name.")]


class UsageOut(ResponseModel):
    hour_used: int
    day_used: int
    day_max: Annotated[int | None, Field(description="Today's, as the warm-up has it; null: no limit.")]
    day_bounces: int
    day_errors: Annotated[
        int, Field(description="Attempts of the day that failed, are to be repeated, or are in doubt.")
    ]
    last_used_at: Annotated[Moment | None, Field(description="When it last began to send.")]
    sent_total: int


class RestOut(ResponseModel):
    """Until when it sends nothing, because its server asked for a pause or could not be reached."""

    until: Moment
    reason: str
    detail: Annotated[str | None, Field(description="What the server said.")]


class PatienceOut(ResponseModel):
    """Until when mail waits that only this account may send. Then it fails."""

    urgent: Moment
    bulk: Moment


class AccountOut(ResponseModel):
    name: str
    address: str
    display_name: str | None
    pool: str
    provider: Annotated[str | None, Field(description="Whose numbers its limits began with.")]
    status: AccountStatus
    status_reason: str | None
    status_until: Annotated[Moment | None, Field(description="When it is active again by itself.")]
    rest: Annotated[RestOut | None, Field(description="Null: it does not rest.")]
    patience: Annotated[PatienceOut | None, Field(description="Null: it is not suspended.")]
    server: Annotated[AnyServer | None, Field(description="Null: none, so it cannot send.")]
    limits: LimitsOut
    usage: UsageOut
    may_send_at: Annotated[Moment | None, Field(description="Null: now, or nobody knows; then `waits_for` says why.")]
    waits_for: str | None
    is_driven: Annotated[bool, Field(description="Whether an engine is at work for it just now.")]


@with_servers
class AccountIn(RequestModel):
    name: Name
    address: Annotated[
        Text,
        Field(
            max_length=500,
            description="Of a domain that the workspace has shown to be its own; or a mailbox at a known provider, proven by a login at its server.",
        ),
    ]
    display_name: Annotated[Text | None, Field(max_length=200)] = None
    pool: Name = "default"
    provider: Annotated[
        Name | None, Field(description="Whose limits to begin with, or `none`. Left out: by the address's domain.")
    ] = None
    limits: LimitsIn | None = None


@with_servers
class AccountChange(RequestModel):
    """What is left out stays. A server's password stays with it as long as host and user are the same."""

    address: Annotated[Text, Field(max_length=500)] = ""
    display_name: Annotated[Text | None, Field(max_length=200)] = None
    pool: Name = "default"
    provider: Annotated[
        Name | None, Field(description="Its limits take the place of all those that are not given with it.")
    ] = None
    limits: LimitsIn | None = None


class Pause(RequestModel):
    reason: Annotated[Text, Field(min_length=1, max_length=500)]
    until: Annotated[
        When | None, Field(description="It is active again by itself then; null: when somebody says so.")
    ] = None


class ReplyOut(ResponseModel):
    code: int
    text: str


class StepTried(ResponseModel):
    step: Annotated[str, Field(description="; ".join(f"{kind.way}: {', '.join(kind.steps)}" for kind in kinds()))]
    ok: bool
    text: Annotated[str | None, Field(description="What there is to say of it.")]
    reply: Annotated[ReplyOut | None, Field(description="What the server said, where it refused.")]


class Verified(ResponseModel):
    ok: Annotated[bool, Field(description="It could connect and sign in, and could send.")]
    words: Annotated[str, Field(description="What happened.")]
    steps: Annotated[list[StepTried], Field(description="In order; the last one is the one that failed, if any did.")]
