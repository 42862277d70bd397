"""Suppressed addresses in requests and responses."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import Moment, RequestModel, ResponseModel, Text
from fairpost.model.suppression import Stops, SuppressionKind

AT_ONCE_MAX = 10_000
Kind = Annotated[
    SuppressionKind,
    Field(
        description="If an address has two kinds, the stronger one is kept. The strongest kind is `complaint`. "
        "The kind `unsubscribe` stops only bulk mail; every other kind stops urgent mail as well."
    ),
]
Reason = Annotated[Text, Field(min_length=1, max_length=500, description="A note about why the address is suppressed.")]


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
    stops: Annotated[
        Stops,
        Field(description="Which e-mails to the address are blocked. With `bulk`, urgent e-mails are still sent."),
    ]


class BadAddress(ResponseModel):
    """An invalid address. `place` is the address's index in the request, starting at 0."""

    place: int
    why: str


class ManyOut(ResponseModel):
    """The result. Each address is counted once. `bad_addresses` contains the first 100 invalid addresses."""

    added: int
    known: int
    duplicates: int
    bad: int
    bad_addresses: list[BadAddress]
