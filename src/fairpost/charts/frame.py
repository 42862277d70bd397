"""The frame of a chart: axes, grid, ticks, legend and marks, without overlaps."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from fairpost.charts.axes import Axis, Scale, Tick, Unit, days_in_words, span, ticks_around, ticks_inside
from fairpost.charts.shapes import NOTHING, Fragment, Mark
from fairpost.charts.text import escaped, pixels, shortened, text_width

WIDTH, HEIGHT = 640.0, 220.0
WIDTHS = (120, 4_000)
HEIGHT_MAX = 4_000
PLOT_HEIGHT_MIN = 72.0
MARK_ROWS_MAX = 3
TOOLTIPS_MAX = 200


@dataclass(frozen=True, slots=True)
class Key:
    """A legend entry: a shape with a name."""

    name: str
    classes: str
    shape: Literal["line", "dot", "patch"] = "patch"


@dataclass(frozen=True, slots=True)
class Frame:
    """The area to draw in, along with everything already drawn around it."""

    x: Scale
    y: Scale
    height: float
    text_size: float
    behind: str
    before: str

    def fragment(self, label: str, about: str, drawing: str) -> Fragment:
        body = f"{self.behind}{drawing}{self.before}"
        return Fragment(label, about, self.x.end + self.text_size / 2, self.height, self.text_size, body)


def text_size_at(width: float) -> float:
    """Returns a text size that becomes 9 pixels when the chart shrinks to a width of 360 pixels, as on a phone."""
    if not WIDTHS[0] <= width <= WIDTHS[1]:
        raise ValueError(f"width must be {WIDTHS[0]}..{WIDTHS[1]}, got {width}")
    return max(12.0, width / 40)


def frame(
    x_axis: Axis,
    y_axis: Axis,
    xs: Iterable[float],
    ys: Iterable[float],
    *,
    width: float,
    height: float,
    keys: Sequence[Key],
    marks: Sequence[Mark],
) -> Frame:
    if y_axis.log or y_axis.unit is Unit.MOMENT:
        raise ValueError("only the x axis can be logarithmic or show times")
    if not height <= HEIGHT_MAX:
        raise ValueError(f"height must be at most {HEIGHT_MAX}, got {height}")
    size = text_size_at(width)
    legend, top = legend_of(keys, width, size)
    if y_axis.label:
        top += 1.35 * size
        legend += text_at(0, top - 0.3 * size, shortened(y_axis.label, size, width))
    top += 0.7 * size
    x_low, x_high = span(x_axis, xs)
    x_words = x_axis.label or (days_in_words(x_axis, x_low, x_high) if x_axis.unit is Unit.MOMENT else "")
    below = size * (3.2 if x_words else 1.9)
    height = max(height, top + PLOT_HEIGHT_MIN + below)
    bottom = height - below
    y_low, y_high = span(y_axis, ys)
    y_ticks = ticks_around(y_axis, y_low, y_high, most=int((bottom - top) / (1.8 * size)) + 1)
    y = Scale(min(y_low, y_ticks[0].value), max(y_high, y_ticks[-1].value), bottom, top)
    left = min(width / 2, max(text_width(tick.words, size) for tick in y_ticks) + 0.5 * size)
    x = Scale(x_low, x_high, left, width - size / 2, x_axis.log)
    behind = legend + _y_ticks(y_ticks, y, x, size) + _x_ticks(x_axis, x, bottom, width, size)
    if x_words:
        words = shortened(x_words, size, width)
        has_room = text_width(words, size) <= x.end - x.start
        middle = (x.start + x.end) / 2 if has_room else width / 2
        behind += text_at(middle, height - 0.4 * size, words, anchor="middle")
    return Frame(x, y, height, size, behind, _marks(marks, x, y, size))


def nothing_yet(label: str, *, width: float, height: float) -> Fragment:
    size = text_size_at(width)
    body = text_at(width / 2, height / 2, NOTHING, anchor="middle", more=" fc-empty")
    return Fragment(label, NOTHING, width, height, size, body)


def legend_of(keys: Sequence[Key], width: float, size: float) -> tuple[str, float]:
    """Returns the legend and its height. Fewer than two entries need no legend."""
    if len(keys) < 2:
        return "", 0.0
    drawn, x, y, swatch = [], 0.0, 1.1 * size, 1.5 * size
    for key in keys:
        name = shortened(key.name, size, width - swatch - 0.4 * size)
        wide = swatch + 0.4 * size + text_width(name, size)
        if x and x + wide > width:
            x, y = 0.0, y + 1.5 * size
        middle = y - 0.35 * size
        if key.shape == "line":
            drawn.append(f'<path class="{key.classes}" d="M{pixels(x)} {pixels(middle)}h{pixels(swatch)}"/>')
        elif key.shape == "dot":
            at = f'cx="{pixels(x + swatch / 2)}" cy="{pixels(middle)}"'
            drawn.append(f'<circle class="{key.classes}" {at} r="{pixels(0.35 * size)}"/>')
        else:
            drawn.append(
                f'<rect class="{key.classes}" x="{pixels(x)}" y="{pixels(y - 0.8 * size)}"'
                f' width="{pixels(swatch)}" height="{pixels(0.9 * size)}"/>'
            )
        drawn.append(text_at(x + swatch + 0.4 * size, y, name))
        x += wide + size
    return "".join(drawn), y + 0.5 * size


def text_at(x: float, y: float, words: str, *, anchor: str = "start", more: str = "") -> str:
    anchored = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text class="fc-text{more}" x="{pixels(x)}" y="{pixels(y)}"{anchored}>{escaped(words)}</text>'


def x_extent(tick: Tick, x: Scale, width: float, size: float) -> tuple[float, float]:
    """Returns the extent of a tick's label: centred under the tick, but never outside the chart."""
    wide = text_width(tick.words, size)
    begin = max(0.0, min(x(tick.value) - wide / 2, width - wide))
    return begin, begin + wide


