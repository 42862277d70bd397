"""Detect abuse. Compute a sender's score for the last 24 hours and decide the consequences.

The caller passes in the counters; this module looks up nothing and applies nothing. Weights and tiers are in `tiers`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol, assert_never

from fairpost.model.reason import Reason
from fairpost.model.sender import AbuseMode, Counts, Throttle

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
YOUNG_FOR = timedelta(days=7)
YOUNG_VOLUME_MAX = 100
SPIKE_FACTOR = 5
SCORE_MAX = 100
SAMPLE_HALF = 20  # the number of e-mails at which the confidence is one half


def is_young(created_at: datetime | None, *, now: datetime) -> bool:
    """Return whether a sender is young.

    A sender of unknown age is not considered young, because the rule applies only to senders known to be new.
    """
    return created_at is not None and now - created_at < YOUNG_FOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """One sender's counters for each hour, keyed by the hour's start, and the sender's volume on each previous day,
    oldest first.

    `created_at` is None if unknown. Volume is counted ahead of time, so future hours may already have a volume.
    """

    created_at: datetime | None
    hours: Mapping[datetime, Counts] = field(default_factory=dict)
    days: tuple[int, ...] = ()  # excluding the last 24 hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """Everything that the rules consider: the last 24 hours and the usual volume before them."""

    counts: Counts = field(default_factory=Counts)
    past_volume: int = 0
    past_days: int = 0
    is_young: bool = False


def last_day(activity: Activity, *, now: datetime) -> Day:
    """Return the counters for the last 24 hours, ignoring anything older and anything in the future.

    Only whole hours are dropped, so an e-mail counts for 23 to 24 hours.
    """
    counts = sum((c for start, c in activity.hours.items() if now - DAY < start <= now), Counts())
    first = next((i for i, volume in enumerate(activity.days) if volume), len(activity.days))
    return Day(
        counts=counts,
        past_volume=sum(activity.days),
        past_days=len(activity.days) - first,  # a sender has no habits before its first e-mail
        is_young=is_young(activity.created_at, now=now),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    value: int  # 0 to 100, higher is worse
    confidence: float  # 0 to 1
    reasons: tuple[Reason, ...] = ()


class Scorer(Protocol):
    """Computes a score from the counters, and must return at once. You can use a scorer of your own instead."""

    def score(self, activity: Activity, *, now: datetime) -> Score: ...


class Rule(StrEnum):
    BOUNCES = "bounces"
    REJECTS = "rejects"
    SPIKE = "spike"
    YOUNG = "young"


POINTS = {Rule.BOUNCES: 30, Rule.REJECTS: 20, Rule.SPIKE: 25, Rule.YOUNG: 40}


class RuleScorer:
    """Gives points for each broken rule, up to 100 in total. The scorer compares integers, so rounding does not affect
    the limits.
    """

    def score(self, activity: Activity, *, now: datetime) -> Score:
        day = last_day(activity, now=now)
        broken = broken_rules(day)
        return Score(
            value=min(SCORE_MAX, sum(POINTS[rule] for rule in broken)),
            confidence=confidence(day.counts.total),
            reasons=tuple(_reason(rule, day) for rule in broken),
        )


def broken_rules(day: Day) -> tuple[Rule, ...]:
    counts = day.counts
    is_broken = {
        Rule.BOUNCES: counts.bounced * 10 > counts.total,  # more than 10%
        Rule.REJECTS: counts.rejected * 20 > counts.total,  # more than 5%
        # Without history, nothing is unusual; otherwise every sender's first day would be a spike.
        Rule.SPIKE: day.past_volume > 0 and counts.volume * day.past_days > SPIKE_FACTOR * day.past_volume,
        Rule.YOUNG: day.is_young and counts.volume > YOUNG_VOLUME_MAX,
    }
    return tuple(rule for rule in Rule if is_broken[rule])


def is_worth_scoring(before: Day, after: Day) -> bool:
    """Return whether the score may have changed since `before`, the counters at the time of the last score.

    The check costs only a few multiplications, so it can run with every batch of outcomes. A burst is noticed as soon
    as an e-mail breaks a rule, and a sender that breaks no rule is rarely scored.
    """
    return broken_rules(before) != broken_rules(after)


def confidence(sample: int) -> float:
    """Return n / (n + 20) for n e-mails: 0 for none, one half for 20, five sixths for 100, and almost 1 for 1,000."""
    return sample / (sample + SAMPLE_HALF)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbusePolicy:
    mode: AbuseMode = AbuseMode.ENFORCE
    threshold: int = 50  # only a score above this value has consequences
    throttle_max: timedelta = DAY
    confidence_min: float = 0.0  # below this confidence, a score has no consequences


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision. `throttle` is stored even if it is only observed; `in_force` is the throttle to apply."""

    throttle: Throttle | None = None
    is_enforced: bool = False
    is_new: bool = False  # the throttle begins now, so the operators are notified once

    @property
    def in_force(self) -> Throttle | None:
        return self.throttle if self.is_enforced else None


