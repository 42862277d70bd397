"""The suppression list as CSV, in a form that spreadsheets write and can safely read.

This module only reads and writes lines.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from fairpost.cli.output import iso
from fairpost.model.errors import FairpostError
from fairpost.model.suppression import BadLine, Entry, Stops, Suppression, SuppressionKind

if TYPE_CHECKING:
    import _csv

COLUMNS = ("address", "kind", "reason", "created_at", "workspace", "stops")
ROW_CHARS_MAX = 10_000
LINE_CHARS_MAX = 100_000
WORKSPACE_CHARS_MAX = 200
DELIMITERS = ",;\t"

_OTHER_NAMES = {
    "email": "address",
    "e-mail": "address",
    "mail": "address",
    "email address": "address",
    "e-mail address": "address",
    "detail": "reason",
    "created": "created_at",
}


class UnreadableList(FairpostError):
    """The file is not a list of addresses, or is truncated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Defaults for lines without these values."""

    workspace: str
    kind: SuppressionKind = SuppressionKind.MANUAL
    reason: str = "imported"


# ── cells ─────────────────────────────────────────────────────────────────────────────────────────────────

# Spreadsheets treat = + - @ at the start of a cell as the start of a formula.
# Spreadsheets may split a line at different separators, so such a character is escaped after any separator.
# An apostrophe is doubled so that reading removes exactly what writing added.
_FORMULA = re.compile(r"(^|[,;\t\r\n|])(?=['=+\-@＝＋－＠])")
_DEFUSED = re.compile(r"(^|[,;\t\r\n|])'(?=['=+\-@＝＋－＠])")


def defused(cell: str) -> str:
    return _FORMULA.sub(r"\1'", cell)


def as_it_was(cell: str) -> str:
    return _DEFUSED.sub(r"\1", cell) if "'" in cell else cell


@contextmanager
def rows_into(out: BinaryIO) -> Iterator[Callable[[tuple[str, ...]], object]]:
    """Write the header and yield a function that writes a row."""
    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    try:
        write = csv.writer(
            text, lineterminator="\r\n"
        ).writerow  # as in RFC 4180; a lone \r in a cell is then also quoted
        write(COLUMNS)
        yield write
        text.flush()
    finally:
        text.detach()


def cells(entry: Suppression) -> tuple[str, ...]:
    written = (entry.address, entry.kind, entry.reason, iso(entry.created_at), entry.workspace, entry.stops)
    return tuple(map(defused, written))


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────


def read_list(file: BinaryIO, *, name: str, defaults: Defaults) -> Iterator[Entry | BadLine]:
    """Read UTF-8, with or without a byte order mark and a header. Cells are separated by commas, semicolons or tabs.

    All kinds of line endings are accepted.
    """
    lines = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        first = lines.readline(LINE_CHARS_MAX)
        if not first:
            return
        if len(first) == LINE_CHARS_MAX:
            raise UnreadableList(f"{name}, line 1: longer than {LINE_CHARS_MAX:,} characters. Is it a CSV file?")
        delimiter, columns = _layout(first, name)
        rows = csv.reader(chain([first], lines), delimiter=delimiter)
        if columns is not None:
            next(rows)
        yield from _entries(rows, columns or _in_order(), defaults, name)
    finally:
        lines.detach()


def _in_order() -> dict[str, int]:
    return {column: place for place, column in enumerate(COLUMNS)}


def _layout(first: str, name: str) -> tuple[str, dict[str, int] | None]:
    """Return the separator and the columns of the header.

    If there is no header, the columns are None, which means the default order.
    """
    for delimiter in sorted(DELIMITERS, key=first.count, reverse=True):
        row = next(csv.reader([first], delimiter=delimiter), [])
        words = [cell.strip().lower() for cell in row]
        columns = {_OTHER_NAMES.get(word, word): place for place, word in reversed(list(enumerate(words)))}
        if "address" in columns:
            return delimiter, columns
        if words and "@" in words[0]:
            return delimiter, None
    if first.startswith(("\udcff\udcfe", "\udcfe\udcff")) or "\0" in first:
        raise UnreadableList(f"{name} is not a UTF-8 text file (it may be UTF-16). Save it as CSV in UTF-8.")
    raise UnreadableList(
        f"{name}, line 1: no address, and no header with a column named address. Known columns: {', '.join(COLUMNS)}"
    )


def _entries(rows: "_csv.Reader", columns: dict[str, int], defaults: Defaults, name: str) -> Iterator[Entry | BadLine]:
    places = [columns.get(column) for column in COLUMNS]
    kinds = {str(kind): kind for kind in SuppressionKind}
    while True:
        line = rows.line_num + 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise UnreadableList(
                f"{name} cannot be read from line {line} on: {error}. Nothing was changed. Check for a missing closing quote."
            ) from error
        if row and any(row):
            yield _entry(row, line, places, kinds, defaults)


def _entry(
    row: list[str],
    line: int,
    places: list[int | None],
    kinds: dict[str, SuppressionKind],
    defaults: Defaults,
) -> Entry | BadLine:
    width = len(row)
    address, kind, reason, created_at, workspace, stops = [
        as_it_was(row[place]) if place is not None and place < width else "" for place in places
    ]
    address, kind, created_at = address.strip(" "), kind.strip(" "), created_at.strip(" ")
    whole = "".join(row)
    if not whole.isascii() and (broken := _broken(whole)):
        return BadLine(line, broken)
    if "\0" in whole:
        return BadLine(line, "contains a zero byte")
    if not address:
        return BadLine(line, "has no address")
    if len(whole) > ROW_CHARS_MAX:
        return BadLine(line, f"is {len(whole):,} characters long; the maximum is {ROW_CHARS_MAX:,}")
    known = kinds.get(kind.lower()) if kind else defaults.kind
    if known is None:
        return BadLine(line, f"kind must be one of {', '.join(kinds)}; got {kind!r}")
    try:
        moment = _moment(created_at) if created_at else None
    except (ValueError, OverflowError):
        return BadLine(line, f"created_at must be a time such as 2030-01-31T09:00:00Z; got {created_at!r}")
    if workspace and (len(workspace) > WORKSPACE_CHARS_MAX or not workspace.isprintable()):
        return BadLine(line, f"workspace must be 1..{WORKSPACE_CHARS_MAX} characters on one line; got {workspace!r}")
    if not _is_stopped_by(known, stops):
        return BadLine(line, f"stops must be all, or bulk for an unsubscribe; got {stops!r}")
    return Entry(
        line=line,
        address=address,
        kind=known,
        reason=reason or defaults.reason,
        created_at=moment,
        workspace=workspace or defaults.workspace,
        also_urgent=stops.strip(" ").lower() == Stops.ALL,
    )


def _is_stopped_by(kind: SuppressionKind, stops: str) -> bool:
    word = stops.strip(" ").lower()
    return word in ("", Stops.ALL) or (word == Stops.BULK and kind is SuppressionKind.UNSUBSCRIBE)


def _broken(text: str) -> str | None:
    for place, letter in enumerate(text):
        if "\udc80" <= letter <= "\udcff":
            return f"is not UTF-8: byte 0x{ord(letter) - 0xDC00:02x} after {text[max(0, place - 20) : place]!r}"
    return None


def _moment(text: str) -> datetime:
    """Parse a time. A time without a time zone is in UTC."""
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
