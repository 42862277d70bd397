"""What every command has that can draw."""

from pathlib import Path
from typing import Annotated

import typer

Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it as well: an .svg, which any browser opens.")]


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
