"""Accounts of all workspaces, and the workspaces blocked from using them."""

from typing import Annotated, Any

from fastapi import Path
from pydantic import Field

from fairpost.api.answers import Moment, RequestModel, ResponseModel, Text
from fairpost.api.shapes.accounts import AccountOut

FullName = Annotated[
    Text,
    Path(
        min_length=1,
        max_length=201,
        description="The account's full name, as shown by `fairpost account list`: for example `acme/sales`, or `sales` for a shared account.",
    ),
]


class AnyAccountOut(AccountOut):
    region: str
    workspace: Annotated[
        str | None, Field(description="The workspace that owns the account. Null for the operator's own accounts.")
    ]
    bounce_percent: Annotated[
        float | None,
        Field(description="Percentage of today's e-mails that bounced. Null if the account sent none today."),
    ]
    driven_by: Annotated[str | None, Field(description="The engine that is working on the account now.")]
    driven_until: Annotated[Moment | None, Field(description="When the engine's lease ends, unless it is renewed.")]


class BlockOut(ResponseModel):
    workspace: str
    since: Moment
    until: Annotated[
        Moment | None,
        Field(description="When the block ends. Null means that it lasts until the workspace is unblocked."),
    ]
    reason: Annotated[str, Field(description="`bounces` or `refusals`.")]
    figures: Annotated[dict[str, Any], Field(description="The workspace's figures on this account.")]


class Blocks(ResponseModel):
    items: Annotated[list[BlockOut], Field(description="The blocked workspaces, at most 100.")]


class Unblock(RequestModel):
    workspace: Annotated[
        Text | None,
        Field(
            max_length=200,
            description="The workspace to unblock. If null or omitted, all blocked workspaces are unblocked.",
        ),
    ] = None


class Unblocked(ResponseModel):
    workspaces: list[str]
