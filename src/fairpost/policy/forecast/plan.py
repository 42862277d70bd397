"""The input for a forecast: e-mails to send, allowed times, and accounts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time

from fairpost.model.account import LIMITS, Limits, Usage
from fairpost.model.campaign import Gap, Schedule
from fairpost.model.errors import Refusal
from fairpost.model.window import SendingWindow
from fairpost.policy.quotas import problem_of_quota
from fairpost.policy.windows import problem_of

HORIZON_YEARS = 10
HORIZON_DAYS = HORIZON_YEARS * 366


class NoForecast(Refusal):
    """The campaign would never finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """E-mails that are or will be due and must be sent through this account."""

    account: str
    step: int  # 1 is the first
    due_at: datetime
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    recipients: int  # recipients who still need the first step, from any free account
    delays_s: tuple[float, ...] = ()  # for steps 2, 3, …, counted from the time when the previous step was sent
    gap: Gap | None = None  # the forecast uses its mean
    schedule: Schedule = field(default_factory=Schedule)
    quota_used: int = 0  # on the local day that contains `now`
    first_day: date | None = None  # local day on which the ramp-up starts, or None for the day the campaign starts
    starts_at: datetime | None = None  # None: now
    pending: tuple[Pending, ...] = ()

    @property
    def steps(self) -> int:
        return len(self.delays_s) + 1

    @property
    def emails(self) -> int:
        return self.recipients * self.steps + sum(p.count * (self.steps - p.step + 1) for p in self.pending)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """An account that takes part in the campaign."""

    name: str
    limits: Limits
    usage: Usage = field(default_factory=Usage)
    seconds_per_send: float = 0.0
    not_before: datetime | None = None


def require_possible(plan: Plan, senders: Sequence[Sender], *, now: datetime) -> None:
    """Raise NoForecast, with advice, if the plan cannot finish."""
    _require_valid(plan, now)
    _require_able(plan, senders)


def _require_valid(plan: Plan, now: datetime) -> None:
    schedule = plan.schedule
    if plan.recipients < 0 or any(p.count < 0 for p in plan.pending):
        raise NoForecast("forecast.bad_recipients")
    if any(delay < 0 for delay in plan.delays_s):
        raise NoForecast("forecast.bad_delay", delay_s=min(plan.delays_s))
    if problem := problem_of(schedule.window or around_the_clock(schedule.timezone), now):
        raise NoForecast("forecast.bad_window", problem=problem)
    if problem := problem_of_quota(schedule.quota):
        raise NoForecast("forecast.bad_quota", problem=problem)
    most = (schedule.quota.daily_max or plan.emails) * HORIZON_DAYS
    if most < plan.emails:
        raise too_long(most, plan.emails)


def too_long(sent: int, emails: int) -> NoForecast:
    return NoForecast("forecast.too_long", years=HORIZON_YEARS, sent=sent, emails=emails)


def _require_able(plan: Plan, senders: Sequence[Sender]) -> None:
    names = {sender.name for sender in senders}
    if not senders:
        raise NoForecast("forecast.no_account")
    if len(names) < len(senders):
        raise NoForecast("forecast.same_name")
    for pending in plan.pending:
        if pending.account not in names:
            raise NoForecast("forecast.account_missing", account=pending.account)
        if not 1 <= pending.step <= plan.steps:
            raise NoForecast("forecast.unknown_step", step=pending.step, steps=plan.steps)
    for sender in senders:
        _require_sending(sender.name, sender.limits)


def _require_sending(account: str, limits: Limits) -> None:
    for each in LIMITS:
        least = limits.units_per_send if each.name == "units_per_minute" else each.ge
        value = getattr(limits, each.name)
        if isinstance(value, int) and value < least:
            raise NoForecast("forecast.never_sends", account=account, limit=each.name, least=least, value=value)


def around_the_clock(timezone: str) -> SendingWindow:
    return SendingWindow(timezone=timezone, days=frozenset(range(1, 8)), start=time(), end=time())
