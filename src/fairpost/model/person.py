"""People who sign in, what they may do, and what comes of trying."""

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
    """`workspace`: None for those who run the service."""

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
    """`id` names it in lists; it is no secret, and opens nothing."""

    id: str
    person: Person
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    agent: str


# ── what comes of trying ──────────────────────────────────────────────────────────────────────────────────

Refusal = Literal[
    "wrong",  # the address, the password or the code: it is not said which
    "too_many",  # tries, or codes; `retry_after_s` says when there is room again
    "expired",  # or used, or never there
    "bad_password",
    "bad_address",
    "bad_name",
    "bad_role",
    "bad_workspace",
    "known",
    "disabled",
    "last_admin",
    "several",  # the password is right in more than one workspace; `workspaces` names them
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """`message`: for the person who tried; empty where others decided, and the kind is told them as a reason."""

    kind: Refusal
    message: str = ""
    retry_after_s: int = 0
    tries_left: int = 0
    workspaces: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInBegun:
    """The browser keeps the secret; with it, and only there, the code works."""

    browser_secret: str = field(repr=False)
    person: Person
    expires_at: datetime
    is_on_its_way: bool  # False: no account can carry the code now


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    session_token: str = field(repr=False)
    csrf_token: str = field(repr=False)
    person: Person
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """`signed_in`: None after a reset, which proves less than an invitation and a code."""

    person: Person
    signed_in: SignedIn | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCode:
    """Made on the server itself, for a sign-in that was begun."""

    code: str = field(repr=False)
    begun_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A link that works once: to choose a password, or to come in."""

    person: Person
    token: str = field(repr=False)
    expires_at: datetime
