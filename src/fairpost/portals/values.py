"""The values that portal e-mail fields accept, and how they are printed. declared.py reads the fields."""

import re
from dataclasses import dataclass

from fairpost.templates.rendering import CONTROLS, Unrenderable

WORDS_CHARS_MAX = 1_000
LINE_RULE = f"one line of text, of up to {WORDS_CHARS_MAX:,} characters"

BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")  # these would change the direction of the text that follows
OTHER_CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]+")  # all control characters except the line feed
URL = re.compile(
    r"https?://(?:[\w-]+(?:\.[\w-]+)*\.?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?"
    '(?:[/?#][^\\s\x00-\x20\x7f-\x9f<>"`\\\\\u202a-\u202e\u2066-\u2069]*)?',
    re.IGNORECASE,
)
EMAIL = re.compile(r"[^\s@<>\"'(),:;\\\[\]?&%\x00-\x20\x7f-\x9f]{1,64}@[\w-]+(?:\.[\w-]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of an e-mail. The kind `text` is one line, `lines` is several lines, and `code` is six digits."""

    name: str
    description: str
    kind: str
    sample: str | int
    is_required: bool
    chars_max: int


def taken(field: Field, value: object) -> str | int | None:
    """Returns the value to print, or None if it is empty.

    Raises Unrenderable, which never shows the value because it may be a secret.
    """
    if value is None:
        return None
    if field.kind == "number":
        if type(value) is not int or len(str(value)) > min(field.chars_max, 18):
            raise Unrenderable(f"{field.name} must be a whole number of at most {min(field.chars_max, 18)} digits")
        return value
    if type(value) is not str:
        raise Unrenderable(f"{field.name} must be text, got {type(value).__name__}")
    if len(value) > field.chars_max:
        raise Unrenderable(
            f"{field.name} is {len(value):,} characters long, but at most {field.chars_max:,} are allowed"
        )
    text = _cleaned(value, field.kind)
    if not text or text.isspace():
        return None
    if (reason := unfit(text, field.kind)) is not None:
        raise Unrenderable(f"{field.name} {reason}")
    return text


def _cleaned(value: str, kind: str) -> str:
    if value.isascii() and value.isprintable():
        return value
    if kind == "lines":
        return BIDI.sub("", OTHER_CONTROLS.sub(" ", value.replace("\r\n", "\n")))
    return BIDI.sub("", CONTROLS.sub(" ", value)) if kind == "text" else value


def unfit(text: str, kind: str) -> str | None:
    """Returns why the text does not have the format that its kind requires."""
    if kind == "url" and not URL.fullmatch(text):
        return "must be a link that begins with https:// or http:// and a host"
    if kind == "email" and not EMAIL.fullmatch(text):
        return "must be an e-mail address"
    if kind == "code" and not (len(text) == 6 and text.isascii() and text.isdecimal()):
        return "must be six digits, as text: a number would lose its leading zeros"
    return None


def is_line(text: str) -> bool:
    return bool(text.strip()) and not CONTROLS.search(text) and len(text) <= WORDS_CHARS_MAX
