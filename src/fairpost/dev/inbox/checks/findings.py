"""What a check says, and how it is said."""

from dataclasses import dataclass
from enum import StrEnum

from fairpost.dev.inbox.reading import Reading

SHOWN_CHARS_MAX = 100


class Level(StrEnum):
    GOOD = "good"
    NOTE = "note"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`what` is one of a few short names, and may come several times; `text` says what is so, and what to do."""

    level: Level
    what: str
    text: str


def good(what: str, text: str) -> Finding:
    return Finding(level=Level.GOOD, what=what, text=text)


def note(what: str, text: str) -> Finding:
    return Finding(level=Level.NOTE, what=what, text=text)


def bad(what: str, text: str) -> Finding:
    return Finding(level=Level.BAD, what=what, text=text)


def cut(text: str, most: int = SHOWN_CHARS_MAX) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def values_of(reading: Reading, name: str) -> list[str]:
    return [value for key, value in reading.headers if key.lower() == name]
