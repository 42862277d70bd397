"""A campaign's progress as a chart, in the workspace's time zone. Drawn once per screen size."""

from fairpost.api.live import Screen
from fairpost.api.topics.drawings import FULL_HEIGHTS, FULL_WIDTHS
from fairpost.charts import Axis, Kind, Mark, Series, Unit, line_chart
from fairpost.observe.campaign_progress import ProgressView
from fairpost.policy.forecast import KeptForecast, NoKeptForecast

SEEN_STEPS = 600


def progress_chart(view: ProgressView, screen: Screen) -> str:
    """Draws the forecast at launch, the e-mails sent, and the revised forecast."""
    is_open = view.campaign.finished_at is None and view.campaign.launched_at is not None
    now = _now_of(view)
    sent = [(point.at.timestamp(), float(point.sent)) for point in view.points]
    missed = [(point.at.timestamp(), float(point.missed)) for point in view.points]
    if is_open and sent:
        sent, missed = [*sent, (max(now, sent[-1][0]), sent[-1][1])], [*missed, (max(now, sent[-1][0]), missed[-1][1])]
    lines = [
        Series("forecast at launch", _points(view.foretold), tint="forecast", dashed=True),
        Series("sent", sent, kind=Kind.AREA, tint="good"),
        Series("current forecast", _points(view.revised_forecast), tint=1, dashed=True),
        Series("failed", missed if any(n for _, n in missed) else [], tint="bad"),
    ]
    return str(
        line_chart(
            [line for line in lines if line.points],
            x_axis=Axis(unit=Unit.MOMENT, timezone=view.timezone, label=view.timezone),
            y_axis=Axis(unit=Unit.COUNT, label="e-mails", includes=(0.0, 1.0)),
            label="E-mails sent, compared with the forecast",
            width=FULL_WIDTHS[screen],
            height=FULL_HEIGHTS[screen],
            marks=[Mark(now, "now")] if is_open else [],
        )
    )


def _now_of(view: ProgressView) -> float:
    """Returns the current time, rounded so that the chart changes only if the change is visible."""
    now = view.now.timestamp()
    ends = [
        each.ends_at.timestamp() for each in (view.foretold, view.revised_forecast) if isinstance(each, KeptForecast)
    ]
    begun = view.campaign.launched_at.timestamp() if view.campaign.launched_at else now
    step = max(0.01, (max([now, *ends]) - begun) / SEEN_STEPS)
    return begun + (now - begun) // step * step


def _points(kept: KeptForecast | NoKeptForecast | None) -> list[tuple[float, float]]:
    return [(at.timestamp(), float(n)) for at, n in kept.points] if isinstance(kept, KeptForecast) else []
