"""Every chart is valid XML, has no scripts or styles, describes itself in words, and stays small."""

import math
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from xml.etree.ElementTree import Element, fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.charts import (
    Axis,
    Band,
    Bar,
    Column,
    Fragment,
    Kind,
    Mark,
    Part,
    Series,
    Tint,
    Unit,
    bar_chart,
    bars_over_time,
    document,
    line_chart,
    sparkline,
    stylesheet,
)
from fairpost.charts.axes import VALUE_MAX
from fairpost.charts.shapes import NOTHING

SVG = "{http://www.w3.org/2000/svg}"
NUMBERS, COUNTS = Axis(), Axis(unit=Unit.COUNT)
TINTS: tuple[Tint, ...] = (1, 2, 3, 4, 5, 6, 7, 8, "good", "bad", "warn", "forecast", "quiet")
HOSTILE = '</text><script>alert(1)</script> style="x" \' & \x00\x1b\ud800\uffff 日本語 é'

names = st.text(st.characters(), max_size=60) | st.just(HOSTILE)
values = st.floats(-VALUE_MAX, VALUE_MAX)
amounts = st.floats(0, VALUE_MAX)
points = st.lists(st.tuples(values, values), max_size=30)
value_axes = st.builds(
    Axis,
    unit=st.sampled_from([Unit.NUMBER, Unit.COUNT, Unit.PERCENT, Unit.DURATION]),
    label=names,
    includes=st.tuples(),
)
series = st.builds(Series, names, points, kind=st.sampled_from(Kind), tint=st.sampled_from(TINTS), dashed=st.booleans())
lines = st.builds(
    line_chart,
    st.lists(series, max_size=4),
    x_axis=value_axes,
    y_axis=value_axes,
    label=names,
    width=st.integers(120, 1_200),
    height=st.integers(20, 400),
    marks=st.lists(st.builds(Mark, values, names), max_size=5),
    band=st.none() | st.builds(Band, names, points, points),
)


@st.composite
def named_bars(draw: st.DrawFn) -> Fragment:
    parts = draw(st.lists(st.builds(Part, names, st.sampled_from(TINTS)), min_size=1, max_size=4))
    each = st.lists(amounts, min_size=len(parts), max_size=len(parts))
    bars = draw(st.lists(st.builds(Bar, names, each), max_size=6))
    return bar_chart(
        bars,
        parts=parts,
        axis=draw(value_axes),
        label=draw(names),
        stacked=draw(st.booleans()),
        width=draw(st.integers(120, 900)),
    )


