"""What is stored about a person, and what was erased."""

from typing import Annotated, Any

from pydantic import Field

from fairpost.api.answers import Id, ResponseModel


class PersonData(ResponseModel):
    prospects: list[dict[str, Any]]
    suppressions: list[dict[str, Any]]
    soft_bounces: list[dict[str, Any]]
    returned: list[dict[str, Any]]
    replies: list[dict[str, Any]]
    inbox_mails: list[dict[str, Any]]
    events: list[dict[str, Any]]
    emails: list[dict[str, Any]]


class Erased(ResponseModel):
    """Number of erased items. Waiting e-mails were cancelled, or will be sent only to their other recipients."""

    prospects: int
    suppressions: Annotated[int, Field(description="Number of suppressions. They are kept as hashes.")]
    cancelled: int
    taken_out: int
    emails: int
    events: int
    in_hand: Annotated[
        list[Id],
        Field(
            description="E-mails that were not erased because they are being sent or in doubt. To erase them, repeat the request later."
        ),
    ]
