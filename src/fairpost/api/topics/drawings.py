"""Charts of what is live. Drawn once for all who watch on such a screen; time counts back from now, so that they are right on every continent."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from fairpost.api.live import Screen
from fairpost.charts import Axis, Column, Kind, Mark, Part, Series, Unit, bars_over_time, line_chart
from fairpost.model.account import Limits, Usage
from fairpost.observe.fairness import EvenHour
from fairpost.observe.now import HISTORY, Hour, Moment
from fairpost.policy.limits import daily_limit

WIDTHS = {Screen.WIDE: 640, Screen.NARROW: 340}  # about what it has there: text is as large as it is meant
HOUR = timedelta(hours=1)
DAY_HOURS = 24
PACE_BUCKET_S = 2.0
WARM_DAYS_MAX, WARM_DAYS_AHEAD = 90, 14
WARM_UP_HEIGHT = 180
SENT, BOUNCED, REJECTED = Part("sent", "good"), Part("bounced", "bad"), Part("rejected", "warn")


def pace_chart(history: Sequence[Moment], now: datetime, screen: Screen) -> str:
    """How many e-mails went out each second."""
    points = _paces(history, now)
    return str(
        line_chart(
            [Series("sent a second", points, kind=Kind.AREA, tint="good")],
            x_axis=Axis(label="minutes", includes=(-HISTORY / timedelta(minutes=1), 0.0)),
            y_axis=Axis(label="e-mails a second", includes=(0.0, 1.0)),
            label="E-mails sent each second, in the last ten minutes",
            width=WIDTHS[screen],
        )
    )


def waiting_chart(history: Sequence[Moment], now: datetime, screen: Screen) -> str:
    points = [(_minutes(each.at, now), float(each.waiting)) for each in history]
    return str(
        line_chart(
            [Series("waiting", points, kind=Kind.AREA)],
            x_axis=Axis(label="minutes", includes=(-HISTORY / timedelta(minutes=1), 0.0)),
            y_axis=Axis(label="e-mails", includes=(0.0, 1.0)),
            label="E-mails that wait, in the last ten minutes",
            width=WIDTHS[screen],
        )
    )


def hours_chart(hours: Sequence[Hour], now: datetime, screen: Screen) -> str:
    """The last column is the hour that runs."""
    this = now.replace(minute=0, second=0, microsecond=0)
    columns = [
        Column((each.hour - this) / HOUR, (each.sent, each.bounced, each.rejected))
        for each in hours
        if each.hour > this - DAY_HOURS * HOUR
    ]
    return str(
        bars_over_time(
            columns,
            length=1.0,
            parts=(SENT, BOUNCED, REJECTED),
            x_axis=Axis(label="hours", includes=(1.0 - DAY_HOURS, 1.0)),
            y_axis=Axis(label="e-mails an hour", includes=(0.0, 1.0)),
            label="E-mails of each hour, in the last day",
            width=WIDTHS[screen],
        )
    )


def evenness_chart(hours: Sequence[EvenHour], now: datetime, screen: Screen) -> str:
    """Of each hour in which somebody was served; the last is the one that runs."""
    this = now.replace(minute=0, second=0, microsecond=0)
    places = [((each.hour - this) / HOUR, each.users) for each in hours if each.hour > this - DAY_HOURS * HOUR]
    return str(
        line_chart(
            [
                Series("Gini", [(x, users.gini) for x, users in places], tint=1),
                Series("Jain", [(x, users.jain) for x, users in places], tint=2, dashed=True),
            ],
            x_axis=Axis(label="hours", includes=(1.0 - DAY_HOURS, 0.0)),
            y_axis=Axis(includes=(0.0, 1.0)),
            label="Gini and Jain of each hour, in the last day",
            width=WIDTHS[screen],
        )
    )


def warm_up_chart(limits: Limits, today: int, screen: Screen) -> str:
    """What an account may send on each day of its warm-up: until it is over, or for some days to come."""
    allowed = [_allowed(limits, day) for day in range(1, WARM_DAYS_MAX + 1)]
    most = limits.daily_max
    over = allowed.index(most) + 1 if most in allowed else 0
    days = min(WARM_DAYS_MAX, max(today, over or today + WARM_DAYS_AHEAD))
    return str(
        line_chart(
            [Series("allowed", [(day, float(allowed[day - 1])) for day in range(1, days + 1)], kind=Kind.STEP)],
            x_axis=Axis(label="day of the warm-up", unit=Unit.COUNT),
            y_axis=Axis(label="e-mails a day", unit=Unit.COUNT, includes=(0.0,)),
            label="What the account may send on each day of its warm-up",
            width=WIDTHS[screen],
            marks=[Mark(min(today, days), f"today: {_allowed(limits, today):,}")],
            height=WARM_UP_HEIGHT,
        )
    )


def _allowed(limits: Limits, day: int) -> int:
    return daily_limit(limits, Usage(warm_day=day))[0] or 0


def _paces(history: Sequence[Moment], now: datetime) -> list[tuple[float, float]]:
    """From one moment to the next, over a bucket each: counters move in lumps."""
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
