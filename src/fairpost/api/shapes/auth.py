"""Models for signing in, sessions and passwords."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import Moment, RequestModel, ResponseModel, Text
from fairpost.model.auth import Role

Address = Annotated[Text, Field(min_length=3, max_length=320)]
Password = Annotated[str, Field(min_length=1, max_length=1024, json_schema_extra={"format": "password"})]
Token = Annotated[Text, Field(min_length=20, max_length=200)]
PersonName = Annotated[Text, Field(max_length=80)]


class PersonOut(ResponseModel):
    address: str
    name: str
    role: Role
    workspace: Annotated[str | None, Field(description="The workspace. Null for an admin of the installation.")]
    created_at: Moment
    disabled_at: Moment | None
    last_sign_in_at: Moment | None
    has_password: Annotated[bool, Field(description="False if the person was invited but has not accepted yet.")]


class SignInIn(RequestModel):
    address: Address
    password: Password
    workspace: Annotated[
        Text | None,
        Field(
            max_length=100,
            description="Required only if the password is valid for several workspaces. In that case, the error lists them. To sign in as an admin of the installation, send an empty string.",
        ),
    ] = None


class CodeSent(ResponseModel):
    """A code was created. To use the code, send the cookie that this response sets."""

    expires_at: Moment
    is_on_its_way: Annotated[
        bool,
        Field(
            description="False if none of the service's accounts can send the code now. In that case, run a command on the server to see the code."
        ),
    ]
    then: Annotated[str | None, Field(description="The command that shows the code, if it was not sent.")]


class CodeIn(RequestModel):
    code: Annotated[Text, Field(min_length=6, max_length=20)]


class SessionBegun(ResponseModel):
    person: PersonOut
    expires_at: Moment
    csrf_token: Annotated[str, Field(description="The token to send as X-CSRF-Token with every change.")]


class SessionNow(PersonOut):
    expires_at: Moment
    csrf_token: Annotated[str, Field(description="The session's token, for pages that are reloaded.")]
    workspace_choice: Annotated[bool, Field(description="If true, choose the workspace to act in with X-Workspace.")]
    has_inbox: Annotated[bool, Field(description="True if the development inbox is installed.")]


class SessionOut(ResponseModel):
    id: str
    created_at: Moment
    seen_at: Moment
    expires_at: Moment
    agent: str
    is_this: bool


class Enter(RequestModel):
    token: Token


class Accept(RequestModel):
    token: Token
    password: Password
    name: PersonName = ""


class SetUp(Accept):
    address: Address


class AcceptedOut(PersonOut):
    """An accepted link. Accepting an invitation signs you in. For a password reset, the last two fields are null."""

    expires_at: Moment | None
    csrf_token: str | None


class NewPassword(RequestModel):
    old: Password
    new: Password


class Done(ResponseModel):
    done: bool = True
