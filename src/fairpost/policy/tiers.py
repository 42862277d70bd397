"""Compute a sender's tier, and how long it stays the same without intervention. `abuse` decides on throttles.

A tier determines a weight in the flow tree, or a separate lane (see sql/release/lanes.sql).
"""

from dataclasses import dataclass
from datetime import datetime

from fairpost.model.sender import Throttle, Tier
from fairpost.policy.abuse import YOUNG_FOR, is_young

WEIGHTS: dict[Tier, float] = {Tier.HIGH: 2.0, Tier.NORMAL: 1.0, Tier.LOW: 0.5, Tier.THROTTLED: 0.1}
SHARES: dict[Tier, int] = {Tier.HIGH: 40, Tier.NORMAL: 40, Tier.LOW: 15, Tier.THROTTLED: 5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """The installation's names for its plans. A plan in neither set is an ordinary plan."""

    paid: frozenset[str] = frozenset({"team", "enhanced_protection"})
    free: frozenset[str] = frozenset({"free"})


PLANS = Plans()


def tier(
    plan: str | None, *, created_at: datetime | None, throttle: Throttle | None, now: datetime, plans: Plans = PLANS
) -> Tier:
    """Return the tier. Throttled takes precedence over young or free, which take precedence over paid."""
    if throttle is not None:
        return Tier.THROTTLED
    if is_young(created_at, now=now) or plan in plans.free:
        return Tier.LOW
    return Tier.HIGH if plan in plans.paid else Tier.NORMAL


def tier_until(
    plan: str | None, *, created_at: datetime | None, throttle: Throttle | None, now: datetime, plans: Plans = PLANS
) -> datetime | None:
    """Return when to check the tier again, or None to wait until something happens.

    The tier is checked when a sender stops being young or when a throttle ends. Whether the sender then stays in its
    tier depends on the next score.
    """
    if throttle is not None:
        return throttle.until if throttle.holds(now) else None
    if created_at is not None and is_young(created_at, now=now) and plan not in plans.free:
        return created_at + YOUNG_FOR
    return None
