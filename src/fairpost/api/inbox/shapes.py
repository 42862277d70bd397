"""Mails of the development inbox."""

from typing import Annotated

from fastapi import Path
from pydantic import Field

from fairpost.api.answers import Moment, Number, Page, ResponseModel
from fairpost.api.pages import BIGGEST
from fairpost.dev.inbox.checks.findings import Level
from fairpost.dev.inbox.reading import PARTS_MAX

MailPath = Annotated[int, Path(ge=1, le=BIGGEST, description="The mail's number.")]
FilePath = Annotated[int, Path(ge=0, le=PARTS_MAX, description="`index` of the attachment.")]


class MailFacts(ResponseModel):
    """`sender` and `recipients` are the envelope's; `from`, `subject` and `message_id` are what the headers say."""

    id: Number
    received_at: Moment
    from_header: Annotated[str, Field(serialization_alias="from")]
    sender: Annotated[str, Field(description="Empty: the null sender.")]
    recipients: list[str]
    subject: str
    message_id: str
    size: Annotated[int, Field(description="In bytes.")]
    helo: str
    peer: str
    tls: Annotated[str | None, Field(description="The TLS version. Null: the connection was not encrypted.")]
    auth_user: Annotated[str | None, Field(description="Null: no login.")]


class MailItem(MailFacts):
    attachments: Annotated[int, Field(description="The number of them.")]


class HeaderOut(ResponseModel):
    name: str
    value: str


class FileOut(ResponseModel):
    index: int
    filename: Annotated[str, Field(description="A safe file name: no path, not hidden, unique.")]
    content_type: str
    bytes: int
    inline_id: Annotated[str | None, Field(description="The id in the HTML's `cid:…`.")]


class FindingOut(ResponseModel):
    level: Level
    what: str
    text: Annotated[str, Field(description="The finding, and what to do about it.")]


class FoundLinkOut(ResponseModel):
    url: str
    text: Annotated[str, Field(description="The text that readers see.")]
    part: Annotated[str, Field(description="`html` or `text`.")]


class MailOut(MailFacts):
    headers: Annotated[list[HeaderOut], Field(description="Decoded, in their original order.")]
    text: str | None
    html: Annotated[
        str | None,
        Field(description="Untrusted HTML: show it in a sandboxed frame only. Its inline images are embedded."),
    ]
    is_cut: Annotated[bool, Field(description="The text or HTML was truncated. The source has all of it.")]
    attachments: list[FileOut]
    checks: list[FindingOut]
    links: Annotated[list[FoundLinkOut], Field(description="With http or https.")]


class RemovedMails(ResponseModel):
    removed: Annotated[int, Field(description="The number of them.")]


class MailGlimpse(ResponseModel):
    id: Number
    received_at: Moment
    from_header: Annotated[str, Field(serialization_alias="from")]
    subject: str
    recipients: list[str]  # the first few
    recipients_count: int
    size: int
    attachments: int


class InboxShown(Page[MailGlimpse]):
    """The newest; `next` is the cursor for those before them. `count` ends at one more than the inbox usually keeps."""

    newest: Number | None
    count: int
