"""Reads text files written by any editor. Raises ValueError with the problem if a file is not text."""

import codecs
from pathlib import Path
from stat import S_ISREG
from typing import Any

from fairpost.campaigns.parsers import shown
from fairpost.campaigns.values import line

TEMPLATE_BYTES_MAX = 4_194_304  # the maximum length of a template, at four bytes per character
PATH_CHARS_MAX = 1_000


def named_text(value: Any, folder: Path) -> str:
    """Returns the text of a file that a campaign file refers to."""
    name = line(value, PATH_CHARS_MAX, "templates/hello.txt")
    try:
        _require_file(folder / name)
        return text_of(folder / name, TEMPLATE_BYTES_MAX)
    except ValueError as error:
        raise ValueError(f"{shown(name)} {error}") from error


def text_of(path: Path, bytes_max: int) -> str:
    try:
        if path.is_dir():
            raise ValueError("is a directory; specify a file in it")
        with path.open("rb") as file:
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    if len(data) > bytes_max:
        raise ValueError(f"is too large: the limit is {bytes_max:,} bytes")
    return _decoded(data)


def _require_file(path: Path) -> None:
    """Raises ValueError for anything other than a regular file. Reading a pipe, for example, would block."""
    begins = "paths are relative to the campaign file"
    try:
        if not S_ISREG(path.stat().st_mode):
            raise ValueError(f"is not a file: {begins}")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ValueError(f"does not exist: {begins}") from error
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error


def _decoded(data: bytes) -> str:
    """Decodes text, converting all line endings to line feeds."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in data:
        raise ValueError("is not a UTF-8 text file (it may be UTF-16): save it as UTF-8")
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start]
        raise ValueError(f"is not UTF-8: line {number} contains the byte 0x{byte:02x}; save it as UTF-8") from error