@st.composite
def columns_over_time(draw: st.DrawFn) -> Fragment:
    parts = draw(st.lists(st.builds(Part, names, st.sampled_from(TINTS)), min_size=1, max_size=4))
    each = st.lists(amounts, min_size=len(parts), max_size=len(parts))
    moments = st.integers(0, 4_000_000_000)
    return bars_over_time(
        draw(st.lists(st.builds(Column, moments, each), max_size=80)),
        length=draw(st.sampled_from([1, 60, 3_600, 86_400])),
        parts=parts,
        x_axis=Axis(unit=Unit.MOMENT, timezone=draw(st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"]))),
        y_axis=draw(value_axes),
        label=draw(names),
        marks=draw(st.lists(st.builds(Mark, moments, names), max_size=3)),
    )


sparks = st.builds(sparkline, points, label=names, tint=st.sampled_from(TINTS))
fragments = lines | named_bars() | columns_over_time() | sparks


def elements(fragment: Fragment) -> Iterator[Element]:
    return fromstring(str(fragment)).iter()


@given(fragments)
def test_a_fragment_is_xml_that_runs_nothing_styles_nothing_and_loads_nothing(fragment: Fragment) -> None:
    for element in elements(fragment):
        assert element.tag.removeprefix(SVG) in {"svg", "title", "desc", "g", "path", "rect", "circle", "text"}
        assert set(element.attrib) <= {
            *("class", "role", "width", "height", "viewBox", "preserveAspectRatio", "font-size", "text-anchor"),
            *("x", "y", "d", "cx", "cy", "r"),
        }
        assert all(name.startswith("fc-") for name in element.get("class", "").split())
        drawn = " ".join(element.get(name, "") for name in ("d", "x", "y", "cx", "cy", "width", "height"))
        assert "nan" not in drawn
        assert "inf" not in drawn


@given(fragments)
def test_it_has_a_name_and_says_in_words_what_it_shows(fragment: Fragment) -> None:
    root = fromstring(str(fragment))
    assert root.get("role") == "img"
    assert [child.tag for child in root][:2] == [f"{SVG}title", f"{SVG}desc"]
    assert root[1].text


@given(fragments)
def test_everything_lies_within_its_view(fragment: Fragment) -> None:
    for element in elements(fragment):
        x = float(element.get("x", element.get("cx", "0")))
        y = float(element.get("y", element.get("cy", "0")))
        assert -0.2 <= x <= fragment.width + 0.2
        assert -0.2 <= y <= fragment.height + 0.2


@given(st.lists(fragments, max_size=3), names, st.integers(1, 3))
def test_a_document_is_xml_with_its_colours_inside(panels: list[Fragment], title: str, columns: int) -> None:
    root = fromstring(document(panels, title=title, about=title, columns=columns).encode())
    style = root.find(f"{SVG}style")
    assert style is not None
    assert (style.text or "").startswith(stylesheet())
    assert len(root.findall(f"{SVG}svg")) == len(panels)


BAD: tuple[float, ...] = (math.nan, math.inf, -math.inf, 1e16, 10**400)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(
    "draw",
    [
        lambda bad: line_chart([Series("", [(bad, 1)])], x_axis=NUMBERS, y_axis=NUMBERS, label=""),
        lambda bad: line_chart([Series("", [(1, bad)])], x_axis=NUMBERS, y_axis=NUMBERS, label=""),
        lambda bad: line_chart([Series("", [(1, 1)])], x_axis=Axis(includes=(bad,)), y_axis=NUMBERS, label=""),
        lambda bad: line_chart([Series("", [(1, 1)])], x_axis=NUMBERS, y_axis=NUMBERS, label="", marks=[Mark(bad, "")]),
        lambda bad: line_chart([], x_axis=NUMBERS, y_axis=NUMBERS, label="", band=Band("", [(1, bad)], [(1, 1)])),
        lambda bad: sparkline([(1, bad)], label=""),
        lambda bad: bar_chart([Bar("", [bad])], axis=NUMBERS, label=""),
        lambda bad: bar_chart([Bar("", [1])], axis=Axis(includes=(bad,)), label=""),
        lambda bad: bars_over_time([Column(bad, [1])], length=1, x_axis=NUMBERS, y_axis=NUMBERS, label=""),
        lambda bad: bars_over_time([Column(1, [bad])], length=1, x_axis=NUMBERS, y_axis=NUMBERS, label=""),
        lambda bad: bars_over_time([Column(1, [1])], length=bad, x_axis=NUMBERS, y_axis=NUMBERS, label=""),
    ],
)
def test_an_invalid_number_is_refused(draw: Callable[[float], Fragment], bad: float) -> None:
    with pytest.raises(ValueError):
        draw(bad)


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: bar_chart([Bar("", [-1])], axis=NUMBERS, label=""), "negative"),
        (lambda: bar_chart([Bar("", [1, 2])], axis=NUMBERS, label=""), "each of its 1 parts"),
        (lambda: bar_chart([Bar("", [1])] * 201, axis=NUMBERS, label=""), "at most 200 bars"),
        (
            lambda: bars_over_time([Column(1, [1])] * 501, length=1, x_axis=NUMBERS, y_axis=NUMBERS, label=""),
            "longer buckets",
        ),
        (lambda: line_chart([Series("", [])] * 25, x_axis=NUMBERS, y_axis=NUMBERS, label=""), "at most 24 series"),
        (lambda: line_chart([], x_axis=NUMBERS, y_axis=NUMBERS, label="", width=10), "width must be"),
        (lambda: sparkline([(1, 1)], label="", tint=9), "tint must be 1..8"),  # type: ignore[arg-type]
        (
            lambda: line_chart([Series("", [(0, 0)])], x_axis=Axis(log=True), y_axis=NUMBERS, label=""),
            "values above 0",
        ),
        (
            lambda: line_chart([Series("", [(1e12, 0)])], x_axis=Axis(unit=Unit.MOMENT), y_axis=NUMBERS, label=""),
            "years 1 and 9998",
        ),
        (
            lambda: line_chart([Series("", [(1, 1)])], x_axis=NUMBERS, y_axis=Axis(unit=Unit.MOMENT), label=""),
            "only the x axis",
        ),
    ],
)
def test_an_impossible_plot_is_refused_with_the_reason(draw: Callable[[], Fragment], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        draw()


@pytest.mark.parametrize(
    "empty",
    [
        line_chart([], x_axis=NUMBERS, y_axis=NUMBERS, label="e-mails"),
        line_chart([Series("sent", [])], x_axis=NUMBERS, y_axis=NUMBERS, label="e-mails"),
        bar_chart([], axis=COUNTS, label="e-mails"),
        bars_over_time([], length=60, x_axis=NUMBERS, y_axis=COUNTS, label="e-mails"),
        sparkline([], label="e-mails"),
    ],
)
def test_without_data_it_says_so(empty: Fragment) -> None:
    assert [element.text for element in elements(empty) if element.tag == f"{SVG}text"] == [NOTHING]


def test_few_points_have_tooltips_and_many_have_none() -> None:
    def tooltips(count: int) -> list[str | None]:
        chart = line_chart(
            [Series("sent", [(n, 1_000 * n) for n in range(count)])], x_axis=COUNTS, y_axis=COUNTS, label="e-mails"
        )
        return [circle[0].text for circle in elements(chart) if circle.get("class") == "fc-hit"]

    assert tooltips(3) == ["sent: 0 (0)", "sent: 1,000 (1)", "sent: 2,000 (2)"]
    assert len(tooltips(200)) == 200
    assert tooltips(201) == []


def test_bars_say_their_names_parts_and_values() -> None:
    chart = bar_chart(
        [Bar("a & b", (1_200, 34)), Bar("c", (0, 0))],
        parts=[Part("sent", "good"), Part("bounced", "bad")],
        axis=COUNTS,
        label="e-mails",
    )
    rects = [element for element in elements(chart) if element.tag == f"{SVG}rect" and len(element)]
    assert [rect[0].text for rect in rects] == ["a & b, sent: 1,200", "a & b, bounced: 34"]
    shown = [element.text for element in elements(chart) if element.tag == f"{SVG}text"]
    assert shown == ["sent", "bounced", "a & b", "1,234", "c", "0"]
    assert re.findall(r"[\d,]*\d", chart.about) == ["1,200", "34", "0", "0"]


def test_a_million_points_make_a_small_fragment() -> None:
    wild = [(n, (n * 7_919) % 10_007) for n in range(1_000_000)]
    chart = line_chart([Series("wild", wild, Kind.AREA)], x_axis=COUNTS, y_axis=COUNTS, label="")
    assert len(str(chart).encode()) < 60_000


def test_the_most_columns_make_a_small_fragment() -> None:
    parts = [Part("sent", "good"), Part("bounced", "bad"), Part("in doubt", "warn")]
    columns = [Column(n, (n, n % 7, n % 5)) for n in range(500)]
    chart = bars_over_time(columns, length=1, parts=parts, x_axis=COUNTS, y_axis=COUNTS, label="")
    assert len(str(chart).encode()) < 60_000


def test_adjacent_columns_stay_adjacent() -> None:
    columns = [Column(n, (1,)) for n in range(180)]
    chart = bars_over_time(columns, length=1, x_axis=COUNTS, y_axis=COUNTS, label="")
    rects = [element for element in elements(chart) if element.tag == f"{SVG}rect"]
    for before, after in pairwise(rects):
        assert float(before.attrib["x"]) + float(before.attrib["width"]) == pytest.approx(float(after.attrib["x"]))
