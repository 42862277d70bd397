"""Messages of the development inbox in responses."""

from typing import Annotated

from fastapi import Path
from pydantic import Field

from fairpost.api.answers import Moment, Number, Page, ResponseModel
from fairpost.api.pages import BIGGEST
from fairpost.api.shapes.findings import FindingOut as FindingOut
from fairpost.quality.reading import PARTS_MAX

MailPath = Annotated[int, Path(ge=1, le=BIGGEST, description="The message number.")]
FilePath = Annotated[int, Path(ge=0, le=PARTS_MAX, description="The attachment's `index`.")]


class MailFacts(ResponseModel):
    """`sender` and `recipients` are from the envelope; `from`, `subject` and `message_id` are from the headers."""

    id: Number
    received_at: Moment
    from_header: Annotated[str, Field(serialization_alias="from")]
    sender: Annotated[str, Field(description="The envelope sender. Empty for the null sender.")]
    recipients: list[str]
    subject: str
    message_id: str
    size: Annotated[int, Field(description="Size in bytes.")]
    helo: str
    peer: str
    tls: Annotated[str | None, Field(description="The TLS version. Null if the connection was not encrypted.")]
    auth_user: Annotated[
        str | None, Field(description="The user name used to log in. Null if the client did not log in.")
    ]


class MailItem(MailFacts):
    attachments: Annotated[int, Field(description="The number of attachments.")]


class HeaderOut(ResponseModel):
    name: str
    value: str


class FileOut(ResponseModel):
    index: int
    filename: Annotated[str, Field(description="A safe file name: no path, not hidden, unique.")]
    content_type: str
    bytes: int
    inline_id: Annotated[str | None, Field(description="The ID by which the HTML refers to the attachment: `cid:…`.")]


class FoundLinkOut(ResponseModel):
    url: str
    text: Annotated[str, Field(description="The text of the link that readers see.")]
    part: Annotated[str, Field(description="`html` or `text`.")]


class MailOut(MailFacts):
    headers: Annotated[list[HeaderOut], Field(description="Decoded headers, in their original order.")]
    text: str | None
    html: Annotated[
        str | None,
        Field(description="Untrusted HTML: show it in a sandboxed frame only. Its inline images are embedded."),
    ]
    is_cut: Annotated[bool, Field(description="Whether the text or HTML was truncated. The source is always complete.")]
    attachments: list[FileOut]
    checks: list[FindingOut]
    links: Annotated[list[FoundLinkOut], Field(description="The http and https links.")]


class RemovedMails(ResponseModel):
    removed: Annotated[int, Field(description="The number of attachments.")]


class MailGlimpse(ResponseModel):
    id: Number
    received_at: Moment
    from_header: Annotated[str, Field(serialization_alias="from")]
    subject: str
    recipients: list[str]  # only the first few
    recipients_count: int
    size: int
    attachments: int


class InboxShown(Page[MailGlimpse]):
    """The newest messages. `next` is the cursor for older messages. `count` can exceed the maximum number of stored
    messages by one."""

    newest: Number | None
    count: int
