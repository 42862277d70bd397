"""An e-mail on its way out, as seen by a worker."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fairpost.model.campaign import Gap
from fairpost.model.dkim import SealedKey
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.mailbox import Mailbox as Mailbox
from fairpost.model.quick import quick
from fairpost.model.sender import Tier
from fairpost.model.states import DoubtPolicy, EmailClass


@quick(frozen=True, slots=True, kw_only=True)
class Recipient:
    kind: str  # to, cc, bcc
    address: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    filename: str
    content_type: str
    inline_id: str | None = None  # the `cid:` that the HTML refers to, or None for a regular attachment
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedFile:
    """An attachment without its data."""

    filename: str
    content_type: str
    inline_id: str | None
    bytes: int


@quick(frozen=True, slots=True, kw_only=True)
class Content:
    id: int | None  # None if the content belongs to a single e-mail
    subject: str
    text: str | None
    html: str | None
    reply_to: Mailbox | None
    headers: Mapping[str, str]
    attachments: tuple[Attachment, ...] = ()
    is_template: bool = False  # contains placeholders for the recipient's fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The previous e-mail in the same conversation, as it was sent."""

    message_id: str  # as written by the provider, in angle brackets
    thread_id: str | None = None  # if the provider has threads
    references: tuple[str, ...] = ()  # earlier message IDs, oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """A campaign e-mail's data beyond its content. `unsubscribe_url` is None if no page can be served."""

    campaign: str
    unsubscribe_url: str | None = None
    is_one_to_one: bool = False  # no unsubscribe line is added


@quick(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """An e-mail to send.

    `envelope` lists the recipients who have yet to receive it; `recipients` lists everyone named in the headers.
    """

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
    evidence: Mapping[str, str] | None = None  # identifies the e-mail when the provider is asked about it
    follows: Earlier | None = None
    user: str = ""
    due_at: datetime | None = None
    tier: Tier = Tier.NORMAL  # of its sender
    is_fair: bool = True  # False: the e-mail was released outside the fair queue, in chronological order
    stream: str = ""
    sender_name: str | None = None  # shown with the account's address, if there is no `sender`
    gap: Gap | None = None  # the pause before this e-mail, in addition to the account's own
    bulk: Bulk | None = None  # None if it does not belong to a campaign
    signing: tuple[SealedKey, ...] = ()  # the DKIM keys for its workspace's domains
    public_id: str | None = None  # None if it predates public IDs and its headers still use its number
    return_token: str = ""  # part of the address that receives reports about it

    @property
    def name_in_headers(self) -> str:
        """The name that identifies copies of this e-mail. The name is the same for every attempt."""
        return self.public_id or f"{self.id:x}"
