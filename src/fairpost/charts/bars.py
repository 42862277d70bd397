"""Charts that compare amounts: bars with names, and columns over time. Both kinds of chart can be stacked."""

from collections.abc import Sequence
from itertools import chain

from fairpost.charts.axes import Axis, Scale, Unit, checked
from fairpost.charts.frame import (
    HEIGHT,
    TOOLTIPS_MAX,
    WIDTH,
    Frame,
    Key,
    frame,
    legend_of,
    nothing_yet,
    text_at,
    text_size_at,
)
from fairpost.charts.shapes import Bar, Column, Fragment, Mark, Part, checked_values, tint_class
from fairpost.charts.text import escaped, pixels, shortened, text_width

BARS_MAX = 200
COLUMNS_MAX = 500
SAID_MAX = 12
DENSE = 4  # in pixels; narrower columns have no gaps between them
BAR_HEIGHT, BAR_GAP = 1.2, 0.6  # in multiples of the text size
AN_AMOUNT = (Part(""),)


def bar_chart(
    bars: Sequence[Bar],
    *,
    axis: Axis,
    label: str,
    parts: Sequence[Part] = AN_AMOUNT,
    stacked: bool = True,
    width: float = WIDTH,
) -> Fragment:
    """Draws bars in rows. The number of rows determines the height. Unless the bars are stacked, each part has its own
    row.
    """
    if len(bars) > BARS_MAX:
        raise ValueError(f"a chart can show at most {BARS_MAX} bars, got {len(bars)}")
    size = text_size_at(width)
    if not bars:
        return nothing_yet(label, width=width, height=6 * size)
    totals = [sum(checked_values(bar.values, parts)) for bar in bars]
    ends = totals if stacked else [value for bar in bars for value in bar.values]
    names = min(0.4 * width, max(text_width(bar.name, size) for bar in bars) + 0.6 * size)
    amounts = max(text_width(axis.words(end), size) for end in ends) + 0.6 * size
    most = max(*ends, *map(checked, axis.includes), 1e-9)
    x = Scale(0, most, names, max(names + 1, width - amounts))
    legend, top = legend_of([Key(part.name, f"fc-bar {tint_class(part.tint)}") for part in parts], width, size)
    drawn = [legend]
    with_tooltips = len(bars) * len(parts) <= TOOLTIPS_MAX
    height = (1 if stacked else len(parts)) * BAR_HEIGHT * size + BAR_GAP * size
    for bar in bars:
        drawn.append(_name(bar.name, top + height / 2 + 0.35 * size, names - 0.6 * size, size))
        drawn.append(_bar(bar, parts, axis, x, top, size, stacked=stacked, with_tooltips=with_tooltips))
        top += height
    said = [f"{bar.name}: {_values_in_words(bar.values, parts, axis)}" for bar in bars]
    return Fragment(label, _listed(said), width, top + 0.2 * size, size, "".join(drawn))


def bars_over_time(
    columns: Sequence[Column],
    *,
    length: float,
    parts: Sequence[Part] = AN_AMOUNT,
    x_axis: Axis,
    y_axis: Axis,
    label: str,
    width: float = WIDTH,
    height: float = HEIGHT,
    marks: Sequence[Mark] = (),
) -> Fragment:
    """Draws the content of each time bucket, stacked. `length` is the length of a bucket in x-axis units."""
    if len(columns) > COLUMNS_MAX:
        raise ValueError(f"a chart can show at most {COLUMNS_MAX} columns, got {len(columns)}: use longer buckets")
    if not length > 0:
        raise ValueError(f"the length of a bucket must be above 0, got {length}")
    if not columns:
        return nothing_yet(label, width=width, height=height)
    ends = chain.from_iterable((column.begins_at, column.begins_at + length) for column in columns)
    totals = [sum(checked_values(column.values, parts)) for column in columns]
    around = frame(
        x_axis,
        y_axis,
        map(checked, chain(ends, (mark.at for mark in marks))),
        [0.0, *totals],
        width=width,
        height=height,
        keys=[Key(part.name, f"fc-bar {tint_class(part.tint)}") for part in parts],
        marks=marks,
    )
    drawn = [_columns(columns, n, part, length, around, x_axis, y_axis) for n, part in enumerate(parts)]
    highest = max(range(len(totals)), key=totals.__getitem__)
    about = f"From {x_axis.words(columns[0].begins_at)} to {x_axis.words(columns[-1].begins_at + length)}. "
    about += f"Maximum: {y_axis.words(totals[highest])} ({x_axis.words(columns[highest].begins_at)})."
    if y_axis.unit is not Unit.PERCENT:
        sums = [sum(column.values[n] for column in columns) for n in range(len(parts))]
        about += f" Total: {_values_in_words(sums, parts, y_axis)}."
    return around.fragment(label, about, "".join(drawn))


