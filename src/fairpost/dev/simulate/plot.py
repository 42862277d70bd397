"""Draws the slots that each group of senders got and each sender's wait, with a row of panels for each algorithm."""

from collections.abc import Mapping
from itertools import cycle
from statistics import median

from fairpost.charts import (
    Axis,
    Column,
    Fragment,
    Kind,
    Part,
    Series,
    Tint,
    Unit,
    bars_over_time,
    document,
    line_chart,
)
from fairpost.dev.simulate.fairness import TITLES, Record
from fairpost.dev.simulate.scenarios import Scenario

WIDTH, HEIGHT = 480, 230
MINUTE_S = 60
LARGE: tuple[Tint, ...] = (2, 5, 7, 4)
SMALL: tuple[Tint, ...] = (1, 3, 6, 8)


def draw(records: Mapping[str, Record]) -> str:
    """Draws an SVG. The same records always produce the same drawing."""
    scenario = next(iter(records.values())).scenario
    tints = _tints(scenario)
    waits = {name: _waits_s(record) for name, record in records.items()}
    longest_s = max((wait_s for each in waits.values() for _, wait_s, _ in each), default=0.0)
    panels = []
    for name, record in records.items():
        panels.append(_shares(f"{TITLES[name]}: share of each minute's slots", record, tints))
        panels.append(_waits(f"{TITLES[name]}: median wait per sender", waits[name], tints, longest_s))
    return document(panels, title=scenario.name, about=scenario.about, columns=2)


def _tints(scenario: Scenario) -> dict[str, Tint]:
    """Returns a colour for each group. Small groups are drawn at the bottom, where a thin band is visible."""
    small = dict.fromkeys(sender.group for sender in scenario.senders if sender.is_small)
    large = dict.fromkeys(sender.group for sender in scenario.senders if not sender.is_small)
    return dict(zip(small, cycle(SMALL), strict=False)) | dict(zip(large, cycle(LARGE), strict=False))


def _shares(label: str, record: Record, tints: Mapping[str, Tint]) -> Fragment:
    shares = zip(*(record.share_over_time(group) for group in tints), strict=True)
    return bars_over_time(
        [Column(minute * MINUTE_S, share) for minute, share in enumerate(shares)],
        length=MINUTE_S,
        parts=[Part(group, tint) for group, tint in tints.items()],
        x_axis=Axis(unit=Unit.DURATION, label="since the start"),
        y_axis=Axis(unit=Unit.PERCENT, includes=(0, 1)),
        label=label,
        width=WIDTH,
        height=HEIGHT,
    )


def _waits_s(record: Record) -> list[tuple[int, float, str]]:
    """Returns the wait and the group for each rank, shortest wait first."""
    waits = sorted((median(waits), sender.group) for sender, waits in record.waits_by_sender().items())
    return [(place, wait_s, group) for place, (wait_s, group) in enumerate(waits, 1)]


def _waits(label: str, waits: list[tuple[int, float, str]], tints: Mapping[str, Tint], longest_s: float) -> Fragment:
    return line_chart(
        [
            Series(group, [(place, wait_s) for place, wait_s, of in waits if of == group], Kind.DOTS, tint)
            for group, tint in tints.items()
        ],
        x_axis=Axis(unit=Unit.COUNT, label="senders, ordered by wait", includes=(0,)),
        y_axis=Axis(unit=Unit.DURATION, includes=(0, longest_s)),
        label=label,
        width=WIDTH,
        height=HEIGHT,
    )
