"""Print tables for people, JSON for programs, and errors as one red line. Only this module prints."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.model.durations import say_roughly
from fairpost.model.reason import Reason
from fairpost.reasons.rendering import brief, coded

if TYPE_CHECKING:
    from rich.console import Console


AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON. IDs are strings, and times are in ISO 8601 format in UTC.")
]

WIDE = 10_000  # wide enough that lines are not wrapped when the output is a pipe


def error_line(message: str) -> None:
    typer.secho(f"error: {plain(message)}", fg=typer.colors.RED, err=True)


def note(message: str) -> None:
    """Print a note on stderr, so that a pipe receives only the data."""
    typer.echo(message, err=True)


def note_event(event: "Reason") -> None:
    """Print an event as a sentence on stderr."""
    from fairpost.reasons.events import message

    note(message(event))


def print_json(value: Any) -> None:
    typer.echo(json.dumps(jsonable(value), indent=2, ensure_ascii=False))


def jsonable(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return jsonable({f.name: getattr(value, f.name) for f in fields(value)})
    if isinstance(value, Mapping):
        return {name: each for key, item in value.items() for name, each in _members(str(key), item)}
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return iso(value) if isinstance(value, datetime) else value
    return [jsonable(item) for item in value]


def _members(key: str, value: Any) -> Iterable[tuple[str, Any]]:
    """Convert IDs to strings, because many JSON parsers round numbers above 2^53.

    Each reason is given as a sentence and a code.
    """
    is_id = isinstance(value, int) and (key == "id" or key.endswith("_id"))
    if isinstance(value, Reason):
        return coded(value, key).items()
    if isinstance(value, list | tuple) and value and isinstance(value[0], Reason):
        return [
            (key, [brief(each) for each in value]),
            (f"{key.removesuffix('s')}_codes", [each.code for each in value]),
        ]
    return [(key, str(value) if is_id else jsonable(value))]


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Print a table. Columns whose name begins with > are right-aligned."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        right = column.startswith(">")
        table.add_column(column.removeprefix(">"), justify="right" if right else "left", header_style="bold")
    for row in rows:
        table.add_row(*("" if cell is None else plain(str(cell)) for cell in row))
    console().print(table)


def print_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values, leaving out None and empty values."""
    shown = [(name, str(value)) for name, value in pairs if value is not None and value != ""]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        typer.echo(f"{name:<{width}}  {plain(value)}")


def console() -> "Console":
    import sys

    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDE
    return Console(width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)


def plain(text: str) -> str:
    """Remove control characters. External text, such as a server's reply or a name, must not control the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def when(moment: datetime | None, now: datetime) -> str:
    """Format a time for people, relative to now."""
    if moment is None:
        return ""
    same_day = moment.astimezone(UTC).date() == now.astimezone(UTC).date()
    clock = f"{moment.astimezone(UTC):{'%H:%M:%S' if same_day else '%Y-%m-%d %H:%M:%S'}} UTC"
    return f"{clock} ({_distance(moment - now)})"


def _distance(ahead: timedelta) -> str:
    amount = say_roughly(abs(ahead.total_seconds()), is_short=True)
    return f"in {amount}" if ahead > timedelta() else f"{amount} ago"
