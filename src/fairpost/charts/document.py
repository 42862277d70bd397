"""Charts in a standalone file: panels in a grid, with their titles and colours."""

from collections.abc import Sequence
from functools import cache
from importlib import resources

from fairpost.charts.frame import text_at
from fairpost.charts.shapes import Fragment
from fairpost.charts.text import escaped, pixels, shortened, wrapped

PANEL_WIDTH_MIN = 360  # in pixels; on narrower screens, the panel scrolls sideways so that it stays readable
MARGIN = 24.0


@cache
def stylesheet() -> str:
    """Returns the light and dark colours of all charts."""
    return resources.files(__package__).joinpath("style.css").read_text("utf-8")


def document(panels: Sequence[Fragment], *, title: str, about: str = "", columns: int = 1) -> str:
    """Returns an SVG that any browser can open. The panels fill the SVG row by row."""
    if columns < 1:
        raise ValueError(f"a document must have at least 1 column, got {columns}")
    size = max((panel.text_size for panel in panels), default=16.0)
    wide = max((panel.width for panel in panels), default=640.0)
    width = columns * (wide + MARGIN) + MARGIN
    y = MARGIN + 1.1 * size
    drawn = [
        text_at(MARGIN, y, shortened(title, 1.45 * size, width - 2 * MARGIN), more=" fc-heading fc-strong fc-title")
    ]
    for line in wrapped(about, size, width - 2 * MARGIN):
        y += 1.5 * size
        drawn.append(text_at(MARGIN, y, line))
    y += 1.2 * size
    for begin in range(0, len(panels), columns):
        row = panels[begin : begin + columns]
        for n, panel in enumerate(row):
            x = MARGIN + n * (wide + MARGIN)
            drawn.append(text_at(x, y + size, shortened(panel.label, 1.1 * size, wide), more=" fc-strong fc-title"))
            drawn.append(panel.placed(x, y + 1.6 * size))
        y += 1.6 * size + max(panel.height for panel in row) + MARGIN
    shape = f'width="{pixels(width)}" height="{pixels(y)}" viewBox="0 0 {pixels(width)} {pixels(y)}"'
    least = (
        f".fc-document {{ min-width: {min(round(width), columns * PANEL_WIDTH_MIN)}px; background: var(--fc-paper); }}"
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fc-chart fc-document" role="group" {shape} font-size="{pixels(size)}">'
        f"<title>{escaped(title)}</title><style>{escaped(stylesheet() + least)}</style>"
        f'<rect class="fc-paper" width="100%" height="100%"/>{"".join(drawn)}</svg>\n'
    )
