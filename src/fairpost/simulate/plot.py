"""Draws who got which slots, and how long each sender waited, beside each other for each algorithm."""

from collections.abc import Mapping
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from fairpost.model.errors import FairpostError
from fairpost.simulate.fairness import TITLES, Course
from fairpost.simulate.scenarios import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
STYLE: Any = {"svg.hashsalt": "fairpost", "font.size": 9}
WARM = ("#c44e52", "#dd8452", "#937860", "#ccb974")  # for the large senders
COOL = ("#4c72b0", "#55a868", "#64b5cd", "#8172b3")  # for the small ones


def require_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise FairpostError("A plot needs matplotlib, which is not installed. Type: pip install 'fairpost[plot]'")


def plot(courses: Mapping[str, Course], path: Path) -> None:
    """A PNG or an SVG, by the name's end. The same courses give the same file."""
    require_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    scenario = next(iter(courses.values())).scenario
    colours = _colours(scenario)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4 * len(courses), 6.5), layout="constrained")
        axes = figure.subplots(2, len(courses), sharey="row", squeeze=False)
        for column, (name, course) in enumerate(courses.items()):
            axes[0, column].set_title(TITLES[name])
            _shares(axes[0, column], course, colours)
            _waits(axes[1, column], course, colours)
        axes[0, 0].set_ylabel("share of each minute's slots (white: unused)")
        axes[1, 0].set_ylabel("median wait of each sender, minutes")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        figure.suptitle(f"{scenario.name}: {scenario.about}", wrap=True)
        save(figure, path)


def save(figure: "Figure", path: Path) -> None:
    try:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    except OSError as error:
        raise FairpostError(f"The plot cannot be written: {error}") from error


def _colours(scenario: Scenario) -> dict[str, str]:
    """The small groups first: they are drawn at the bottom, where a thin band is seen."""
    small = dict.fromkeys(sender.group for sender in scenario.senders if sender.is_small)
    large = dict.fromkeys(sender.group for sender in scenario.senders if not sender.is_small)
    return dict(zip(small, cycle(COOL), strict=False)) | dict(zip(large, cycle(WARM), strict=False))


def _shares(axes: "Axes", course: Course, colours: Mapping[str, str]) -> None:
    shares = [course.share_over_time(group) for group in colours]
    axes.stackplot(
        range(course.scenario.minutes), shares, labels=list(colours), colors=list(colours.values()), step="post"
    )
    axes.set_ylim(0, 1)
    axes.set_xlim(0, course.scenario.minutes - 1)
    axes.set_xlabel("minute")


def _waits(axes: "Axes", course: Course, colours: Mapping[str, str]) -> None:
    waits = sorted((median(waits) / 60, sender.group) for sender, waits in course.waits_by_sender().items())
    for group, colour in colours.items():
        of_group = [(place, wait) for place, (wait, name) in enumerate(waits, 1) if name == group]
        axes.scatter([place for place, _ in of_group], [wait for _, wait in of_group], s=12, color=colour)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("senders, by their wait")
