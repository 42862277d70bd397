"""Runs one scenario with each of three ways to choose the next sender, with the same arrivals and slots, and compares
the results. A round is a minute: arrivals are added, throttles take effect, and then slots are taken. Measurements are
taken from outside, based on the e-mails that arrived and left. The measurements use no data from the algorithms.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from fairpost.dev.simulate.fair_algorithms import Algorithm, Email, Fairpost, Fifo, WholeShares
from fairpost.dev.simulate.scenarios import Scenario, Sender
from fairpost.policy.inequality import gini, jain, quantile
from fairpost.store.store import Store
from fairpost.system.chance import dice

START = datetime(2030, 1, 7, 8, tzinfo=UTC)
ROUND = timedelta(minutes=1)
WINDOW_ROUNDS = 10
# Shares of whole e-mails can differ by one.
# Senders with a smaller fair share than this in a window are therefore not compared.
FAIR_SHARE_MIN = 5.0

TITLES = {"fifo": "first come, first served", "seed": "whole shares in turn", "fairpost": "Fairpost"}

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Round:
    """One round. `eligible` is the number of e-mails that each sender had waiting when the slots were assigned,
    excluding throttled senders.
    """

    eligible: Mapping[Sender, int]
    served: Mapping[Sender, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFigures:
    senders: int
    emails: int
    sent: int
    share: float  # share of all sent e-mails
    wait_s_p50: float | None
    wait_s_p99: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures for one algorithm. None means that the scenario has nothing to measure."""

    jain: float | None
    gini: float | None
    largest_share: float
    small_wait_s_p50: float | None
    small_wait_s_p99: float | None
    idle_slots: int
    newcomer_rounds: int | None
    sent: int
    bounced: int
    groups: Mapping[str, GroupFigures]


@dataclass(slots=True)
class Record:
    """The record of a run, with each round, and the round in which each e-mail left (None if it was still waiting at
    the end).
    """

    scenario: Scenario
    rounds: list[Round] = field(default_factory=list)
    left: dict[Email, int | None] = field(default_factory=dict)

    def wait_s(self, email: Email) -> float:
        """Returns how long an e-mail waited, to the minute, or 0 if it left in the minute in which it arrived.

        For an e-mail that is still waiting, the result is the time until the end of the scenario.
        """
        left = self.left[email]
        return ((self.scenario.minutes if left is None else left) - email.minute) * ROUND.total_seconds()

    def share_over_time(self, group: str) -> list[float]:
        """Returns the group's share of the slots in each round."""
        return [
            sum(n for sender, n in r.served.items() if sender.group == group) / self.scenario.slots_per_minute
            for r in self.rounds
        ]

    def waits_by_sender(self) -> dict[Sender, list[float]]:
        """Returns the waits, except those of throttled senders, which are supposed to wait."""
        throttled = {throttle.sender for throttle in self.scenario.throttles}
        waits: dict[Sender, list[float]] = defaultdict(list)
        for email in self.left:
            if email.sender not in throttled:
                waits[email.sender].append(self.wait_s(email))
        return waits


async def compare(
    store: Store, scenario: Scenario, *, seed: int, progress: Callable[[], None] = lambda: None
) -> dict[str, Record]:
    """Runs all algorithms. `store` must use an empty database. Calls `progress` after each round of each algorithm."""
    arrivals = emails_of(scenario, seed=seed)
    algorithms: tuple[Algorithm, ...] = (Fifo(), WholeShares(), await Fairpost.open(store, scenario, START))
    records: dict[str, Record] = {}
    for name, algorithm in zip(TITLES, algorithms, strict=True):
        records[name] = await run(scenario, algorithm, arrivals, progress=progress)
    return records


def emails_of(scenario: Scenario, *, seed: int) -> list[list[Email]]:
    """Returns the e-mails by minute and decides, once for all algorithms, which of them bounce."""
    roll = dice(f"bounces {seed}")
    arrivals: list[list[Email]] = [[] for _ in range(scenario.minutes)]
    for arrival in scenario.arrivals:
        sender = arrival.sender
        arrivals[arrival.minute] += [
            Email(sender, sender.domains[n % len(sender.domains)], arrival.minute, bounces=roll() < sender.bounce_share)
            for n in range(arrival.emails)
        ]
    return arrivals


async def run(
    scenario: Scenario,
    algorithm: Algorithm,
    arrivals: Sequence[Sequence[Email]],
    *,
    progress: Callable[[], None] = lambda: None,
) -> Record:
    record = Record(scenario)
    waiting: Counter[Sender] = Counter()
    throttled: set[Sender] = set()
    for minute, emails in enumerate(arrivals):
        now = START + minute * ROUND
        await algorithm.put(emails, now)
        waiting.update(email.sender for email in emails)
        record.left.update(dict.fromkeys(emails))
        for throttle in scenario.throttles:
            if throttle.minute == minute:
                await algorithm.throttle(throttle.sender, now)
                throttled.add(throttle.sender)
        eligible = {sender: n for sender, n in waiting.items() if n and sender not in throttled}
        taken = await algorithm.take(scenario.slots_per_minute, now)
        served = Counter(email.sender for email in taken)
        assert len(taken) <= scenario.slots_per_minute
        assert all(n <= eligible.get(sender, 0) for sender, n in served.items()), (
            "sent e-mails that were not queued, or were held"
        )
        waiting -= served
        record.left.update(dict.fromkeys(taken, minute))
        record.rounds.append(Round(eligible, served))
        progress()
    return record


