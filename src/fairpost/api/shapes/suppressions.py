"""Addresses that get no e-mail."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import Moment, RequestModel, ResponseModel, Text
from fairpost.model.suppression import Stops, SuppressionKind

AT_ONCE_MAX = 10_000
Kind = Annotated[
    SuppressionKind,
    Field(
        description="If an address has two kinds, the stronger one is kept; `complaint` is the strongest. "
        "`unsubscribe` stops bulk mail; every other kind stops urgent mail as well."
    ),
]
Reason = Annotated[Text, Field(min_length=1, max_length=500, description="The reason, as a note.")]


class SuppressionIn(RequestModel):
    kind: Kind = SuppressionKind.MANUAL
    reason: Reason


class ManyIn(RequestModel):
    addresses: Annotated[list[Annotated[Text, Field(max_length=500)]], Field(min_length=1, max_length=AT_ONCE_MAX)]
    kind: Kind = SuppressionKind.MANUAL
    reason: Reason


class SuppressionOut(ResponseModel):
    address: Annotated[str, Field(description="The address in normal form.")]
    kind: SuppressionKind
    reason: str
    created_at: Moment
    stops: Annotated[Stops, Field(description="`bulk` means that urgent mail is still sent.")]


class BadAddress(ResponseModel):
    """An invalid address. `place` is its index in the request, from 0."""

    place: int
    why: str


class ManyOut(ResponseModel):
    """The result. Each address is counted once. `bad_addresses` has the first 100 bad ones."""

    added: int
    known: int
    duplicates: int
    bad: int
    bad_addresses: list[BadAddress]
