"""Members of a workspace and their invitations."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from fairpost.api.answers import Moment, RequestModel, ResponseModel
from fairpost.api.shapes.auth import Address, PersonName, PersonOut
from fairpost.api.shapes.workspace import KeyOut

MemberRole = Literal["manager", "sender", "viewer"]


class MemberIn(RequestModel):
    address: Address
    role: MemberRole
    name: PersonName = ""


class RoleIn(RequestModel):
    role: MemberRole


class MemberChanged(PersonOut):
    """With the keys that this member made and that still open: they are the workspace's, and go on doing so."""

    keys: Annotated[list[KeyOut], Field(description="Of one who is a manager still: none, for nothing has changed.")]
    keys_revoked: Annotated[list[KeyOut], Field(description="Those that this request revoked, with `keys=revoke`.")]


KeysAlso = Annotated[
    Literal["revoke"] | None,
    Query(description="Revoke the keys that this member made, too, unless the member is a manager still."),
]


class SessionsEnded(ResponseModel):
    sessions: Annotated[int, Field(description="How many ended.")]


class OfferedOut(PersonOut):
    link_expires_at: Annotated[Moment, Field(description="The link was sent by e-mail, and works once until then.")]