def _name(name: str, y: float, room: float, size: float) -> str:
    shown = text_at(0, y, shortened(name, size, room), more=" fc-strong")
    return shown if text_width(name, size) <= room else f"<g><title>{escaped(name)}</title>{shown}</g>"


def _bar(
    bar: Bar,
    parts: Sequence[Part],
    axis: Axis,
    x: Scale,
    top: float,
    size: float,
    *,
    stacked: bool,
    with_tooltips: bool,
) -> str:
    drawn, begin, y = [], 0.0, top + BAR_GAP / 2 * size
    for part, value in zip(parts, bar.values, strict=True):
        words = ", ".join(filter(None, (bar.name, part.name))) + f": {axis.words(value)}"
        tint = tint_class(part.tint if bar.tint is None else bar.tint)
        end = begin + value
        place = (x(begin), y, x(end), y + BAR_HEIGHT * size)
        drawn.append(_rect(*place, tint, words if with_tooltips else ""))
        if stacked:
            begin = end
        else:
            drawn.append(text_at(x(end) + 0.4 * size, y + 0.95 * size, axis.words(end)))
            y += BAR_HEIGHT * size
    if stacked:
        drawn.append(text_at(x(begin) + 0.4 * size, y + 0.95 * size, axis.words(begin)))
    return "".join(drawn)


def _columns(
    columns: Sequence[Column], n: int, part: Part, length: float, around: Frame, x_axis: Axis, y_axis: Axis
) -> str:
    """Draws one part of all columns, as rectangles with tooltips or, if there are too many columns, as a single
    path.
    """
    x, y, tint = around.x, around.y, tint_class(part.tint)
    name = f"{part.name}: " if part.name else ""
    drawn, path = [], []
    for column in columns:
        value, bottom = column.values[n], sum(column.values[:n])
        left, right = x(column.begins_at), x(column.begins_at + length)
        top, floor = y(bottom + value), y(bottom)
        if len(columns) * len(column.values) <= TOOLTIPS_MAX:
            words = f"{name}{y_axis.words(value)} ({x_axis.words(column.begins_at)})"
            drawn.append(_rect(left, top, right, floor, tint, words))
        elif value:
            path.append(f"M{pixels(left)} {pixels(top)}H{pixels(right)}V{pixels(floor)}H{pixels(left)}Z")
    if path:
        dense = " fc-dense" if (x.end - x.start) / len(columns) < DENSE else ""
        drawn.append(f'<path class="fc-bar {tint}{dense}" d="{"".join(path)}"/>')
    return "".join(drawn)


def _rect(left: float, top: float, right: float, bottom: float, tint: str, words: str) -> str:
    # The edges are rounded instead of the widths, so that adjacent bars still touch.
    width, height = round(right, 1) - round(left, 1), round(bottom, 1) - round(top, 1)
    if width <= 0 or height <= 0:
        return ""
    place = f'x="{pixels(left)}" y="{pixels(top)}" width="{pixels(width)}" height="{pixels(height)}"'
    if not words:
        return f'<rect class="fc-bar {tint}" {place}/>'
    return f'<rect class="fc-bar {tint}" {place}><title>{escaped(words)}</title></rect>'


def _values_in_words(values: Sequence[float], parts: Sequence[Part], axis: Axis) -> str:
    if len(parts) == 1:
        return axis.words(values[0])
    return ", ".join(f"{part.name} {axis.words(value)}" for part, value in zip(parts, values, strict=True))


def _listed(said: Sequence[str]) -> str:
    more = f"; and {len(said) - SAID_MAX} more" if len(said) > SAID_MAX else ""
    return f"{'; '.join(said[:SAID_MAX])}{more}."
