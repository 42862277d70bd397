"""People who sign in, their roles, and the results of signing in."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from fairpost.model.ids import PersonId


class Role(StrEnum):
    ADMIN = "admin"  # runs the service; belongs to no workspace
    MANAGER = "manager"
    SENDER = "sender"
    VIEWER = "viewer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person who can sign in. `workspace` is None for admins of the service."""

    id: PersonId
    workspace: str | None
    address: str
    name: str
    role: Role
    has_password: bool
    created_at: datetime
    disabled_at: datetime | None
    last_sign_in_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session. `id` identifies the session in lists. The ID is not a secret and gives no access."""

    id: str
    person: Person
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    agent: str


# ── results of signing in ─────────────────────────────────────────────────────────────────────────────────

Refusal = Literal[
    "wrong",  # the address, the password or the code is wrong; the user is not told which
    "too_many",  # too many attempts or codes; `retry_after_s` is the time until another attempt is allowed
    "expired",  # the link or code has expired, has been used, or never existed
    "bad_password",
    "bad_address",
    "bad_name",
    "bad_role",
    "bad_workspace",
    "known",
    "disabled",
    "last_admin",
    "several",  # the password is correct in more than one workspace; `workspaces` lists them
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A refused sign-in.

    `message` is for the user. The message is empty for administrative actions, which return the kind as a reason
    instead.
    """

    kind: Refusal
    message: str = ""
    retry_after_s: int = 0
    tries_left: int = 0
    workspaces: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInBegun:
    """A sign-in that needs a code. The browser keeps the secret, and the code works only together with it."""

    browser_secret: str = field(repr=False)
    person: Person
    expires_at: datetime
    is_on_its_way: bool  # False if no account can send the code now


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    session_token: str = field(repr=False)
    csrf_token: str = field(repr=False)
    person: Person
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An accepted link. `signed_in` is None after a password reset, because a reset link alone is not enough to sign
    in.
    """

    person: Person
    signed_in: SignedIn | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCode:
    """A code created on the server itself for a sign-in that has already begun."""

    code: str = field(repr=False)
    begun_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A single-use link for choosing a password or signing in."""

    person: Person
    token: str = field(repr=False)
    expires_at: datetime
