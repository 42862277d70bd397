"""Accounts of all workspaces, and who is blocked on them."""

from typing import Annotated, Any

from fastapi import Path
from pydantic import Field

from fairpost.api.answers import Moment, RequestModel, ResponseModel, Text
from fairpost.api.shapes.accounts import AccountOut

FullName = Annotated[
    Text, Path(min_length=1, max_length=201, description="As `fairpost account list` has it: `acme/sales`, or `sales`.")
]


class AnyAccountOut(AccountOut):
    region: str
    workspace: Annotated[str | None, Field(description="Null: the operator's own.")]
    bounce_percent: Annotated[float | None, Field(description="Of what it sent today; null: nothing.")]
    driven_by: Annotated[str | None, Field(description="Which engine is at work for it just now.")]
    driven_until: Annotated[Moment | None, Field(description="When its lease ends, unless it is renewed.")]


class BlockOut(ResponseModel):
    workspace: str
    since: Moment
    until: Annotated[Moment | None, Field(description="Null: until somebody unblocks it.")]
    reason: Annotated[str, Field(description="bounces or refusals")]
    figures: Annotated[dict[str, Any], Field(description="The workspace's own, on this account.")]


class Blocks(ResponseModel):
    items: Annotated[list[BlockOut], Field(description="A hundred at the most.")]


class Unblock(RequestModel):
    workspace: Annotated[
        Text | None, Field(max_length=200, description="Null or left out: every one that is blocked.")
    ] = None


class Unblocked(ResponseModel):
    workspaces: list[str]
