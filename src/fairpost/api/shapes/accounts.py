"""Accounts of a workspace in requests and responses."""

from typing import Annotated

from fastapi import Path
from pydantic import Field

from fairpost.api.answers import (
    Moment,
    Name,
    ReasonCode,
    ReasonParams,
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
from fairpost.observe.reading import ReadingState, Unknown
from fairpost.transports.registry import kinds

AccountName = Annotated[Name, Path(description="The account's name.")]


class UsageOut(ResponseModel):
    hour_used: int
    day_used: int
    day_max: Annotated[
        int | None, Field(description="Today's limit, which depends on the warm-up. Null means no limit.")
    ]
    day_bounces: int
    day_errors: Annotated[int, Field(description="Attempts today that failed, will be retried, or are in doubt.")]
    last_used_at: Annotated[Moment | None, Field(description="When the account last started to send an e-mail.")]
    sent_total: int


class RestOut(ResponseModel):
    """A pause that began because the server asked for it or could not be reached."""

    until: Moment
    reason: str
    reason_code: ReasonCode
    detail: Annotated[str | None, Field(description="The server's reply.")]


class PatienceOut(ResponseModel):
    """Deadlines for e-mails that only this account can send. After these times, the e-mails fail."""

    urgent: Moment
    bulk: Moment


class AccountOut(ResponseModel):
    name: str
    address: str
    display_name: str | None
    pool: str
    provider: Annotated[str | None, Field(description="The provider whose limits the account started with.")]
    status: AccountStatus
    status_reason: str | None
    status_reason_code: ReasonCode | None
    status_reason_params: ReasonParams | None
    status_until: Annotated[Moment | None, Field(description="When the account becomes active again automatically.")]
    rest: Annotated[RestOut | None, Field(description="A pause that the server caused. Null if there is none.")]
    patience: Annotated[
        PatienceOut | None,
        Field(
            description="Deadlines for e-mails that only this account can send. Null if the account is not suspended."
        ),
    ]
    server: Annotated[AnyServer | None, Field(description="Null if the account has no server and cannot send.")]
    limits: LimitsOut
    usage: UsageOut
    may_send_at: Annotated[
        Moment | None,
        Field(
            description="When the account can send next. Null means now, or that the time is unknown; if it is unknown, `waits_for` gives the reason."
        ),
    ]
    waits_for: str | None
    waits_for_code: ReasonCode | None
    waits_for_params: ReasonParams | None
    is_driven: Annotated[bool, Field(description="Whether an engine is working on the account now.")]
    reading_state: Annotated[
        ReadingState | None,
        Field(description="Whether the account's mailbox is read. Null if the account has no server."),
    ]
    reading: str | None
    reading_code: ReasonCode | None
    reading_params: ReasonParams | None
    last_read_at: Annotated[Moment | None, Field(description="When the mailbox was last read successfully.")]
    unknown: Annotated[
        list[Unknown],
        Field(
            description="What Fairpost cannot detect about the account's e-mails. If `last_read_at` is set, this applies only to the time since then."
        ),
    ]


@with_servers
class AccountIn(RequestModel):
    name: Name
    address: Annotated[
        Text,
        Field(
            max_length=500,
            description="An address at a domain that the workspace has verified, or a mailbox at a known provider. Fairpost verifies the mailbox by logging in to the provider's server.",
        ),
    ]
    display_name: Annotated[Text | None, Field(max_length=200)] = None
    pool: Name = "default"
    provider: Annotated[
        Name | None,
        Field(
            description="The provider whose limits the account starts with, or `none`. If omitted, the provider is derived from the address's domain."
        ),
    ] = None
    limits: LimitsIn | None = None


@with_servers
class AccountChange(RequestModel):
    """Changes to an account. Omitted fields stay the same. The password is kept if host and user are unchanged."""

    address: Annotated[Text, Field(max_length=500)] = ""
    display_name: Annotated[Text | None, Field(max_length=200)] = None
    pool: Name = "default"
    provider: Annotated[
        Name | None,
        Field(description="The provider's limits replace all limits that are not given in the same request."),
    ] = None
    limits: LimitsIn | None = None


class Pause(RequestModel):
    reason: Annotated[Text, Field(min_length=1, max_length=500)]
    until: Annotated[
        When | None,
        Field(
            description="When the account resumes automatically. Null means that it stays paused until you resume it."
        ),
    ] = None


class ReplyOut(ResponseModel):
    code: int
    text: str


class StepTried(ResponseModel):
    step: Annotated[str, Field(description="; ".join(f"{kind.way}: {', '.join(kind.steps)}" for kind in kinds()))]
    ok: bool
    text: Annotated[str | None, Field(description="Details of this step.")]
    reply: Annotated[ReplyOut | None, Field(description="The server's reply, if it was a rejection.")]


class Verified(ResponseModel):
    ok: Annotated[bool, Field(description="Whether Fairpost could connect, sign in and send.")]
    words: Annotated[str, Field(description="What happened.")]
    steps: Annotated[list[StepTried], Field(description="The steps, in order. If a step failed, it is the last one.")]
