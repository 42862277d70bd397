"""HTTP request durations for Prometheus, counted in each process and summed in the database.

Each label has a limited number of values, because routes are templates and unknown paths become `other`.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from fairpost.store import outcomes
from fairpost.store.store import Store

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSeries:
    """The durations of one series.

    `counts` contains the number of requests in each bucket. The last bucket is for durations above the highest bound.
    """

    route: str
    method: str
    status: str  # class of status codes, such as 2xx
    counts: Sequence[int]
    total_s: float


class HttpDurations:
    """Durations that this process has measured but not stored yet."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str, int], tuple[int, int]] = {}

    def add(self, *, route: str | None, method: str, status: int, duration_s: float) -> None:
        """Adds a request. `route` is None if the path is unknown."""
        method = method if method in METHODS else OTHER
        key = (route or OTHER, method, f"{status // 100}xx", bisect_left(BOUNDS_S, duration_s))
        self._add(key, 1, round(duration_s * 1e6))

    async def write(self, store: Store) -> None:
        seen, self._seen = self._seen, {}
        if not seen:
            return
        rows = [
            {"route": route, "method": method, "status": status, "bucket": bucket, "n": n, "total_us": total_us}
            for (route, method, status, bucket), (n, total_us) in seen.items()
        ]
        try:
            await outcomes.add_http_durations(store, rows)
        except BaseException:  # keep the durations for the next attempt
            for key, (n, total_us) in seen.items():
                self._add(key, n, total_us)
            raise

    def _add(self, key: tuple[str, str, str, int], n: int, total_us: int) -> None:
        known_n, known_us = self._seen.get(key, (0, 0))
        self._seen[key] = known_n + n, known_us + total_us


async def read_http_durations(store: Store) -> list[HttpSeries]:
    counts: dict[tuple[str, str, str], list[int]] = {}
    totals_us: dict[tuple[str, str, str], int] = {}
    for row in await outcomes.http_durations(store):
        key = (row["route"], row["method"], row["status"])
        counts.setdefault(key, [0] * (len(BOUNDS_S) + 1))[min(row["bucket"], len(BOUNDS_S))] += row["n"]
        totals_us[key] = totals_us.get(key, 0) + row["total_us"]
    return [
        HttpSeries(
            route=route, method=method, status=status, counts=each, total_s=totals_us[route, method, status] / 1e6
        )
        for (route, method, status), each in counts.items()
    ]
