"""A sender account: its limits, how much of each limit has been used, and the lease under which one worker drives the
account.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from fairpost.model.ids import AccountId, Epoch
from fairpost.model.limit import Limit, Share, described, limit
from fairpost.model.quick import quick
from fairpost.model.reason import Reason
from fairpost.model.transport import TransportSettings
from fairpost.model.troubles import NO_TROUBLES, Troubles

DAY_MS = 86_400_000


class AccountStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    PAUSED_LIMIT_REACHED = "paused_limit_reached"
    SUSPENDED = "suspended"


class DailyMode(StrEnum):
    """How a daily limit defines a day."""

    CALENDAR = "calendar"  # from midnight to midnight in UTC
    ANCHORED = "anchored"  # 24 hours from the first send
    SLIDING = "sliding"  # the 24 hours up to the current moment


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """How the daily limit grows on each day with e-mails: from `start` by `step`, or evenly over `days`."""

    FORM: ClassVar[str] = "`20+10` (20 on the first day, 10 more each day) or `10d` (evenly over 10 days)"

    start: int = limit(0, label="Warm-up: e-mails on the first day", help="E-mails on the first day.")
    step: int = limit(0, label="Warm-up: increase per day", help="Increase per day.")
    days: int = limit(
        0,
        le=10_000,
        label="Warm-up: or number of days for even growth",
        help="Alternatively, grow evenly over this many days.",
    )

    @classmethod
    def read(cls, text: str) -> "WarmUp":
        found = re.fullmatch(r"(?a:(\d+)\+(\d+)|(\d+)d)", text)
        if found is None:
            raise ValueError(text)
        start, step, days = (int(number or 0) for number in found.groups())
        return cls(start=start, step=step, days=days)

    def problem(self) -> str | None:
        return "must have either start and step, or days" if (self.days > 0) == (self.start > 0) else None

    def in_words(self) -> str:
        return f"over {self.days} days" if self.days else f"from {self.start} by {self.step} per day"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Everything that limits an account.

    To add a limit, describe it here, add its column in a migration, and apply it in `policy/limits.py`.
    """

    delay_ms: int = limit(
        0,
        unit="ms",
        le=DAY_MS,
        label="Minimum pause between two e-mails",
        help="Minimum pause between two e-mails.",
        short="{} between sends",
        share=Share.LONGER,
    )
    gap_max_ms: int | None = limit(
        None,
        unit="ms",
        ge=1,
        le=DAY_MS,
        label="Maximum pause between two e-mails",
        help="Maximum pause. The length of each pause is random, between the minimum and the maximum.",
        short="at random up to {}",
        share=Share.LONGER,
    )
    hourly_max: int | None = limit(
        None,
        option="hourly",
        unit="e-mails",
        ge=1,
        label="E-mails per hour",
        help="Maximum number of e-mails per hour.",
        short="{} per hour",
        share=Share.PART,
        is_asked_first=True,
    )
    daily_max: int | None = limit(
        None,
        option="daily",
        unit="e-mails",
        ge=1,
        label="E-mails per day",
        help="Maximum number of e-mails per day.",
        short="{} per day",
        share=Share.PART,
        is_asked_first=True,
    )
    daily_mode: DailyMode = limit(
        DailyMode.ANCHORED,
        label="Definition of a day",
        help="Definition of a day: 24 hours from the day's first e-mail (`anchored`), from midnight UTC (`calendar`), or any 24 hours (`sliding`).",
        choices={
            DailyMode.ANCHORED: "24 hours from its first e-mail",
            DailyMode.CALENDAR: "from midnight to midnight, UTC",
            DailyMode.SLIDING: "any 24 hours",
        },
    )
    units_per_minute: int | None = limit(
        None,
        unit="units",
        ge=1,
        label="Provider’s API quota units per minute",
        help="Maximum number of the provider's API quota units to use per minute.",
        share=Share.PART,
    )
    units_per_send: int = limit(
        1, unit="units", ge=1, label="Units that one e-mail uses", help="Quota units that one e-mail uses."
    )
    warm_up: WarmUp | None = limit(
        None, label="Warm-up", help="Warm-up: how the daily limit grows at first.", short="warm-up {}", share=Share.PART
    )
    batch_max: int = limit(
        50,
        option="batch-size",
        unit="e-mails",
        ge=1,
        le=1_000,
        label="E-mails per claim",
        help="Maximum number of e-mails per claim.",
    )
    bounce_percent_max: float | None = limit(
        5.0,
        unit="%",
        le=100,
        label="Pause above this daily bounce rate",
        help="Pause the account if more than this percentage of a day's e-mails bounce.",
    )
    bounce_sample_min: int = limit(
        20,
        unit="e-mails",
        ge=1,
        label="Minimum e-mails per day before bounces count",
        help="Minimum number of e-mails in a day before the bounce rate is checked.",
    )
    cool_down_s: int | None = limit(
        None,
        unit="s",
        ge=1,
        label="Duration of a pause for bounces",
        help="Duration of a pause for bounces. If not set, the account stays paused until you resume it.",
    )

    def in_one_line(self) -> str:
        values = [(each, getattr(self, each.name)) for each in LIMITS if each.short]
        return ", ".join(each.short.format(each.in_words(value)) for each, value in values if value) or "no limits"

    def in_words(self) -> list[tuple[Limit, str]]:
        """Return the limits that are set, as text."""
        values = [(each, getattr(self, each.name)) for each in LIMITS]
        return [(each, each.in_words(value)) for each, value in values if value is not None]

    @property
    def needs_charges(self) -> bool:
        """Whether a sliding limit requires individual sends to be recorded."""
        has_day = self.daily_max is not None or self.warm_up is not None
        return (has_day and self.daily_mode is DailyMode.SLIDING) or self.units_per_minute is not None


