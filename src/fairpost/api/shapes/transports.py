"""Kinds of transport, described for forms."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import ResponseModel


class EntryOut(ResponseModel):
    name: Annotated[str, Field(description="The field in an account request, for example `smtp.host`.")]
    label: str
    hint: str
    type: Annotated[
        str, Field(description="The type of an HTML input: `text`, `number`, `email`, `password` or `file`.")
    ]
    options: Annotated[list[tuple[str, str]], Field(description="Values to choose from, with labels.")]
    default: str | None
    is_needed: bool
    is_secret: Annotated[bool, Field(description="It is never shown again.")]
    min: int | None
    max: int | None
    maxlength: int | None
    pattern: Annotated[str | None, Field(description="The pattern of the whole text.")]
    explained: Annotated[str, Field(description="The pattern in words.")]
    accept: str
    placeholder: str


class SignInOut(ResponseModel):
    name: Annotated[str, Field(description="The value of `oauth` for this sign-in, else `password` or `none`.")]
    title: str
    entries: list[EntryOut]
    fixed: Annotated[
        dict[str, str | None], Field(description="Fixed fields in the request, for example `smtp.oauth.kind`.")
    ]
    user: Annotated[str | None, Field(description="The field that defaults to the address, for example `smtp.user`.")]
    hosts: Annotated[
        list[str], Field(description="Suffixes of the hosts that this choice applies to. If empty, any host.")
    ]


class ChoiceOut(ResponseModel):
    name: str
    title: str
    about: str
    kind: Annotated[str, Field(description="The request field that contains the server, for example `smtp`.")]
    presets: Annotated[list[str], Field(description="Providers with matching limits, the usual one first.")]
    presets_instead: Annotated[dict[str, str], Field(description="The limits to use, by the address's provider.")]
    keeps_secret: Annotated[bool, Field(description="Whether a request may omit the secrets of an unchanged server.")]
    sign_ins: Annotated[list[SignInOut], Field(description="The most common one comes first.")]
