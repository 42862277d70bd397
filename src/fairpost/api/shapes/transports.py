"""Kinds of transport, described for forms."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import ResponseModel


class EntryOut(ResponseModel):
    name: Annotated[str, Field(description="As an account's request names it, like `smtp.host`.")]
    label: str
    hint: str
    type: Annotated[str, Field(description="As an input of HTML has it: text, number, email, password, file.")]
    options: Annotated[list[tuple[str, str]], Field(description="Values to choose from, and how each is called.")]
    default: str | None
    is_needed: bool
    is_secret: Annotated[bool, Field(description="Given, and never shown.")]
    min: int | None
    max: int | None
    maxlength: int | None
    pattern: Annotated[str | None, Field(description="Of the whole text.")]
    explained: Annotated[str, Field(description="What fits the pattern, in words.")]
    accept: str
    placeholder: str


class SignInOut(ResponseModel):
    name: Annotated[str, Field(description="What `oauth` is of a server that signs in so; else `password` or `none`.")]
    title: str
    entries: list[EntryOut]
    fixed: Annotated[dict[str, str | None], Field(description="What else the request says, like `smtp.oauth.kind`.")]
    user: Annotated[str | None, Field(description="What is the address where it is left out, like `smtp.user`.")]
    hosts: Annotated[list[str], Field(description="Only a server whose host ends so is of this choice; empty: any is.")]


class ChoiceOut(ResponseModel):
    name: str
    title: str
    about: str
    kind: Annotated[str, Field(description="What the server is called in a request, like `smtp`.")]
    presets: Annotated[list[str], Field(description="Providers whose limits fit, the usual one first.")]
    presets_instead: Annotated[
        dict[str, str], Field(description="Whose limits it has, by the provider that the address is at.")
    ]
    keeps_secret: Annotated[
        bool, Field(description="Whether a request may leave out the secrets of a server that stays the same.")
    ]
    sign_ins: Annotated[list[SignInOut], Field(description="The usual one comes first.")]
