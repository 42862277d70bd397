"""Which tier a sender is in and until when, and how lanes share a batch: exactly, and with no slot left empty."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.sender import Priority, Throttle, Tier
from fairpost.policy.tiers import SHARES, WEIGHTS, Lanes, Plans, Priorities, split, tier, tier_until

NOW = datetime(2030, 1, 31, 9, 30, tzinfo=UTC)
TICK = timedelta(microseconds=1)
HOUR, WEEK = timedelta(hours=1), timedelta(days=7)
OLD, NEW = NOW - WEEK, NOW - WEEK + TICK
THROTTLE = Throttle(NOW - HOUR, NOW + HOUR)
OVER = Throttle(NOW - HOUR, NOW)


@pytest.mark.parametrize(
    ("plan", "created_at", "throttle", "expected"),
    [
        ("team", OLD, None, Tier.HIGH),
        ("enhanced_protection", OLD, None, Tier.HIGH),
        ("basic", OLD, None, Tier.NORMAL),
        (None, OLD, None, Tier.NORMAL),
        ("free", OLD, None, Tier.LOW),
        ("team", NEW, None, Tier.LOW),
        ("basic", NEW, None, Tier.LOW),
        ("basic", NOW + HOUR, None, Tier.LOW),
        ("team", None, None, Tier.HIGH),  # nobody said how old it is
        (None, None, None, Tier.NORMAL),
        ("free", None, None, Tier.LOW),
        ("team", OLD, THROTTLE, Tier.THROTTLED),
        ("free", NEW, THROTTLE, Tier.THROTTLED),
        ("team", OLD, OVER, Tier.THROTTLED),  # its score has not been found lower yet
    ],
)
def test_throttled_beats_young_beats_paid(
    plan: str | None, created_at: datetime | None, throttle: Throttle | None, expected: Tier
) -> None:
    assert tier(plan, created_at=created_at, throttle=throttle, now=NOW) is expected


def test_tiers_are_ordered_and_numbered_and_weighted() -> None:
    assert [(each.name, each.value, WEIGHTS[each]) for each in sorted(Tier, reverse=True)] == [
        ("HIGH", 2, 2.0),
        ("NORMAL", 1, 1.0),
        ("LOW", 0, 0.5),
        ("THROTTLED", -1, 0.1),
    ]


def test_where_nothing_is_set_tiers_are_weights() -> None:
    assert Priorities() == Priorities(mode=Priority.WEIGHTS, weights=WEIGHTS, shares=SHARES)
    assert set(Priorities().weights) == set(Priorities().shares) == set(Tier)


def test_an_installation_has_plans_of_its_own() -> None:
    plans = Plans(paid=frozenset({"gold"}), free=frozenset({"trial"}))
    found = {
        plan: tier(plan, created_at=OLD, throttle=None, now=NOW, plans=plans) for plan in ("gold", "team", "trial")
    }
    assert found == {"gold": Tier.HIGH, "team": Tier.NORMAL, "trial": Tier.LOW}


@pytest.mark.parametrize(
    ("plan", "created_at", "throttle", "expected"),
    [
        ("team", NEW, None, NOW + TICK),
        ("basic", NEW, None, NOW + TICK),
        ("free", NEW, None, None),  # low it stays
        ("team", OLD, None, None),
        ("team", None, None, None),
        ("team", NEW, THROTTLE, NOW + HOUR),
        ("team", NEW, OVER, None),
    ],
)
def test_until_when_a_tier_holds_by_itself(
    plan: str, created_at: datetime | None, throttle: Throttle | None, expected: datetime | None
) -> None:
    assert tier_until(plan, created_at=created_at, throttle=throttle, now=NOW) == expected


@given(
    plan=st.sampled_from(["team", "basic", "free", None]),
    age_s=st.integers(0, 2 * 604_800),
    later_s=st.integers(0, 2 * 604_800),
)
def test_a_tier_changes_by_itself_at_that_moment_and_at_no_other(plan: str | None, age_s: int, later_s: int) -> None:
    created_at, later = NOW - timedelta(seconds=age_s), NOW + timedelta(seconds=later_s)
    before = tier(plan, created_at=created_at, throttle=None, now=NOW)
    after = tier(plan, created_at=created_at, throttle=None, now=later)
    moment = tier_until(plan, created_at=created_at, throttle=None, now=NOW)
    assert (before != after) == (moment is not None and later >= moment)


waitings = st.dictionaries(st.sampled_from(Tier), st.integers(0, 300), max_size=4)
some_shares = st.fixed_dictionaries({each: st.integers(1, 100) for each in Tier})
FULL = dict.fromkeys(Tier, 10**9)


@given(batches=st.lists(st.tuples(st.integers(0, 200), waitings), max_size=12), shares=some_shares)
def test_a_batch_is_filled_as_long_as_anything_waits(
    batches: list[tuple[int, dict[Tier, int]]], shares: dict[Tier, int]
) -> None:
    lanes = Lanes(shares)
    for batch, waiting in batches:
        taken, lanes = split(batch, waiting, lanes)
        assert sum(taken.values()) == min(batch, sum(waiting.values()))
        assert all(0 <= taken[each] <= waiting.get(each, 0) for each in Tier)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=60))
def test_under_full_load_each_lane_is_within_a_slot_of_its_share_at_any_time(batches: list[int]) -> None:
    lanes, got = Lanes(), dict.fromkeys(Tier, 0)
    for batch in batches:
        taken, lanes = split(batch, FULL, lanes)
        got = {each: got[each] + taken[each] for each in Tier}
        served = sum(got.values())
        assert all(abs(got[each] * 100 - SHARES[each] * served) <= 100 for each in Tier)


@pytest.mark.parametrize("batch", [1, 3, 7, 10, 100])
def test_a_hundred_slots_are_shared_40_40_15_5_however_they_are_cut(batch: int) -> None:
    lanes, got = Lanes(), dict.fromkeys(Tier, 0)
    for _ in range(100):
        taken, lanes = split(batch, FULL, lanes)
        got = {each: got[each] + taken[each] for each in Tier}
    assert got == {each: SHARES[each] * batch for each in Tier}


@given(shares=some_shares, batch=st.integers(1, 50), has=st.sets(st.sampled_from(Tier), min_size=1))
def test_what_empty_lanes_leave_goes_to_the_others_in_proportion(
    shares: dict[Tier, int], batch: int, has: set[Tier]
) -> None:
    lanes, got, waiting = Lanes(shares), dict.fromkeys(Tier, 0), dict.fromkeys(has, 10**9)
    slots = batch * (1000 // batch)
    for _ in range(1000 // batch):
        taken, lanes = split(batch, waiting, lanes)
        got = {each: got[each] + taken[each] for each in Tier}
    whole = sum(shares[each] for each in has)
    for each in has:
        assert abs(got[each] / slots - shares[each] / whole) <= 0.02


@given(crowd=st.lists(waitings, min_size=40, max_size=40), lane=st.sampled_from(Tier), batch=st.integers(1, 5))
def test_no_lane_starves_whatever_the_others_do(crowd: list[dict[Tier, int]], lane: Tier, batch: int) -> None:
    """The smallest has a slot in each 20; when all others come at the worst time it waits a few more."""
    lanes, without = Lanes(), 0
    for waiting in crowd:
        taken, lanes = split(batch, {**waiting, lane: 1_000}, lanes)
        without = 0 if taken[lane] else without + sum(taken.values())
        assert without <= 40


def test_who_had_little_to_send_for_long_gains_no_right_to_push_others_aside() -> None:
    lanes = Lanes()
    for _ in range(500):
        _, lanes = split(100, {Tier.HIGH: 1_000, Tier.LOW: 1}, lanes)
    taken, _ = split(100, {Tier.HIGH: 1_000, Tier.LOW: 1_000}, lanes)
    assert abs(taken[Tier.LOW] - 100 * 15 / 55) <= 1


@given(st.lists(st.tuples(st.integers(0, 50), waitings), max_size=30))
def test_what_is_carried_over_stays_small(batches: list[tuple[int, dict[Tier, int]]]) -> None:
    lanes = Lanes()
    for batch, waiting in batches:
        _, lanes = split(batch, waiting, lanes)
        assert min(lanes.ahead.values()) == 0
        assert max(lanes.ahead.values()) <= 2 * 24  # two slots of the dearest lane


def test_a_small_batch_goes_to_the_large_lanes_first() -> None:
    taken, _ = split(5, FULL)
    assert taken == {Tier.HIGH: 2, Tier.NORMAL: 2, Tier.LOW: 1, Tier.THROTTLED: 0}
