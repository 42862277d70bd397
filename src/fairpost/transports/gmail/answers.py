"""Google's responses as values. Parsing never raises, because a proxy or another server may respond instead of
Google.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from fairpost.model.report import Reply

TEXT_CHARS_MAX = 1_000
OWN_LABELS = frozenset({"SENT", "DRAFT"})
RETRY_MAX = timedelta(days=1)  # Google's longest limit lasts a day, so a later time is an error

_RETRY_AFTER = re.compile(r"retry after\s+(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))", re.I)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    id: str
    thread_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A message in the mailbox, with the requested headers."""

    id: str
    thread_id: str | None
    is_sent: bool
    headers: tuple[tuple[str, str], ...] = ()

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawMail:
    """A message as stored. `is_own` means that the mailbox's own user sent or drafted it."""

    raw: bytes = field(repr=False)
    is_own: bool
    received_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of a message list. If the list contains the changes since a given position, `history_id` is the
    mailbox's current position.
    """

    ids: tuple[str, ...]
    next_token: str | None = None
    history_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An unexpected response. `is_googles` means that the response has Google's format, and so comes from Google rather
    than from a proxy.
    """

    status: int
    reason: str
    message: str
    retry_at: datetime | None = None
    is_googles: bool = True

    @property
    def reply(self) -> Reply:
        return Reply(self.status, f"{self.reason}: {self.message}")

    @property
    def is_settled(self) -> bool:
        """Whether Google itself refused the request, which therefore has no effect now and will have none later. A 404
        proves nothing about earlier requests.
        """
        return self.is_googles and 400 <= self.status < 500 and self.status not in (404, 408, 409)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswer:
    """No answer was received.

    `has_left` means that the whole request was sent, so Google may have executed it or may still execute it.
    """

    error: str
    has_left: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NoToken:
    """The token was refused, so Gmail was not contacted. `advice` tells an administrator what to do."""

    reason: str
    message: str
    advice: str

    @property
    def reply(self) -> Reply:
        return Reply(401, f"{self.reason}: {self.message}")


@dataclass(frozen=True, slots=True)
class Withheld:
    """Permission was withdrawn before the request was complete, so Gmail did nothing."""


Failure = Refusal | NoAnswer | NoToken | Withheld


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An HTTP response as received."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)


def content_of(answered: Answered, *, now: datetime) -> "dict[str, Any] | Refusal | NoAnswer":
    """Returns the requested JSON object. An unreadable body is treated as no answer."""
    if not 200 <= answered.status < 300:
        return refusal_of(answered, now=now)
    if answered.status == 204 or not answered.body.strip():
        return {}
    value = _json(answered.body)
    if not isinstance(value, dict):
        return NoAnswer(error=f"{answered.status}, with an unreadable response", has_left=True)
    return value


def refusal_of(answered: Answered, *, now: datetime) -> Refusal:
    error = _mapping(_json(answered.body)).get("error")
    known = _mapping(error)
    message = plain(known.get("message")) or _in_words(answered)
    return Refusal(
        status=answered.status,
        reason=_reason(known) or f"http{answered.status}",
        message=message,
        retry_at=_retry_at(answered.headers, message, now=now),
        is_googles=bool(known) and bool(_reason(known)),
    )


def draft_of(value: Mapping[str, Any]) -> Draft | NoAnswer:
    id_ = _text(value.get("id"))
    if not id_:
        return _unreadable("a draft")
    return Draft(id=id_, thread_id=_text(_mapping(value.get("message")).get("threadId")))


def mail_of(value: Mapping[str, Any]) -> Mail | NoAnswer:
    id_ = _text(value.get("id"))
    if not id_:
        return _unreadable("a message")
    return Mail(
        id=id_,
        thread_id=_text(value.get("threadId")),
        is_sent="SENT" in _list(value.get("labelIds")),
        headers=tuple(_headers(_mapping(value.get("payload")).get("headers"))),
    )


def mails_of(value: Mapping[str, Any]) -> tuple[Mail, ...]:
    """Returns the messages of a thread, skipping unreadable entries."""
    found = [mail_of(_mapping(each)) for each in _list(value.get("messages"))]
    return tuple([mail for mail in found if isinstance(mail, Mail)])


