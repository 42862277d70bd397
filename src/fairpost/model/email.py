"""An e-mail on its way out, as a worker sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fairpost.model.campaign import Gap
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.sender import Tier
from fairpost.model.states import DoubtPolicy, EmailClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailbox:
    address: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    kind: str  # to, cc, bcc
    address: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    filename: str
    content_type: str
    inline_id: str | None = None  # what the html calls cid:…; None: an attachment to save
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    id: int | None  # None: of one e-mail alone
    subject: str
    text: str | None
    html: str | None
    reply_to: Mailbox | None
    headers: Mapping[str, str]
    attachments: tuple[Attachment, ...] = ()
    is_template: bool = False  # with places for the recipient's fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The e-mail that this one follows in the same conversation, as it really went out."""

    message_id: str  # as the provider wrote it, in angle brackets
    thread_id: str | None = None  # at a provider that has threads
    references: tuple[str, ...] = ()  # the message ids before it, oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """`envelope` is who is still to get it; `recipients` is everybody the headers name."""

    id: EmailId
    workspace: str
    email_class: EmailClass
    on_doubt: DoubtPolicy
    attempts: int
    attempts_max: int
    sender: Mailbox | None
    recipients: tuple[Recipient, ...]
    envelope: tuple[str, ...]
    fields: Mapping[str, Any]
    content: Content
    account_id: AccountId | None = None
    begun_at: datetime | None = None
    evidence: Mapping[str, str] | None = None  # by what the provider can be asked about it
    follows: Earlier | None = None
    user: str = ""
    due_at: datetime | None = None
    tier: Tier = Tier.NORMAL  # of who sends it
    is_fair: bool = True  # False: it was served in the order of time
    stream: str = ""
    gap: Gap | None = None  # the pause before it, beside the account's own
    public_id: str | None = (
        None  # None: it is from before there were any, and its headers name it by its number, as ever
    )

    @property
    def name_in_headers(self) -> str:
        """By which its copies are known: the same for every attempt."""
        return self.public_id or f"{self.id:x}"
