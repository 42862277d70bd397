"""Draws a forecast: how many e-mails go out when, and how many have gone out by then."""

from itertools import accumulate
from pathlib import Path

from fairpost.policy.forecast import Forecast
from fairpost.policy.forecast.buckets import buckets
from fairpost.simulate.plot import COOL, STYLE, WARM, require_matplotlib, save

LABELS_MAX = 12


def plot_forecast(found: Forecast, path: Path, *, timezone: str) -> None:
    """A PNG or an SVG, by the name's end. The same forecast gives the same file."""
    require_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    over_time = buckets(found, timezone)
    counts = [count for _, count in over_time.counts]
    form = "%a %d %b\n%H:%M" if over_time.is_within_days else "%d %b\n%Y"
    every = -(-len(counts) // LABELS_MAX)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 4.5), layout="constrained")
        each = figure.subplots()
        each.bar(range(len(counts)), counts, width=0.9, color=COOL[0])
        each.set_ylabel(f"e-mails per {over_time.size}", color=COOL[0])
        each.set_xticks(range(0, len(counts), every), [f"{at:{form}}" for at, _ in over_time.counts[::every]])
        each.set_xlabel(timezone)
        together = each.twinx()
        together.plot(
            range(len(counts)), list(accumulate(counts)), color=WARM[0], marker="." if len(counts) == 1 else ""
        )
        together.set_ylim(bottom=0)
        together.set_ylabel("e-mails so far", color=WARM[0])
        figure.suptitle(f"{found.emails:,} e-mails; bottleneck: {found.bottleneck}")
        save(figure, path)
