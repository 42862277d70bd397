"""Events in the form that programs read."""

from typing import Annotated, Any

from pydantic import Field

from fairpost.api.answers import Id, Moment, ResponseModel


class EventData(ResponseModel):
    """The details of the event. Details that do not apply to the event are omitted."""

    workspace: str | None = None
    email_id: Id | None = None
    recipient: Annotated[str | None, Field(description="The recipient that the event is about.")] = None
    recipients: list[str] | None = None
    account: Annotated[str | None, Field(description="The account's name. Null for shared accounts.")] = None
    campaign: str | None = None
    subject: Annotated[str | None, Field(description="The sender or domain that the event is about.")] = None
    type: str | None = None
    tags: dict[str, str] | None = None
    metadata: dict[str, Any] | None = None
    reason: Annotated[str | None, Field(description="A reason code: see docs/conditions.md.")] = None
    params: dict[str, Any] | None = None


class Event(ResponseModel):
    id: Annotated[Id, Field(description="The event ID. It never changes.")]
    type: Annotated[str, Field(description="For example `email.sent`.")]
    at: Moment
    data: EventData


class EventsRead(ResponseModel):
    items: list[Event]
    cursor: Annotated[
        str | None,
        Field(
            description="The value to pass as `after` to read the next events, even if this page has no items. Null if there are no events yet."
        ),
    ]
    is_end: Annotated[bool, Field(description="Whether the last event has been reached.")]
