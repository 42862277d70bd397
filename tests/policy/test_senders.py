"""Decisions about a sender: by age, plan and score; manual ones take precedence; and never twice for the same reason."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairpost.model.reason import Reason
from fairpost.model.sender import AbuseMode, Counts, Sender, SenderId, SenderLevel, Throttle, Tier
from fairpost.policy.abuse import DAY, HOUR, AbusePolicy, Activity, Score, last_day
from fairpost.policy.senders import IMMUNE_FOR, Decided, SenderPolicy, activity_of, impose, lift, look
from fairpost.policy.tiers import Plans

NOW = datetime(2030, 1, 31, 9, 30, tzinfo=UTC)
THIS_HOUR = datetime(2030, 1, 31, 9, tzinfo=UTC)
TICK = timedelta(microseconds=1)
WEEK = timedelta(days=7)

ANN = SenderId(workspace="acme", name="ann")
ACME = SenderId(workspace="acme", level=SenderLevel.WORKSPACE)
NAMELESS = SenderId(workspace="acme", name="")

ENFORCE = SenderPolicy()
OBSERVE = SenderPolicy(abuse=AbusePolicy(mode=AbuseMode.OBSERVE))
OFF = SenderPolicy(abuse=AbusePolicy(mode=AbuseMode.OFF))

Hours = dict[datetime, Counts]
Days = dict[date, int]

NOTHING: Hours = {}
HABITS: Days = {date(2030, 1, 28): 10, date(2030, 1, 29): 10}
SPIKE: Hours = {THIS_HOUR: Counts(volume=51)}  # 25 points
BAD: Hours = {THIS_HOUR: Counts(volume=100, bounced=20)}  # with the spike 55: held for four hours
WORSE: Hours = {THIS_HOUR: Counts(volume=100, bounced=20, rejected=10)}  # 75: held for eight

SPAM = Reason("throttle.by_hand", note="spam")


def looked(
    sender: Sender, hours: Hours = NOTHING, *, policy: SenderPolicy = ENFORCE, now: datetime = NOW
) -> Decided | None:
    return look(sender, hours, HABITS, policy, now=now)


def after(sender: Sender, hours: Hours = NOTHING, *, policy: SenderPolicy = ENFORCE, now: datetime = NOW) -> Sender:
    """Returns the state after a check, whether or not anything changed."""
    decided = looked(sender, hours, policy=policy, now=now)
    return decided.after if decided else sender


# ── age and plan ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_young_user_is_low_until_the_seventh_day_is_over_and_is_checked_then() -> None:
    young = after(Sender(id=ANN, plan="team", since=NOW))
    assert (young.tier, young.look_at) == (Tier.LOW, NOW + WEEK)
    assert looked(young, now=NOW + WEEK - TICK) is None
    grown = after(young, now=NOW + WEEK)
    assert (grown.tier, grown.look_at) == (Tier.HIGH, None)


def test_a_free_user_is_low_at_any_age_and_is_not_checked_again() -> None:
    free = after(Sender(id=ANN, plan="free", since=NOW))
    assert (free.tier, free.look_at) == (Tier.LOW, None)


@pytest.mark.parametrize("id_", [ANN, ACME, NAMELESS], ids=str)
def test_a_paying_sender_is_high(id_: SenderId) -> None:
    assert after(Sender(id=id_, plan="team", since=NOW - WEEK)).tier is Tier.HIGH


def test_a_user_of_unknown_age_is_not_young() -> None:
    assert looked(Sender(id=ANN)) is None
    assert Sender(id=ANN).tier is Tier.NORMAL
    assert after(Sender(id=ANN, plan="team")).tier is Tier.HIGH


def test_plans_are_those_of_the_installation() -> None:
    policy = SenderPolicy(plans=Plans(paid=frozenset({"gold"}), free=frozenset()))
    assert after(Sender(id=ANN, plan="gold"), policy=policy).tier is Tier.HIGH
    assert looked(Sender(id=ANN, plan="team"), policy=policy) is None


# ── by score ─────────────────────────────────────────────────────────────────────────────────────────────


def test_above_the_threshold_a_user_is_throttled_with_reasons_and_looked_at_when_it_ends() -> None:
    decided = looked(Sender(id=ANN, plan="team", revision=7), BAD)
    assert decided is not None
    bounces, spike = decided.after.reasons
    assert bounces == Reason("sender.too_many_bounces", bounced=20, total=100)
    assert spike == Reason("sender.unusual_volume", volume=100, factor=5, usual=10.0)
    assert decided == Decided(
        Sender(
            id=ANN,
            plan="team",
            tier=Tier.THROTTLED,
            look_at=NOW + 4 * HOUR,
            throttle=Throttle(NOW, NOW + 4 * HOUR),
            is_enforced=True,
            score=55,
            confidence=100 / 120,
            reasons=(bounces, spike),
            scored_at=NOW,
            revision=7,
        ),
        is_new=True,
    )


def test_a_score_without_consequence_is_not_written() -> None:
    assert looked(Sender(id=ANN), SPIKE) is None


def test_while_a_throttle_holds_nothing_is_written_for_each_e_mail_more() -> None:
    throttled = after(Sender(id=ANN), BAD)
    more = {THIS_HOUR: Counts(volume=200, bounced=40)}
    assert looked(throttled, more, now=NOW + HOUR) is None


def test_a_higher_score_prolongs_a_throttle_and_says_why_without_a_second_notice() -> None:
    throttled = after(Sender(id=ANN), BAD)
    decided = looked(throttled, WORSE, now=NOW + HOUR)
    assert decided is not None
    assert decided.after.throttle == Throttle(NOW, NOW + 8 * HOUR)
    assert decided.after.look_at == NOW + 8 * HOUR
    assert Reason("sender.too_many_rejections", rejected=10, total=100) in decided.after.reasons
    assert not decided.is_new


def test_a_higher_score_says_why_also_where_the_throttle_is_the_longest_already() -> None:
    policy = SenderPolicy(abuse=AbusePolicy(throttle_max=HOUR))
    throttled = after(Sender(id=ANN), BAD, policy=policy)
    worse = after(throttled, WORSE, policy=policy, now=NOW + TICK)
    assert worse.throttle == throttled.throttle
    assert len(worse.reasons) == 3


def test_a_lower_score_ends_no_throttle_and_its_reasons_stay() -> None:
    throttled = after(Sender(id=ANN), BAD)
    better = after(throttled, SPIKE, now=NOW + HOUR)
    assert (better.throttle, better.reasons, better.tier) == (throttled.throttle, throttled.reasons, Tier.THROTTLED)
    assert better.score == 25


def test_when_a_throttle_is_over_a_bad_score_keeps_the_tier_until_an_hour_leaves_the_day() -> None:
    throttled = after(Sender(id=ANN), BAD)
    over = after(throttled, BAD, now=NOW + 4 * HOUR)
    assert (over.tier, over.throttle) == (Tier.THROTTLED, throttled.throttle)
    assert over.look_at == THIS_HOUR + DAY
    free = after(over, BAD, now=THIS_HOUR + DAY)
    assert free == Sender(id=ANN, scored_at=THIS_HOUR + DAY), "nothing is left of it except the time of the check"


def test_when_a_throttle_is_over_and_the_score_is_good_the_user_is_free() -> None:
    throttled = after(Sender(id=ANN, plan="team"), BAD)
    free = after(throttled, SPIKE, now=NOW + 4 * HOUR)
    assert (free.tier, free.throttle, free.reasons, free.is_enforced) == (Tier.HIGH, None, (), False)


def test_mail_that_names_no_user_has_no_score_but_its_workspace_does() -> None:
    assert looked(Sender(id=NAMELESS), WORSE) is None
    decided = looked(Sender(id=ACME), WORSE)
    assert decided is not None
    assert (decided.is_new, decided.after.tier) == (True, Tier.THROTTLED)


@pytest.mark.parametrize(
    "policy", [SenderPolicy(trusted=frozenset({"acme"})), SenderPolicy(abuse=AbusePolicy(mode=AbuseMode.OFF))]
)
def test_a_workspace_of_the_operators_own_is_not_scored(policy: SenderPolicy) -> None:
    assert looked(Sender(id=ACME), WORSE, policy=policy) is None


def test_another_scorer_can_take_the_place_of_the_rules() -> None:
    class Strict:
        def score(self, activity: Activity, *, now: datetime) -> Score:
            return Score(value=100, confidence=1.0, reasons=(Reason("mine.untrusted"),))

    caught = after(Sender(id=ANN), policy=SenderPolicy(scorer=Strict()))
    assert caught.throttle == Throttle(NOW, NOW + DAY)
    assert caught.reasons == (Reason("mine.untrusted"),)


# ── modes ────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_observed_throttle_is_stored_without_effect() -> None:
    decided = looked(Sender(id=ANN, plan="team"), BAD, policy=OBSERVE)
    assert decided is not None
    assert decided.is_new
    observed = decided.after
    assert observed.throttle == Throttle(NOW, NOW + 4 * HOUR)
    assert (observed.tier, observed.is_enforced, observed.look_at) == (Tier.HIGH, False, NOW + 4 * HOUR)
    assert len(observed.reasons) == 2


def test_an_observed_throttle_takes_effect_when_enforced_and_vice_versa() -> None:
    observed = after(Sender(id=ANN), BAD, policy=OBSERVE)
    decided = looked(observed, BAD, now=NOW + HOUR)
    assert decided is not None
    assert (decided.after.tier, decided.after.is_enforced) == (Tier.THROTTLED, True)
    assert decided.after.throttle == observed.throttle
    assert not decided.is_new
    back = after(decided.after, BAD, policy=OBSERVE, now=NOW + HOUR)
    assert (back.tier, back.is_enforced) == (Tier.NORMAL, False)


def test_turning_scoring_off_frees_throttled_senders() -> None:
    throttled = after(Sender(id=ANN), BAD)
    free = after(throttled, BAD, policy=OFF, now=NOW + TICK)
    assert (free.tier, free.throttle, free.reasons, free.look_at) == (Tier.NORMAL, None, (), None)
    assert free.scored_at == NOW, "it was not scored now"


# ── manual decisions ─────────────────────────────────────────────────────────────────────────────────────


def imposed(sender: Sender, *, policy: SenderPolicy = ENFORCE, length: timedelta = 2 * HOUR) -> Sender:
    decided = impose(sender, until=NOW + length, reason="spam", policy=policy, now=NOW)
    assert not decided.is_new, "the operator who did it knows"
    return decided.after


@pytest.mark.parametrize("id_", [ANN, ACME, NAMELESS], ids=str)
@pytest.mark.parametrize("policy", [ENFORCE, OBSERVE, OFF], ids=["enforce", "observe", "off"])
def test_manually_beats_every_mode_and_ends_by_itself(id_: SenderId, policy: SenderPolicy) -> None:
    held = imposed(Sender(id=id_, plan="team"), policy=policy)
    assert (held.tier, held.is_enforced, held.reasons) == (Tier.THROTTLED, True, (SPAM,))
    assert held.look_at == NOW + 2 * HOUR
    assert looked(held, policy=policy, now=NOW + 2 * HOUR - TICK) is None
    free = after(held, policy=policy, now=NOW + 2 * HOUR)
    assert (free.tier, free.throttle, free.is_by_hand, free.reasons) == (Tier.HIGH, None, False, ())
    assert free.look_at is None


def test_no_score_shortens_or_prolongs_what_was_imposed_manually() -> None:
    held = imposed(Sender(id=ANN))
    scored = after(held, WORSE, now=NOW + HOUR)
    assert (scored.throttle, scored.reasons, scored.score) == (held.throttle, (SPAM,), 75)


def test_after_what_was_imposed_manually_a_bad_score_begins_a_throttle_of_its_own() -> None:
    decided = looked(imposed(Sender(id=ANN)), BAD, now=NOW + 2 * HOUR)
    assert decided is not None
    assert decided.is_new
    assert decided.after.throttle == Throttle(NOW + 2 * HOUR, NOW + 6 * HOUR)
    assert not decided.after.is_by_hand


def test_manually_takes_the_place_of_a_throttle_by_score() -> None:
    held = imposed(after(Sender(id=ANN), WORSE))
    assert held.throttle == Throttle(NOW, NOW + 2 * HOUR)
    assert held.reasons == (SPAM,)


def test_a_released_sender_is_free_at_once_and_immune_for_a_while() -> None:
    throttled = after(Sender(id=ANN, plan="team"), BAD)
    free = lift(throttled, policy=ENFORCE, now=NOW + HOUR).after
    assert (free.tier, free.throttle, free.is_enforced, free.reasons) == (Tier.HIGH, None, False, ())
    end = NOW + HOUR + IMMUNE_FOR
    assert free.immune_until == free.look_at == end
    assert looked(free, WORSE, now=end - TICK) is None


def test_after_the_immunity_the_score_counts_again() -> None:
    free = lift(Sender(id=ANN), policy=ENFORCE, now=NOW, immune_for=2 * HOUR).after
    decided = looked(free, BAD, now=NOW + 2 * HOUR)
    assert decided is not None
    assert decided.is_new
    assert decided.after.throttle == Throttle(NOW + 2 * HOUR, NOW + 6 * HOUR)
    assert decided.after.immune_until is None


def test_immunity_ends_without_a_trace_for_who_did_nothing() -> None:
    free = lift(Sender(id=ANN), policy=ENFORCE, now=NOW).after
    assert after(free, now=NOW + IMMUNE_FOR) == Sender(id=ANN, scored_at=NOW + IMMUNE_FOR)


def test_the_immune_are_throttled_manually_anyway() -> None:
    held = imposed(lift(Sender(id=ANN), policy=ENFORCE, now=NOW).after)
    assert (held.tier, held.immune_until) == (Tier.THROTTLED, None)


def test_a_sender_released_while_young_matures_in_time() -> None:
    free = lift(Sender(id=ANN, since=NOW - WEEK + HOUR), policy=ENFORCE, now=NOW).after
    assert (free.tier, free.look_at) == (Tier.LOW, NOW + HOUR)
    grown = after(free, now=NOW + HOUR)
    assert (grown.tier, grown.look_at) == (Tier.NORMAL, NOW + IMMUNE_FOR)


# ── usual volume ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ({}, ()),
        ({date(2030, 1, 29): 7}, (7,)),
        ({date(2030, 1, 26): 3, date(2030, 1, 29): 7}, (3, 0, 0, 7)),
        ({date(2030, 1, 27): 3}, (3, 0, 0)),
        ({date(2030, 1, 29): 7, date(2030, 1, 30): 9, date(2030, 1, 31): 11}, (7,)),  # the 24 hours began on the 30th
        ({date(2030, 1, 30): 9}, ()),
    ],
)
def test_gaps_count_and_the_day_in_which_the_24_hours_begin_does_not(days: Days, expected: tuple[int, ...]) -> None:
    assert activity_of(Sender(id=ANN), {}, days, now=NOW).days == expected


def test_days_are_those_of_utc() -> None:
    moment = datetime(2030, 1, 31, 23, 30, tzinfo=UTC).astimezone(
        datetime.fromisoformat("2030-01-01T00:00+13:00").tzinfo
    )
    found = activity_of(Sender(id=ANN), {}, {date(2030, 1, 29): 7, date(2030, 1, 30): 9}, now=moment)
    assert found.days == (7,)


@given(days=st.dictionaries(st.dates(date(2029, 12, 31), date(2030, 1, 31)), st.integers(1, 1_000)))
def test_no_e_mail_of_the_days_before_is_lost_or_counted_twice(days: Days) -> None:
    day = last_day(activity_of(Sender(id=ANN), {}, days, now=NOW), now=NOW)
    before = {each: volume for each, volume in days.items() if each < date(2030, 1, 30)}
    assert day.past_volume == sum(before.values())
    assert day.past_days == ((date(2030, 1, 30) - min(before)).days if before else 0)


# ── arbitrary input ──────────────────────────────────────────────────────────────────────────────────────

spans = st.timedeltas(timedelta(), timedelta(days=9)) | st.sampled_from([timedelta(), HOUR, 4 * HOUR, DAY, WEEK])
counts = st.builds(
    Counts, volume=st.integers(0, 300), sent=st.integers(0, 50), bounced=st.integers(0, 50), rejected=st.integers(0, 50)
)
activities = st.dictionaries(st.integers(-25, 5).map(lambda i: THIS_HOUR + i * HOUR), counts, max_size=6)
histories = st.dictionaries(
    st.integers(1, 30).map(lambda i: date(2030, 1, 31) - i * DAY), st.integers(1, 200), max_size=4
)
policies = st.builds(
    SenderPolicy,
    abuse=st.builds(
        AbusePolicy,
        mode=st.sampled_from(AbuseMode),
        threshold=st.sampled_from([0, 20, 50, 80]),
        throttle_max=st.sampled_from([HOUR, DAY]),
        confidence_min=st.sampled_from([0.0, 0.5]),
    ),
)


@st.composite
def senders(draw: st.DrawFn) -> Sender:
    known = Sender(
        id=draw(st.sampled_from([ANN, ACME, NAMELESS])),
        plan=draw(st.sampled_from([None, "free", "basic", "team"])),
        since=draw(st.none() | spans.map(lambda span: NOW - span)),
        immune_until=draw(st.none() | spans.map(lambda span: NOW - DAY + span)),
        tier=draw(st.sampled_from(Tier)),
    )
    begun = draw(st.none() | spans.map(lambda span: NOW - span))
    if begun is None:
        return known
    return replace(
        known,
        throttle=Throttle(begun, begun + draw(spans) + TICK),
        is_enforced=draw(st.booleans()),
        is_by_hand=draw(st.booleans()),
        score=draw(st.integers(0, 100)),
        reasons=(Reason("sender.too_many_bounces"),),
    )


def settled(sender: Sender, hours: Hours, days: Days, policy: SenderPolicy) -> Sender:
    decided = look(sender, hours, days, policy, now=NOW)
    return decided.after if decided else sender


@given(sender=senders(), hours=activities, days=histories, policy=policies)
def test_a_second_look_at_the_same_moment_finds_nothing_to_do(
    sender: Sender, hours: Hours, days: Days, policy: SenderPolicy
) -> None:
    assert look(settled(sender, hours, days, policy), hours, days, policy, now=NOW) is None


@given(sender=senders(), hours=activities, days=histories, policy=policies)
def test_a_look_leaves_consistent_data(sender: Sender, hours: Hours, days: Days, policy: SenderPolicy) -> None:
    found = settled(sender, hours, days, policy)
    assert (found.tier is Tier.THROTTLED) == (found.throttle is not None and found.is_enforced)
    assert bool(found.throttle) >= bool(found.reasons), "nothing has no reasons"
    assert found.look_at is None or found.look_at > NOW
    assert found.throttle is None or found.look_at is not None, "every throttled sender is checked again"
    assert (found.id, found.plan, found.since, found.revision) == (
        sender.id,
        sender.plan,
        sender.since,
        sender.revision,
    )


@given(sender=senders(), days=histories, policy=policies, later=spans)
def test_an_idle_sender_is_not_changed_before_the_next_check(
    sender: Sender, days: Days, policy: SenderPolicy, later: timedelta
) -> None:
    found = settled(sender, {}, days, policy)
    assume(found.look_at is None or NOW + later < found.look_at)
    assert look(found, {}, days, policy, now=NOW + later) is None


@given(
    sender=senders(),
    hours=activities,
    days=histories,
    policy=policies,
    later=st.timedeltas(timedelta(), timedelta(minutes=30) - TICK),
)
def test_nothing_changes_before_the_next_check_while_the_hours_of_the_day_stay_the_same(
    sender: Sender, hours: Hours, days: Days, policy: SenderPolicy, later: timedelta
) -> None:
    found = settled(sender, hours, days, policy)
    assume(found.look_at is None or NOW + later < found.look_at)
    assert look(found, hours, days, policy, now=NOW + later) is None


@given(
    hours=activities,
    bad_hour=st.integers(-22, 0).map(lambda i: THIS_HOUR + i * HOUR),
    days=histories,
    part=st.floats(0, 1, exclude_max=True),
)
def test_a_slowed_sender_is_checked_as_soon_as_its_score_can_change(
    hours: Hours, bad_hour: datetime, days: Days, part: float
) -> None:
    """Only until midnight, when another day becomes part of the usual volume."""
    hours = {**hours, bad_hour: Counts(bounced=1_000)}
    policy = SenderPolicy(abuse=AbusePolicy(threshold=20, throttle_max=HOUR))
    before = Sender(
        id=ANN,
        throttle=Throttle(NOW - 3 * HOUR, NOW - 2 * HOUR),
        is_enforced=True,
        reasons=(Reason("sender.too_many_bounces"),),
    )
    found = settled(before, hours, days, policy)
    assert found.tier is Tier.THROTTLED
    assert found.look_at is not None
    midnight = datetime(2030, 2, 1, tzinfo=UTC)
    later = NOW + part * (min(found.look_at, midnight) - NOW)
    assume(later < min(found.look_at, midnight))  # a float can round up
    assert look(found, hours, days, policy, now=later) is None


@given(
    throttle=st.builds(lambda ago, ahead: Throttle(NOW - ago, NOW + ahead + TICK), spans, spans),
    is_by_hand=st.booleans(),
    hours=activities,
    days=histories,
    policy=policies,
    part=st.floats(0, 1, exclude_max=True),
)
def test_no_throttle_ends_early(
    throttle: Throttle, is_by_hand: bool, hours: Hours, days: Days, policy: SenderPolicy, part: float
) -> None:
    """Whatever leaves the window in the meantime. The throttle may be extended, because the rest can be worse."""
    assume(is_by_hand or policy.abuse.mode is not AbuseMode.OFF)
    assume(is_by_hand or throttle.until <= throttle.since + policy.abuse.throttle_max)
    held = Sender(
        id=ANN, throttle=throttle, is_enforced=True, is_by_hand=is_by_hand, reasons=(Reason("sender.too_many_bounces"),)
    )
    found = settled(held, hours, days, policy)
    assert found.throttle is not None
    later = NOW + part * (throttle.until - NOW)
    assume(later < throttle.until)
    decided = look(found, hours, days, policy, now=later)
    then = decided.after if decided else found
    assert then.throttle is not None
    assert then.throttle.until >= found.throttle.until >= throttle.until
    assert (then.tier, then.is_enforced, then.is_by_hand) == (found.tier, found.is_enforced, is_by_hand)


def test_a_rate_that_only_time_made_worse_throttles_no_idle_sender() -> None:
    """A large clean hour leaves the window, and a bad one remains. A sender that no longer sends is not checked."""
    clean, bad = THIS_HOUR - 23 * HOUR, THIS_HOUR
    hours = {clean: Counts(volume=1_000, sent=1_000), bad: Counts(volume=60, bounced=30, rejected=30)}
    policy = SenderPolicy(abuse=AbusePolicy(threshold=30))
    assert looked(Sender(id=ANN), hours, policy=policy) is None
    assert after(Sender(id=ANN), hours, policy=policy, now=clean + DAY).tier is Tier.THROTTLED
