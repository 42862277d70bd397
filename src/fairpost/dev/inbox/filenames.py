"""Safe names for files whose names come from untrusted e-mails. The caller checks for existing files."""

import re
import unicodedata
from collections.abc import Sequence

NAME_BYTES_MAX = 200  # most file systems allow 255 bytes
SUFFIX_BYTES_MAX = 20

_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # device names in Windows


def safe_names(names: Sequence[str]) -> list[str]:
    """Returns a name for each file. The names contain no path, do not refer to hidden files, and are distinct even if
    case is ignored.
    """
    taken, safe = set[str](), list[str]()
    for number, name in enumerate(names, 1):
        stem, suffix = _split(_plain_name(name) or f"attachment-{number}")
        candidate, copy = _joined(stem, suffix), 1
        while _same(candidate) in taken:
            copy += 1
            candidate = _joined(stem, f"-{copy}{suffix}")
        taken.add(_same(candidate))
        safe.append(candidate)
    return safe


def _plain_name(name: str) -> str:
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    kept = "".join("_" if c in '<>:"|?*' or not c.isprintable() else c for c in last)
    bare = kept.strip(". ")
    return f"_{bare}" if _DEVICES.fullmatch(bare) else bare


def _split(name: str) -> tuple[str, str]:
    stem, dot, suffix = name.rpartition(".")
    if not stem or len(suffix.encode()) > SUFFIX_BYTES_MAX:
        return name, ""
    return stem, dot + suffix


def _joined(stem: str, suffix: str) -> str:
    room = NAME_BYTES_MAX - len(suffix.encode())
    return stem.encode()[:room].decode("utf-8", "ignore") + suffix


def _same(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())
