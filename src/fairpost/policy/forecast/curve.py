"""A forecast as a curve: the number of e-mails sent over time."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime, timedelta

from fairpost.policy.forecast.outcome import Forecast

POINTS_MAX = 200
HOUR = timedelta(hours=1)

Curve = tuple[tuple[datetime, int], ...]


def curve_of(found: Forecast, *, points_max: int = POINTS_MAX) -> Curve:
    """Return the curve from zero to all e-mails.

    Each point lies on the curve through the hourly counts. If there are too many points, some are omitted, but never
    the last one.
    """
    return _thinned(_through_hours(found.per_hour, found.starts_at, found.ends_at), points_max)


def curve_of_hours(per_hour: Sequence[tuple[datetime, int]], ends_at: datetime) -> Curve:
    """Return the curve of a forecast for which only the hourly counts were stored."""
    starts_at = per_hour[0][0] if per_hour else ends_at
    return _thinned(_through_hours(per_hour, starts_at, ends_at), POINTS_MAX)


def expected_by(curve: Curve, moment: datetime) -> int:
    """Return the number of e-mails expected to be sent by this moment, using linear interpolation."""
    place = bisect_right(curve, moment, key=lambda point: point[0])
    if place == 0:
        return 0
    (before_at, before), (after_at, after) = curve[place - 1], curve[min(place, len(curve) - 1)]
    if after_at <= before_at:
        return after if after_at <= moment else before
    return round(before + (after - before) * ((moment - before_at) / (after_at - before_at)))


def _through_hours(per_hour: Sequence[tuple[datetime, int]], starts_at: datetime, ends_at: datetime) -> Curve:
    """Return the curve through the hourly counts, with an additional point at the end of each gap between two hours."""
    points: list[tuple[datetime, int]] = [(starts_at, 0)]
    done = 0
    for hour, n in per_hour:
        begin = max(hour, starts_at)
        if begin > points[-1][0]:
            points.append((begin, done))
        done += n
        points.append((max(begin, min(hour + HOUR, ends_at)), done))
    return tuple(points)


def _thinned(points: Curve, most: int) -> Curve:
    if len(points) <= most:
        return points
    last = len(points) - 1
    return tuple(points[place * last // (most - 1)] for place in range(most))
