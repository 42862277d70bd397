"""The inputs of charts, and the fragment that is returned to callers."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Literal

from fairpost.charts.axes import VALUE_MAX, checked
from fairpost.charts.text import escaped, pixels

Points = Sequence[tuple[float, float]]
Tint = Literal[1, 2, 3, 4, 5, 6, 7, 8, "good", "bad", "warn", "forecast", "quiet"]
TINTS = frozenset((1, 2, 3, 4, 5, 6, 7, 8, "good", "bad", "warn", "forecast", "quiet"))

SERIES_MAX = 24  # a chart with more lines is unreadable
NOTHING = "No data yet"


class Kind(StrEnum):
    LINE = "line"
    STEP = "step"  # each value applies until the next one
    AREA = "area"  # a line, with the area below it filled down to zero
    DOTS = "dots"  # points that are not connected


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    points: Points
    kind: Kind = Kind.LINE
    tint: Tint = 1
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """The area between two lines, such as the best and worst case of a forecast."""

    name: str
    lower: Points
    upper: Points
    tint: Tint = "forecast"


@dataclass(frozen=True, slots=True)
class Mark:
    """A named position on the x axis, such as a time."""

    at: float
    words: str


@dataclass(frozen=True, slots=True)
class Part:
    """A part, for which every bar has one value."""

    name: str
    tint: Tint = 1


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    values: Sequence[float]
    tint: Tint | None = None  # the colour of all the bar's parts, overriding the parts' own colours


@dataclass(frozen=True, slots=True)
class Column:
    begins_at: float
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Fragment:
    """One chart as an `<svg>` element, without scripts or styles of its own."""

    label: str
    about: str  # the description for screen readers
    width: float
    height: float
    text_size: float
    body: str

    def __str__(self) -> str:
        return self._svg('class="fc-chart"')

    def placed(self, x: float, y: float) -> str:
        """Returns the chart as a panel of another `<svg>`, at this position."""
        return self._svg(f'class="fc-panel" x="{pixels(x)}" y="{pixels(y)}"')

    def _svg(self, attributes: str) -> str:
        width, height = pixels(self.width), pixels(self.height)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {attributes} role="img" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}" preserveAspectRatio="xMidYMid meet" font-size="{pixels(self.text_size)}">'
            f"<title>{escaped(self.label)}</title><desc>{escaped(self.about)}</desc>{self.body}</svg>"
        )


def tint_class(tint: Tint) -> str:
    if tint not in TINTS:
        raise ValueError(f"tint must be 1..8, good, bad, warn, forecast or quiet, got {tint!r}")
    return f"fc-{tint}"


def checked_points(points: Points) -> Points:
    """Checks the points and sorts them by x."""
    for x, y in points:
        if not (abs(x) <= VALUE_MAX and abs(y) <= VALUE_MAX):  # calling a function for each point would be slow
            checked(x)
            checked(y)
    ascending = all(before[0] <= after[0] for before, after in pairwise(points))
    return points if ascending else sorted(points, key=lambda point: point[0])


def checked_values(values: Sequence[float], parts: Sequence[Part]) -> Sequence[float]:
    if len(parts) > SERIES_MAX:
        raise ValueError(f"a bar can have at most {SERIES_MAX} parts, got {len(parts)}")
    if len(values) != len(parts):
        raise ValueError(f"a bar must have a value for each of its {len(parts)} parts, got {len(values)}")
    for value in values:
        if checked(value) < 0:
            raise ValueError(f"a bar cannot be negative, got {value}")
    return values
