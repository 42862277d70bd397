"""Reads all metrics for one scrape, with histograms that only grow. exposition.py formats them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fairpost.model.sender import Tier
from fairpost.observe.fairness import FairnessReport, read_fairness, read_histograms
from fairpost.observe.http_durations import OTHER, HttpSeries, read_http_durations
from fairpost.observe.status import read_facts
from fairpost.policy.conditions import Condition, diagnose
from fairpost.policy.inequality import Waits
from fairpost.policy.ledger import Measure
from fairpost.store.outcomes import sent_by_account
from fairpost.store.store import Store
from fairpost.transports.registry import KINDS

ANCHOR_AGE_MAX = timedelta(hours=2)  # limits how much is read each time, because the database keeps several days

Histograms = Mapping[tuple[Measure, Tier], Waits]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    report: FairnessReport
    conditions: Sequence[Condition]
    grown: Histograms
    sent: Mapping[str, int]  # sent e-mails by kind of transport
    http: Sequence[HttpSeries]


class FiguresReader:
    """Reads one database's figures. The histograms start with the window before the first read.

    Histograms and counters are reset only when the process restarts. E-mails from removed accounts still count.
    """

    def __init__(self, window: timedelta) -> None:
        self._window = window
        self._since: datetime | None = None
        self._before: dict[tuple[Measure, Tier], Waits] = {}  # measurements from before `_since`
        self._told: dict[tuple[Measure, Tier], Waits] = {}
        self._sent: dict[str, int] = {}
        self._sent_by: dict[int, int] = {}  # sent e-mails by account, at the previous read

    async def read(self, store: Store) -> Figures:
        report = await read_fairness(store, window=self._window)
        facts = await read_facts(store, with_finished=False)
        return Figures(
            report=report,
            conditions=diagnose(facts),
            grown=await self._grown(store, report.now),
            sent=await self._sent_now(store),
            http=await read_http_durations(store),
        )

    async def _sent_now(self, store: Store) -> Mapping[str, int]:
        now: dict[int, int] = {}
        for row in await sent_by_account(store):
            kind = row["kind"] if row["kind"] in KINDS else OTHER
            more = max(0, row["sent_total"] - self._sent_by.get(row["id"], 0))
            self._sent[kind] = self._sent.get(kind, 0) + more
            now[row["id"]] = row["sent_total"]
        self._sent_by = now
        return dict(self._sent)

    async def _grown(self, store: Store, now: datetime) -> Histograms:
        if self._since is None:
            self._since = now - self._window
        found = await read_histograms(store, self._since)
        told = _greatest(self._told, _sum(self._before, found))
        if now - self._since > ANCHOR_AGE_MAX:
            # Everything that is recorded after this point is in `newer` or in a later read, so nothing is lost or
            # counted twice.
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
    """Returns the greater of the two values for each bucket.

    Removing an account deletes its measurements, but counters must not decrease.
    """
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
