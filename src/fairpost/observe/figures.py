"""Everything that Prometheus is told at once, and histograms that only grow. How it is written is in exposition.py."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fairpost.model.sender import Tier
from fairpost.observe.fairness import FairnessReport, read_fairness, read_histograms
from fairpost.observe.status import read_facts
from fairpost.policy.conditions import Condition, diagnose
from fairpost.policy.inequality import Waits
from fairpost.policy.ledger import Measure
from fairpost.store.store import Store

ANCHOR_AGE_MAX = timedelta(hours=2)  # what is read at each look; the database keeps days of it

Histograms = Mapping[tuple[Measure, Tier], Waits]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    report: FairnessReport
    conditions: Sequence[Condition]
    grown: Histograms


class FiguresReader:
    """Of one database. The histograms begin with the window before the first look, and fall only when the process begins anew, as counters do."""

    def __init__(self, window: timedelta) -> None:
        self._window = window
        self._since: datetime | None = None
        self._before: dict[tuple[Measure, Tier], Waits] = {}  # what came before `_since`
        self._told: dict[tuple[Measure, Tier], Waits] = {}

    async def read(self, store: Store) -> Figures:
        report = await read_fairness(store, window=self._window)
        facts = await read_facts(store, with_finished=False)
        return Figures(report=report, conditions=diagnose(facts), grown=await self._grown(store, report.now))

    async def _grown(self, store: Store, now: datetime) -> Histograms:
        if self._since is None:
            self._since = now - self._window
        found = await read_histograms(store, self._since)
        told = _greatest(self._told, _sum(self._before, found))
        if now - self._since > ANCHOR_AGE_MAX:
            # What is read next was read just now, or is newer: nothing is lost, and nothing counts twice.
            newer = await read_histograms(store, now)
            self._before, self._since = _difference(told, newer), now
        self._told = told
        return told


def _sum(one: Histograms, other: Histograms) -> dict[tuple[Measure, Tier], Waits]:
    whole: dict[tuple[Measure, Tier], Waits] = {}
    for each in (one, other):
        for key, waits in each.items():
            whole.setdefault(key, Waits()).merge(waits)
    return whole


def _difference(whole: Histograms, part: Histograms) -> dict[tuple[Measure, Tier], Waits]:
    return {
        key: Waits(
            {bucket: n - _of(part, key).buckets.get(bucket, 0) for bucket, n in waits.buckets.items()},
            waits.total_us - _of(part, key).total_us,
        )
        for key, waits in whole.items()
    }


def _greatest(one: Histograms, other: Histograms) -> dict[tuple[Measure, Tier], Waits]:
    """Measures go with a removed account, and a counter must not fall for that."""
    return {
        key: Waits(
            {
                bucket: max(_of(one, key).buckets.get(bucket, 0), _of(other, key).buckets.get(bucket, 0))
                for bucket in {*_of(one, key).buckets, *_of(other, key).buckets}
            },
            max(_of(one, key).total_us, _of(other, key).total_us),
        )
        for key in {*one, *other}
    }


def _of(histograms: Histograms, key: tuple[Measure, Tier]) -> Waits:
    return histograms.get(key) or Waits()
