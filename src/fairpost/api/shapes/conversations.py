"""Request and response models for conversations with people."""

from typing import Annotated, Literal

from fastapi import Path
from pydantic import Field

from fairpost.api.answers import Id, Moment, RequestModel, ResponseModel, Text
from fairpost.api.shapes.emails import about
from fairpost.model.conversation import LABEL, LABELS_MAX, ReplyKind

ConversationIdPath = Annotated[Text, Path(max_length=100, description="The conversation ID.")]
Label = Annotated[Text, Field(max_length=50, pattern=f"^{LABEL}$")]


class ConversationLine(ResponseModel):
    """A conversation in a list. `last_kind` and `subject` describe the last message."""

    id: Id
    address: Annotated[str, Field(description="The address you wrote to, in normal form.")]
    labels: list[str]
    last_at: Annotated[Moment, Field(description="When the last message arrived.")]
    last_kind: ReplyKind | None
    subject: str | None
    replies: Annotated[int, Field(description="Number of messages from this person.")]


class MessageOut(ResponseModel):
    """A message. The kind `sent` means an e-mail to the person, which may still be queued. Messages of all other kinds
    are from the person.
    """

    kind: Literal["sent"] | ReplyKind
    at: Moment
    email_id: Annotated[
        Id,
        Field(
            description="The e-mail's ID. For a message from the person, the ID of the e-mail that the person answered."
        ),
    ]
    account: Annotated[
        str | None, Field(description="The account that sent or received the message. Null for shared accounts.")
    ]
    from_: Annotated[str | None, Field(alias="from")]
    to: list[str]
    subject: str | None
    text: Annotated[str | None, Field(description="For a reply, the text without the quoted part.")]
    html: Annotated[str | None, Field(description="For a reply, safe HTML without scripts, images and styles.")]
    state: Annotated[str | None, Field(description="The state of an e-mail to the person. Null for other messages.")]
    is_cut: Annotated[bool, Field(description="Whether the message was truncated because it was too long.")]


class ConversationOut(ConversationLine):
    messages: Annotated[
        list[MessageOut],
        Field(description="The newest 50 e-mails to the person and 200 messages from the person, oldest first."),
    ]


class LabelsIn(RequestModel):
    labels: Annotated[
        list[Label], Field(max_length=LABELS_MAX, description="All labels that the conversation should have.")
    ]


class AnswerIn(RequestModel):
    text: Annotated[Text | None, about("text")] = None
    html: Annotated[Text | None, about("html")] = None
