"""The findings of a check, and their wording."""

import re
from dataclasses import dataclass
from enum import StrEnum

from fairpost.quality.reading import Reading

SHOWN_CHARS_MAX = 100


class Level(StrEnum):
    GOOD = "good"
    NOTE = "note"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding.

    `what` is the short name of the check, which several findings may share. `code` identifies the finding for programs.
    `text` describes the finding for people and tells them what to do.
    """

    level: Level
    what: str
    code: str
    text: str


def good(what: str, text: str) -> Finding:
    return finding(Level.GOOD, what, text)


def note(what: str, text: str, *, fault: str = "") -> Finding:
    return finding(Level.NOTE, what, text, fault=fault)


def bad(what: str, text: str, *, fault: str = "") -> Finding:
    return finding(Level.BAD, what, text, fault=fault)


def finding(level: Level, what: str, text: str, *, fault: str = "") -> Finding:
    """Makes a finding, whose code has the form `links.shows_another` or, without a `fault`, `links.good`."""
    return Finding(level=level, what=what, code=f"{re.sub('[ -]', '_', what)}.{fault or level}", text=text)


def cut(text: str, most: int = SHOWN_CHARS_MAX) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def values_of(reading: Reading, name: str) -> list[str]:
    return [value for key, value in reading.headers if key.lower() == name]
