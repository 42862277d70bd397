"""A sender account: its limits, what it has used of them, and the lease under which one worker drives it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fairpost.model.ids import AccountId, Epoch
from fairpost.model.transport import TransportSettings


class AccountStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    PAUSED_LIMIT_REACHED = "paused_limit_reached"
    SUSPENDED = "suspended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Null means: no such limit."""

    delay_ms: int = 0
    hourly_max: int | None = None
    daily_max: int | None = None
    batch_max: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What has been charged. A window begins with its first send."""

    hour_started_at: datetime | None = None
    hour_used: int = 0
    day_started_at: datetime | None = None
    day_used: int = 0
    last_begun_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    id: AccountId
    name: str
    address: str
    display_name: str | None
    pool: str
    status: AccountStatus
    status_reason: str | None
    limits: Limits
    usage: Usage
    transport: TransportSettings | None = None  # None: no server, it cannot send


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    account_id: AccountId
    epoch: Epoch
    until: datetime
