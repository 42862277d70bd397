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
    """A changed member. `keys` lists the active keys that this member created. These keys belong to the workspace and
    stay valid.
    """

    keys: Annotated[
        list[KeyOut],
        Field(description="The active keys that this member created. Empty if the member is still a manager."),
    ]
    keys_revoked: Annotated[list[KeyOut], Field(description="The keys that this request revoked, with `keys=revoke`.")]


KeysAlso = Annotated[
    Literal["revoke"] | None,
    Query(description="Also revoke the keys that this member created, unless the member is still a manager."),
]


class SessionsEnded(ResponseModel):
    sessions: Annotated[int, Field(description="Number of sessions that were ended.")]


class OfferedOut(PersonOut):
    link_expires_at: Annotated[
        Moment, Field(description="When the link in the e-mail expires. The link works only once.")
    ]
