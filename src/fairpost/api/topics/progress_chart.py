"""The progress of a campaign as a chart, on the workspace's clock. Drawn once for all who watch on such a screen."""

from fairpost.api.live import Screen
from fairpost.api.topics.drawings import WIDTHS
from fairpost.charts import Axis, Kind, Mark, Series, Unit, line_chart
from fairpost.observe.campaign_progress import ProgressView
from fairpost.policy.forecast import Foreseen, Unforeseen

SEEN_STEPS = 600


def course_chart(view: ProgressView, screen: Screen) -> str:
    """What was foreseen at the launch, what came, and what is to be expected from now on."""
    is_open = view.campaign.finished_at is None and view.campaign.launched_at is not None
    now = _now_of(view)
    sent = [(point.at.timestamp(), float(point.sent)) for point in view.points]
    missed = [(point.at.timestamp(), float(point.missed)) for point in view.points]
    if is_open and sent:
        sent, missed = [*sent, (max(now, sent[-1][0]), sent[-1][1])], [*missed, (max(now, sent[-1][0]), missed[-1][1])]
    lines = [
        Series("foreseen at the launch", _foreseen(view.foretold), tint="forecast", dashed=True),
        Series("sent", sent, kind=Kind.AREA, tint="good"),
        Series("expected from now on", _foreseen(view.revised_forecast), tint=1, dashed=True),
        Series("missed", missed if any(n for _, n in missed) else [], tint="bad"),
    ]
    return str(
        line_chart(
            [line for line in lines if line.points],
            x_axis=Axis(unit=Unit.MOMENT, timezone=view.timezone, label=view.timezone),
            y_axis=Axis(unit=Unit.COUNT, label="e-mails", includes=(0.0, 1.0)),
            label="E-mails sent, as foreseen and as it came",
            width=WIDTHS[screen],
            marks=[Mark(now, "now")] if is_open else [],
        )
    )


def _now_of(view: ProgressView) -> float:
    """As far on as can be seen: a line that moves by less than a pixel would be told to everybody as news."""
    now = view.now.timestamp()
    ends = [each.ends_at.timestamp() for each in (view.foretold, view.revised_forecast) if isinstance(each, Foreseen)]
    begun = view.campaign.launched_at.timestamp() if view.campaign.launched_at else now
    step = max(0.01, (max([now, *ends]) - begun) / SEEN_STEPS)
    return begun + (now - begun) // step * step


def _foreseen(kept: Foreseen | Unforeseen | None) -> list[tuple[float, float]]:
    return [(at.timestamp(), float(n)) for at, n in kept.points] if isinstance(kept, Foreseen) else []
