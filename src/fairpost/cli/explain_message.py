"""`fairpost explain --message`: explain a bounce, complaint or reply. Reads only the given files."""

import json
import os
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fairpost.cli.output import error_line, print_pairs

if TYPE_CHECKING:
    from fairpost.returns.classify import Returned


def explain_messages(source: str, *, as_json: bool, now: datetime) -> bool:
    """Print a line of JSON, or a paragraph, for each message. Return False if a message could not be read."""
    from fairpost.returns.classify import classify

    is_well, is_first = True, True
    for name, read in _mails(source):
        try:
            found = classify(read(), now=now)
        except OSError as error:
            error_line(f"{name}: {error.strerror or error}")
            is_well = False
            continue
        if as_json:
            typer.echo(json.dumps(_jsonable(name, found), ensure_ascii=False))
        else:
            _print(name, found, is_first=is_first)
        is_first = False
    return is_well


def _mails(source: str) -> Iterator[tuple[str, Any]]:
    from fairpost.returns.mail import BYTES_MAX

    def beginning(path: Path) -> bytes:
        with path.open("rb") as file:
            return file.read(BYTES_MAX)

    def standard_input() -> bytes:
        if sys.stdin is None:
            raise OSError("standard input is closed")
        return sys.stdin.buffer.read(BYTES_MAX)

    path = Path(source)
    if source == "-":
        yield "-", standard_input
    elif path.is_dir():
        for each in _files(path):
            yield _printable(str(each.relative_to(path))), lambda each=each: beginning(each)
    elif path.exists():
        yield _printable(path.name), lambda: beginning(path)
    else:
        raise typer.BadParameter(f"there is no file or directory {source}", param_hint="--message")


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files, and the links and folders that cannot be read. Hidden files are skipped."""
    unreadable: list[OSError] = []
    for root, folders, names in os.walk(folder, onerror=unreadable.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in (Path(root, name) for name in sorted(names) if not name.startswith(".")):
            if path.is_file() or not path.exists():
                yield path
    yield from (Path(error.filename) for error in unreadable)


def _printable(name: str) -> str:
    """Return a printable file name, even if its bytes are not valid text."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _jsonable(name: str, found: "Returned") -> dict[str, Any]:
    told: dict[str, Any] = {
        "file": name,
        "kind": found.kind,
        "recipients": [
            {
                "address": each.address,
                "status": each.status,
                "class": each.class_,
                "scope": each.scope,
                "retry": each.retry,
                "suppress_recipient": each.suppress_recipient,
                "why": each.why,
            }
            for each in found.recipients
        ],
    }
    if found.back_on:
        told["back_on"] = found.back_on.isoformat()
    return told


def _print(name: str, found: "Returned", *, is_first: bool) -> None:
    if not is_first:
        typer.echo()
    typer.echo(f"{name}: {found.kind.replace('_', ' ')}")
    for each in found.recipients:
        typer.echo()
        print_pairs(
            (
                ("address", each.address),
                ("why", each.why),
                ("status", each.status or None),
                ("class", each.class_),
                ("about", f"the {each.scope}"),
                ("temporary", "yes" if each.retry else "no"),
                ("address suppressed", "yes" if each.suppress_recipient else "no"),
                ("back on", found.back_on.isoformat() if found.back_on else None),
            )
        )