def decide(throttle: Throttle | None, score: Score, policy: AbusePolicy, *, now: datetime) -> Decision:
    """Return the consequence of a score for a sender that may already be throttled."""
    if policy.mode is AbuseMode.OFF:
        return Decision()
    after = _throttle(throttle, score, policy, now)
    return Decision(
        throttle=after,
        is_enforced=policy.mode is AbuseMode.ENFORCE,
        is_new=throttle is None and after is not None,
    )


def throttle_for(score: int, *, longest: timedelta = DAY) -> timedelta:
    """Return the length of a throttle: an hour, doubled for every 20 points."""
    hours: int = 2 ** max(0, min(score // 20, 30))  # a custom scorer may return any number
    return min(HOUR * hours, longest)


def look_again_at(throttle: Throttle | None, activity: Activity, *, now: datetime) -> datetime | None:
    """Return when to score again even if nothing happens, or None to wait until something does.

    After a throttle, the sender keeps a low weight until the score has fallen. Time alone changes the score when an
    hour enters or leaves the last 24 hours, and when the sender stops being young.
    """
    if throttle is None:
        return None
    if throttle.holds(now):
        return throttle.until
    moments = [start if start > now else start + DAY for start, counts in activity.hours.items() if counts != Counts()]
    if activity.created_at is not None:
        moments.append(activity.created_at + YOUNG_FOR)
    return min((moment for moment in moments if moment > now), default=now + HOUR)


def _throttle(throttle: Throttle | None, score: Score, policy: AbusePolicy, now: datetime) -> Throttle | None:
    if throttle is not None:  # the throttle may have begun under a longer maximum
        throttle = replace(throttle, until=min(throttle.until, throttle.since + policy.throttle_max))
    if score.value <= policy.threshold or score.confidence < policy.confidence_min:
        # A sender that was held because of bounces must not be released merely because held mail cannot bounce.
        return throttle if throttle is not None and throttle.holds(now) else None
    length = throttle_for(score.value, longest=policy.throttle_max)
    if throttle is None:
        return Throttle(now, now + length)
    # Counted from the start of the throttle so that an unchanged score does not prolong it.
    return replace(throttle, until=max(throttle.until, throttle.since + length))


def _reason(rule: Rule, day: Day) -> Reason:
    counts = day.counts
    match rule:
        case Rule.BOUNCES:
            return Reason("sender.too_many_bounces", bounced=counts.bounced, total=counts.total)
        case Rule.REJECTS:
            return Reason("sender.too_many_rejections", rejected=counts.rejected, total=counts.total)
        case Rule.SPIKE:
            usual = round(day.past_volume / day.past_days, 1)
            return Reason("sender.unusual_volume", volume=counts.volume, factor=SPIKE_FACTOR, usual=usual)
        case Rule.YOUNG:
            return Reason("sender.too_much_too_soon", volume=counts.volume, most=YOUNG_VOLUME_MAX)
        case _:
            assert_never(rule)
