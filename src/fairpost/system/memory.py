"""Small notes that never leave this machine, each in its own JSON file. The caller defines their meaning."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

NOTE_BYTES_MAX = 10_000
NOTES_MAX = 1_000


def read_notes(folder: Path) -> dict[str, Any]:
    """Return all notes by name. Files that are not valid notes (incomplete or owned by another user) are omitted."""
    paths = sorted(folder.glob("*.json"))[:NOTES_MAX] if folder.is_dir() else []
    return {path.stem: note for path in paths if (note := _read(path)) is not None}


def write_note(folder: Path, name: str, note: Mapping[str, Any]) -> None:
    """Write a note completely or not at all. On return, the note is on disk, and only its owner can read it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    spare = folder / f".{name}.{token_hex(8)}"
    file = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(file, "w") as opened:
            json.dump(note, opened)
            opened.flush()
            os.fsync(file)
        os.replace(spare, folder / f"{name}.json")
    finally:
        spare.unlink(missing_ok=True)


def inodes(paths: list[Path]) -> str | None:
    """Identify these files by their inodes, which a copy does not share. Return None if a file is missing or not
    accessible.
    """
    try:
        return "-".join(str(path.stat().st_ino) for path in paths)
    except OSError:
        return None


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes()[:NOTE_BYTES_MAX])
    except (OSError, ValueError):
        return None
