"""Changes that would let a campaign finish sooner. Each change is forecast separately, and changes with small gains are
omitted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from fairpost.model.account import Usage
from fairpost.model.reason import Reason
from fairpost.model.window import Quota
from fairpost.policy.forecast.outcome import Bottleneck, Forecast
from fairpost.policy.forecast.plan import NoForecast, Plan, Sender
from fairpost.policy.forecast.timeline import forecast

SUGGESTIONS_MAX = 3
HELP_MIN = 0.02  # minimum gain, as a fraction of the total time

Variant = tuple[Reason, Plan, Sequence[Sender]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """One change, the end that it would lead to, and the end without it."""

    change: Reason
    ends_at: datetime
    instead_of: datetime
    saves_s: float


def suggestions(
    plan: Plan, senders: Sequence[Sender], *, now: datetime, found: Forecast | None = None
) -> list[Suggestion]:
    """Return suggestions, best first. `found` is the current forecast, if already known."""
    now = now.astimezone(UTC)
    found = found or forecast(plan, senders, now=now)
    tried = (_tried(variant, plan, found, now) for variant in _variants(plan, senders, found))
    helpful = [each for each in tried if each is not None and each.saves_s > HELP_MIN * found.finished_after_s]
    return sorted(helpful, key=lambda each: each.saves_s, reverse=True)[:SUGGESTIONS_MAX]


def _tried(variant: Variant, plan: Plan, found: Forecast, now: datetime) -> Suggestion | None:
    change, changed, senders = variant
    try:
        instead = forecast(changed, senders, now=now)
    except NoForecast:
        return None
    return Suggestion(
        change=change,
        ends_at=instead.ends_at,
        instead_of=found.ends_at,
        saves_s=found.finished_after_s - instead.finished_after_s,
    )


def _variants(plan: Plan, senders: Sequence[Sender], found: Forecast) -> Iterator[Variant]:
    """Yield changes to the settings that caused waits. Providers set the accounts' limits, so no changes to those
    limits are suggested.
    """
    schedule, waited = plan.schedule, found.waited_s
    if plan.recipients:
        busiest = max(senders, key=lambda sender: found.per_account[sender.name])
        another = replace(busiest, name=f"another {busiest.name}", usage=Usage(), not_before=None)
        yield Reason("suggestion.account", account=busiest.name), plan, [*senders, another]
    if schedule.window is not None:
        yield Reason("suggestion.no_window"), replace(plan, schedule=replace(schedule, window=None)), senders
    if Bottleneck.QUOTA in waited or Bottleneck.RAMP_UP in waited:
        yield Reason("suggestion.no_quota"), replace(plan, schedule=replace(schedule, quota=Quota())), senders
    if Bottleneck.RAMP_UP in waited:
        grown = Quota(daily_max=schedule.quota.daily_max)
        yield Reason("suggestion.no_ramp_up"), replace(plan, schedule=replace(schedule, quota=grown)), senders
    if Bottleneck.GAP in waited:
        yield Reason("suggestion.no_gap"), replace(plan, gap=None), senders
    if Bottleneck.STEP_DELAY in waited and plan.delays_s:
        halved = tuple(delay / 2 for delay in plan.delays_s)
        yield Reason("suggestion.half_delay"), replace(plan, delays_s=halved), senders
