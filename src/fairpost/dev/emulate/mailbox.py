"""The mailboxes: users, messages, drafts, threads, and a record of sent messages. This module is plain state, without
HTTP or a clock. Every change is atomic, because no change contains an await. The record of sent messages is therefore
exact.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import format_datetime
from enum import StrEnum
from functools import cached_property

from fairpost.dev.emulate import mime
from fairpost.dev.emulate.answers import invalid_argument, not_found

DRAFT, SENT, INBOX, UNREAD, SPAM, TRASH = "DRAFT", "SENT", "INBOX", "UNREAD", "SPAM", "TRASH"
RECIPIENT_HEADERS = ("To", "Cc", "Bcc")

_THREAD_ID = re.compile(r"[0-9a-f]{1,16}")


class MessageIds(StrEnum):
    """When Gmail replaces the sender's Message-ID with its own. If the Message-ID is missing, one is always created."""

    REWRITE = "rewrite"
    FOREIGN = "foreign"  # only if the Message-ID's domain differs from the sender's
    KEEP = "keep"


@dataclass(slots=True, kw_only=True)
class User:
    address: str
    aliases: tuple[str, ...] = ()
    name: str = ""
    delegated: bool = True  # whether a service account may act for this user
    mail_enabled: bool = True
    disabled: bool = False

    def owns(self, address: str) -> bool:
        return address.lower() in {self.address.lower(), *(alias.lower() for alias in self.aliases)}


@dataclass(kw_only=True)
class Message:
    id: str
    thread_id: str
    labels: tuple[str, ...]
    raw: bytes = field(repr=False)
    at: datetime
    history_id: int
    searchable_at: datetime

    @cached_property
    def headers(self) -> list[tuple[str, str]]:
        return mime.headers_of(self.raw)

    @cached_property
    def snippet(self) -> str:
        return mime.snippet(self.raw)

    @property
    def rfc822_id(self) -> str:
        return mime.value(self.headers, "Message-ID")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    id: str
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A sent message. `original_message_id` is the Message-ID from the client, if there was one."""

    user: str
    id: str
    thread_id: str
    draft_id: str | None
    at: datetime
    to: tuple[str, ...]
    cc: tuple[str, ...]
    bcc: tuple[str, ...]
    message_id: str
    original_message_id: str
    headers: tuple[tuple[str, str], ...]
    raw: bytes = field(repr=False)

    @property
    def recipients(self) -> tuple[str, ...]:
        return (*self.to, *self.cc, *self.bcc)


@dataclass(slots=True)
class Mailbox:
    user: User
    messages: dict[str, Message] = field(default_factory=dict)
    drafts: dict[str, Draft] = field(default_factory=dict)
    threads: dict[str, dict[str, Message]] = field(default_factory=dict)
    added: list[tuple[int, Message]] = field(default_factory=list)  # changes in the history, oldest first
    history_begins: int = 0  # changes before this ID are no longer available

    def added_since(self, history_id: int) -> list[tuple[int, Message]]:
        if history_id < self.history_begins:
            raise not_found()
        return [(at, message) for at, message in self.added if at > history_id]

    def message(self, id_: str) -> Message:
        if id_ not in self.messages:
            raise not_found()
        return self.messages[id_]

    def draft(self, id_: str) -> Draft:
        if id_ not in self.drafts:
            raise not_found()
        return self.drafts[id_]

    def thread(self, id_: str) -> list[Message]:
        if id_ not in self.threads:
            raise not_found()
        return list(self.threads[id_].values())

    def keep(self, message: Message) -> None:
        self.messages[message.id] = message
        self.added.append((message.history_id, message))
        self.threads.setdefault(message.thread_id, {})[message.id] = message

    def forget(self, message: Message) -> None:
        del self.messages[message.id]
        thread = self.threads[message.thread_id]
        del thread[message.id]
        if not thread:
            del self.threads[message.thread_id]

    def newest(self) -> Iterator[Message]:
        return reversed(self.messages.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Options for behaviour that varies at Gmail or that tests need to control."""

    index_lag_s: float = 5.0  # time until a search can find a new message
    message_ids: MessageIds = MessageIds.REWRITE
    recipients_max: int = 100
    # According to the documentation, the subject and the references must match.
    # In practice, Gmail often uses only the threadId.
    threads_are_checked: bool = True


