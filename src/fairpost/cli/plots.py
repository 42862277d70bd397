"""What every command has that can draw."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from fairpost.model.errors import FairpostError

Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it as well: an .svg, which any browser opens.")]

LEVELS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 24


def require_plottable(path: Path | None) -> None:
    """Before anything runs: it would be a pity about the minutes."""
    if path is None:
        return
    if path.suffix.lower() != ".svg":
        raise typer.BadParameter(
            f"--plot writes an .svg, which any browser opens; got {path}. Type: --plot {path.stem or 'plot'}.svg"
        )
    if not path.parent.is_dir():
        raise typer.BadParameter(f"--plot: there is no folder {path.parent}")


def save(drawn: str, path: Path) -> None:
    try:
        path.write_text(drawn, "utf-8")
    except OSError as error:
        raise FairpostError(f"The plot cannot be written: {error}") from error


def sparkline(shares: Sequence[float], width: int = SPARK_WIDTH) -> str:
    """From nothing (blank) to all (a full block), in so many columns at most."""
    width = min(width, len(shares))
    edges = [len(shares) * n // width for n in range(width + 1)]
    means = [sum(shares[a:b]) / (b - a) for a, b in pairwise(edges)]
    return "".join(LEVELS[min(len(LEVELS) - 1, int(mean * len(LEVELS)))] if mean > 0 else " " for mean in means)
