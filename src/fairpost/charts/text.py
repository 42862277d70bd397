"""Text and numbers for XML, escaped, with widths estimated well enough to avoid overlaps."""

import re
from unicodedata import combining, east_asian_width

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # forbidden by XML 1.0
_NARROW = frozenset("ijltfrI.,:;'|!()[] ·")
_WIDE = frozenset("mwMW@%—…")


def escaped(text: str) -> str:
    """Escapes text for content, and for attributes in double quotes."""
    clean = _FORBIDDEN.sub("\ufffd", text)
    return clean.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def text_width(text: str, size: float) -> float:
    """Estimates the width in a wide sans-serif font such as DejaVu, so that the estimate is rarely too small."""
    return size * sum(map(_em, text))


def shortened(text: str, size: float, width: float) -> str:
    """Returns as much of the beginning of the text as fits."""
    if text_width(text, size) <= width:
        return text
    room = width - text_width("…", size)
    for end, char in enumerate(text):
        room -= size * _em(char)
        if room < 0:
            return f"{text[:end].rstrip()}…"
    raise AssertionError("text that is too wide must be cut at some point")


def wrapped(text: str, size: float, width: float) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(shortened(word, size, width))
    return lines


def pixels(value: float) -> str:
    """Formats a number to a tenth of a pixel, because finer differences are invisible."""
    return f"{value:.1f}".removesuffix(".0")


def _em(char: str) -> float:
    if char in _NARROW:
        return 0.36
    if combining(char):
        return 0.0
    if char in _WIDE or east_asian_width(char) in "WF":
        return 1.0
    return 0.74 if char.isupper() else 0.64