def x_ticks(axis: Axis, x: Scale, width: float, size: float) -> Sequence[Tick]:
    def fits(ticks: Sequence[Tick]) -> bool:
        extents = [x_extent(tick, x, width, size) for tick in ticks]
        return extents[-1][1] <= width + 0.1 and all(
            before[1] + 0.7 * size <= after[0] for before, after in pairwise(extents)
        )

    return ticks_inside(axis, x.low, x.high, fits)


def _x_ticks(axis: Axis, x: Scale, bottom: float, width: float, size: float) -> str:
    ticks = x_ticks(axis, x, width, size)
    lines = "".join(f"M{pixels(x(tick.value))} {pixels(bottom)}v4" for tick in ticks)
    words = [
        text_at(sum(x_extent(tick, x, width, size)) / 2, bottom + 1.45 * size, tick.words, anchor="middle")
        for tick in ticks
    ]
    return f'<path class="fc-axis" d="M{pixels(x.start)} {pixels(bottom)}H{pixels(x.end)}{lines}"/>{"".join(words)}'


def _y_ticks(ticks: Sequence[Tick], y: Scale, x: Scale, size: float) -> str:
    lines = "".join(f"M{pixels(x.start)} {pixels(y(tick.value))}H{pixels(x.end)}" for tick in ticks)
    words = [text_at(x.start - 0.4 * size, y(tick.value) + 0.35 * size, tick.words, anchor="end") for tick in ticks]
    return f'<path class="fc-grid" d="{lines}"/>{"".join(words)}'


def _marks(marks: Sequence[Mark], x: Scale, y: Scale, size: float) -> str:
    """Draws marks. Overlapping names are placed one below the other. If there are too many names, tooltips show them
    instead.
    """
    lines, said = [], []
    ends = [x.start] * MARK_ROWS_MAX
    for mark in sorted(marks, key=lambda mark: mark.at):
        at, words = x(mark.at), shortened(mark.words, size, (x.end - x.start) * 0.9)
        wide = text_width(words, size)
        goes_before = at + 4 + wide > x.end
        begin = at - 4 - wide if goes_before else at + 4
        lines.append(
            f'<g><title>{escaped(mark.words)}</title><path class="fc-mark"'
            f' d="M{pixels(at)} {pixels(y.start)}V{pixels(y.end)}"/></g>'
        )
        row = next((row for row, end in enumerate(ends) if begin >= end), None)
        if row is not None:
            ends[row] = begin + wide + size / 2
            beside, anchor = (at - 4, "end") if goes_before else (begin, "start")
            y_of_row = y.end + (0.9 + 1.2 * row) * size
            said.append(text_at(beside, y_of_row, words, anchor=anchor, more=" fc-strong fc-words"))
    return "".join(lines + said)
