"""A sender's tier and how long it lasts, and how lanes share a batch: exactly, with no slot left empty."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.sender import Throttle, Tier
from fairpost.policy.tiers import WEIGHTS, Plans, tier, tier_until

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
        ("team", None, None, Tier.HIGH),  # unknown age
        (None, None, None, Tier.NORMAL),
        ("free", None, None, Tier.LOW),
        ("team", OLD, THROTTLE, Tier.THROTTLED),
        ("free", NEW, THROTTLE, Tier.THROTTLED),
        ("team", OLD, OVER, Tier.THROTTLED),  # its score has not fallen yet
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
        ("free", NEW, None, None),  # it stays low
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
