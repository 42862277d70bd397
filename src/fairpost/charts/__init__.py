"""Charts as SVG: lines, bars, columns over time, and lines as small as a word. Pure: values in, text out.

A `Fragment` is one `<svg>` element for a page; `document` puts one or more into a file. A fragment has no script, no
style and no id, only classes, so that it stands under the strictest content security policy and twice on a page.
`stylesheet()` has the colours of both, light and dark; a page serves it, a file has it inside. It scales to what holds
it, and its text can be read when that is 360 pixels wide. Whoever cannot see it is told the same in its `<desc>`.

The classes:

- `fc-chart` the `<svg>`, `fc-document` that of a file, `fc-panel` a chart in it, `fc-paper` its ground;
- `fc-text` all words, `fc-strong` those to be seen first, `fc-title` and `fc-heading` those of a file, `fc-empty` "nothing yet";
- `fc-axis`, `fc-grid`, `fc-mark` a named line upright, `fc-words` its name;
- `fc-line`, `fc-dash` if it is dashed, `fc-area` under a line, `fc-band` between two, `fc-dot` a point, `fc-bar` a bar or column,
  `fc-dense` one of very many;
- `fc-hit` what shows a tooltip, and is seen only under the pointer;
- `fc-1` … `fc-8`, `fc-good`, `fc-bad`, `fc-warn`, `fc-forecast`, `fc-quiet`: the colour, of any of these. Each is a
  property as well, `--fc-colour-1` …, beside `--fc-ink`, `--fc-faint`, `--fc-rule` and `--fc-paper`, which a page may set.
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
