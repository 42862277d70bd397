"""A sender account: its limits, what it has used of them, and the lease under which one worker drives it."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from fairpost.model.ids import AccountId, Epoch
from fairpost.model.transport import TransportSettings
from fairpost.model.troubles import NO_TROUBLES, Troubles


class AccountStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    PAUSED_LIMIT_REACHED = "paused_limit_reached"
    SUSPENDED = "suspended"


class DailyMode(StrEnum):
    """What a day is."""

    CALENDAR = "calendar"  # from midnight to midnight, UTC
    ANCHORED = "anchored"  # 24 hours from its first send
    SLIDING = "sliding"  # the last 24 hours, at any moment


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """How the daily limit grows, over days on which the account sends: from `start` by `step`, or evenly over `days`."""

    start: int = 0
    step: int = 0
    days: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Null means: no such limit. The names are those of the columns."""

    delay_ms: int = 0
    gap_max_ms: int | None = None  # the pause is random, from delay_ms to this
    hourly_max: int | None = None
    daily_max: int | None = None
    daily_mode: DailyMode = DailyMode.ANCHORED
    units_per_minute: int | None = None  # what the provider's API allows
    units_per_send: int = 1
    warm_up: WarmUp | None = None
    batch_max: int = 50
    bounce_percent_max: float | None = 5.0  # more hard bounces than this in a day, and the account pauses
    bounce_sample_min: int = 20  # counted only from so many sends on
    cool_down_s: int | None = None  # such a pause ends after this; null: when a person ends it

    @property
    def needs_charges(self) -> bool:
        """Some limit counts back from the moment itself, so that single sends must be remembered."""
        has_day = self.daily_max is not None or self.warm_up is not None
        return (has_day and self.daily_mode is DailyMode.SLIDING) or self.units_per_minute is not None


class RestReason(StrEnum):
    BACK_OFF = "the provider asked for a pause"
    UNREACHABLE = "its server could not be reached"
    DAILY = "daily limit"


@dataclass(frozen=True, slots=True)
class Rest:
    """Not before this moment, whatever the limits say."""

    until: datetime
    reason: RestReason
    detail: str | None = None  # what the server said


@dataclass(frozen=True, slots=True)
class Charge:
    at: datetime
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What has been charged, and what it still has to wait for."""

    hour_started_at: datetime | None = None
    hour_used: int = 0
    day_started_at: datetime | None = None
    day_used: int = 0
    day_bounces: int = 0
    day_errors: int = 0  # attempts that failed, are to be repeated, or are in doubt
    last_begun_at: datetime | None = None
    gap_roll: float = 0.0  # where between the shortest and the longest pause the next one lies
    warm_day: int = 1  # the how-manieth day of its warm-up this is
    rest: Rest | None = None
    charges: tuple[Charge, ...] = field(default=(), repr=False)  # oldest first, where limits need them


@dataclass(frozen=True, slots=True)
class Patience:
    """Until when mail that only this account may send waits for it, while it is suspended."""

    urgent: datetime
    bulk: datetime


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
    status_until: datetime | None = None  # when it is active again by itself
    provider: str | None = None  # whose numbers its limits began with
    patience: Patience | None = None  # None: it is not suspended
    revision: int = field(default=0, compare=False)  # how often it was changed
    troubles: Troubles = NO_TROUBLES

    @property
    def workspace(self) -> str | None:
        """To whom it belongs, which stands in its name; None: to the operator."""
        return self.name.partition("/")[0] if "/" in self.name else None

    def is_active(self, now: datetime) -> bool:
        return self.status is AccountStatus.ACTIVE or (self.status_until is not None and self.status_until <= now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """`step`: the last one of the account that the database has acknowledged."""

    account_id: AccountId
    epoch: Epoch
    until: datetime
    step: int = 0
