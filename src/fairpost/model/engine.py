"""What the database tells engines and their workers: where there is work, what a lease has claimed, what it holds after trouble, and
whether this is the server that they know."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from fairpost.model.ids import AccountId, EmailId


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteWithWork:
    route: str
    due: bool
    next_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    verdict: Literal["ok", "stale", "unconfirmed", "inactive", "changed", "paused"]
    ids: tuple[EmailId, ...]
    again: bool  # others held what there is: look again before sleeping
    next_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenUp:
    """What a lease holds after the database was away. `sending`: what it had begun, and in which attempt."""

    verdict: Literal["held", "lost", "unconfirmed", "behind"]
    until: datetime | None
    step: int | None
    sending: EmailId | None
    attempt: int | None
    life: UUID | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """Of the server by the engines. `behind`: accounts that it knows lower steps of than was acknowledged, and those."""

    verdict: Literal["confirmed", "waiting", "behind", "silent"]
    waits_for: tuple[str, ...]
    behind: Mapping[AccountId, int]
