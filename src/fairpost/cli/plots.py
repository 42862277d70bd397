"""What every command has that can draw."""

from pathlib import Path

import typer


def require_plottable(path: Path | None) -> None:
    """Before anything runs: it would be a pity about the minutes."""
    from fairpost.simulate.plot import SUFFIXES, require_matplotlib

    if path is None:
        return
    if path.suffix not in SUFFIXES:
        raise typer.BadParameter(f"--plot must end with {' or '.join(SUFFIXES)}, got {path}")
    if not path.parent.is_dir():
        raise typer.BadParameter(f"--plot: there is no folder {path.parent}")
    require_matplotlib()
