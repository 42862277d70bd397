"""E-mails over time, grouped into a readable number of buckets: hours, parts of a day, days, weeks, or four-week
periods. Times are local but are represented as UTC.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from fairpost.policy.forecast.outcome import Forecast

BUCKETS_MAX = 36
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SIZES = {HOUR: "hour", 6 * HOUR: "six hours", DAY: "day", 7 * DAY: "week", 28 * DAY: "four weeks"}
A_MONDAY = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Buckets:
    length: timedelta
    counts: Sequence[tuple[datetime, int]]  # the start and count of each bucket, without gaps

    @property
    def is_within_days(self) -> bool:
        return self.length < DAY

    @property
    def size(self) -> str:
        return SIZES[self.length]


def buckets(found: Forecast, timezone: str) -> Buckets:
    zone = ZoneInfo(timezone)
    first, last = _wall(found.starts_at, zone), _wall(found.ends_at, zone)
    length = next((size for size in SIZES if (last - first) / size < BUCKETS_MAX), max(SIZES))
    counts: Counter[datetime] = Counter()
    for moment, count in _counted(found, zone, by_day=length >= DAY):
        counts[_floor(moment, length)] += count
    begin = _floor(first, length)
    steps = (_floor(last, length) - begin) // length
    return Buckets(length, [(at, counts[at]) for at in (begin + n * length for n in range(steps + 1))])


def _counted(found: Forecast, zone: ZoneInfo, *, by_day: bool) -> Iterator[tuple[datetime, int]]:
    if by_day:
        return ((datetime.combine(day, time(), UTC), count) for day, count in found.per_day)
    return ((_wall(hour, zone), count) for hour, count in found.per_hour)


def _wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=UTC)


def _floor(moment: datetime, length: timedelta) -> datetime:
    return A_MONDAY + (moment - A_MONDAY) // length * length
