"""Text out of files, whatever editor wrote them; of what is no text, ValueError says what it is instead."""

import codecs
from pathlib import Path
from stat import S_ISREG
from typing import Any

from fairpost.campaigns.values import line
from fairpost.campaigns.words import shown

TEMPLATE_BYTES_MAX = 4_194_304  # as many characters as a template may have, if each takes four
PATH_CHARS_MAX = 1_000


def named_text(value: Any, folder: Path) -> str:
    """Of the file that a campaign's file names."""
    name = line(value, PATH_CHARS_MAX, "templates/hello.txt")
    try:
        _require_file(folder / name)
        return text_of(folder / name, TEMPLATE_BYTES_MAX)
    except ValueError as error:
        raise ValueError(f"{shown(name)} {error}") from error


def text_of(path: Path, bytes_max: int) -> str:
    try:
        if path.is_dir():
            raise ValueError("is a folder: name a file in it")
        with path.open("rb") as file:
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    if len(data) > bytes_max:
        raise ValueError(f"is too long: it must have at most {bytes_max:,} bytes")
    return _decoded(data)


def _require_file(path: Path) -> None:
    """A pipe would keep us waiting."""
    begins = "the path begins at the folder of the campaign's file"
    try:
        if not S_ISREG(path.stat().st_mode):
            raise ValueError(f"is no file: {begins}")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ValueError(f"is not there: {begins}") from error
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error


def _decoded(data: bytes) -> str:
    """Lines end with a line feed, whatever an editor or git has made of them."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in data:
        raise ValueError("is UTF-16, or no text: save it as UTF-8")
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start]
        raise ValueError(f"is not UTF-8: line {number} has the byte 0x{byte:02x}; save it as UTF-8") from error
