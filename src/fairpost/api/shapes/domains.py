"""Domains of a workspace, and the record that proves each."""

from typing import Annotated

from fastapi import Path
from pydantic import Field

from fairpost.api.answers import Moment, ResponseModel, Text

DomainPath = Annotated[Text, Path(max_length=260, description="The domain, in any script.")]


class RecordOut(ResponseModel):
    name: str
    type: str = "TXT"
    value: str


class DomainOut(ResponseModel):
    domain: str
    is_proven: bool
    proven_at: Moment | None
    checked_at: Moment | None
    record: Annotated[RecordOut, Field(description="The record to publish in the DNS.")]


class Checked(DomainOut):
    found: Annotated[str, Field(description="`proven`, `not_found` or `dns_error`.")]
    words: str
