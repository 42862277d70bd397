"""A sender account: its limits, what it has used of them, and the lease under which one worker drives it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from fairpost.model.ids import AccountId, Epoch
from fairpost.model.limit import Limit, Share, described, limit
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
    """How days are counted."""

    CALENDAR = "calendar"  # from midnight to midnight, UTC
    ANCHORED = "anchored"  # 24 hours from its first send
    SLIDING = "sliding"  # the last 24 hours, at any moment


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """How the daily limit grows, over days on which the account sends: from `start` by `step`, or evenly over `days`."""

    FORM: ClassVar[str] = "20+10 (20 on the first day, 10 more each day) or 10d (evenly over 10 days)"

    start: int = limit(0, label="Warm-up: e-mails on the first day", help="E-mails on the first day.")
    step: int = limit(0, label="Warm-up: more each day", help="How many more each day.")
    days: int = limit(0, le=10_000, label="Warm-up: or evenly over days", help="Or: evenly over so many days.")

    @classmethod
    def read(cls, text: str) -> "WarmUp":
        found = re.fullmatch(r"(?a:(\d+)\+(\d+)|(\d+)d)", text)
        if found is None:
            raise ValueError(text)
        start, step, days = (int(number or 0) for number in found.groups())
        return cls(start=start, step=step, days=days)

    def problem(self) -> str | None:
        return "must have start and step, or days" if (self.days > 0) == (self.start > 0) else None

    def in_words(self) -> str:
        return f"over {self.days} days" if self.days else f"from {self.start} by {self.step} a day"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Everything that limits an account. To add a limit, describe it here, add its column in a migration, and let `policy/limits.py` act on it."""

    delay_ms: int = limit(
        0,
        unit="ms",
        le=DAY_MS,
        label="Pause between two e-mails, at least",
        help="Shortest pause between two sends.",
        short="{} between sends",
        share=Share.LONGER,
    )
    gap_max_ms: int | None = limit(
        None,
        unit="ms",
        ge=1,
        le=DAY_MS,
        label="Pause between two e-mails, at most",
        help="Longest pause: each is drawn at random between the two.",
        short="at random up to {}",
        share=Share.LONGER,
    )
    hourly_max: int | None = limit(
        None,
        option="hourly",
        unit="e-mails",
        ge=1,
        label="E-mails an hour",
        help="Most e-mails an hour.",
        short="{} an hour",
        share=Share.PART,
        is_asked_first=True,
    )
    daily_max: int | None = limit(
        None,
        option="daily",
        unit="e-mails",
        ge=1,
        label="E-mails a day",
        help="Most e-mails a day.",
        short="{} a day",
        share=Share.PART,
        is_asked_first=True,
    )
    daily_mode: DailyMode = limit(
        DailyMode.ANCHORED,
        label="A day is",
        help="What a day is: 24 hours from its first e-mail, from midnight UTC, or any 24 hours.",
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
        label="Units of the provider’s API, a minute",
        help="Most quota units a minute of the provider's API.",
        share=Share.PART,
    )
    units_per_send: int = limit(
        1, unit="units", ge=1, label="Units that one e-mail takes", help="Units of that quota that one e-mail takes."
    )
    warm_up: WarmUp | None = limit(
        None, label="Warm-up", help="How the daily limit grows at first.", short="warm-up {}", share=Share.PART
    )
    batch_max: int = limit(
        50,
        option="batch-size",
        unit="e-mails",
        ge=1,
        le=1_000,
        label="E-mails claimed at once",
        help="Most e-mails claimed at once.",
    )
    bounce_percent_max: float | None = limit(
        5.0,
        unit="%",
        le=100,
        label="Pauses when more of a day’s bounce",
        help="Pause the account when more of a day's e-mails bounce.",
    )
    bounce_sample_min: int = limit(
        20,
        unit="e-mails",
        ge=1,
        label="Bounces count from this many a day on",
        help="Judge bounces only from this many e-mails a day on.",
    )
    cool_down_s: int | None = limit(
        None,
        unit="s",
        ge=1,
        label="A pause for bounces lasts",
        help="How long a pause for bounces lasts; without it, until a person resumes the account.",
    )

    def in_one_line(self) -> str:
        values = [(each, getattr(self, each.name)) for each in LIMITS if each.short]
        return ", ".join(each.short.format(each.in_words(value)) for each, value in values if value) or "no limits"

    def in_words(self) -> list[tuple[Limit, str]]:
        """Those that there are."""
        values = [(each, getattr(self, each.name)) for each in LIMITS]
        return [(each, each.in_words(value)) for each, value in values if value is not None]

    @property
    def needs_charges(self) -> bool:
        """Some limit counts back from the moment itself, so that single sends must be remembered."""
        has_day = self.daily_max is not None or self.warm_up is not None
        return (has_day and self.daily_mode is DailyMode.SLIDING) or self.units_per_minute is not None


LIMITS = described(Limits)


def limits_of(given: Mapping[str, Any], begun: Limits | None = None) -> Limits:
    """`begun` with those given in their place. Raises ValueError where one is out of its bounds, or two do not go together."""
    known = {each.name: each for each in LIMITS}
    if unknown := set(given) - set(known):
        raise ValueError(f"there is no limit {', '.join(sorted(unknown))}")
    limits = replace(begun or Limits(), **{name: known[name].checked(value) for name, value in given.items()})
    if limits.gap_max_ms is not None and limits.gap_max_ms < limits.delay_ms:
        raise ValueError(f"gap_max_ms must not be less than delay_ms, got {limits.gap_max_ms} and {limits.delay_ms}")
    if limits.units_per_minute is not None and limits.units_per_minute < limits.units_per_send:
        raise ValueError("units_per_minute must allow at least one send")
    return limits


class RestReason(StrEnum):
    """The codes of what an account rests for."""

    BACK_OFF = "account.provider_pause"
    UNREACHABLE = "account.server_unreachable"
    DAILY = "account.daily_limit"


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
    status_reason: Reason | None
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
class AccountRuntime:
    """An account and the engine that drives it: under whose lease, and until when. `seen_at`: by the database's clock.
    `is_outdated`: driven by the settings it had before. `deaths` of its workers in a row, and the last one. `begun_at`: since
    when an e-mail is on the wire, where that was asked."""

    account: Account
    owner: str | None = None
    until: datetime | None = None
    seen_at: datetime | None = None
    is_outdated: bool = False
    deaths: int = 0
    died_at: datetime | None = None
    sent_total: int = 0
    begun_at: datetime | None = None

    def is_driven(self, now: datetime | None = None) -> bool:
        """At this moment, or when it was seen."""
        moment = now or self.seen_at
        return self.until is not None and moment is not None and self.until > moment

    def rest(self, now: datetime) -> Rest | None:
        """What its server asked for, or its silence, as long as that lasts."""
        rest = self.account.usage.rest
        return rest if rest is not None and rest.until > now else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """`step`: the last one of the account that the database has acknowledged."""

    account_id: AccountId
    epoch: Epoch
    until: datetime
    step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Refused while an account has something in hand or waiting for it alone."""

    known: bool
    removed: bool
    in_hand: int
    in_doubt: int
    pinned: int
