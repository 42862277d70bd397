"""Fairness figures computed from counters: evenness among senders, and waiting times. Values are passed one by one, or
as a mapping from each value to its frequency. The result is the same either way.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

Values: TypeAlias = Iterable[float] | Mapping[float, int]


def gini(values: Values) -> float:
    """Return the Gini coefficient: 0 if all values are equal, and close to 1 if one value makes up the whole total.

    An empty collection counts as even.
    """
    pairs = _sorted(values)
    number = sum(times for _, times in pairs)
    total = sum(value * times for value, times in pairs)
    if not total:
        return 0.0
    below, spread = 0, 0.0
    for value, times in pairs:
        spread += value * times * (2 * below + times - number)
        below += times
    return max(0.0, spread / (number * total))


def jain(values: Values) -> float:
    """Return Jain's index: 1 if all values are equal, 1/n if all but one of n values are zero."""
    pairs = _sorted(values)
    squares = sum(value * value * times for value, times in pairs)
    if not squares:
        return 1.0
    number = sum(times for _, times in pairs)
    total = sum(value * times for value, times in pairs)
    return min(1.0, total * total / (number * squares))


def largest_share(values: Values) -> float:
    """Return the largest value's share of the total, or 0 if the total is 0."""
    pairs = _sorted(values)
    total = sum(value * times for value, times in pairs)
    return pairs[-1][0] / total if total else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    count: int
    mean: float
    p50: float
    p99: float


def summary(values: Values) -> Summary | None:
    """Summarize the values. Return None if there are no values, because the median of nothing is not 0."""
    pairs = _sorted(values)
    count = sum(times for _, times in pairs)
    if not count:
        return None
    mean = sum(value * times for value, times in pairs) / count
    return Summary(
        count=count, mean=mean, p50=_at_rank(pairs, _rank(count, 0.5)), p99=_at_rank(pairs, _rank(count, 0.99))
    )


def quantile(values: Values, q: float) -> float | None:
    """Return the smallest value that at least this fraction of all values do not exceed. The result is always one of
    the values.
    """
    pairs = _sorted(values)
    count = sum(times for _, times in pairs)
    return _at_rank(pairs, _rank(count, q)) if count else None


# Each bucket ends 10% above the previous one, so the error is at most 1/21. Stored values depend on these numbers, so
# they must never change. The first bucket holds waits of a millisecond or less, and the last holds waits of 83 years or
# more.
BUCKET_ENDS_US = tuple(math.floor(1_000 * 1.1**i) for i in range(301))
LAST_BUCKET = len(BUCKET_ENDS_US) - 1
MICROSECOND = timedelta(microseconds=1)


@dataclass(slots=True)
class Waits:
    """E-mail waiting times, summarized in at most a few hundred numbers, even for ten million e-mails. Quantiles are
    within 5% or one millisecond of the true values. The count and the mean are exact.
    """

    buckets: dict[int, int] = field(default_factory=dict)  # bucket number -> count
    total_us: int = 0

    def add(self, wait: timedelta, times: int = 1) -> None:
        wait_us = max(0, wait // MICROSECOND)  # clocks that disagree can make a wait negative
        bucket = min(bisect_left(BUCKET_ENDS_US, wait_us), LAST_BUCKET)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + times
        self.total_us += wait_us * times

    def merge(self, other: "Waits") -> None:
        for bucket, times in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + times
        self.total_us += other.total_us

    @property
    def count(self) -> int:
        return sum(self.buckets.values())

    @property
    def mean(self) -> timedelta | None:
        count = self.count
        return timedelta(microseconds=self.total_us / count) if count else None

    def quantile(self, q: float) -> timedelta | None:
        found = quantile(self.values_us(), q)
        return timedelta(microseconds=found) if found is not None else None

    def values_us(self) -> dict[float, int]:
        """Return the waits as a mapping from each value to its frequency, for the other figures in this file."""
        return {_in_bucket_us(bucket): times for bucket, times in self.buckets.items()}

    def to_json(self) -> dict[str, Any]:
        return {"total_us": self.total_us, "buckets": {str(b): self.buckets[b] for b in sorted(self.buckets)}}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Waits":
        return cls({int(bucket): int(times) for bucket, times in stored["buckets"].items()}, int(stored["total_us"]))


def _in_bucket_us(bucket: int) -> float:
    """Return the value whose relative distance to both ends of the bucket is the same."""
    if bucket == 0:
        return 0.0
    low, high = BUCKET_ENDS_US[bucket - 1], BUCKET_ENDS_US[bucket]
    return 2 * low * high / (low + high)


def _sorted(values: Values) -> list[tuple[float, int]]:
    counts = values if isinstance(values, Mapping) else Counter(values)
    return sorted((value, times) for value, times in counts.items() if times)


def _rank(count: int, q: float) -> int:
    """Return a rank slightly less than the product.

    Otherwise, 7% of 100 would yield rank 8, because 0.07 * 100 is 7.000000000000001.
    """
    return max(1, min(count, math.ceil(q * count - 1e-9)))


def _at_rank(pairs: list[tuple[float, int]], rank: int) -> float:
    for value, times in pairs:
        rank -= times
        if rank <= 0:
            return value
    raise ValueError("the rank exceeds the number of values")
