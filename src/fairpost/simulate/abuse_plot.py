"""Draws how soon the abusers are found, and which part of each kind of sender is throttled, for both ways of scoring."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairpost.simulate.abuse import AbuseFigures, Story, Way
from fairpost.simulate.plot import COOL, STYLE, WARM, require_matplotlib, save
from fairpost.simulate.senders import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MINUTES_MAX = 7 * 24 * 60
LINES = {Way.EVENTS: "-", Way.HOURLY: ":"}
BARS = {Way.EVENTS: "#333333", Way.HOURLY: "#bbbbbb"}


def plot_abuse(stories: Mapping[Way, Sequence[Story]], figures: Mapping[Way, AbuseFigures], path: Path) -> None:
    """A PNG or an SVG, by the name's end. The same stories give the same file."""
    require_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 5), layout="constrained")
        found, throttled = figure.subplots(1, 2)
        _found(found, stories)
        _throttled(throttled, figures)
        save(figure, path)


def _found(axes: "Axes", stories: Mapping[Way, Sequence[Story]]) -> None:
    """For each kind of abuser, the part that was found after so many minutes."""
    for kind, colour in zip([kind for kind in Kind if kind.is_abuse], WARM, strict=True):
        for way, line in LINES.items():
            of_kind = [story for story in stories[way] if story.sender.kind is kind]
            minutes = sorted(max(1.0, story.detect_s / 60) for story in of_kind if story.detect_s is not None)
            parts = [number / max(1, len(of_kind)) for number in range(len(minutes) + 1)]
            axes.step(
                [1, *minutes, MINUTES_MAX],
                [*parts, parts[-1]],
                line,
                where="post",
                color=colour,
                label=f"{kind}, {way.value}",
            )
    axes.set_xscale("log")
    axes.set_xlim(1, MINUTES_MAX)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("minutes since the abuse began")
    axes.set_ylabel("part of the abusers that was found")
    axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=4)


def _throttled(axes: "Axes", figures: Mapping[Way, AbuseFigures]) -> None:
    kinds = figures[Way.EVENTS].kinds
    height = 0.4
    for n, way in enumerate(Way):
        parts = [each.throttled / each.senders for each in figures[way].kinds.values()]
        places = [place + (n - 0.5) * height for place in range(len(kinds))]
        axes.barh(places, parts, height, color=BARS[way], label=way.value)
    axes.set_yticks(range(len(kinds)), list(kinds))
    for label, each in zip(axes.get_yticklabels(), kinds.values(), strict=True):
        label.set_color(WARM[0] if each.is_abuse else COOL[0])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("part that was throttled (blue: honest senders, red: abusers)")
    axes.legend(fontsize="small")
