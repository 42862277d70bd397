"""Webhooks: the endpoints to which events are posted, and the request log."""

from typing import Annotated

from fastapi import Path
from pydantic import Field

from fairpost.api.answers import Id, Moment, ReasonCode, RequestModel, ResponseModel, Text, When
from fairpost.model.event import EventKind
from fairpost.model.webhook import WebhookState

WebhookPath = Annotated[Text, Path(max_length=40, description="The webhook ID.")]
DeliveryPath = Annotated[Text, Path(max_length=40, description="The delivery ID.")]
TAGS_MAX = 20
Url = Annotated[
    Text,
    Field(
        min_length=1,
        max_length=2000,
        description="An HTTPS URL. Plain HTTP works only on private networks that the operator allows.",
    ),
]
Description = Annotated[Text, Field(max_length=500, description="A description of the webhook.")]
Types = Annotated[
    list[EventKind],
    Field(max_length=len(EventKind), description="The event types to deliver. An empty list means all types."),
]
Tags = Annotated[
    dict[Annotated[Text, Field(max_length=100)], Annotated[Text, Field(max_length=500)]],
    Field(max_length=TAGS_MAX, description="Deliver only events for e-mails that have all of these tags."),
]


class WebhookIn(RequestModel):
    url: Url
    description: Description = ""
    types: Types = Field(default_factory=list)
    tags: Tags = Field(default_factory=dict)


class WebhookPatch(RequestModel):
    """Changes to a webhook. Omitted fields stay the same."""

    url: Url | None = None
    description: Description | None = None
    types: Types | None = None
    tags: Tags | None = None


class RotateIn(RequestModel):
    overlap_s: Annotated[
        int,
        Field(
            ge=0,
            le=7 * 86_400,
            description="How long requests are also signed with the old secret, in seconds.",
        ),
    ] = 86_400


class ReplayIn(RequestModel):
    since: Annotated[When, Field(description="Redeliver all events since this time.")]


class WhyOut(ResponseModel):
    code: ReasonCode
    message: str


class WebhookOut(ResponseModel):
    id: Id
    url: str
    description: str
    types: list[str]
    tags: dict[str, str]
    state: Annotated[
        WebhookState,
        Field(
            description="In state `failing`, delivery is retried at `next_at`. In state `disabled`, deliveries have failed for a day; to start them again, resume the webhook."
        ),
    ]
    created_at: Moment
    delivered_at: Annotated[Moment | None, Field(description="When an event was last delivered.")]
    failing_since: Moment | None
    next_at: Moment | None
    disabled_at: Moment | None
    reason: Annotated[WhyOut | None, Field(description="The reason for the last failure.")]


class WebhookWithSecret(WebhookOut):
    secret: Annotated[str, Field(description="The secret for verifying signatures. It is shown only once.")]


class DeliveryOut(ResponseModel):
    id: Id
    at: Moment
    message_id: Annotated[
        str, Field(description="The `webhook-id` header: the event ID, which is the same on every attempt.")
    ]
    type: str
    attempt: int
    status: Annotated[int | None, Field(description="The response's HTTP status, if there was a response.")]
    reason: Annotated[WhyOut | None, Field(description="Why the delivery failed. Null if it succeeded.")]
    duration_ms: int
    answer: Annotated[str, Field(description="The first characters of the response's body.")]


class DeliveryWithRequest(DeliveryOut):
    request: Annotated[str | None, Field(description="The request body. Null if the event is no longer stored.")]


class TestOut(ResponseModel):
    message_id: str
    is_delivered: bool
    status: int | None
    reason: WhyOut | None
    duration_ms: int
    answer: str
