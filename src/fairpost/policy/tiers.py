"""Whose mail has which weight: a sender's tier, how long it holds by itself, and the lanes that share a batch by tier.

A tier is worth a weight in the flow tree, or a lane: one or the other. Who is throttled is decided in `abuse`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from fairpost.model.sender import Priority, Throttle, Tier
from fairpost.policy.abuse import YOUNG_FOR, is_young

WEIGHTS: dict[Tier, float] = {Tier.HIGH: 2.0, Tier.NORMAL: 1.0, Tier.LOW: 0.5, Tier.THROTTLED: 0.1}
SHARES: dict[Tier, int] = {Tier.HIGH: 40, Tier.NORMAL: 40, Tier.LOW: 15, Tier.THROTTLED: 5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Priorities:
    """What the installation makes of tiers. Only the table that `mode` names has an effect."""

    mode: Priority = Priority.WEIGHTS
    weights: Mapping[Tier, float] = field(default_factory=lambda: WEIGHTS)
    shares: Mapping[Tier, int] = field(default_factory=lambda: SHARES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """What the installation calls its plans. A plan in neither set is an ordinary one."""

    paid: frozenset[str] = frozenset({"team", "enhanced_protection"})
    free: frozenset[str] = frozenset({"free"})


PLANS = Plans()


def tier(
    plan: str | None, *, created_at: datetime | None, throttle: Throttle | None, now: datetime, plans: Plans = PLANS
) -> Tier:
    """Throttled beats young or free, and these beat paid."""
    if throttle is not None:
        return Tier.THROTTLED
    if is_young(created_at, now=now) or plan in plans.free:
        return Tier.LOW
    return Tier.HIGH if plan in plans.paid else Tier.NORMAL


def tier_until(
    plan: str | None, *, created_at: datetime | None, throttle: Throttle | None, now: datetime, plans: Plans = PLANS
) -> datetime | None:
    """When to look again at the tier. None: when something happens, and not before.

    A young account grows up at this moment. A throttle ends, and whether the sender stays in this tier is the next score's
    matter.
    """
    if throttle is not None:
        return throttle.until if throttle.holds(now) else None
    if created_at is not None and is_young(created_at, now=now) and plan not in plans.free:
        return created_at + YOUNG_FOR
    return None


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes' shares, each at least 1, and what they carry over from batch to batch.

    `ahead`: how far each has been served, for its share, beyond the one furthest behind. Whole numbers, so that no
    fraction of a slot is ever lost.
    """

    shares: Mapping[Tier, int] = field(default_factory=lambda: SHARES)
    ahead: Mapping[Tier, int] = field(default_factory=lambda: dict.fromkeys(Tier, 0))


LANES = Lanes()


def split(batch: int, waiting: Mapping[Tier, int], lanes: Lanes = LANES) -> tuple[dict[Tier, int], Lanes]:
    """How many of a batch go to each tier, and the lanes to give with the next batch.

    Slot by slot, to the lane that is furthest behind among those that still have something. So a slot is never left empty
    while anything waits, and what a lane cannot fill goes to the others in proportion to their shares.
    """
    unit = math.lcm(*lanes.shares.values())
    cost = {each: unit // lanes.shares[each] for each in Tier}  # of a slot: the smaller the share, the dearer
    served, taken, reached = dict(lanes.ahead), dict.fromkeys(Tier, 0), 0
    for _ in range(min(batch, sum(waiting.get(each, 0) for each in Tier))):
        # By the middle of the slot to come: by its beginning, the smallest lanes would have the first slots of all,
        # and by its end the last.
        able = (each for each in Tier if taken[each] < waiting.get(each, 0))
        chosen = min(able, key=lambda each: 2 * served[each] + cost[each])
        reached = max(reached, served[chosen])
        served[chosen] += cost[chosen]
        taken[chosen] += 1
    for each in Tier:
        if taken[each] == waiting.get(each, 0):  # it got all it wanted, so it saves nothing up for later
            served[each] = max(served[each], reached)
    least = min(served.values())
    return taken, replace(lanes, ahead={each: served[each] - least for each in Tier})
