"""Throttling follows the rules exactly, lasts exactly as long as they say, and ends when the score is good again."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.reason import Reason
from fairpost.model.sender import AbuseMode, Counts, Throttle
from fairpost.policy.abuse import (
    DAY,
    HOUR,
    AbusePolicy,
    Activity,
    Day,
    Decision,
    RuleScorer,
    Score,
    Scorer,
    broken_rules,
    confidence,
    decide,
    is_worth_scoring,
    last_day,
    look_again_at,
    throttle_for,
)

NOW = datetime(2030, 1, 31, 9, 30, tzinfo=UTC)
THIS_HOUR = datetime(2030, 1, 31, 9, tzinfo=UTC)
TICK = timedelta(microseconds=1)
WEEK = timedelta(days=7)
SCORER: Scorer = RuleScorer()
ENFORCE = AbusePolicy()


def activity(counts: Counts, *, days: tuple[int, ...] = (), age: timedelta = 30 * DAY) -> Activity:
    return Activity(created_at=NOW - age, hours={THIS_HOUR: counts}, days=days)


def value_of(found: Activity) -> int:
    return SCORER.score(found, now=NOW).value


# ── the score ────────────────────────────────────────────────────────────────────────────────────────────


def formula(*, total: int, bounced: int, rejected: int, avg_daily: float | None, age_ms: int) -> int:
    """The original formula, with floating-point numbers and whole days."""
    if total == 0:
        return 0
    bounce_rate = bounced / total
    reject_rate = rejected / total
    score = 0
    if bounce_rate > 0.1:
        score += 30
    if reject_rate > 0.05:
        score += 20
    if avg_daily is not None and total > avg_daily * 5:
        score += 25
    if math.trunc(age_ms / 86_400_000) < 7 and total > 100:
        score += 40
    return min(score, 100)


@given(
    total=st.integers(0, 5_000) | st.sampled_from([99, 100, 101]),
    bounce=st.floats(0, 0.2) | st.sampled_from([0.1, 0.5]),
    reject=st.floats(0, 0.1) | st.sampled_from([0.05, 0.5]),
    days=st.lists(st.integers(0, 1_000), max_size=30),
    age_ms=st.integers(0, 14 * 86_400_000) | st.sampled_from([7 * 86_400_000 - 1, 7 * 86_400_000]),
)
def test_the_score_is_the_formulas(total: int, bounce: float, reject: float, days: list[int], age_ms: int) -> None:
    bounced, rejected = round(total * bounce), min(round(total * reject), total - round(total * bounce))
    while days and not days[0]:
        days.pop(0)
    found = activity(
        Counts(volume=total, bounced=bounced, rejected=rejected),
        days=(0, 0, *days),
        age=timedelta(milliseconds=age_ms),
    )
    average = sum(days) / len(days) if days else None
    expected = formula(total=total, bounced=bounced, rejected=rejected, avg_daily=average, age_ms=age_ms)
    assert value_of(found) == expected


@pytest.mark.parametrize(
    ("counts", "days", "age", "expected"),
    [
        (Counts(), (), 30 * DAY, 0),
        (Counts(volume=100, bounced=10), (), 30 * DAY, 0),
        (Counts(volume=100, bounced=11), (), 30 * DAY, 30),
        (Counts(volume=100, rejected=5), (), 30 * DAY, 0),
        (Counts(volume=100, rejected=6), (), 30 * DAY, 20),
        (Counts(volume=50), (10,), 30 * DAY, 0),
        (Counts(volume=51), (10,), 30 * DAY, 25),
        (Counts(volume=51), (5, 15), 30 * DAY, 25),
        (Counts(volume=51), (10, 0), 30 * DAY, 25),  # a day without mail counts as a day
        (Counts(volume=51), (0, 11), 30 * DAY, 0),  # but not before the first e-mail
        (Counts(volume=1_000_000), (), 30 * DAY, 0),
        (Counts(volume=1_000_000), (0, 0), 30 * DAY, 0),
        (Counts(volume=100), (), WEEK - TICK, 0),
        (Counts(volume=101), (), WEEK - TICK, 40),
        (Counts(volume=101), (), WEEK, 0),
        (Counts(volume=200, bounced=40, rejected=40), (), 30 * DAY, 50),
        (Counts(volume=200, bounced=40), (1,), 30 * DAY, 55),
        (Counts(volume=200, rejected=40), (), DAY, 60),
        (Counts(volume=200), (1,), DAY, 65),
        (Counts(volume=200, bounced=40, rejected=40), (1,), DAY, 100),
    ],
)
def test_the_table(counts: Counts, days: tuple[int, ...], age: timedelta, expected: int) -> None:
    assert value_of(activity(counts, days=days, age=age)) == expected


def test_days_without_any_mail_are_no_history() -> None:
    assert broken_rules(Day(counts=Counts(volume=5), past_volume=0, past_days=3)) == ()


def test_each_rule_gives_its_reason() -> None:
    counts = Counts(volume=200, sent=120, bounced=40, rejected=40)
    found = SCORER.score(activity(counts, days=(10, 15), age=DAY), now=NOW)
    assert found.reasons == (
        Reason("sender.too_many_bounces", bounced=40, total=200),
        Reason("sender.too_many_rejections", rejected=40, total=200),
        Reason("sender.unusual_volume", volume=200, factor=5, usual=12.5),
        Reason("sender.too_much_too_soon", volume=200, most=100),
    )


def test_bounces_of_an_older_backlog_are_a_part_of_what_was_tried() -> None:
    assert value_of(activity(Counts(volume=0, sent=90, bounced=10))) == 0
    assert value_of(activity(Counts(volume=1, sent=89, bounced=11))) == 30


def test_nothing_older_than_a_day_counts() -> None:
    bad = Counts(volume=10, bounced=10)
    hours = {THIS_HOUR - 23 * HOUR: bad, THIS_HOUR - 24 * HOUR: Counts(volume=1_000, bounced=1_000)}
    day = last_day(Activity(created_at=NOW - 30 * DAY, hours=hours), now=NOW)
    assert day.counts == bad
    on_the_hour = THIS_HOUR + HOUR  # now it has been 24 hours
    assert last_day(Activity(created_at=NOW, hours=hours), now=on_the_hour).counts == Counts()


def test_bookings_for_a_future_hour_count_when_it_begins() -> None:
    next_hour, booked = THIS_HOUR + HOUR, Counts(volume=1_000)
    found = Activity(created_at=None, hours={THIS_HOUR: Counts(volume=1), next_hour: booked})
    assert last_day(found, now=next_hour - TICK).counts == Counts(volume=1)
    assert last_day(found, now=next_hour).counts == Counts(volume=1_001)


def test_a_sender_of_unknown_age_is_not_young() -> None:
    assert value_of(Activity(created_at=None, hours={THIS_HOUR: Counts(volume=1_000)})) == 0


def test_counts_add_up() -> None:
    one = Counts(volume=1, sent=2, bounced=3, rejected=4)
    assert one + one == Counts(volume=2, sent=4, bounced=6, rejected=8)


def test_confidence_grows_with_the_sample() -> None:
    assert [round(confidence(n), 2) for n in (0, 1, 20, 100, 1_000)] == [0, 0.05, 0.5, 0.83, 0.98]
    assert SCORER.score(activity(Counts(volume=20)), now=NOW).confidence == 0.5


# ── whether scoring is worthwhile ────────────────────────────────────────────────────────────────────────

some_counts = st.builds(
    Counts,
    volume=st.integers(0, 300),
    sent=st.integers(0, 300),
    bounced=st.integers(0, 40),
    rejected=st.integers(0, 20),
)


@given(before=some_counts, more=some_counts, days=st.lists(st.integers(0, 50), max_size=3), is_young=st.booleans())
def test_the_score_changes_exactly_when_it_is_worth_asking(
    before: Counts, more: Counts, days: list[int], is_young: bool
) -> None:
    both = [activity(counts, days=tuple(days), age=DAY if is_young else 30 * DAY) for counts in (before, before + more)]
    earlier, later = (last_day(each, now=NOW) for each in both)
    assert is_worth_scoring(earlier, later) == (value_of(both[0]) != value_of(both[1]))


def test_a_burst_is_noticed_with_the_e_mail_that_breaks_a_rule_and_scored_but_a_few_times() -> None:
    scored = day = Day(past_volume=100, past_days=10)
    asked: list[int] = []
    for number in range(1, 10_001):
        bounced = number % 5 == 0 and number > 1_000
        day = replace(day, counts=day.counts + Counts(volume=1, sent=not bounced, bounced=bounced))
        if is_worth_scoring(scored, day):
            asked.append(number)
            scored = day
    assert asked[0] == 51  # more than five times ten
    assert len(asked) < 5
    assert broken_rules(scored) == broken_rules(day)


# ── consequences ─────────────────────────────────────────────────────────────────────────────────────────


def score(value: int, sure: float = 1.0) -> Score:
    return Score(value=value, confidence=sure)


@pytest.mark.parametrize(
    ("value", "hours"), [(0, 1), (19, 1), (20, 2), (51, 4), (59, 4), (60, 8), (79, 8), (80, 16), (99, 16), (100, 24)]
)
def test_how_long_a_throttle_lasts(value: int, hours: int) -> None:
    assert throttle_for(value) == hours * HOUR


@given(st.integers(0, 100_000), st.integers(1, 100))
def test_a_throttle_lasts_as_the_formula_says(value: int, longest_h: int) -> None:
    expected = min(2 ** math.floor(value / 20), longest_h)
    assert throttle_for(value, longest=longest_h * HOUR) == expected * HOUR


def test_at_the_threshold_nothing_follows_and_above_it_a_throttle() -> None:
    assert decide(None, score(50), ENFORCE, now=NOW) == Decision(is_enforced=True)
    found = decide(None, score(51), ENFORCE, now=NOW)
    assert found.throttle == found.in_force == Throttle(NOW, NOW + 4 * HOUR)
    assert found.is_new


def test_a_throttle_runs_its_time_although_the_held_mail_makes_no_new_bounces() -> None:
    throttle = Throttle(NOW, NOW + 4 * HOUR)
    assert decide(throttle, score(0), ENFORCE, now=NOW + 4 * HOUR - TICK).throttle == throttle
    assert decide(throttle, score(0), ENFORCE, now=NOW + 4 * HOUR).throttle is None


def test_a_score_that_stays_prolongs_nothing_and_keeps_the_low_weight() -> None:
    throttle = Throttle(NOW, NOW + 4 * HOUR)
    for hours in (1, 4, 30):
        found = decide(throttle, score(55), ENFORCE, now=NOW + hours * HOUR)
        assert found.throttle == throttle
        assert not found.is_new
    assert not throttle.holds(NOW + 4 * HOUR)


def test_a_higher_score_prolongs_it_counted_from_its_beginning() -> None:
    throttle = Throttle(NOW, NOW + 4 * HOUR)
    later = decide(throttle, score(95), ENFORCE, now=NOW + HOUR)
    assert later.throttle == Throttle(NOW, NOW + 16 * HOUR)
    assert decide(later.throttle, score(55), ENFORCE, now=NOW + 2 * HOUR).throttle == later.throttle


@pytest.mark.parametrize("value", [0, 100])
def test_a_shorter_maximum_shortens_what_runs_and_a_longer_one_lets_the_score_decide(value: int) -> None:
    running = Throttle(NOW, NOW + timedelta(hours=24))
    score = Score(value=value, confidence=1)
    short = decide(running, score, AbusePolicy(throttle_max=timedelta(hours=6)), now=NOW + HOUR).throttle
    assert short == Throttle(NOW, NOW + timedelta(hours=6))
    over = decide(running, score, AbusePolicy(throttle_max=timedelta(minutes=30)), now=NOW + HOUR).throttle
    assert over is None if value == 0 else over is not None and not over.holds(NOW + HOUR)
    long = decide(short, score, AbusePolicy(throttle_max=timedelta(days=3)), now=NOW + 2 * HOUR).throttle
    assert long is not None
    assert long.until - NOW == timedelta(hours=6 if value == 0 else 32)


def test_a_freed_sender_that_offends_again_is_throttled_again() -> None:
    over = Throttle(NOW - 4 * HOUR, NOW)
    assert decide(over, score(50), ENFORCE, now=NOW).throttle is None
    assert decide(None, score(55), ENFORCE, now=NOW + HOUR).is_new


def test_observing_stores_but_applies_nothing() -> None:
    policy = AbusePolicy(mode=AbuseMode.OBSERVE)
    found = decide(None, score(100), policy, now=NOW)
    assert (found.in_force, found.is_new) == (None, True)
    assert not decide(found.throttle, score(100), policy, now=NOW + HOUR).is_new


def test_switched_off_it_ends_what_there_was() -> None:
    running = Throttle(NOW, NOW + HOUR)
    assert decide(running, score(100), AbusePolicy(mode=AbuseMode.OFF), now=NOW) == Decision()


def test_threshold_length_and_confidence_can_be_set() -> None:
    policy = AbusePolicy(threshold=80, throttle_max=2 * HOUR, confidence_min=0.5)
    assert decide(None, score(80), policy, now=NOW).throttle is None
    assert decide(None, score(81), policy, now=NOW).throttle == Throttle(NOW, NOW + 2 * HOUR)
    assert decide(None, score(81, sure=0.4), policy, now=NOW).throttle is None


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 100)), max_size=40))
def test_a_throttle_lasts_at_most_a_day(steps: list[tuple[int, int]]) -> None:
    now, throttle = NOW, None
    for hours, value in steps:
        now += hours * HOUR
        throttle = decide(throttle, score(value), ENFORCE, now=now).throttle
        assert throttle is not None or value <= 50
        if throttle is not None:
            assert timedelta() < throttle.until - throttle.since <= DAY
            assert value > 50 or throttle.holds(now)


# ── the next check ───────────────────────────────────────────────────────────────────────────────────────


def test_a_throttled_sender_is_checked_when_the_throttle_ends_and_then_when_an_hour_leaves_the_day() -> None:
    throttle = Throttle(NOW, NOW + 4 * HOUR)
    found = activity(Counts(volume=200, bounced=40), days=(1,))
    assert look_again_at(None, found, now=NOW) is None
    assert look_again_at(throttle, found, now=NOW) == NOW + 4 * HOUR
    at = look_again_at(throttle, found, now=NOW + 4 * HOUR)
    assert at == THIS_HOUR + DAY
    assert SCORER.score(found, now=at - TICK).value == 55
    assert SCORER.score(found, now=at).value == 0


def test_a_young_one_is_checked_when_it_is_no_longer_young() -> None:
    found = activity(Counts(volume=200, bounced=40), age=WEEK - HOUR)
    assert look_again_at(Throttle(NOW - DAY, NOW), found, now=NOW) == NOW + HOUR


def test_where_nothing_can_fall_by_itself_it_is_asked_once_an_hour() -> None:
    found = Activity(created_at=NOW - 30 * DAY, hours={THIS_HOUR - DAY: Counts(volume=1), THIS_HOUR: Counts()})
    assert look_again_at(Throttle(NOW - DAY, NOW), found, now=NOW) == NOW + HOUR


def test_an_hour_that_was_booked_ahead_is_a_moment_to_look_again_for_who_was_throttled() -> None:
    hours = {THIS_HOUR + ahead * HOUR: Counts(volume=9) for ahead in (0, 5, 3)}
    found = Activity(created_at=None, hours=hours)
    assert look_again_at(None, found, now=NOW) is None
    assert look_again_at(Throttle(NOW, NOW + 4 * HOUR), found, now=NOW) == NOW + 4 * HOUR
    assert look_again_at(Throttle(NOW - DAY, NOW), found, now=NOW) == THIS_HOUR + 3 * HOUR


@given(
    st.dictionaries(st.integers(-5, 23), some_counts, max_size=8),
    st.lists(st.integers(0, 50), max_size=3),
    st.none() | st.integers(0, 10),
)
def test_between_now_and_that_moment_the_score_does_not_change_by_itself(
    hours: dict[int, Counts], days: list[int], age_days: int | None
) -> None:
    found = Activity(
        created_at=None if age_days is None else NOW - age_days * DAY,
        hours={THIS_HOUR - ago * HOUR: counts for ago, counts in hours.items()},
        days=tuple(days),
    )
    at = look_again_at(Throttle(NOW - DAY, NOW), found, now=NOW)
    assert at is not None
    assert at > NOW
    assert SCORER.score(found, now=at - TICK) == SCORER.score(found, now=NOW)
