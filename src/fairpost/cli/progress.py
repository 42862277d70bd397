"""A progress bar on stderr. Nothing is shown in a pipe or a log."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Reach = Callable[[int], None]


@contextmanager
def progress(words: str, total: int | None) -> Iterator[Reach]:
    """Yield a function to call with the amount processed so far, about once per thousand items."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    figures = TaskProgressColumn() if total else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), figures, TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(words, total=total)
        yield lambda done: bar.update(task, completed=done)
