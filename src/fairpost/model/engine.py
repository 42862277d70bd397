"""Values that the database returns to engines and workers.

These values cover accounts with work, claims, leases after an outage, and the check that the server is the one that the
engines confirmed.
"""

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
    again: bool  # other engines held all available work, so check again before sleeping
    next_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenUp:
    """A lease after a database outage. `sending` is the e-mail that was being sent, with its attempt."""

    verdict: Literal["held", "lost", "unconfirmed", "behind"]
    until: datetime | None
    step: int | None
    sending: EmailId | None
    attempt: int | None
    life: UUID | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """The engines' confirmation of the server.

    If the server's last step for an account is lower than the acknowledged one, `behind` contains the account and that
    step.
    """

    verdict: Literal["confirmed", "waiting", "behind", "silent"]
    waits_for: tuple[str, ...]
    behind: Mapping[AccountId, int]
