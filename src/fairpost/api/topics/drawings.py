"""Charts of live data, each drawn once per screen size.

Times are relative to now, so one chart is correct in every time zone.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from fairpost.api.live import Screen
from fairpost.charts import Axis, Column, Kind, Mark, Part, Series, Unit, bars_over_time, line_chart
from fairpost.charts.frame import HEIGHT
from fairpost.model.account import Limits, Usage
from fairpost.observe.fairness import EvenHour
from fairpost.observe.now import HISTORY, Hour, Moment
from fairpost.policy.limits import daily_limit

WIDTHS = {
    Screen.WIDE: 640,
    Screen.MEDIUM: 640,
    Screen.NARROW: 340,
}  # close to the available width, so text appears at its intended size
FULL_WIDTHS = {Screen.WIDE: 1080, Screen.MEDIUM: 640, Screen.NARROW: 340}  # for a card as wide as the page
FULL_HEIGHTS = {Screen.WIDE: 380, Screen.MEDIUM: HEIGHT, Screen.NARROW: HEIGHT}
HOUR = timedelta(hours=1)
DAY_HOURS = 24
PACE_BUCKET_S = 2.0
WARM_DAYS_MAX, WARM_DAYS_AHEAD = 90, 14
WARM_UP_HEIGHT = 180
SENT, BOUNCED, REJECTED = Part("sent", "good"), Part("bounced", "bad"), Part("rejected", "warn")


def pace_chart(history: Sequence[Moment], now: datetime, screen: Screen) -> str:
    """Draws the number of e-mails sent per second."""
    points = _paces(history, now)
    return str(
        line_chart(
            [Series("sent per second", points, kind=Kind.AREA, tint="good")],
            x_axis=Axis(label="minutes", includes=(-HISTORY / timedelta(minutes=1), 0.0)),
            y_axis=Axis(label="e-mails per second", includes=(0.0, 1.0)),
            label="E-mails sent per second, last ten minutes",
            width=WIDTHS[screen],
        )
    )


def waiting_chart(history: Sequence[Moment], now: datetime, screen: Screen) -> str:
    points = [(_minutes(each.at, now), float(each.waiting)) for each in history]
    return str(
        line_chart(
            [Series("queued", points, kind=Kind.AREA)],
            x_axis=Axis(label="minutes", includes=(-HISTORY / timedelta(minutes=1), 0.0)),
            y_axis=Axis(label="e-mails", includes=(0.0, 1.0)),
            label="Queued e-mails, last ten minutes",
            width=WIDTHS[screen],
        )
    )


def hours_chart(hours: Sequence[Hour], now: datetime, screen: Screen) -> str:
    """Draws the number of e-mails per hour. The last column is the current hour."""
    this = now.replace(minute=0, second=0, microsecond=0)
    columns = [
        Column((each.hour - this) / HOUR, (each.sent, each.bounced, each.rejected))
        for each in hours
        if this - DAY_HOURS * HOUR < each.hour <= this
    ]
    return str(
        bars_over_time(
            columns,
            length=1.0,
            parts=(SENT, BOUNCED, REJECTED),
            x_axis=Axis(label="hours", includes=(1.0 - DAY_HOURS, 1.0)),
            y_axis=Axis(label="e-mails per hour", includes=(0.0, 1.0)),
            label="E-mails per hour, last 24 hours",
            width=FULL_WIDTHS[screen],
            height=FULL_HEIGHTS[screen],
        )
    )


def evenness_chart(hours: Sequence[EvenHour], now: datetime, screen: Screen) -> str:
    """Draws one point for each hour with e-mails; the last point is the current hour."""
    this = now.replace(minute=0, second=0, microsecond=0)
    shown = [each for each in hours if this - DAY_HOURS * HOUR < each.hour <= this]
    places = [((each.hour - this) / HOUR, each.users) for each in shown]
    return str(
        line_chart(
            [
                Series("Gini", [(x, users.gini) for x, users in places], tint=1),
                Series("Jain", [(x, users.jain) for x, users in places], tint=2, dashed=True),
            ],
            x_axis=Axis(label="hours", includes=(1.0 - DAY_HOURS, 0.0)),
            y_axis=Axis(includes=(0.0, 1.0)),
            label="Gini and Jain per hour, last 24 hours",
            width=FULL_WIDTHS[screen],
            height=FULL_HEIGHTS[screen],
        )
    )


def warm_up_chart(limits: Limits, today: int, screen: Screen) -> str:
    """Draws the daily limit for each day from the start of the warm-up to its end or, if the end is unknown, until a
    few days from today.
    """
    allowed = [_allowed(limits, day) for day in range(1, WARM_DAYS_MAX + 1)]
    most = limits.daily_max
    over = allowed.index(most) + 1 if most in allowed else 0
    days = min(WARM_DAYS_MAX, max(today, over or today + WARM_DAYS_AHEAD))
    return str(
        line_chart(
            [Series("allowed", [(day, float(allowed[day - 1])) for day in range(1, days + 1)], kind=Kind.STEP)],
            x_axis=Axis(label="day of warm-up", unit=Unit.COUNT),
            y_axis=Axis(label="e-mails per day", unit=Unit.COUNT, includes=(0.0,)),
            label="Daily limit on each day of the warm-up",
            width=FULL_WIDTHS[screen],
            marks=[Mark(min(today, days), f"today: {_allowed(limits, today):,}")],
            height=max(WARM_UP_HEIGHT, FULL_HEIGHTS[screen] - HEIGHT + WARM_UP_HEIGHT),
        )
    )


def _allowed(limits: Limits, day: int) -> int:
    return daily_limit(limits, Usage(warm_day=day))[0] or 0


def _paces(history: Sequence[Moment], now: datetime) -> list[tuple[float, float]]:
    """Returns the sending rate over time. Samples are averaged over buckets, because the counters increase in steps."""
    found: list[tuple[float, float]] = []
    kept: list[Moment] = []
    for each in history:
        if not kept or (each.at - kept[-1].at).total_seconds() >= PACE_BUCKET_S:
            kept.append(each)
    for before, after in pairwise(kept):
        seconds = (after.at - before.at).total_seconds()
        found.append((_minutes(after.at, now), max(0, after.sent - before.sent) / seconds))
    return found


def _minutes(at: datetime, now: datetime) -> float:
    return (at - now) / timedelta(minutes=1)
