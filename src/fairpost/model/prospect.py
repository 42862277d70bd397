"""Prospects: the people you write to, and their fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ProspectLine:
    """A line in a list to import.

    `line` is the number of the record's first line. `fields` contains only non-empty fields.
    """

    line: int
    address: str
    fields: dict[str, str]
    timezone: str | None
    external_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BadProspectLine:
    """A line that cannot be imported. `text` is the beginning of the line, in a form that is safe to display."""

    line: int
    text: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedProspects:
    """The result of importing a list. Each line is counted once. `bad_lines` lists the first invalid lines."""

    added: int
    changed: int
    same: int  # already known, with all of the values in the line
    duplicates: int  # repeats of an earlier line
    bad: int
    bad_lines: tuple[BadProspectLine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    id: int
    workspace: str
    address: str
    external_id: str | None
    fields: Mapping[str, str]
    timezone: str | None
    is_paused: bool
    created_at: datetime
    lists: tuple[str, ...] = ()
