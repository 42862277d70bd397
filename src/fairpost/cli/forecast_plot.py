"""Plot a forecast: e-mails over time, and their running total."""

from itertools import accumulate

from fairpost.charts import Axis, Column, Kind, Series, Unit, bars_over_time, document, line_chart
from fairpost.policy.forecast import Forecast
from fairpost.policy.forecast.buckets import buckets


def draw_forecast(found: Forecast, *, timezone: str) -> str:
    """Return an SVG. The same forecast always produces the same SVG."""
    over_time = buckets(found, timezone)
    length_s = over_time.length.total_seconds()
    counts = [(at.timestamp(), count) for at, count in over_time.counts]
    so_far = accumulate((count for _, count in counts), initial=0)
    ends = [counts[0][0], *(at + length_s for at, _ in counts)]
    # The buckets are already in local time.
    x_axis = Axis(unit=Unit.MOMENT, label=timezone)
    panels = [
        bars_over_time(
            [Column(at, (count,)) for at, count in counts],
            length=length_s,
            x_axis=x_axis,
            y_axis=Axis(unit=Unit.COUNT),
            label=f"e-mails per {over_time.size}",
        ),
        line_chart(
            [Series("e-mails so far", list(zip(ends, so_far, strict=True)), Kind.AREA)],
            x_axis=x_axis,
            y_axis=Axis(unit=Unit.COUNT),
            label="e-mails so far",
        ),
    ]
    return document(panels, title=f"{found.emails:,} e-mails", about=f"Bottleneck: {found.bottleneck}.")