def fair_shares(slots: float, waiting: Mapping[K, float], weights: Mapping[K, float]) -> dict[K, float]:
    """Divides the slots by weight among all senders with waiting e-mails (max-min fairness).

    Slots that a sender cannot use are given to the others.
    """
    shares: dict[K, float] = {}
    weight_left = sum(weights[key] for key in waiting)
    for key in sorted(waiting, key=lambda key: waiting[key] / weights[key]):
        shares[key] = min(waiting[key], slots * weights[key] / weight_left)
        slots -= shares[key]
        weight_left -= weights[key]
    return shares


def figures(record: Record) -> Figures:
    scenario, rounds = record.scenario, record.rounds
    served: Counter[Sender] = Counter()
    for each in rounds:
        served.update(each.served)
    windows = list(_windows(record))
    small = [record.wait_s(email) for email in record.left if email.sender.is_small]
    return Figures(
        jain=min(map(jain, windows), default=None),
        gini=max(map(gini, windows), default=None),
        largest_share=_largest_share(record),
        small_wait_s_p50=quantile(small, 0.5),
        small_wait_s_p99=quantile(small, 0.99),
        idle_slots=sum(
            min(scenario.slots_per_minute, sum(r.eligible.values())) - sum(r.served.values()) for r in rounds
        ),
        newcomer_rounds=_newcomer_rounds(record),
        sent=served.total(),
        bounced=sum(email.bounces for email, left in record.left.items() if left is not None),
        groups={group: _group(record, group, served) for group in scenario.groups},
    )


def _windows(record: Record) -> Iterator[list[float]]:
    """Yields the fraction of its fair share that each sender got in each window of ten rounds. A window is included
    only if at least two senders had enough e-mails waiting, which means that each of these senders had a fair share of
    at least `FAIR_SHARE_MIN` e-mails in the window.
    """
    weights = {sender: sender.weight for sender in record.scenario.senders}
    fair = [fair_shares(record.scenario.slots_per_minute, r.eligible, weights) for r in record.rounds]
    for first in range(max(1, len(fair) - WINDOW_ROUNDS + 1)):
        due: dict[Sender, float] = defaultdict(float)
        got: Counter[Sender] = Counter()
        for shares, each in zip(fair[first : first + WINDOW_ROUNDS], record.rounds[first:], strict=False):
            got.update(each.served)
            for sender, share in shares.items():
                due[sender] += share
        parts = [got[sender] / share for sender, share in due.items() if share >= FAIR_SHARE_MIN]
        if len(parts) > 1:
            yield parts


def _largest_share(record: Record) -> float:
    """Returns the largest share of the slots in a window that any sender got.

    Rounds are included only if the other senders had enough e-mails waiting to fill all slots.
    """
    slots = record.scenario.slots_per_minute
    disputed = [
        {sender: n for sender, n in each.served.items() if waiting - each.eligible[sender] >= slots}
        for each, waiting in ((each, sum(each.eligible.values())) for each in record.rounds)
    ]
    most = 0
    for first in range(len(disputed)):
        got: Counter[Sender] = Counter()
        for each in disputed[first : first + WINDOW_ROUNDS]:
            got.update(each)
        most = max(most, *got.values(), 0)
    return most / (slots * min(WINDOW_ROUNDS, len(disputed)))


def _newcomer_rounds(record: Record) -> int | None:
    """Returns the longest time for which a later sender waited for its first slot. The time is 1 if the sender was
    served on arrival.
    """
    came: dict[Sender, int] = {}
    for arrival in record.scenario.arrivals:
        came.setdefault(arrival.sender, arrival.minute)
    first: dict[Sender, int] = {}
    for minute, each in enumerate(record.rounds):
        for sender in each.served:
            first.setdefault(sender, minute)
    never = record.scenario.minutes
    rounds = [first.get(sender, never) - minute + 1 for sender, minute in came.items() if minute > 0]
    return max(rounds, default=None)


def _group(record: Record, group: str, served: Counter[Sender]) -> GroupFigures:
    emails = [email for email in record.left if email.sender.group == group]
    sent = sum(n for sender, n in served.items() if sender.group == group)
    waits = [record.wait_s(email) for email in emails]
    return GroupFigures(
        senders=len({email.sender for email in emails}),
        emails=len(emails),
        sent=sent,
        share=sent / max(1, served.total()),
        wait_s_p50=quantile(waits, 0.5),
        wait_s_p99=quantile(waits, 0.99),
    )
