"""Descriptions of the kinds of transport, for forms."""

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
    is_secret: Annotated[bool, Field(description="Whether the value is a secret. Secrets are never shown again.")]
    min: int | None
    max: int | None
    maxlength: int | None
    pattern: Annotated[str | None, Field(description="A regular expression that the whole value must match.")]
    explained: Annotated[str, Field(description="A description of the pattern.")]
    accept: str
    placeholder: str


class SignInOut(ResponseModel):
    name: Annotated[
        str,
        Field(
            description="The kind of `oauth` for this sign-in method. For methods without OAuth, `password` or `none`."
        ),
    ]
    title: str
    entries: list[EntryOut]
    fixed: Annotated[
        dict[str, str | None], Field(description="Fixed fields in the request, for example `smtp.oauth.kind`.")
    ]
    user: Annotated[str | None, Field(description="The field that defaults to the address, for example `smtp.user`.")]
    hosts: Annotated[
        list[str], Field(description="Suffixes of the hosts that this choice applies to. An empty list means any host.")
    ]


class ChoiceOut(ResponseModel):
    name: str
    title: str
    about: str
    kind: Annotated[str, Field(description="The request field that contains the server, for example `smtp`.")]
    presets: Annotated[
        list[str], Field(description="The providers whose limits fit this choice, with the usual one first.")
    ]
    presets_instead: Annotated[
        dict[str, str],
        Field(
            description="Exceptions to `presets`: maps the provider of the address to the provider whose limits to use instead."
        ),
    ]
    keeps_secret: Annotated[bool, Field(description="Whether a request may omit the secrets of an unchanged server.")]
    sign_ins: Annotated[list[SignInOut], Field(description="The sign-in methods, with the most common one first.")]
