"""Values over time or another continuous axis: lines, steps, areas, dots, and sparklines."""

from collections.abc import Sequence
from itertools import chain, groupby

from fairpost.charts.axes import Axis, Scale, checked, span
from fairpost.charts.frame import HEIGHT, TOOLTIPS_MAX, WIDTH, Frame, Key, frame, nothing_yet
from fairpost.charts.shapes import (
    SERIES_MAX,
    Band,
    Fragment,
    Kind,
    Mark,
    Points,
    Series,
    Tint,
    checked_points,
    tint_class,
)
from fairpost.charts.text import escaped, pixels

COLUMN = 2  # width of a group in pixels; at most four points are kept in each group
DOT, SMALL_DOT, HIT = 3.5, 2.5, 7
SAID_MAX = 12


def line_chart(
    series: Sequence[Series],
    *,
    x_axis: Axis,
    y_axis: Axis,
    label: str,
    width: float = WIDTH,
    height: float = HEIGHT,
    marks: Sequence[Mark] = (),
    band: Band | None = None,
) -> Fragment:
    """Draws several lines on the same axes. `marks` are named vertical lines, which the axis includes."""
    if len(series) > SERIES_MAX:
        raise ValueError(f"a chart can show at most {SERIES_MAX} series, got {len(series)}")
    lines = [(each, checked_points(each.points)) for each in series]
    edges = [checked_points(edge) for edge in (band.lower, band.upper)] if band else []
    everything = [*(points for _, points in lines), *edges]
    if not any(everything):
        return nothing_yet(label, width=width, height=height)
    zero = [0.0] if any(each.kind is Kind.AREA for each in series) else []
    xs = chain((x for points in everything for x, _ in points), (checked(mark.at) for mark in marks))
    ys = chain((y for points in everything for _, y in points), zero)
    keys = [_key(each) for each in series]
    keys += [Key(band.name, f"fc-band {tint_class(band.tint)}")] if band else []
    around = frame(x_axis, y_axis, xs, ys, width=width, height=height, keys=keys, marks=marks)
    drawing = [_band(band, edges, around)] if band else []
    with_tooltips = sum(len(points) for _, points in lines) <= TOOLTIPS_MAX
    for each, points in lines:
        drawing.append(_series(each, thinned(points, around.x), around))
        if with_tooltips and points:
            drawing.append(_tooltips(each, points, around, x_axis, y_axis))
    return around.fragment(label, _about(lines, band, x_axis, y_axis), "".join(drawing))


def sparkline(
    points: Points, *, label: str, axis: Axis | None = None, tint: Tint = 1, width: float = 120, height: float = 28
) -> Fragment:
    """Draws a line the size of a word. `axis` sets only the format of values and the values always in range."""
    axis = axis or Axis()
    points = checked_points(points)
    if not points:
        return nothing_yet(label, width=width, height=height)
    x = Scale(*span(Axis(), (x for x, _ in points)), 3, width - 3)
    y = Scale(*span(axis, (y for _, y in points)), height - 3, 3)
    last = points[-1]
    drawing = f'<path class="fc-line {tint_class(tint)}" d="{_joined(thinned(points, x), x, y)}"/>'
    drawing += f'<circle class="fc-dot {tint_class(tint)}" cx="{pixels(x(last[0]))}" cy="{pixels(y(last[1]))}" r="{SMALL_DOT}"/>'
    return Fragment(label, _in_words("", points, axis), width, height, 12, drawing)


def thinned(points: Points, x: Scale) -> Points:
    """Keeps the first, lowest, highest and last point in every few pixels. The other points would not be visible."""
    if len(points) <= abs(x.end - x.start):
        return points
    kept: list[tuple[float, float]] = []
    for _, group in groupby(points, key=lambda point: int(x(point[0]) / COLUMN)):
        within = list(group)
        places = range(len(within))
        lowest = min(places, key=lambda place: within[place][1])
        highest = max(places, key=lambda place: within[place][1])
        kept += [within[place] for place in sorted({0, lowest, highest, len(within) - 1})]
    return kept


