"""People to write to, and what is known of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ProspectLine:
    """A line of a list to be imported. `line` is where the record begins; of `fields`, only those that are not empty are there."""

    line: int
    address: str
    fields: dict[str, str]
    timezone: str | None
    external_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BadProspectLine:
    """`text` is the beginning of the line, fit to be shown."""

    line: int
    text: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedProspects:
    """What became of the lines of a list: each is counted once. `bad_lines` are the first of the bad ones."""

    added: int
    changed: int
    same: int  # known already, with all that the line says
    duplicates: int  # of an earlier line
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
