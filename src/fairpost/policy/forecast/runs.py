"""Many moments as one value: how many there are, and the constant interval between them. A million e-mails fit into
about ten thousand runs.
"""

from collections.abc import Iterable, MutableSequence, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

INSTANT = timedelta.resolution
AT_ONCE = timedelta()


class Run(NamedTuple):
    start: datetime
    interval: timedelta
    size: int

    @property
    def last(self) -> datetime:
        return self.start + (self.size - 1) * self.interval

    def before(self, moment: datetime) -> int:
        """Return how many of the run's moments are before the given moment."""
        if moment <= self.start:
            return 0
        return min(self.size, -((self.start - moment) // self.interval)) if self.interval else self.size

    def has(self, moment: datetime) -> bool:
        return self.before(moment + INSTANT) > self.before(moment)

    def without(self, n: int) -> "Run":
        return Run(self.start + n * self.interval, self.interval, self.size - n)


def append(runs: MutableSequence[Run], run: Run) -> None:
    """Append a run, merging it with the last one if it continues that run."""
    joined = _joined(runs[-1], run) if runs else None
    if joined is None:
        runs.append(run)
    else:
        runs[-1] = joined


def _joined(one: Run, other: Run) -> Run | None:
    step = other.start - one.last
    if step <= AT_ONCE or (one.size > 1 and one.interval != step) or (other.size > 1 and other.interval != step):
        return None
    return Run(one.start, step, one.size + other.size)


def ends_for(runs: Sequence[Sequence[Run]], n: int) -> list[datetime]:
    """Return the end of each series of runs. Up to these ends, all series together contain the first n moments, ordered
    by time and then by position.
    """
    moment = moment_of((run for each in runs for run in each), n)
    places = n - sum(run.before(moment) for each in runs for run in each)
    ends = []
    for each in runs:
        has_one = any(run.has(moment) for run in each)
        ends.append(moment if has_one and places <= 0 else moment + INSTANT)
        places -= has_one
    return ends


def moment_of(runs: Iterable[Run], n: int) -> datetime:
    """Find the moment of the n-th e-mail by bisection. Runs that lie entirely on one side are dropped along the way."""
    left = list(runs)
    low, high = min(run.start for run in left), max(run.last for run in left)
    while low < high:
        middle = low + (high - low) // 2
        after = middle + INSTANT
        if sum(run.before(after) for run in left) >= n:
            high = middle
            left = [run for run in left if run.start <= middle]
        else:
            low = after
            n -= sum(run.size for run in left if run.last <= middle)
            left = [run for run in left if run.last > middle]
    return high