def raw_of(value: Mapping[str, Any]) -> RawMail | NoAnswer:
    text = value.get("raw")
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) if isinstance(text, str) else None
    except ValueError:
        raw = None
    if raw is None:
        return _unreadable("a message")
    is_own = not OWN_LABELS.isdisjoint(str(each) for each in _list(value.get("labelIds")))
    return RawMail(raw=raw, is_own=is_own, received_at=_moment(value.get("internalDate")))


def listed_of(value: Mapping[str, Any]) -> Page:
    found = [_text(_mapping(each).get("id")) for each in _list(value.get("messages"))]
    return Page(ids=tuple([id_ for id_ in found if id_]), next_token=_text(value.get("nextPageToken")))


def added_of(value: Mapping[str, Any]) -> Page:
    """Returns the messages that were added, oldest first. Google may list a message several times, but this function
    returns it only once.
    """
    added = [each for one in _list(value.get("history")) for each in _list(_mapping(one).get("messagesAdded"))]
    ids = [_text(_mapping(_mapping(each).get("message")).get("id")) for each in added]
    return Page(
        ids=tuple(dict.fromkeys([id_ for id_ in ids if id_])),
        next_token=_text(value.get("nextPageToken")),
        history_id=_text(value.get("historyId")),
    )


def present_of(value: Mapping[str, Any]) -> str | NoAnswer:
    return _text(value.get("historyId")) or _unreadable("a profile")


def address_of(value: Mapping[str, Any]) -> str | NoAnswer:
    return _text(value.get("emailAddress")) or _unreadable("a profile")


def aliases_of(value: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the addresses that the mailbox may send from. Google accepts only verified addresses."""
    found = [_mapping(each) for each in _list(value.get("sendAs"))]
    usable = [each for each in found if each.get("verificationStatus", "accepted") in ("accepted", "")]
    return tuple([address for each in usable if (address := _text(each.get("sendAsEmail")))])


def plain(value: object) -> str:
    """Converts the text to one line and removes characters that a database or terminal cannot process."""
    if not isinstance(value, str):
        return ""
    return "".join([char if char.isprintable() else " " for char in value[:TEXT_CHARS_MAX]]).strip()


def _unreadable(what: str) -> NoAnswer:
    return NoAnswer(error=f"{what} was expected, but the response has none", has_left=True)


def _reason(error: Mapping[str, Any]) -> str:
    first = next(iter(_list(error.get("errors"))), None)
    return plain(_mapping(first).get("reason")) or plain(error.get("status"))


def _in_words(answered: Answered) -> str:
    """Returns the error message, or the title of an HTML page, because servers that answer with HTML usually give the
    reason there.
    """
    page = answered.body[:20_000].decode("utf-8", "replace")
    title = re.search(r"<title[^>]*>([^<]{1,200})", page, re.I)
    return plain(title[1]) if title and plain(title[1]) else "the response is not in Google's format"


def _retry_at(headers: Mapping[str, str], message: str, *, now: datetime) -> datetime | None:
    """Returns the later of the times given in the header and the message."""
    found = [_by_header(headers.get("retry-after", ""), now=now), _by_message(message)]
    moments = [min(moment, now + RETRY_MAX) for moment in found if moment is not None and moment > now]
    return max(moments, default=None)


def _by_header(value: str, *, now: datetime) -> datetime | None:
    value = value.strip()
    if re.fullmatch(r"[0-9]{1,9}", value):
        return now + timedelta(seconds=int(value))
    try:
        moment = parsedate_to_datetime(value)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _by_message(message: str) -> datetime | None:
    match = _RETRY_AFTER.search(message)
    try:
        return datetime.fromisoformat(match[1]) if match else None
    except ValueError:
        return None


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    """Returns an ID or an address, which must be short and printable because it is stored and used in later
    requests.
    """
    return value if isinstance(value, str) and 0 < len(value) <= TEXT_CHARS_MAX and value.isprintable() else None


def _moment(value: object) -> datetime | None:
    """Parses a time given in milliseconds as text."""
    known = _text(value)
    is_number = known is not None and re.fullmatch(r"[0-9]{1,14}", known, re.ASCII)
    return datetime.fromtimestamp(int(known or 0) / 1_000, UTC) if is_number else None


def _headers(value: object) -> list[tuple[str, str]]:
    found = [_mapping(each) for each in _list(value)]
    return [(plain(each.get("name")), plain(each.get("value"))) for each in found]
