"""Prospects and their lists in requests and responses."""

from typing import Annotated

from fastapi import Path
from pydantic import Field

from fairpost.api.answers import (
    Id,
    Moment,
    Name,
    RequestModel,
    ResponseModel,
    Text,
)
from fairpost.prospects.csv_reader import EXTERNAL_ID_CHARS_MAX

ListName = Annotated[Name, Path(description="The list's name.")]
FieldValue = Annotated[Text, Field(max_length=100_000)] | int | float | bool | None


class ListOut(ResponseModel):
    name: str
    prospects: Annotated[int, Field(description="Number of prospects on the list.")]
    created_at: Moment


class ProspectOut(ResponseModel):
    id: Id
    address: str
    external_id: Annotated[str | None, Field(description="Your own ID for this person.")]
    fields: dict[str, str]
    timezone: str | None
    is_paused: bool
    lists: list[str]
    created_at: Moment


class BadLineOut(ResponseModel):
    line: int
    text: str
    why: str


class ImportedOut(ResponseModel):
    """The result of the import. Each line is counted once. `bad_lines` contains the first 100 invalid lines."""

    added: int
    changed: int
    same: Annotated[int, Field(description="Number of lines that changed nothing.")]
    duplicates: Annotated[int, Field(description="Number of lines that repeat an earlier line.")]
    bad: int
    bad_lines: list[BadLineOut]


class ProspectIn(RequestModel):
    """A prospect: one line of an import, or one item of an imported JSON array."""

    address: Text
    id: Annotated[Text | int | None, Field(description="Your own ID for this person.")] = None
    timezone: Annotated[Text | None, Field(description="The time zone, for example `Europe/Berlin`.")] = None
    fields: dict[str, FieldValue] | None = None


class ProspectChange(RequestModel):
    """Changes to a prospect. Omitted fields stay the same."""

    is_paused: Annotated[bool, Field(description="Whether mail to this prospect is paused.")] = False
    fields: Annotated[
        dict[str, FieldValue],
        Field(max_length=1_000, description="Fields to add or replace. A null value removes a field."),
    ] = Field(default_factory=dict)
    timezone: Annotated[Text | None, Field(max_length=100)] = None
    external_id: Annotated[Text | None, Field(max_length=EXTERNAL_ID_CHARS_MAX)] = None
