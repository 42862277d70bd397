"""Addresses that get no e-mail."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import Moment, RequestModel, ResponseModel, Text
from fairpost.model.suppression import Stops, SuppressionKind

AT_ONCE_MAX = 10_000
Kind = Annotated[
    SuppressionKind,
    Field(
        description="Of two about one address the weightier stays; complaint is the weightiest. "
        "`unsubscribe` stops bulk mail; every other kind stops urgent mail as well."
    ),
]
Reason = Annotated[Text, Field(min_length=1, max_length=500, description="Why, for whoever asks later.")]


class SuppressionIn(RequestModel):
    kind: Kind = SuppressionKind.MANUAL
    reason: Reason


class ManyIn(RequestModel):
    addresses: Annotated[list[Annotated[Text, Field(max_length=500)]], Field(min_length=1, max_length=AT_ONCE_MAX)]
    kind: Kind = SuppressionKind.MANUAL
    reason: Reason


class SuppressionOut(ResponseModel):
    address: Annotated[str, Field(description="As it is compared.")]
    kind: SuppressionKind
    reason: str
    created_at: Moment
    stops: Annotated[Stops, Field(description="`bulk`: urgent mail goes out to it all the same.")]


class BadAddress(ResponseModel):
    """`place`: among those given, from 0."""

    place: int
    why: str


class ManyOut(ResponseModel):
    """What became of the addresses: each is counted once. `bad_addresses` are the first 100 of the bad ones."""

    added: int
    known: int
    duplicates: int
    bad: int
    bad_addresses: list[BadAddress]
