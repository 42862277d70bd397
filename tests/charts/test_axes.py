"""Ticks are round, enclose the values and do not overlap; positions keep the order of values; peaks are kept."""

import math
from datetime import UTC, datetime
from itertools import pairwise
from random import Random

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from fairpost.charts import Axis, Unit
from fairpost.charts.axes import VALUE_MAX, Scale, span, ticks_around
from fairpost.charts.frame import x_extent, x_ticks
from fairpost.charts.lines import thinned
from fairpost.charts.text import escaped, shortened, text_width, wrapped

values = st.floats(-VALUE_MAX, VALUE_MAX)
units = st.sampled_from([Unit.NUMBER, Unit.COUNT, Unit.PERCENT, Unit.DURATION])
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"])
moments = st.floats(-2e9, 8e9)
SIZE = 16.0


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def shown(axis: Axis, low: float, high: float, *, width: float = 640, left: float = 60) -> list[str]:
    return [tick.words for tick in x_ticks(axis, Scale(low, high, left, width - 8, axis.log), width, SIZE)]


@given(st.lists(values, min_size=1, max_size=5), units, st.integers(2, 12))
def test_the_ticks_of_the_y_axis_are_around_all_values(found: list[float], unit: Unit, most: int) -> None:
    low, high = span(Axis(unit=unit), found)
    assert low < high
    assert low <= min(found) <= max(found) <= max(high, low + 1)
    ticks = ticks_around(Axis(unit=unit), low, high, most=most)
    slack = 1e-6 * (high - low)
    assert ticks[0].value <= low + slack
    assert ticks[-1].value >= high - slack
    assert 2 <= len(ticks) <= max(3, most)
    assert len({tick.words for tick in ticks}) == len(ticks), "all labels are different"


@given(values, values, units, st.integers(120, 1_200))
def test_the_ticks_of_the_x_axis_stand_apart_and_within(one: float, other: float, unit: Unit, width: int) -> None:
    axis = Axis(unit=unit)
    low, high = span(axis, (one, other))
    check_ticks(axis, low, high, width)


@given(moments, st.floats(2, 3e9), zones, st.integers(200, 1_200))
@example(moment("2026-10-25T00:00"), 6 * 3_600, "Europe/Berlin", 640)
@example(moment("2026-03-29T00:00"), 6 * 3_600, "Europe/Berlin", 640)
def test_moments_stand_apart_and_within_on_any_clock(low: float, length: float, zone: str, width: int) -> None:
    check_ticks(Axis(unit=Unit.MOMENT, timezone=zone), low, low + length, width)


def check_ticks(axis: Axis, low: float, high: float, width: float) -> None:
    x = Scale(low, high, width / 5, width - 8)
    ticks = x_ticks(axis, x, width, max(12, width / 40))
    extents = [x_extent(tick, x, width, max(12, width / 40)) for tick in ticks]
    for before, after in pairwise(extents):
        assert before[1] < after[0]
    for tick, (begin, end) in zip(ticks, extents, strict=True):
        assert 0 <= begin < end <= width + 0.2
        assert low - (high - low) * 1e-6 <= tick.value <= high + (high - low) * 1e-6


@given(moments, st.floats(10, 1e9))
def test_a_time_axis_is_not_left_without_ticks(low: float, length: float) -> None:
    assert len(shown(Axis(unit=Unit.MOMENT), low, low + length)) >= 2


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        ("2026-11-16T10:00:00", "2026-11-16T10:00:20", ["10:00:00", "10:00:05", "10:00:10", "10:00:15", "10:00:20"]),
        ("2026-11-16T10:00", "2026-11-16T11:00", [f"10:{n}0" for n in range(6)] + ["11:00"]),
        ("2026-11-16T18:00", "2026-11-17T12:00", ["18:00", "21:00", "17 Nov", "03:00", "06:00", "09:00", "12:00"]),
        ("2026-11-16", "2026-11-20", ["16 Nov", "17 Nov", "18 Nov", "19 Nov", "20 Nov"]),
        ("2026-11-16", "2026-12-24", ["16 Nov", "23 Nov", "30 Nov", "7 Dec", "14 Dec", "21 Dec"]),
        ("2026-01-01", "2026-12-31", ["Jan 2026", "Mar 2026", "May 2026", "Jul 2026", "Sep 2026", "Nov 2026"]),
        ("2020-01-01", "2026-12-31", ["2020", "2021", "2022", "2023", "2024", "2025", "2026"]),
    ],
)
def test_moments_are_written_as_finely_as_they_need_to_be(low: str, high: str, words: list[str]) -> None:
    assert shown(Axis(unit=Unit.MOMENT), moment(low), moment(high)) == words


