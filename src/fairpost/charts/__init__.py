"""Charts as SVG: lines, bars, columns over time, and sparklines. Pure functions from values to text.

A `Fragment` is one `<svg>` element for a page; `document` puts one or more into a file. A fragment has no script, style
or id, only classes, so it works under the strictest content security policy and can appear twice on a page.
`stylesheet()` has the light and dark colours of both; a page serves it, a file contains it. A chart scales to its
container, and its text is readable at a width of 360 pixels. Its `<desc>` says the same for screen readers.

The classes:

- `fc-chart` the `<svg>`, `fc-document` that of a file, `fc-panel` a chart in it, `fc-paper` its background;
- `fc-text` all text, `fc-strong` emphasized text, `fc-title` and `fc-heading` those of a file,
  `fc-empty` "nothing yet";
- `fc-axis`, `fc-grid`, `fc-mark` a named vertical line, `fc-words` its name;
- `fc-line`, `fc-dash` if it is dashed, `fc-area` under a line, `fc-band` between two, `fc-dot` a point, `fc-bar` a bar
  or column, `fc-dense` one of very many;
- `fc-hit` shows a tooltip, and is visible only under the pointer;
- `fc-1` … `fc-8`, `fc-good`, `fc-bad`, `fc-warn`, `fc-forecast`, `fc-quiet`: the colour of any of these. Each is also a
  property, `--fc-colour-1` …, next to `--fc-ink`, `--fc-faint`, `--fc-rule` and `--fc-paper`, which a page may set.
"""

from fairpost.charts.axes import Axis, Unit
from fairpost.charts.bars import bar_chart, bars_over_time
from fairpost.charts.document import document, stylesheet
from fairpost.charts.lines import line_chart, sparkline
from fairpost.charts.shapes import Band, Bar, Column, Fragment, Kind, Mark, Part, Series, Tint

__all__ = [
    "Axis",
    "Band",
    "Bar",
    "Column",
    "Fragment",
    "Kind",
    "Mark",
    "Part",
    "Series",
    "Tint",
    "Unit",
    "bar_chart",
    "bars_over_time",
    "document",
    "line_chart",
    "sparkline",
    "stylesheet",
]
