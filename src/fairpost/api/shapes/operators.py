"""Workspaces, loans and operators, for admins."""

from typing import Annotated

from fastapi import Path, Query
from pydantic import Field

from fairpost.actions.lending import SENDERS_MAX
from fairpost.api.answers import (
    Moment,
    RequestModel,
    ResponseModel,
    Text,
)
from fairpost.api.shapes.auth import Address, PersonName
from fairpost.api.shapes.pools import LoanOut
from fairpost.model.names import WORKSPACE_NAME

NamePath = Annotated[str, Path(pattern=f"^{WORKSPACE_NAME.pattern}$", description="The workspace.")]
AuditRegion = Annotated[
    Text | None,
    Query(max_length=31, description="The region whose changes to list. [default: changes to people and workspaces]"),
]
PoolName = Annotated[Text, Field(min_length=1, max_length=100, pattern=r"^[^@\x00]")]


class LoanIn(RequestModel):
    pool: PoolName
    from_: Annotated[
        list[Annotated[Text, Field(min_length=1, max_length=320)]],
        Field(
            alias="from",
            min_length=1,
            max_length=SENDERS_MAX,
            description="Allowed senders: addresses, domains, `proven` (domains that the workspace has verified), `account` (the account's own address).",
        ),
    ]


class WorkspaceItem(ResponseModel):
    name: str
    region: str
    pools: list[str]
    loans: list[LoanOut]
    created_at: Moment
    suspended_at: Moment | None
    reason: str | None


class WorkspaceSeen(ResponseModel):
    name: str
    is_registered: Annotated[
        bool,
        Field(
            description="False if the workspace has no keys or members and only applications and commands send from it."
        ),
    ]


class WorkspaceIn(RequestModel):
    region: Annotated[
        Text | None,
        Field(
            max_length=31,
            description="The region that stores the workspace's data. It cannot be changed later. [default: the first]",
        ),
    ] = None
    pools: Annotated[
        list[PoolName | LoanIn] | None,
        Field(
            max_length=100,
            description="Pools to lend to the workspace. They replace all pools lent previously. A name without senders means `proven`. If omitted, the pools do not change; a new workspace gets none.",
        ),
    ] = None


class AdminIn(RequestModel):
    address: Address
    name: PersonName = ""
