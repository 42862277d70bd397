"""`fairpost simulate abuse`: the figures for known senders, and that it uses the engine's policy."""

from collections import Counter
from datetime import datetime, timedelta

import pytest

from fairpost.dev.simulate.abuse import Books, Story, Watch, Way, abuse_figures, simulate_abuse
from fairpost.dev.simulate.abuse_plot import draw_abuse
from fairpost.dev.simulate.senders import DAY, HISTORY, HOUR, MIX, ORIGIN, START, Batch, Kind, Sender, senders_of
from fairpost.model.sender import Counts
from fairpost.policy.abuse import last_day

DAYS = 4
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
SENDERS = senders_of(3, senders=60, days=DAYS)


def sender(*batches: Batch, kind: Kind = Kind.BLASTER, age: timedelta = DAY) -> Sender:
    return Sender(kind, START - age, batches, abuses_from=START if kind.is_abuse else None)


def bad(at: datetime, *, due: datetime | None = None, emails: int = 60) -> Batch:
    return Batch(due or at, at, emails, bounced=emails // 2, rejected=0, takes=MINUTE)


def watched(one: Sender, way: Way = Way.EVENTS) -> Story:
    return Watch(one, way).run(until=START + DAYS * DAY)


def test_the_same_seed_draws_the_same_senders() -> None:
    assert senders_of(3, senders=60, days=DAYS) == SENDERS
    assert senders_of(4, senders=60, days=DAYS) != SENDERS
    assert Counter(each.kind for each in SENDERS) == Counter(MIX * 3)
    assert set(MIX) == set(Kind)


@pytest.mark.parametrize("drawn", SENDERS[:20], ids=lambda drawn: drawn.kind)
def test_senders_are_what_they_are_called(drawn: Sender) -> None:
    assert (drawn.abuses_from is not None) == drawn.kind.is_abuse
    assert all(batch.due <= batch.at and batch.emails > 0 for batch in drawn.batches)
    assert all(drawn.created_at <= batch.due for batch in drawn.batches)
    assert all(batch.bounced + batch.rejected <= batch.emails for batch in drawn.batches)
    if drawn.abuses_from is not None:
        assert START <= drawn.abuses_from < START + DAYS * DAY
    is_fresh = drawn.kind in (Kind.NEWCOMER, Kind.BLASTER, Kind.ALL_AT_ONCE, Kind.SLOW)
    assert (drawn.created_at > ORIGIN) == is_fresh


def test_the_books_hold_the_last_24_hours_and_the_days_before() -> None:
    books = Books(ORIGIN)
    now = ORIGIN
    for hour in range(24 * 5):
        now = ORIGIN + hour * HOUR + 10 * MINUTE
        books.book(Counts(volume=1, sent=1), now=now)
    day = last_day(books.activity(now=now), now=now)
    assert day.counts == Counts(volume=24, sent=24)
    assert (day.past_volume, day.past_days) == (24 * 4, 4)
    assert len(books.days) == HISTORY // DAY
    later = last_day(books.activity(now=now + HOUR), now=now + HOUR)
    assert later.counts.volume == 23
    assert (later.past_volume, later.past_days) == (24 * 4 + 1, 5)


def test_a_fresh_account_is_found_with_the_outcome_that_breaks_the_second_rule() -> None:
    story = watched(sender(bad(START + HOUR), bad(START + 2 * HOUR), bad(START + 3 * HOUR)))
    assert story.throttled_at == START + 2 * HOUR, "young with more than 100, and half of the first 60 had bounced"
    assert story.out_before == 60
    assert story.detect_s == 7200


def test_a_timer_finds_the_same_at_the_next_full_hour() -> None:
    batches = (bad(START + HOUR + MINUTE), bad(START + HOUR + 2 * MINUTE), bad(START + HOUR + 50 * MINUTE))
    assert watched(sender(*batches)).detect_s == 62 * 60
    story = watched(sender(*batches), Way.HOURLY)
    assert (story.detect_s, story.out_before, story.scored) == (7200, 180, 24 * DAYS)


def test_held_mail_goes_out_when_the_throttle_ends() -> None:
    one = sender(*(bad(START + number * MINUTE) for number in range(10)))
    watch = Watch(one, Way.EVENTS)
    watch.run(until=START + 7 * HOUR)
    assert watch.books.hours[START].volume == 600, "it became due, held or not"
    before = sum((counts for counts in watch.books.hours.values()), Counts())
    watch.run(until=START + 24 * HOUR)
    after = sum((counts for counts in watch.books.hours.values()), Counts())
    assert before.sent + before.bounced < 600
    assert after.sent + after.bounced == 600


def test_queueing_everything_at_once_hides_bounces_behind_volume() -> None:
    """Rates refer to mail that became due, which the simulation must show even if we do not like the result."""
    times = [START + number * MINUTE for number in range(1, 101)]
    bit_by_bit = watched(sender(*(bad(at) for at in times)))
    at_once = watched(sender(*(bad(at, due=START) for at in times), kind=Kind.ALL_AT_ONCE))
    assert bit_by_bit.out_before <= 120
    assert at_once.out_before > 1_000


def test_no_sender_is_scored_before_the_start() -> None:
    story = watched(sender(*(bad(ORIGIN + number * HOUR) for number in range(200)), age=HISTORY))
    assert (story.scored, story.throttled_at) == (0, None)


def test_the_figures_count_honest_and_abusers_apart() -> None:
    stories = [
        Story(sender(bad(START), kind=Kind.STEADY)),
        Story(sender(bad(START), kind=Kind.STEADY), throttled_at=START + HOUR),
        Story(sender(bad(START), bad(START - SECOND)), throttled_at=START + HOUR, out_before=7, scored=2),
        Story(sender(bad(START)), throttled_at=START + 3 * HOUR, out_before=60, scored=1),
        Story(sender(bad(START), kind=Kind.SLOW), out_before=60),
    ]
    found = abuse_figures(stories, days=1)
    assert (found.false_positive_rate, found.false_negative_rate, found.precision) == (1 / 2, 1 / 3, 2 / 3)
    assert (found.detect_s_p50, found.detect_s_p90, found.scored) == (3600, 10_800, 3)
    blaster, slow, steady = (found.kinds[kind] for kind in ("blaster", "slow", "steady"))
    assert (blaster.senders, blaster.throttled, blaster.emails, blaster.out_before) == (2, 2, 120, 67)
    assert (slow.throttled, slow.detect_s_p50, slow.out_before) == (0, None, 60)
    assert (steady.throttled, steady.detect_s_p50, steady.out_before) == (1, None, None)


def test_without_senders_there_are_no_rates() -> None:
    found = abuse_figures([Story(sender(bad(START)))], days=1)
    assert (found.false_positive_rate, found.precision, found.detect_s_p50) == (None, None, None)
    assert found.false_negative_rate == 1


def test_on_events_a_blaster_is_found_in_minutes_and_sooner_than_by_a_timer() -> None:
    events, hourly = (abuse_figures(simulate_abuse(SENDERS, way, days=DAYS), days=DAYS) for way in Way)
    blaster, later = events.kinds["blaster"], hourly.kinds["blaster"]
    assert blaster.throttled == blaster.senders
    assert (blaster.detect_s_p50 or 0) < 15 * 60 < (later.detect_s_p50 or 0)
    assert (blaster.out_before or 0) * 3 < (later.out_before or 0)
    assert events.scored * 10 < hourly.scored
    for name in ("steady", "newsletter", "newcomer"):
        assert events.kinds[name].throttled == 0


def test_the_same_stories_give_the_same_plot() -> None:
    stories = {way: simulate_abuse(SENDERS[:20], way, days=DAYS) for way in Way}
    figures = {way: abuse_figures(each, days=DAYS) for way, each in stories.items()}
    drawn = draw_abuse(stories, figures)
    assert drawn.startswith("<?xml")
    assert drawn == draw_abuse(stories, figures)
