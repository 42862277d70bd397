"""Draws how long newcomers waited at each provider, and how much of the accounts' time was left unused."""

from collections.abc import Sequence

from fairpost.charts import Axis, Bar, Unit, bar_chart, document
from fairpost.dev.simulate.providers import Result


def draw_providers(results: Sequence[Result]) -> str:
    """Draws an SVG. The same results always produce the same drawing."""
    panels = [
        bar_chart(
            [Bar(each.case.name, (each.worst_wait_s or 0.0,)) for each in results],
            axis=Axis(unit=Unit.DURATION),
            label="longest wait of a newcomer",
        ),
        bar_chart(
            [Bar(each.case.name, (each.idle_share,)) for each in results],
            axis=Axis(unit=Unit.PERCENT, includes=(0, 1)),
            label="idle capacity with mail due",
        ),
    ]
    broken = sum(bool(each.violations) for each in results)
    about = f"{len(results)} cases, {broken} of them with a failed check."
    return document(panels, title="providers", about=about)
