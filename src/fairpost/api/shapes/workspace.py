"""A workspace: its keys, settings and audit."""

from typing import Annotated, Any

from pydantic import Field

from fairpost.api.answers import Id, Moment, RequestModel, ResponseModel, Text, When
from fairpost.model.person import Role
from fairpost.model.workspace import Scope
from fairpost.store import workspaces


class WorkspaceOut(ResponseModel):
    name: str
    region: str
    pools: Annotated[list[str], Field(description="Pools of the operator's that it may send through.")]
    created_at: Moment
    you: str
    scopes: list[Scope]


class KeyOut(ResponseModel):
    id: str
    name: str
    scopes: list[Scope]
    per_minute: int
    created_at: Moment
    created_by: Annotated[str, Field(description="The manager, key, operator or command that made the change.")]
    expires_at: Moment | None
    revoked_at: Moment | None
    last_used_at: Moment | None


class ListedKey(KeyOut):
    maker: Annotated[
        str | None,
        Field(description="The address of the member who made it, directly or with another key."),
    ]
    maker_role: Annotated[Role | None, Field(description="This member's role now.")]
    is_maker_member: Annotated[
        bool | None,
        Field(
            description="False: its maker is disabled, and may still have the key. Null: it was not made by a member."
        ),
    ]


class NewKey(KeyOut):
    key: Annotated[str, Field(description="It is shown only once.")]


class KeyIn(RequestModel):
    name: Annotated[Text, Field(max_length=200)] = ""
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=3)]
    per_minute: Annotated[int, Field(ge=1, le=100_000)] = workspaces.RATE_DEFAULT
    expires_at: When | None = None


class AuditOut(ResponseModel):
    id: Id
    at: Moment
    who: str
    action: str
    subject: str
    detail: dict[str, Any] | None
    request_id: str | None