class Mailboxes:
    """All mailboxes and all messages sent from them."""

    def __init__(self, users: Iterable[User], rules: Rules, *, now: Callable[[], datetime]) -> None:
        self._boxes = {user.address.lower(): Mailbox(user) for user in users}
        self._rules = rules
        self._now = now
        self._last_id = 0
        self.history_id = 1_000
        self.sent = list[Sent]()

    def add(self, user: User) -> None:
        """Adds a user. An existing user is updated and keeps its mail."""
        box = self._boxes.get(user.address.lower())
        if box is None:
            self._boxes[user.address.lower()] = Mailbox(user)
        else:
            box.user = user

    def user(self, address: str) -> User | None:
        box = self._boxes.get(address.lower())
        return box.user if box else None

    def users(self) -> list[User]:
        return [box.user for box in self._boxes.values()]

    def box(self, address: str) -> Mailbox:
        return self._boxes[address.lower()]

    def clear(self) -> None:
        """Deletes all mail, but keeps the users."""
        self._boxes = {key: Mailbox(box.user) for key, box in self._boxes.items()}
        self.sent.clear()

    def create_draft(self, address: str, raw: bytes, *, thread_id: str | None) -> Draft:
        box = self.box(address)
        _recipients(raw)
        message = self._message(box, raw, labels=(DRAFT,), thread_id=self._thread(box, thread_id, raw))
        draft = Draft(id=_draft_id(message.id), message=message)
        box.keep(message)
        box.drafts[draft.id] = draft
        return draft

    def update_draft(self, address: str, draft_id: str, raw: bytes, *, thread_id: str | None) -> Draft:
        """Replaces the draft's message. The new message gets a new ID."""
        box = self.box(address)
        old = box.draft(draft_id).message
        _recipients(raw)
        thread = self._thread(box, thread_id, raw) if thread_id else old.thread_id
        message = self._message(box, raw, labels=(DRAFT,), thread_id=thread)
        box.keep(message)
        box.forget(old)
        box.drafts[draft_id] = Draft(id=draft_id, message=message)
        return box.drafts[draft_id]

    def delete_draft(self, address: str, draft_id: str) -> None:
        box = self.box(address)
        box.forget(box.draft(draft_id).message)
        del box.drafts[draft_id]

    def send_draft(self, address: str, draft_id: str) -> Message:
        """Sends a draft and removes it. The message gets a new ID in the same thread."""
        box = self.box(address)
        draft = box.draft(draft_id)
        self.check_sendable(draft.message.raw)
        message = self._send(box, draft.message.raw, thread_id=draft.message.thread_id, draft_id=draft_id)
        box.forget(draft.message)
        del box.drafts[draft_id]
        return message

    def send(self, address: str, raw: bytes, *, thread_id: str | None) -> Message:
        box = self.box(address)
        self.check_sendable(raw)
        return self._send(box, raw, thread_id=self._thread(box, thread_id, raw), draft_id=None)

    def receive(self, address: str, raw: bytes) -> Message:
        """Puts a message from outside into the inbox and into the thread that it refers to, if there is one."""
        box = self.box(address)
        thread = _thread_referred_to(box, mime.headers_of(raw))
        message = self._message(box, raw, labels=(INBOX, UNREAD), thread_id=thread)
        box.keep(message)
        return message

    def forget_history(self, address: str) -> None:
        """Makes all existing history IDs too old."""
        box = self.box(address)
        self.history_id += 1
        box.added.clear()
        box.history_begins = self.history_id

    def repeat_history(self, address: str) -> None:
        """Adds every message to the history again, as Google sometimes does."""
        box = self.box(address)
        for _, message in list(box.added):
            self.history_id += 7  # IDs have gaps, as in Gmail
            box.added.append((self.history_id, message))

    def check_sendable(self, raw: bytes) -> None:
        count = sum(map(len, _recipients(raw).values()))
        if count == 0:
            raise invalid_argument("Recipient address required")
        if count > self._rules.recipients_max:
            raise invalid_argument("Too many recipients")

    def _send(self, box: Mailbox, raw: bytes, *, thread_id: str | None, draft_id: str | None) -> Message:
        original = mime.value(mime.headers_of(raw), "Message-ID")
        who = _recipients(raw)
        to_self = any(box.user.owns(address) for addresses in who.values() for address in addresses)
        labels = (UNREAD, SENT, INBOX) if to_self else (SENT,)
        message = self._message(box, raw, labels=labels, thread_id=thread_id)
        message.raw = self._as_sent(box.user, message)
        del message.headers  # cached before the headers were rewritten
        box.keep(message)
        self.sent.append(
            Sent(
                user=box.user.address,
                id=message.id,
                thread_id=message.thread_id,
                draft_id=draft_id,
                at=message.at,
                to=tuple(who["To"]),
                cc=tuple(who["Cc"]),
                bcc=tuple(who["Bcc"]),
                message_id=message.rfc822_id,
                original_message_id=original,
                headers=tuple(message.headers),
                raw=message.raw,
            )
        )
        return message

    def _as_sent(self, user: User, message: Message) -> bytes:
        raw, headers = message.raw, message.headers
        sender = mime.addresses(headers, "From")
        if not sender or not all(user.owns(address) for address in sender):
            raw = mime.replaced(raw, "From", f"{user.name} <{user.address}>" if user.name else user.address)
        if not mime.value(headers, "Date"):
            raw = mime.replaced(raw, "Date", format_datetime(message.at))
        if self._wants_own_id(message.rfc822_id, user):
            raw = mime.replaced(raw, "Message-ID", _made_message_id(message.id))
        return raw

    def _wants_own_id(self, written: str, user: User) -> bool:
        match self._rules.message_ids:
            case MessageIds.REWRITE:
                return True
            case MessageIds.FOREIGN:
                return _domain(written.strip("<>")) not in {_domain(a) for a in (user.address, *user.aliases)}
            case MessageIds.KEEP:
                return not written

    def _message(self, box: Mailbox, raw: bytes, *, labels: tuple[str, ...], thread_id: str | None) -> Message:
        now = self._now()
        self._last_id = max(self._last_id + 1, int(now.timestamp() * 1_000) << 20)  # the ID starts with the time
        self.history_id += 1
        id_ = f"{self._last_id:016x}"
        return Message(
            id=id_,
            thread_id=thread_id or id_,
            labels=labels,
            raw=raw,
            at=now,
            history_id=self.history_id,
            searchable_at=now + timedelta(seconds=self._rules.index_lag_s),
        )

    def _thread(self, box: Mailbox, thread_id: str | None, raw: bytes) -> str | None:
        """Returns the thread that the message joins, or None for a new thread."""
        if not thread_id:
            return None
        if not _THREAD_ID.fullmatch(thread_id):
            raise invalid_argument("Invalid thread_id value")
        others = box.thread(thread_id)
        return thread_id if not self._rules.threads_are_checked or _belongs(mime.headers_of(raw), others) else None