def test_an_hour_that_the_clock_leaves_out_has_no_tick() -> None:
    axis = Axis(unit=Unit.MOMENT, timezone="Europe/Berlin")
    night = shown(axis, moment("2026-03-28T23:00"), moment("2026-03-29T04:00"))
    assert night == ["29 Mar", "01:00", "03:00", "04:00", "05:00", "06:00"]


def test_ticks_are_round_in_their_unit() -> None:
    assert shown(Axis(), 0, 0.7) == ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7"]
    assert shown(Axis(unit=Unit.COUNT), 0, 3) == ["0", "1", "2", "3"]
    assert shown(Axis(unit=Unit.COUNT), 0, 2_000_000) == ["0", "500,000", "1,000,000", "1,500,000", "2,000,000"]
    assert shown(Axis(unit=Unit.PERCENT), 0, 0.9) == ["0%", *(f"{n}0%" for n in range(1, 10))]
    assert (
        shown(Axis(unit=Unit.DURATION), 0, 5_400)
        == ["0", "15 min", "30 min", "45 min", "1 h", "1 h 15 min", "1 h 30 min"][::2]
    )
    assert shown(Axis(unit=Unit.DURATION, log=True), 60, 604_800) == ["1 min", "10 min", "1 h", "6 h", "1 d", "7 d"]
    assert shown(Axis(log=True), 1, 10_000) == ["1", "10", "100", "1,000", "10,000"]


@given(st.lists(values, min_size=2, max_size=20), st.booleans())
def test_places_keep_the_order_of_values(found: list[float], log: bool) -> None:
    if log:
        found = [abs(value) + 1 for value in found]
    low, high = span(Axis(log=log), found)
    x = Scale(low, high, 40, 600, log)
    places = [x(value) for value in sorted(found)]
    assert places == sorted(places)
    assert math.isclose(x(low), 40)
    assert math.isclose(x(high), 600)


@given(st.integers(), st.integers(2, 3_000), st.integers(60, 400))
def test_thinning_keeps_the_extremes_and_the_ends(seed: int, count: int, width: int) -> None:
    dice = Random(seed)
    points = sorted(
        (dice.uniform(0, 1_000), dice.choice([dice.uniform(-1, 1), dice.gauss(0, 100)])) for _ in range(count)
    )
    assume(points[0][0] < points[-1][0])
    x = Scale(points[0][0], points[-1][0], 0, width)
    kept = thinned(points, x)
    assert len(kept) <= 2 * width + 4
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert min(value for _, value in kept) == min(value for _, value in points)
    assert max(value for _, value in kept) == max(value for _, value in points)
    assert [at for at, _ in kept] == sorted(at for at, _ in kept)
    column = int(x(points[len(points) // 2][0]) / 2)
    within = [value for at, value in points if int(x(at) / 2) == column]
    seen = [value for at, value in kept if int(x(at) / 2) == column]
    assert (min(seen), max(seen), seen[0], seen[-1]) == (min(within), max(within), within[0], within[-1])


@given(st.text(st.characters(), max_size=80), st.floats(20, 400))
def test_a_name_is_cut_to_its_room_and_wrapped_words_too(name: str, room: float) -> None:
    assert text_width(shortened(name, SIZE, room), SIZE) <= room
    assert all(text_width(line, SIZE) <= room for line in wrapped(name, SIZE, room))
    if text_width(name, SIZE) <= room:
        assert shortened(name, SIZE, room) == name


def test_characters_forbidden_in_xml_are_replaced() -> None:
    assert escaped('a\x00b\x1bc\ud800d\uffff<&>"') == "a\ufffdb\ufffdc\ufffdd\ufffd&lt;&amp;&gt;&quot;"
