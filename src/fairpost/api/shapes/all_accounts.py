"""Accounts of all workspaces, and the workspaces blocked on them."""

from typing import Annotated, Any

from fastapi import Path
from pydantic import Field

from fairpost.api.answers import Moment, RequestModel, ResponseModel, Text
from fairpost.api.shapes.accounts import AccountOut

FullName = Annotated[
    Text,
    Path(
        min_length=1, max_length=201, description="The account as in `fairpost account list`: `acme/sales`, or `sales`."
    ),
]


class AnyAccountOut(AccountOut):
    region: str
    workspace: Annotated[str | None, Field(description="Null for the operator's own accounts.")]
    bounce_percent: Annotated[float | None, Field(description="Share of today's e-mails. Null if it sent none.")]
    driven_by: Annotated[str | None, Field(description="The engine that is working on the account now.")]
    driven_until: Annotated[Moment | None, Field(description="When its lease ends, unless it is renewed.")]


class BlockOut(ResponseModel):
    workspace: str
    since: Moment
    until: Annotated[Moment | None, Field(description="Null means until it is unblocked.")]
    reason: Annotated[str, Field(description="`bounces` or `refusals`.")]
    figures: Annotated[dict[str, Any], Field(description="The workspace's own figures on this account.")]


class Blocks(ResponseModel):
    items: Annotated[list[BlockOut], Field(description="At most 100.")]


class Unblock(RequestModel):
    workspace: Annotated[
        Text | None, Field(max_length=200, description="Null or omitted: every blocked workspace.")
    ] = None


class Unblocked(ResponseModel):
    workspaces: list[str]
