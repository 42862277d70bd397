"""E-mails in requests and responses."""

from typing import Annotated, Any, Literal

from fastapi import Header, Path, Query
from pydantic import Field, StringConstraints

from fairpost.api.answers import (
    Id,
    JsonObject,
    Moment,
    Page,
    Reasoned,
    RequestModel,
    ResponseModel,
    Text,
    When,
)
from fairpost.model.email_fields import (
    ADDRESS_BYTES_MAX,
    ADDRESSES,
    BY_NAME,
    DISPLAY_NAME_CHARS_MAX,
    EMAIL_TYPE,
    FILENAME_CHARS_MAX,
    HEADER_BYTES_MAX,
    HEADER_NAME,
    INLINE_ID,
    MAILBOX_CHARS_MAX,
    MEDIA_TYPE,
    RECIPIENTS_MAX,
    TAG_CHARS_MAX,
    TAG_NAME,
)
from fairpost.model.states import Decision, SequenceWord, State
from fairpost.observe.search import Understood

EmailIdPath = Annotated[Text, Path(max_length=100, description="The e-mail ID.")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=BY_NAME["idempotency_key"].chars_min,
        max_length=BY_NAME["idempotency_key"].chars_max,
        description="Requests with the same key create only one e-mail, even if they arrive at the same time.",
    ),
]


def about(name: str, **more: Any) -> Any:
    """Returns an e-mail field's bounds and description."""
    each = BY_NAME[name]
    most = {"string": each.chars_max or each.bytes_max, ADDRESSES: None}.get(each.type, each.count_max)
    bounds = {"min_length": each.chars_min or None, "max_length": most, "ge": each.ge, "le": each.le}
    given = {key: value for key, value in bounds.items() if value is not None}
    limit = f" {each.limit[0].upper()}{each.limit[1:]}." if each.limit else ""
    return Field(**{"description": f"{each.help}{limit}", **given, **more})


class Mailbox(RequestModel):
    address: Annotated[Text, Field(max_length=ADDRESS_BYTES_MAX)]
    name: Annotated[Text | None, Field(max_length=DISPLAY_NAME_CHARS_MAX)] = None


AddressText = Annotated[
    Text, Field(max_length=MAILBOX_CHARS_MAX, examples=["ann@example.com", "Ann Lee <ann@example.com>"])
]
Address = AddressText | Mailbox
Addresses = Address | Annotated[list[Address], Field(max_length=RECIPIENTS_MAX)]
HeaderName = Annotated[str, StringConstraints(pattern=f"^{HEADER_NAME}$")]
HeaderValue = Annotated[Text, Field(max_length=HEADER_BYTES_MAX)]
EmailType = Annotated[str, StringConstraints(pattern=f"^{EMAIL_TYPE}$")]
TagName = Annotated[str, StringConstraints(pattern=f"^{TAG_NAME}$")]
Tags = dict[TagName, Annotated[Text, Field(max_length=TAG_CHARS_MAX)]]


class Attachment(RequestModel):
    filename: Annotated[Text, Field(min_length=1, max_length=FILENAME_CHARS_MAX)]
    data: Annotated[str, Field(description="The content in base64.")]
    content_type: Annotated[str | None, StringConstraints(pattern=f"^{MEDIA_TYPE}$")] = None
    inline_id: Annotated[
        str | None,
        StringConstraints(pattern=f"^{INLINE_ID}$"),
        Field(description="The ID by which the HTML refers to the attachment: `cid:<inline_id>`."),
    ] = None


