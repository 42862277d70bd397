"""How the queue's health determines limits, and that these never leave capacity unused."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.sender import Tier
from fairpost.policy.health import adaptive_limits, health

MINUTE = timedelta(minutes=1)
TICK = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("queued", "wait", "expected"),
    [
        (0, None, 1.5),
        (299, timedelta(), 1.5),
        (300, timedelta(), 1.0),
        (800, timedelta(), 1.0),
        (801, timedelta(), 0.7),
        (500, 30 * MINUTE, 1.0),
        (500, 30 * MINUTE + TICK, 0.5),
        (801, 31 * MINUTE, 0.35),
        (100, 31 * MINUTE, 0.75),
    ],
)
def test_the_multiplier(queued: int, wait: timedelta | None, expected: float) -> None:
    found = health(queued=queued, queue_max=1_000, oldest_wait=wait)
    assert found.multiplier == pytest.approx(expected)
    assert (found.queued, found.oldest_wait) == (queued, wait or timedelta())


@given(st.integers(0, 10_000), st.integers(1, 10_000), st.integers(0, 100))
def test_a_fuller_or_older_queue_is_never_healthier(queued: int, queue_max: int, minutes: int) -> None:
    found = health(queued=queued, queue_max=queue_max, oldest_wait=minutes * MINUTE).multiplier
    assert 0.1 <= found <= 2.0
    assert health(queued=queued + 1, queue_max=queue_max, oldest_wait=minutes * MINUTE).multiplier <= found
    assert health(queued=queued, queue_max=queue_max, oldest_wait=(minutes + 1) * MINUTE).multiplier <= found


def test_the_limits_of_the_tiers() -> None:
    assert adaptive_limits(100, 1.0) == {Tier.HIGH: 150, Tier.NORMAL: 100, Tier.LOW: 50, Tier.THROTTLED: 10}
    assert adaptive_limits(100, 0.5) == {Tier.HIGH: 75, Tier.NORMAL: 50, Tier.LOW: 25, Tier.THROTTLED: 5}
    assert adaptive_limits(5, 0.75) == {Tier.HIGH: 5, Tier.NORMAL: 3, Tier.LOW: 1, Tier.THROTTLED: 1}


@given(st.integers(0, 10_000), st.floats(0.1, 2.0))
def test_a_better_tier_has_no_lower_limit_and_each_has_one(base: int, multiplier: float) -> None:
    limits = adaptive_limits(base, multiplier)
    assert limits[Tier.HIGH] >= limits[Tier.NORMAL] >= limits[Tier.LOW] >= limits[Tier.THROTTLED] >= 1
