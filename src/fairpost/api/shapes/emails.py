"""E-mails: how they are accepted, listed and shown."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Header, Path, Query
from pydantic import Field, JsonValue

from fairpost.actions import emails as actions
from fairpost.api.answers import (
    Id,
    Moment,
    Page,
    RequestModel,
    ResponseModel,
    Text,
)
from fairpost.model.email_fields import BY_NAME, RECIPIENTS_MAX
from fairpost.model.states import SequenceWord, State
from fairpost.observe.search import Understood

EmailIdPath = Annotated[Text, Path(max_length=100, description="The e-mail's id.")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=BY_NAME["idempotency_key"].chars_min,
        max_length=BY_NAME["idempotency_key"].chars_max,
        description="However often a request with this key comes, also at the same time: it counts once.",
    ),
]


def about(name: str, **more: Any) -> Any:
    """What is known of a field of e-mails: its bounds, and what it is."""
    each = BY_NAME[name]
    bounds = {"min_length": each.chars_min or None, "max_length": each.chars_max, "ge": each.ge, "le": each.le}
    given = {key: value for key, value in bounds.items() if value is not None}
    limit = f" {each.limit[0].upper()}{each.limit[1:]}." if each.limit else ""
    return Field(**{"description": f"{each.help}{limit}", **given, **more})


class Mailbox(RequestModel):
    address: Text
    name: Text | None = None


Address = Text | Mailbox
Addresses = Address | Annotated[list[Address], Field(max_length=RECIPIENTS_MAX)]


class Attachment(RequestModel):
    filename: Text
    data: Annotated[str, Field(description="In base64.")]
    content_type: Text | None = None
    inline_id: Annotated[Text | None, Field(description="The html shows it as cid:<inline_id>.")] = None


class EmailIn(RequestModel):
    """An e-mail to send. What is left out has the default of docs/enqueue.md."""

    to: Annotated[Addresses, about("to")]
    subject: Annotated[Text, about("subject")]
    text: Annotated[Text | None, about("text")] = None
    html: Annotated[Text | None, about("html")] = None
    from_: Annotated[
        Address | None,
        about("from", alias="from", description="Of a domain that the workspace has shown to be its own."),
    ] = None
    cc: Annotated[Addresses | None, about("cc")] = None
    bcc: Annotated[Addresses | None, about("bcc")] = None
    reply_to: Annotated[Address | None, about("reply_to")] = None
    headers: Annotated[dict[Text, Text] | None, about("headers")] = None
    attachments: Annotated[
        list[Attachment] | None, about("attachments", max_length=BY_NAME["attachments"].count_max)
    ] = None
    fields: Annotated[dict[str, JsonValue] | None, about("fields")] = None
    user: Annotated[Text | None, about("user")] = None
    stream: Annotated[Text | None, about("stream")] = None
    email_class: Annotated[Literal["urgent", "bulk"] | None, about("class", alias="class")] = None
    pool: Annotated[Text | None, about("pool")] = None
    account: Annotated[Text | None, about("account")] = None
    due_at: Annotated[datetime | None, about("due_at")] = None
    expires_at: Annotated[datetime | None, about("expires_at")] = None
    attempts_max: Annotated[int | None, about("attempts_max")] = None
    on_doubt: Annotated[Literal["resend", "hold"] | None, about("on_doubt")] = None
    idempotency_key: Annotated[Text | None, about("idempotency_key")] = None
    follows: Annotated[Text | None, about("follows", max_length=100)] = None


class Accepted(ResponseModel):
    id: Id
    new: Annotated[bool, Field(description="False: its idempotency key was known, and this is the first e-mail's id.")]


class MailboxOut(ResponseModel):
    address: str
    name: str | None = None


class Recipient(ResponseModel):
    kind: str
    address: str
    name: str | None = None


class EmailItem(ResponseModel):
    id: Id
    state: State
    status: Annotated[str, Field(description="pending, processing, sent, failed or cancelled")]
    sequence_status: Annotated[SequenceWord, Field(description="As an application that schedules sequences calls it.")]
    user: str
    stream: str
    email_class: Annotated[str, Field(serialization_alias="class")]
    account: str | None
    recipients: list[Recipient]
    subject: str | None
    created_at: Moment
    due_at: Moment | None
    finished_at: Moment | None
    attempts: int
    attempts_max: int
    reason: str | None


class EmailLine(EmailItem):
    """One of a list."""

    filled_subject: Annotated[
        str | None,
        Field(
            description="A campaign's subject with the recipient's fields in their places, of the first 50 of a page. Null: there are no places, or the fields do not fit."
        ),
    ]


class Attempt(ResponseModel):
    n: int
    account: str | None
    begun_at: Moment
    ended_at: Moment
    outcome: str
    code: int | None
    reply: str | None
    response_ms: int | None
    recipients: dict[str, Any] | None


class AttachedFile(ResponseModel):
    filename: str
    content_type: str
    inline_id: str | None
    bytes: int


class Said(ResponseModel):
    subject: str
    text: str | None
    html: str | None


class EmailOut(EmailItem):
    expires_at: Moment | None
    idempotency_key: str | None
    message_id: str | None
    thread_id: str | None
    on_doubt: str
    sender: Annotated[MailboxOut | None, Field(serialization_alias="from")]
    reply_to: MailboxOut | None
    text: str | None
    html: str | None
    filled: Annotated[
        Said | None,
        Field(
            description="A campaign's words with the recipient's fields in their places. Null: there are none, or they do not fit."
        ),
    ]
    headers: dict[str, str]
    fields: dict[str, Any]
    attachments: list[AttachedFile]


class EmailMoved(ResponseModel):
    """`state` is what the e-mail is in now; `changed`: whether this request did it."""

    id: Id
    state: State
    changed: bool


Known = Annotated[Text | None, Query(min_length=1, max_length=500)]


class FoundEmails(Page[EmailLine]):
    understood: Annotated[Understood, Field(description="What the text was taken for.")]


class Reply(ResponseModel):
    address: str
    code: int | None
    reply: str | None
    meaning: str | None


class LifeMoment(ResponseModel):
    """`kind`: accepted, due, claimed, begun, ended, decided, retried; of the last one, the e-mail's state. `at` null: nobody
    can say when. `meaning` says in words what the server's reply means."""

    kind: str
    at: Moment | None
    words: str
    attempt: int | None
    account: str | None
    outcome: str | None
    code: int | None
    reply: str | None
    meaning: str | None
    recipients: list[Reply]


class Obstacle(ResponseModel):
    kind: Annotated[
        str, Field(description="due, before, prospect, hold, throttle, pause, engine, block, account or turn")
    ]
    words: str
    until: Moment | None


class Choice(ResponseModel):
    decision: str
    means: str


class Doubt(ResponseModel):
    """What is known, and what may be decided: the body of `resolve`."""

    attempt: int
    begun_at: Moment | None
    account: str | None
    reached: str
    said: str | None
    message_id_begins: Annotated[str, Field(description="By which a copy of it can be found in a mailbox.")]
    asked: str
    policy: str
    choices: list[Choice]


class EmailLife(ResponseModel):
    id: Id
    state: State
    moments: list[LifeMoment]
    stands_in_the_way: list[Obstacle]
    doubt: Doubt | None


class EmailNow(ResponseModel):
    """What of an e-mail may change, as the topic `email` tells it."""

    email: EmailItem
    life: EmailLife


class Resolution(RequestModel):
    decision: Annotated[actions.Decision, Field(description="What is known of it, or what to do.")]
