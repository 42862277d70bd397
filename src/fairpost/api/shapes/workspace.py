"""A workspace with its keys, settings and audit log, in requests and responses."""

from typing import Annotated, Any

from pydantic import Field, StrictBool

from fairpost.api.answers import Id, Moment, RequestModel, ResponseModel, Text, When
from fairpost.model.auth import Role
from fairpost.model.workspace import Scope
from fairpost.store import workspaces


class SettingsOut(ResponseModel):
    title: Annotated[
        str | None, Field(description="The name that recipients see. Null means the workspace's own name.")
    ]
    accent: Annotated[str | None, Field(description="The colour of the button on the unsubscribe page.")]
    logo_url: str | None
    refuses_bad_domains: bool


class SettingsIn(RequestModel):
    """Changes to the settings. Omitted fields stay the same, and null removes a value."""

    title: Annotated[Text | None, Field(max_length=100)] = None
    accent: Annotated[Text | None, Field(max_length=7, examples=["#1d5fd1"])] = None
    logo_url: Annotated[Text | None, Field(max_length=500, examples=["https://example.com/logo.png"])] = None
    refuses_bad_domains: Annotated[
        StrictBool,
        Field(
            description="Whether to refuse to launch campaigns from domains that failed a check. If false, a launch only shows a warning."
        ),
    ] = False


class WorkspaceOut(ResponseModel):
    name: str
    region: str
    pools: Annotated[list[str], Field(description="The operator's pools that the workspace may send through.")]
    created_at: Moment
    you: str
    scopes: list[Scope]
    settings: SettingsOut


class KeyOut(ResponseModel):
    id: str
    name: str
    scopes: list[Scope]
    per_minute: int
    created_at: Moment
    created_by: Annotated[str, Field(description="The manager, key, operator or command responsible for the change.")]
    expires_at: Moment | None
    revoked_at: Moment | None
    last_used_at: Moment | None


class ListedKey(KeyOut):
    maker: Annotated[
        str | None,
        Field(description="The address of the member who created the key, directly or with another key."),
    ]
    maker_role: Annotated[Role | None, Field(description="The member's current role.")]
    is_maker_member: Annotated[
        bool | None,
        Field(
            description="False if the member who created the key was disabled. This person may still have the key. Null if no member created it."
        ),
    ]


class NewKey(KeyOut):
    key: Annotated[str, Field(description="The key itself, which is shown only once.")]


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
