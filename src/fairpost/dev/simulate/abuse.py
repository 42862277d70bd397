"""Simulates honest senders and abusers under the abuse policy: who is throttled, how soon, and which throttles are
mistakes. The policy is the engine's own code, whereas the senders, the clock and the dice are simulated. There is no
queue, so every e-mail is sent immediately unless its sender is throttled. `senders` defines the senders and their
e-mails.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import partial
from itertools import count, pairwise

from fairpost.dev.simulate.senders import HISTORY, ORIGIN, START, Batch, Kind, Sender
from fairpost.model.sender import AbuseMode, Counts, Throttle
from fairpost.policy.abuse import (
    DAY,
    HOUR,
    AbusePolicy,
    Activity,
    Day,
    RuleScorer,
    decide,
    is_worth_scoring,
    last_day,
    look_again_at,
)
from fairpost.policy.inequality import quantile
from fairpost.system.clock import ManualClock

POLICY = AbusePolicy(mode=AbuseMode.ENFORCE)
SCORER = RuleScorer()


class Way(Enum):
    """When a sender is scored."""

    EVENTS = "on events"  # on events that break a rule or restore compliance, as in the engine
    HOURLY = "hourly"  # on a timer, once an hour


@dataclass(slots=True)
class Books:
    """One sender's counters, as the engine keeps them: counts for each of the last few hours, and the volume for each
    previous day.
    """

    created_at: datetime
    hours: dict[datetime, Counts] = field(default_factory=dict)
    volumes: list[int] = field(default_factory=list)  # by hour, since the origin
    days: tuple[int, ...] = ()

    def book(self, counts: Counts, *, now: datetime) -> None:
        hour = self._turn_to(now)
        self.hours[hour] = self.hours.get(hour, Counts()) + counts
        self.volumes[-1] += counts.volume

    def activity(self, *, now: datetime) -> Activity:
        self._turn_to(now)
        return Activity(created_at=self.created_at, hours=self.hours, days=self.days)

    def _turn_to(self, now: datetime) -> datetime:
        number = (now - ORIGIN) // HOUR
        hour = ORIGIN + number * HOUR
        if len(self.volumes) <= number:
            self.volumes += [0] * (number + 1 - len(self.volumes))
            self.hours = {start: counts for start, counts in self.hours.items() if start > hour - DAY}
            end = number - 23  # start of the last 24 hours
            edges = [max(0, end - 24 * ago) for ago in range(HISTORY // DAY, -1, -1)]
            self.days = tuple(sum(self.volumes[a:b]) for a, b in pairwise(edges))
        return hour


@dataclass(slots=True)
class Story:
    """The outcome for one sender, measured from the start of the abuse or, for an honest sender, from the beginning."""

    sender: Sender
    throttled_at: datetime | None = None
    out_before: int = 0  # e-mails sent before the sender was throttled
    scored: int = 0  # number of times the sender was scored

    @property
    def begins_at(self) -> datetime:
        return self.sender.abuses_from or START

    @property
    def detect_s(self) -> float | None:
        if self.throttled_at is None or not self.sender.kind.is_abuse:
            return None
        return (self.throttled_at - self.begins_at).total_seconds()


class Watch:
    """Observes one sender from its first event to its last, and scores it in one of the two ways."""

    def __init__(self, sender: Sender, way: Way) -> None:
        self._story = Story(sender)
        self._way = way
        self._clock = ManualClock(ORIGIN)
        self.books = Books(sender.created_at)
        self._throttle: Throttle | None = None
        self._scored = Day()  # the day's figures at the last scoring
        self._look_at: datetime | None = None
        self._numbers = count()  # breaks ties between simultaneous events by the order in which they were planned
        self._events: list[tuple[datetime, int, Callable[[], None]]] = []
        for batch in sender.batches:
            self._plan(batch.due, partial(self._book, Counts(volume=batch.emails)))
            self._plan(batch.at, partial(self._let_out, batch))
        if way is Way.HOURLY:
            self._look_again_at(START)

    def run(self, *, until: datetime) -> Story:
        while self._events and self._events[0][0] < until:
            at, _, happen = heapq.heappop(self._events)
            self._clock.move_to(at)
            happen()
        return self._story

    def _let_out(self, batch: Batch) -> None:
        now, throttle = self._clock.now, self._throttle
        if throttle is not None and throttle.holds(now):  # after the throttle ends, at the original pace
            self._plan(throttle.until + (now - throttle.since), partial(self._let_out, batch))
            return
        if self._story.throttled_at is None and now >= self._story.begins_at:
            self._story.out_before += batch.emails
        sent = batch.emails - batch.bounced - batch.rejected
        outcome = Counts(sent=sent, bounced=batch.bounced, rejected=batch.rejected)
        self._plan(now + batch.takes, partial(self._book, outcome))

    def _book(self, counts: Counts) -> None:
        now = self._clock.now
        self.books.book(counts, now=now)
        if self._way is Way.EVENTS and now >= START:
            day = last_day(self.books.activity(now=now), now=now)
            if is_worth_scoring(self._scored, day):
                self._score()

    def _look(self) -> None:
        if self._clock.now == self._look_at:  # otherwise, the event was postponed
            self._score()

    def _score(self) -> None:
        now = self._clock.now
        activity = self.books.activity(now=now)
        decision = decide(self._throttle, SCORER.score(activity, now=now), POLICY, now=now)
        self._story.scored += 1
        self._scored, self._throttle = last_day(activity, now=now), decision.in_force
        if decision.is_new and self._story.throttled_at is None and now >= self._story.begins_at:
            self._story.throttled_at = now
        self._look_again_at(now + HOUR if self._way is Way.HOURLY else look_again_at(self._throttle, activity, now=now))

    def _look_again_at(self, moment: datetime | None) -> None:
        if moment is not None and moment != self._look_at:
            self._plan(moment, self._look)
        self._look_at = moment

    def _plan(self, at: datetime, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (at, next(self._numbers), happen))


@dataclass(frozen=True, slots=True, kw_only=True)
class KindFigures:
    """The figures for one kind of sender. None means that no sender was detected, or that there was nothing to
    detect.
    """

    is_abuse: bool
    senders: int
    throttled: int
    detect_s_p50: float | None
    detect_s_p90: float | None
    emails: int  # e-mails that the senders wanted to send
    out_before: int | None  # e-mails sent before the throttle, or all e-mails if there was no throttle


@dataclass(frozen=True, slots=True, kw_only=True)
class AbuseFigures:
    kinds: Mapping[str, KindFigures]
    false_positive_rate: float | None  # share of honest senders that were throttled
    false_negative_rate: float | None  # share of abusers that were never throttled
    precision: float | None  # share of throttled senders that are abusers
    detect_s_p50: float | None
    detect_s_p90: float | None
    scored: int  # number of times that senders were scored


def simulate_abuse(
    senders: Iterable[Sender], way: Way, *, days: int, progress: Callable[[], None] = lambda: None
) -> list[Story]:
    """Runs the simulation. Calls `progress` after each sender."""
    stories = []
    for sender in senders:
        stories.append(Watch(sender, way).run(until=START + days * DAY))
        progress()
    return stories


def abuse_figures(stories: Sequence[Story], *, days: int) -> AbuseFigures:
    until = START + days * DAY
    honest = [story for story in stories if not story.sender.kind.is_abuse]
    abusers = [story for story in stories if story.sender.kind.is_abuse]
    wrong, right = _throttled(honest), _throttled(abusers)
    return AbuseFigures(
        kinds={
            kind.value: _kind(kind, [story for story in stories if story.sender.kind is kind], until)
            for kind in Kind
            if any(story.sender.kind is kind for story in stories)
        },
        false_positive_rate=_part(wrong, len(honest)),
        false_negative_rate=_part(len(abusers) - right, len(abusers)),
        precision=_part(right, right + wrong),
        detect_s_p50=quantile(_detected(abusers), 0.5),
        detect_s_p90=quantile(_detected(abusers), 0.9),
        scored=sum(story.scored for story in stories),
    )


def _kind(kind: Kind, stories: Sequence[Story], until: datetime) -> KindFigures:
    return KindFigures(
        is_abuse=kind.is_abuse,
        senders=len(stories),
        throttled=_throttled(stories),
        detect_s_p50=quantile(_detected(stories), 0.5),
        detect_s_p90=quantile(_detected(stories), 0.9),
        emails=sum(
            batch.emails for story in stories for batch in story.sender.batches if story.begins_at <= batch.due < until
        ),
        out_before=sum(story.out_before for story in stories) if kind.is_abuse else None,
    )


def _throttled(stories: Iterable[Story]) -> int:
    return sum(story.throttled_at is not None for story in stories)


def _detected(stories: Iterable[Story]) -> list[float]:
    return [story.detect_s for story in stories if story.detect_s is not None]


def _part(some: int, all_: int) -> float | None:
    return some / all_ if all_ else None
