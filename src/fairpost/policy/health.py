"""Compute the queue's health and the resulting in-flight limit for each tier. The limits only divide capacity among the
tiers. The limits never leave capacity unused while something could be sent.
"""

import math
from dataclasses import dataclass
from datetime import timedelta

from fairpost.model.sender import Tier

FULL, EMPTY = 0.8, 0.3  # fractions of the maximum queue length
OLD = timedelta(minutes=30)
MULTIPLIER_MIN, MULTIPLIER_MAX = 0.1, 2.0
FACTORS: dict[Tier, float] = {Tier.HIGH: 1.5, Tier.NORMAL: 1.0, Tier.LOW: 0.5, Tier.THROTTLED: 0.1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    queued: int
    oldest_wait: timedelta
    multiplier: float  # 0.1 is bad, 2.0 is very good


def health(*, queued: int, queue_max: int, oldest_wait: timedelta | None) -> Health:
    """Compute the health. `oldest_wait` is how long the oldest due e-mail has waited, or None if none is due."""
    wait = oldest_wait or timedelta()
    multiplier = 1.0
    if queued > queue_max * FULL:
        multiplier *= 0.7
    if wait > OLD:
        multiplier *= 0.5
    if queued < queue_max * EMPTY:
        multiplier *= 1.5
    clamped = max(MULTIPLIER_MIN, min(MULTIPLIER_MAX, multiplier))
    return Health(queued=queued, oldest_wait=wait, multiplier=clamped)


def adaptive_limits(base: int, multiplier: float) -> dict[Tier, int]:
    """Return how many e-mails of each tier may be in flight.

    The number is at least one, because zero would stop the tier.
    """
    return {each: max(1, math.floor(base * multiplier * FACTORS[each])) for each in Tier}
