"""How the queue's health turns into limits, and that these never leave capacity unused."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.sender import Tier
from fairpost.policy.health import adaptive_limits, allowed_in_flight, health

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


LIMITS = {Tier.HIGH: 15, Tier.NORMAL: 10, Tier.LOW: 5, Tier.THROTTLED: 1}


def test_a_limit_holds_while_another_tier_could_use_the_room() -> None:
    eligible = {Tier.LOW: 100, Tier.HIGH: 1}
    assert allowed_in_flight(Tier.LOW, limits=LIMITS, in_flight={Tier.LOW: 5}, eligible=eligible) == 5


def test_alone_a_tier_has_no_limit() -> None:
    eligible = {Tier.THROTTLED: 100, Tier.HIGH: 0}
    assert allowed_in_flight(Tier.THROTTLED, limits=LIMITS, in_flight={Tier.HIGH: 15}, eligible=eligible) is None


def test_another_tier_that_is_at_its_own_limit_could_not_use_the_room() -> None:
    in_flight, eligible = {Tier.HIGH: 15, Tier.LOW: 5}, {Tier.HIGH: 100, Tier.LOW: 100}
    assert allowed_in_flight(Tier.LOW, limits=LIMITS, in_flight=in_flight, eligible=eligible) is None
    assert allowed_in_flight(Tier.HIGH, limits=LIMITS, in_flight=in_flight, eligible=eligible) is None


by_tier = st.fixed_dictionaries({each: st.integers(0, 30) for each in Tier})


@given(
    base=st.integers(1, 40),
    capacity=st.integers(0, 100),
    in_flight=by_tier,
    eligible=by_tier,
    order=st.permutations(list(Tier)),
)
def test_no_capacity_is_idle_while_anything_is_eligible(
    base: int, capacity: int, in_flight: dict[Tier, int], eligible: dict[Tier, int], order: list[Tier]
) -> None:
    """Whatever the order in which tiers are asked, greedy filling ends with no room or nothing to send."""
    limits, room = adaptive_limits(base, 1.0), capacity
    while room and any(eligible.values()):
        able = [each for each in order if eligible[each] and _may_begin(each, limits, in_flight, eligible)]
        assert able, "there is room, and nobody may use it"
        in_flight[able[0]] += 1
        eligible[able[0]] -= 1
        room -= 1


@given(base=st.integers(1, 40), in_flight=by_tier, eligible=by_tier, tier=st.sampled_from(Tier))
def test_who_is_above_the_limit_begins_nothing_while_another_below_its_own_waits(
    base: int, in_flight: dict[Tier, int], eligible: dict[Tier, int], tier: Tier
) -> None:
    limits = adaptive_limits(base, 1.0)
    others = [each for each in Tier if each is not tier and eligible[each] and in_flight[each] < limits[each]]
    if others and in_flight[tier] >= limits[tier]:
        assert not _may_begin(tier, limits, in_flight, eligible)
    if not others:
        assert _may_begin(tier, limits, in_flight, eligible)


def _may_begin(tier: Tier, limits: dict[Tier, int], in_flight: dict[Tier, int], eligible: dict[Tier, int]) -> bool:
    allowed = allowed_in_flight(tier, limits=limits, in_flight=in_flight, eligible=eligible)
    return allowed is None or in_flight[tier] < allowed