def _series(series: Series, points: Points, around: Frame) -> str:
    if not points:
        return ""
    x, y = around.x, around.y
    tint = tint_class(series.tint)
    if series.kind is Kind.DOTS or len(points) == 1:
        r = DOT if len(points) <= TOOLTIPS_MAX else SMALL_DOT
        return "".join(
            f'<circle class="fc-dot {tint}" cx="{pixels(x(at))}" cy="{pixels(y(value))}" r="{r}"/>'
            for at, value in points
        )
    path = _stepped(points, x, y) if series.kind is Kind.STEP else _joined(points, x, y)
    drawn = f'<path class="{_line_classes(series)}" d="{path}"/>'
    if series.kind is Kind.AREA:
        floor = pixels(y(0))
        area = f"{path}V{floor}H{pixels(x(points[0][0]))}Z"
        drawn = f'<path class="fc-area {tint}" d="{area}"/>{drawn}'
    return drawn


def _key(series: Series) -> Key:
    if series.kind is Kind.DOTS:
        return Key(series.name, f"fc-dot {tint_class(series.tint)}", "dot")
    return Key(series.name, _line_classes(series), "line")


def _line_classes(series: Series) -> str:
    return f"fc-line {tint_class(series.tint)}" + (" fc-dash" if series.dashed else "")


def _joined(points: Points, x: Scale, y: Scale) -> str:
    return "M" + "L".join(f"{pixels(x(at))} {pixels(y(value))}" for at, value in points)


def _stepped(points: Points, x: Scale, y: Scale) -> str:
    (first, value), *rest = points
    return f"M{pixels(x(first))} {pixels(y(value))}" + "".join(
        f"H{pixels(x(at))}V{pixels(y(value))}" for at, value in rest
    )


def _band(band: Band, edges: Sequence[Points], around: Frame) -> str:
    lower, upper = (thinned(edge, around.x) for edge in edges)
    path = _joined([*upper, *reversed(lower)], around.x, around.y)
    return f'<path class="fc-band {tint_class(band.tint)}" d="{path}Z"/>'


def _tooltips(series: Series, points: Points, around: Frame, x_axis: Axis, y_axis: Axis) -> str:
    name = f"{series.name}: " if series.name else ""
    return (
        f'<g class="{tint_class(series.tint)}">'
        + "".join(
            f'<circle class="fc-hit" cx="{pixels(around.x(at))}" cy="{pixels(around.y(value))}" r="{HIT}">'
            f"<title>{escaped(f'{name}{y_axis.words(value)} ({x_axis.words(at)})')}</title></circle>"
            for at, value in points
        )
        + "</g>"
    )


def _about(lines: Sequence[tuple[Series, Points]], band: Band | None, x_axis: Axis, y_axis: Axis) -> str:
    shown = [(each, points) for each, points in lines if points]
    begin = min((points[0][0] for _, points in shown), default=None)
    end = max((points[-1][0] for _, points in shown), default=None)
    said = [f"From {x_axis.words(begin)} to {x_axis.words(end)}."] if begin is not None and end is not None else []
    said += [_in_words(each.name, points, y_axis) for each, points in shown[:SAID_MAX]]
    if len(shown) > SAID_MAX:
        said.append(f"And {len(shown) - SAID_MAX} more.")
    if band and (within := [value for _, value in chain(band.lower, band.upper)]):
        said.append(f"{band.name}: from {y_axis.words(min(within))} to {y_axis.words(max(within))}.")
    return " ".join(said)


def _in_words(name: str, points: Points, axis: Axis) -> str:
    values = [value for _, value in points]
    least, most, last = (axis.words(value) for value in (min(values), max(values), values[-1]))
    return f"{name}{': ' if name else ''}minimum {least}, maximum {most}, last {last}."
