"""Conversations, each between a workspace and one person: the address that the workspace wrote to, and the replies."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from fairpost.model.email import Mailbox
from fairpost.model.ids import ConversationId, EmailId

LABEL = "[a-z0-9][a-z0-9_.:-]{0,49}"
LABELS_MAX = 20

_PREFIX = re.compile(r"\s*(?:re|aw|antw|sv|vs|rif|r|res|odp|ref|回复|答复)\s*(?:\[\d+\])?\s*[:：]\s*", re.IGNORECASE)


class ReplyKind(StrEnum):
    REPLY = "reply"
    AUTO_REPLY = "auto_reply"
    UNSUBSCRIBE = "unsubscribe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation. `last_kind` and `subject` describe the last message received."""

    id: ConversationId
    workspace: str
    address: str
    labels: tuple[str, ...]
    last_at: datetime
    last_kind: ReplyKind | None
    subject: str | None
    replies: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person wrote. `text` omits the quoted part; `html` is safe to show."""

    from_name: str
    from_address: str
    to_addresses: tuple[str, ...]
    subject: str
    sent_at: datetime | None
    message_id: str | None
    in_reply_to: str | None
    references: tuple[str, ...]
    text: str
    html: str | None
    is_cut: bool  # whether the text was truncated


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyMail(Answer):
    """A message from the person, in a conversation."""

    email_id: EmailId  # the e-mail that the message answers
    account: str | None
    kind: ReplyKind
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """The data needed to answer: the last message from the person, and the e-mail that this message answers.

    `account` is None if the account was removed, and `follows` is None if the e-mail is no longer in the history.
    """

    to: Mailbox
    subject: str
    message_id: str | None
    references: tuple[str, ...]
    follows: EmailId | None
    account: str | None
    route: str | None  # the route that must allow the sender's address
    sender: Mailbox | None
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message in a conversation, in either direction.

    `state` is set for e-mails; `html` is set for replies and is safe to show.
    """

    kind: Literal["sent"] | ReplyKind
    at: datetime
    email_id: EmailId
    account: str | None
    from_: str | None
    to: tuple[str, ...]
    subject: str | None
    text: str | None
    html: str | None = None
    state: str | None = None
    is_cut: bool = False


def is_answer_subject(subject: str) -> bool:
    return _PREFIX.match(subject) is not None


def answer_subject(subject: str) -> str:
    """Return the subject with a single "Re:", regardless of the prefixes that mail programs have added."""
    while found := _PREFIX.match(subject):
        subject = subject[found.end() :]
    return f"Re: {subject.strip()}"[:998].rstrip()


def bad_labels(labels: Iterable[str]) -> list[str]:
    return [each for each in labels if not re.fullmatch(LABEL, each)]
