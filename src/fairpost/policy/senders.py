"""Decide a sender's tier, throttle and next check from its attributes and activity.

`abuse` computes scores and `tiers` computes tiers; this module combines them with manual decisions, which take
precedence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

from fairpost.model.reason import Reason
from fairpost.model.sender import AbuseMode, Counts, Sender, SenderLevel, Throttle
from fairpost.model.workspace import SERVICE_WORKSPACE
from fairpost.policy.abuse import DAY, AbusePolicy, Activity, RuleScorer, Score, Scorer, decide, look_again_at
from fairpost.policy.tiers import PLANS, Plans, tier, tier_until

IMMUNE_FOR = timedelta(days=1)  # a sender released manually is not throttled again for the same e-mails


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderPolicy:
    abuse: AbusePolicy = field(default_factory=AbusePolicy)
    plans: Plans = PLANS
    scorer: Scorer = field(default_factory=RuleScorer)
    trusted: frozenset[str] = frozenset({SERVICE_WORKSPACE})  # workspaces that are not scored


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision. `is_new` means that a throttle begins, so the operators must be notified."""

    after: Sender
    is_new: bool = False


def look(
    sender: Sender,
    hours: Mapping[datetime, Counts],
    days: Mapping[date, int],
    policy: SenderPolicy,
    *,
    now: datetime,
) -> Decided | None:
    """Decide a sender's tier and throttle. Return None if nothing has to change."""
    activity = activity_of(sender, hours, days, now=now)
    score = score_of(sender, activity, policy, now=now)
    after, is_new = _judged(sender, score, policy, now)
    after = _placed(after, activity, policy, now)
    if _means_the_same(sender, after):
        return None
    return Decided(replace(after, scored_at=now if score is not None else sender.scored_at), is_new)


def activity_of(
    sender: Sender, hours: Mapping[datetime, Counts], days: Mapping[date, int], *, now: datetime
) -> Activity:
    """Return the activity for scorers: `hours` as stored, and `days` without those that overlap the last 24 hours."""
    return Activity(created_at=sender.since, hours=hours, days=_past_days(days, now))


def score_of(sender: Sender, activity: Activity, policy: SenderPolicy, *, now: datetime) -> Score | None:
    """Score a sender. Return None if scoring is off.

    Mail without a user counts toward its workspace. The operator's own workspace is not scored.
    """
    if sender.id.level is SenderLevel.USER:
        is_scored = sender.id.name != ""
    else:
        is_scored = sender.id.workspace not in policy.trusted
    return policy.scorer.score(activity, now=now) if is_scored and policy.abuse.mode is not AbuseMode.OFF else None


def impose(sender: Sender, *, until: datetime, reason: str, policy: SenderPolicy, now: datetime) -> Decided:
    """Throttle manually. The throttle applies in every mode until `until`, and no score shortens it."""
    throttle, why = Throttle(now, until), Reason("throttle.by_hand", note=reason)
    after = replace(sender, throttle=throttle, is_enforced=True, is_by_hand=True, reasons=(why,), immune_until=None)
    return Decided(_placed(after, Activity(created_at=sender.since), policy, now))


def lift(sender: Sender, *, policy: SenderPolicy, now: datetime, immune_for: timedelta = IMMUNE_FOR) -> Decided:
    """Lift a throttle manually. The sender is released at once, and no score can throttle it again for a while."""
    after = replace(
        sender, throttle=None, is_enforced=False, is_by_hand=False, reasons=(), immune_until=now + immune_for
    )
    return Decided(_placed(after, Activity(created_at=sender.since), policy, now))


def _judged(sender: Sender, score: Score | None, policy: SenderPolicy, now: datetime) -> tuple[Sender, bool]:
    scored = sender if score is None else replace(sender, score=score.value, confidence=score.confidence)
    if sender.is_by_hand and sender.throttle is not None and sender.throttle.holds(now):
        return scored, False
    before = None if sender.is_by_hand else sender.throttle
    is_immune = sender.immune_until is not None and now < sender.immune_until
    free = replace(scored, throttle=None, is_enforced=False, is_by_hand=False, reasons=())
    if score is None or is_immune:
        return free, False
    decision = decide(before, score, policy.abuse, now=now)
    after = replace(
        free,
        throttle=decision.throttle,
        is_enforced=decision.in_force is not None,
        reasons=score.reasons if decision.throttle is not None else (),
        immune_until=None,
    )
    if before is not None and decision.throttle == before and after.score <= sender.score:
        after = replace(after, reasons=sender.reasons)  # keep the reasons for which the throttle was imposed
    return after, decision.is_new


def _placed(sender: Sender, activity: Activity, policy: SenderPolicy, now: datetime) -> Sender:
    in_force = sender.throttle if sender.is_enforced else None
    moments = (
        tier_until(sender.plan, created_at=sender.since, throttle=in_force, now=now, plans=policy.plans),
        look_again_at(sender.throttle, activity, now=now),
        sender.immune_until,
    )
    return replace(
        sender,
        tier=tier(sender.plan, created_at=sender.since, throttle=in_force, now=now, plans=policy.plans),
        look_at=min((moment for moment in moments if moment is not None and moment > now), default=None),
    )


def _means_the_same(before: Sender, after: Sender) -> bool:
    """Return whether a score change has no consequences and therefore does not justify a write for every e-mail."""
    return replace(after, score=0, confidence=0.0, scored_at=None) == replace(
        before, score=0, confidence=0.0, scored_at=None
    ) and (after.score == before.score or after.throttle is None)


def _past_days(days: Mapping[date, int], now: datetime) -> tuple[int, ...]:
    """Return the daily volumes before the past 24 hours, starting with the first day that had mail.

    The day on which the past 24 hours begin is left out.
    """
    end = (now - DAY).astimezone(UTC).date()
    past = [day for day in days if day < end]
    if not past:
        return ()
    first = min(past)
    return tuple(days.get(first + timedelta(days=i), 0) for i in range((end - first).days))
