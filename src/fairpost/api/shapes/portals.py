"""The product's own e-mails in requests and responses."""

from typing import Annotated

from fastapi import Path
from pydantic import Field

from fairpost.api.answers import JsonObject, Moment, RequestModel, ResponseModel, Text
from fairpost.api.shapes.emails import Address, Addresses, Tags, about
from fairpost.api.shapes.templates import Subject

PortalPath = Annotated[
    Text,
    Path(
        max_length=100,
        description="`hub`, `org`, `agency`, or one of the operator's portals. `admin` is for admins only.",
    ),
]
TypePath = Annotated[
    Text,
    Path(
        max_length=100,
        description="`welcome`, `forgot_password`, `password_changed`, `email_verification`, `invite`, `tfa`, …",
    ),
]
WORDS_MAX = 102_400
Part = Annotated[Text, Field(max_length=WORDS_MAX)]
Values = Annotated[JsonObject, Field(max_length=200)]


class PortalItem(ResponseModel):
    portal: str
    type: str
    fields: list[str]
    is_urgent: bool
    is_overridden: bool
    changed_at: Moment | None
    problem: Annotated[str | None, Field(description="Why the workspace's own content is not in use.")]


class WordsIn(RequestModel):
    subject: Subject
    text: Part
    html: Part
    preheader: Part | None = None


class WordsOut(ResponseModel):
    portal: str
    type: str
    subject: str
    preheader: str | None
    text: str
    html: str
    warnings: Annotated[list[str], Field(default_factory=list)]


class ValuesIn(RequestModel):
    values: Annotated[Values, Field(default_factory=dict)]


class PortalPreviewIn(ValuesIn):
    words: Annotated[
        WordsIn | None, Field(description="Content to preview instead of the content in use. It is not saved.")
    ] = None


class PortalSend(ValuesIn):
    to: Addresses
    from_: Annotated[Address | None, Field(alias="from")] = None
    user: Annotated[Text | None, about("user")] = None
    pool: Annotated[Text | None, about("pool")] = None
    account: Annotated[Text | None, about("account")] = None
    tags: Annotated[Tags | None, about("tags")] = None
    metadata: Annotated[JsonObject | None, about("metadata")] = None
