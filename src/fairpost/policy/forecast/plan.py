"""The input of a forecast: e-mails to send, allowed times, and accounts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time

from fairpost.model.account import LIMITS, Limits, Usage
from fairpost.model.campaign import Gap, Schedule
from fairpost.model.errors import FairpostError
from fairpost.model.window import SendingWindow
from fairpost.policy.quotas import problem_of_quota
from fairpost.policy.windows import problem_of

HORIZON_YEARS = 10
HORIZON_DAYS = HORIZON_YEARS * 366


class NoForecast(FairpostError):
    """The request would never finish. `account` is the account that the message names."""

    def __init__(self, message: str, *, account: str | None = None) -> None:
        super().__init__(message)
        self.account = account


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """E-mails that are or will be due, and must be sent through this account."""

    account: str
    step: int  # 1 is the first
    due_at: datetime
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    recipients: int  # still need the first step, from any free account
    delays_s: tuple[float, ...] = ()  # for step 2, 3, …, counted from when the previous step was sent
    gap: Gap | None = None  # its mean is used
    schedule: Schedule = field(default_factory=Schedule)
    quota_used: int = 0  # on the local day of `now`
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
    """Raise NoForecast with advice on what to do if the plan cannot finish."""
    problem = _problem_of_plan(plan, now)
    if problem is not None:
        raise NoForecast(problem)
    _require_able(plan, senders)


def _problem_of_plan(plan: Plan, now: datetime) -> str | None:
    schedule = plan.schedule
    if plan.recipients < 0 or any(p.count < 0 for p in plan.pending):
        return "recipients must be 0 or more. Specify the number of remaining recipients."
    if any(delay < 0 for delay in plan.delays_s):
        return f"delays must be 0 or more seconds, got {min(plan.delays_s):g}. Specify the delay between two steps."
    if problem := problem_of(schedule.window or around_the_clock(schedule.timezone), now):
        return f"The sending window cannot be used: {problem}."
    if problem := problem_of_quota(schedule.quota):
        return f"The daily quota cannot be used: {problem}."
    most = (schedule.quota.daily_max or plan.emails) * HORIZON_DAYS
    return too_long(most, plan.emails) if most < plan.emails else None


def too_long(sent: int, emails: int) -> str:
    return (
        f"After {HORIZON_YEARS} years only {sent:,} of {emails:,} e-mails would be sent. "
        "Add accounts, or raise their limits."
    )


def _require_able(plan: Plan, senders: Sequence[Sender]) -> None:
    names = {sender.name for sender in senders}
    if not senders:
        raise NoForecast("No account is included, so nothing would be sent. Add at least one.")
    if len(names) < len(senders):
        raise NoForecast("Two accounts have the same name. Use different names.")
    for pending in plan.pending:
        if pending.account not in names:
            raise NoForecast(
                f'E-mails are waiting for account "{pending.account}", which is paused or not included. '
                "Resume or include it.",
                account=pending.account,
            )
        if not 1 <= pending.step <= plan.steps:
            raise NoForecast(
                f"E-mails are waiting for step {pending.step}, but there are only {plan.steps} steps. Specify the delay of every step."
            )
    for sender in senders:
        if problem := _problem_of_sender(sender):
            raise NoForecast(problem, account=sender.name)


def _problem_of_sender(sender: Sender) -> str | None:
    limits = sender.limits
    for each in LIMITS:
        least = limits.units_per_send if each.name == "units_per_minute" else each.ge
        value = getattr(limits, each.name)
        if isinstance(value, int) and value < least:
            return (
                f'Account "{sender.name}" would never send: its {each.name} must be at least {least}, got {value}. '
                "Raise it, or omit the account."
            )
    return None


def around_the_clock(timezone: str) -> SendingWindow:
    return SendingWindow(timezone=timezone, days=frozenset(range(1, 8)), start=time(), end=time())