LIMITS = described(Limits)


def limits_of(given: Mapping[str, Any], begun: Limits | None = None) -> Limits:
    """Return `begun` with the given limits replaced. Raises ValueError if a limit is out of range or if two limits
    contradict each other.
    """
    known = {each.name: each for each in LIMITS}
    if unknown := set(given) - set(known):
        raise ValueError(f"unknown limit: {', '.join(sorted(unknown))}")
    limits = replace(begun or Limits(), **{name: known[name].checked(value) for name, value in given.items()})
    if limits.gap_max_ms is not None and limits.gap_max_ms < limits.delay_ms:
        raise ValueError(f"gap_max_ms must not be less than delay_ms, got {limits.gap_max_ms} and {limits.delay_ms}")
    if limits.units_per_minute is not None and limits.units_per_minute < limits.units_per_send:
        raise ValueError("units_per_minute must allow at least one send")
    return limits


class RestReason(StrEnum):
    """Codes for the reasons why an account rests."""

    BACK_OFF = "account.provider_pause"
    UNREACHABLE = "account.server_unreachable"
    DAILY = "account.daily_limit"


@dataclass(frozen=True, slots=True)
class Rest:
    """A period in which the account sends nothing, regardless of its limits."""

    until: datetime
    reason: RestReason
    detail: str | None = None  # the server's message


@dataclass(frozen=True, slots=True)
class Charge:
    at: datetime
    units: int


@quick(frozen=True, slots=True, kw_only=True)
class Usage:
    """How much of the account's limits has been used, and what the account still has to wait for."""

    hour_started_at: datetime | None = None
    hour_used: int = 0
    day_started_at: datetime | None = None
    day_used: int = 0
    day_bounces: int = 0
    day_errors: int = 0  # attempts that failed, will be retried, or are in doubt
    last_begun_at: datetime | None = None
    gap_roll: float = 0.0  # the position of the next pause between the shortest and the longest
    warm_day: int = 1  # the current day of the warm-up, counting from 1
    rest: Rest | None = None
    charges: tuple[Charge, ...] = field(default=(), repr=False)  # oldest first; kept only if limits need them


@dataclass(frozen=True, slots=True)
class Patience:
    """How long mail waits while the account is suspended, if only this account may send it."""

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
    status_reason: Reason | None
    limits: Limits
    usage: Usage
    transport: TransportSettings | None = None  # None if the account has no server and so cannot send
    status_until: datetime | None = None  # when the account automatically becomes active again
    provider: str | None = None  # the provider preset that its limits were taken from
    patience: Patience | None = None  # None if the account is not suspended
    revision: int = field(default=0, compare=False)  # how many times the account has been changed
    troubles: Troubles = NO_TROUBLES

    @property
    def workspace(self) -> str | None:
        """The workspace that the account belongs to, taken from its name, or None if it belongs to the operator."""
        return self.name.partition("/")[0] if "/" in self.name else None

    def is_active(self, now: datetime) -> bool:
        return self.status is AccountStatus.ACTIVE or (self.status_until is not None and self.status_until <= now)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxState:
    """The state of reading a mailbox. `reason` explains why every attempt since `failed_at` has failed."""

    looked_at: datetime | None
    reason: Reason | None
    failed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRuntime:
    """An account and the engine that drives it: the lease's owner and when the lease ends. `seen_at` is a time on the
    database's clock. `is_outdated` means that the account's worker uses older settings. `deaths` is how many of the
    account's workers have died in a row, and `died_at` is when the last one died. `begun_at` is when the e-mail on the
    wire was started. `mailbox` is the state of the account's mailbox, if queried.
    """

    account: Account
    owner: str | None = None
    until: datetime | None = None
    seen_at: datetime | None = None
    is_outdated: bool = False
    deaths: int = 0
    died_at: datetime | None = None
    sent_total: int = 0
    begun_at: datetime | None = None
    mailbox: MailboxState | None = None

    def is_driven(self, now: datetime | None = None) -> bool:
        """Return whether an engine drives the account at `now`. By default, `now` is the time at which this object was
        read.
        """
        moment = now or self.seen_at
        return self.until is not None and moment is not None and self.until > moment

    def rest(self, now: datetime) -> Rest | None:
        """Return the account's current rest, or None if it is over."""
        rest = self.account.usage.rest
        return rest if rest is not None and rest.until > now else None


@quick(frozen=True, slots=True, kw_only=True)
class Lease:
    """A worker's lease on an account. `step` is the account's last step that the database has acknowledged."""

    account_id: AccountId
    epoch: Epoch
    until: datetime
    step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The result of removing an account.

    Removal is refused while any of the account's e-mails are claimed, or if the account has e-mails that only it may
    send.
    """

    known: bool
    removed: bool
    in_hand: int
    in_doubt: int
    pinned: int