def _belongs(headers: mime.Headers, others: Collection[Message]) -> bool:
    referred = mime.message_ids(headers, "References", "In-Reply-To")
    subject = mime.bare_subject(headers)
    return any(other.rfc822_id in referred for other in others) and any(
        mime.bare_subject(other.headers) == subject for other in others
    )


def _thread_referred_to(box: Mailbox, headers: mime.Headers) -> str | None:
    referred = mime.message_ids(headers, "References", "In-Reply-To")
    return next((message.thread_id for message in box.newest() if message.rfc822_id in referred), None)


def _recipients(raw: bytes) -> dict[str, list[str]]:
    headers, who = mime.headers_of(raw), dict[str, list[str]]()
    for name in RECIPIENT_HEADERS:
        found = mime.addresses(headers, name)
        if found is None:
            raise invalid_argument(f"Invalid {name} header")
        who[name] = found
    return who


def recipients(raw: bytes) -> list[str]:
    """Returns the recipients of any message, valid or not."""
    headers = mime.headers_of(raw)
    return [address for name in RECIPIENT_HEADERS for address in mime.addresses(headers, name) or ()]


def _domain(address: str) -> str:
    return address.rpartition("@")[2].lower()


def _draft_id(message_id: str) -> str:
    """Returns a draft ID in Gmail's format, which clients cannot derive from the message ID."""
    return f"r-{int.from_bytes(_digest('draft', message_id)[:8]) >> 1}"


def _made_message_id(message_id: str) -> str:
    return f"<CA{base64.urlsafe_b64encode(_digest('message', message_id)[:30]).decode()}@mail.gmail.com>"


def _digest(*words: str) -> bytes:
    return hashlib.sha256(" ".join(words).encode()).digest()
