"""Helpers for commands that can draw a plot."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from fairpost.model.errors import FairpostError

Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw a plot and save it as an .svg file.")]

LEVELS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 24


def require_plottable(path: Path | None) -> None:
    """Check the path before the run starts, because the run may take minutes."""
    if path is None:
        return
    if path.suffix.lower() != ".svg":
        raise typer.BadParameter(f"--plot must name an .svg file, got {path}. Use: --plot {path.stem or 'plot'}.svg")
    if not path.parent.is_dir():
        raise typer.BadParameter(f"--plot: folder {path.parent} does not exist")


def save(drawn: str, path: Path) -> None:
    try:
        path.write_text(drawn, "utf-8")
    except OSError as error:
        raise FairpostError(f"The plot cannot be written to {path}: {error.strerror or error}") from error


def sparkline(shares: Sequence[float], width: int = SPARK_WIDTH) -> str:
    """Draw shares as blocks, from blank (nothing) to full (all), in at most `width` columns."""
    width = min(width, len(shares))
    edges = [len(shares) * n // width for n in range(width + 1)]
    means = [sum(shares[a:b]) / (b - a) for a, b in pairwise(edges)]
    return "".join(LEVELS[min(len(LEVELS) - 1, int(mean * len(LEVELS)))] if mean > 0 else " " for mean in means)