class EmailIn(RequestModel):
    """An e-mail to send. See docs/enqueue.md for the defaults of omitted fields."""

    to: Annotated[Addresses, about("to")]
    subject: Annotated[Text, about("subject")]
    text: Annotated[Text | None, about("text")] = None
    html: Annotated[Text | None, about("html")] = None
    from_: Annotated[
        Address | None,
        about("from", alias="from", description="An address at a domain that the workspace has verified."),
    ] = None
    cc: Annotated[Addresses | None, about("cc")] = None
    bcc: Annotated[Addresses | None, about("bcc")] = None
    reply_to: Annotated[Address | None, about("reply_to")] = None
    headers: Annotated[dict[HeaderName, HeaderValue] | None, about("headers")] = None
    attachments: Annotated[list[Attachment] | None, about("attachments")] = None
    fields: Annotated[JsonObject | None, about("fields")] = None
    user: Annotated[Text | None, about("user")] = None
    stream: Annotated[Text | None, about("stream")] = None
    email_class: Annotated[Literal["urgent", "bulk"] | None, about("class", alias="class")] = None
    pool: Annotated[Text | None, about("pool")] = None
    account: Annotated[Text | None, about("account")] = None
    due_at: Annotated[When | None, about("due_at")] = None
    expires_at: Annotated[When | None, about("expires_at")] = None
    attempts_max: Annotated[int | None, about("attempts_max")] = None
    on_doubt: Annotated[Literal["resend", "hold"] | None, about("on_doubt")] = None
    idempotency_key: Annotated[Text | None, about("idempotency_key")] = None
    follows: Annotated[Text | None, about("follows", max_length=100)] = None
    type: Annotated[EmailType | None, about("type")] = None
    tags: Annotated[Tags | None, about("tags")] = None
    metadata: Annotated[JsonObject | None, about("metadata")] = None


class Accepted(ResponseModel):
    id: Id
    new: Annotated[
        bool,
        Field(
            description="False if the idempotency key was used before. In that case, `id` is the ID of the original e-mail."
        ),
    ]


class MailboxOut(ResponseModel):
    address: str
    name: str | None = None


class Recipient(ResponseModel):
    kind: str
    address: str
    name: str | None = None


class EmailItem(Reasoned):
    id: Id
    state: State
    status: Annotated[str, Field(description="`pending`, `processing`, `sent`, `failed` or `cancelled`.")]
    sequence_status: Annotated[
        SequenceWord,
        Field(description="The state in terms used by applications that schedule sequences."),
    ]
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
    type: str | None
    tags: dict[str, str]


class EmailLine(EmailItem):
    """An e-mail in a list."""

    filled_subject: Annotated[
        str | None,
        Field(
            description="For campaign e-mails, the subject rendered for the recipient, for the first 50 e-mails on a page. Null if the subject has no fields or the recipient's fields do not match."
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
            description="For campaign e-mails, the content rendered for the recipient. Null if the content has no fields or the recipient's fields do not match."
        ),
    ]
    headers: dict[str, str]
    fields: dict[str, Any]
    metadata: dict[str, Any]
    attachments: list[AttachedFile]


class EmailMoved(ResponseModel):
    """The e-mail's state after the request, and whether the request changed it."""

    id: Id
    state: State
    changed: bool


Known = Annotated[Text | None, Query(min_length=1, max_length=500)]
InStates = Annotated[
    list[State | SequenceWord] | None,
    Query(description="Only e-mails in this state; values of `sequence_status` are also accepted. Repeatable."),
]
ToAddress = Annotated[
    Known,
    Query(description="Only e-mails with this address among their recipients. The match is not case-sensitive."),
]


class FoundEmails(Page[EmailLine]):
    understood: Annotated[Understood, Field(description="How the search term was interpreted.")]


class Reply(ResponseModel):
    address: str
    code: int | None
    reply: str | None
    meaning: str | None


class LifeMoment(ResponseModel):
    """One event, whose `kind` is `accepted`, `due`, `claimed`, `begun`, `ended`, `decided`, `retried` or `returned`.

    The final event's `kind` is the e-mail's state. `at` is null if unknown. `meaning` explains the server's reply.
    """

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
        str,
        Field(
            description="`due`, `before`, `prospect`, `hold`, `throttle`, `pause`, `engine`, `block`, `account` or `turn`."
        ),
    ]
    words: str
    until: Moment | None


class Choice(ResponseModel):
    decision: str
    means: str


class Doubt(ResponseModel):
    """What is known about an e-mail in doubt, and the decisions that `resolve` accepts."""

    attempt: int
    begun_at: Moment | None
    account: str | None
    reached: str
    said: str | None
    message_id_begins: Annotated[
        str, Field(description="The beginning of the Message-ID, which you can use to find a copy in a mailbox.")
    ]
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
    """The parts of an e-mail that can change, for the topic `email`."""

    email: EmailItem
    life: EmailLife


class Resolution(RequestModel):
    decision: Annotated[
        Decision, Field(description="Your decision: what happened to the e-mail, or what to do with it.")
    ]
