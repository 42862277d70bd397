"""Charts as SVG: lines, bars, columns over time, and sparklines. Pure functions from values to text.

A `Fragment` is one `<svg>` element for a page; `document` puts one or more into a file. A fragment has only classes and
no script, style or id, so it works under the strictest content security policy and can appear twice on a page.
`stylesheet()` returns the light and dark colours for pages and files. Pages load the stylesheet from the server, and
standalone files embed it. A chart scales to its container and stays readable at a width of 360 pixels. A `<desc>`
describes the chart for screen readers.

The classes:

- `fc-chart`: the `<svg>` of a chart; `fc-document`: the `<svg>` of a file; `fc-panel`: a chart in a file; `fc-paper`: the
  background of a file;
- `fc-text`: all text; `fc-strong`: emphasized text; `fc-title` and `fc-heading`: the titles in a file; `fc-empty`: the
  text of a chart without data;
- `fc-axis`: an axis; `fc-grid`: the grid; `fc-mark`: a named vertical line; `fc-words`: the name of such a line;
- `fc-line`: a line; `fc-dash`: a dashed line; `fc-area`: the area under a line; `fc-band`: the area between two lines;
  `fc-dot`: a point; `fc-bar`: a bar or column; `fc-dense`: a bar or column that is one of very many;
- `fc-hit`: an element that has a tooltip and is visible only under the pointer;
- `fc-1` … `fc-8`, `fc-good`, `fc-bad`, `fc-warn`, `fc-forecast`, `fc-quiet`: the colours. Each colour is also a
  property (`--fc-colour-1` …), like `--fc-ink`, `--fc-faint`, `--fc-rule` and `--fc-paper`. A page may set all of these
  properties.
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
