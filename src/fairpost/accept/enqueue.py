"""Enqueue e-mails inside the caller's transaction. The e-mails exist if and only if the transaction commits. This
module converts Python values to JSON and results back to Python values. The database validates e-mails so that the
rules are the same for every language; this module rejects only values that JSON cannot represent.
"""

import json
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Required, TypeAlias, TypedDict, TypeVar, Unpack, assert_never, overload

from fairpost.accept.drivers import AsyncConnection, AsyncLink, Row, SyncConnection, SyncLink, link_to
from fairpost.model.email_fields import ADDRESS, ADDRESSES, EMAIL_FIELDS, MOMENT
from fairpost.model.errors import InvalidEmail

CHUNK_EMAILS_MAX = 1_000
# maximum characters of JSON per statement, except that a longer e-mail gets its own statement
CHUNK_CHARS_MAX = 8_000_000

T = TypeVar("T")
Address: TypeAlias = str | tuple[str | None, str]  # "ann@example.com", "Ann <ann@example.com>" or (name, address)
Steps: TypeAlias = Generator[str, Sequence[Row], T]  # yields a chunk as JSON, receives its rows, returns T


@dataclass(frozen=True, slots=True)
class Attachment:
    filename: str
    data: bytes
    content_type: str | None = None
    inline_id: str | None = None  # the HTML refers to the attachment as cid:<inline_id>


@dataclass(frozen=True, kw_only=True)
class Email:
    """An e-mail to enqueue. For the defaults and limits of the fields, see docs/enqueue.md."""

    to: Address | Sequence[Address]
    subject: str | None = None
    text: str | None = None
    html: str | None = None
    from_: Address | None = None
    cc: Address | Sequence[Address] | None = None
    bcc: Address | Sequence[Address] | None = None
    reply_to: Address | None = None
    headers: Mapping[str, str] | None = None
    attachments: Sequence[Attachment] | None = None
    content_id: int | None = None
    fields: Mapping[str, Any] | None = None
    workspace: str | None = None
    user: str | None = None
    stream: str | None = None
    email_class: str | None = None
    pool: str | None = None
    account: str | None = None
    due_at: datetime | None = None
    expires_at: datetime | None = None
    attempts_max: int | None = None
    on_doubt: str | None = None
    idempotency_key: str | None = None
    follows: int | None = None
    type: str | None = None
    tags: Mapping[str, str] | None = None
    metadata: Mapping[str, Any] | None = None


class EmailFields(TypedDict, total=False):
    """The fields of Email, repeated as the keyword arguments of `enqueue`, for type checkers and editors."""

    to: Required[Address | Sequence[Address]]
    subject: str | None
    text: str | None
    html: str | None
    from_: Address | None
    cc: Address | Sequence[Address] | None
    bcc: Address | Sequence[Address] | None
    reply_to: Address | None
    headers: Mapping[str, str] | None
    attachments: Sequence[Attachment] | None
    content_id: int | None
    fields: Mapping[str, Any] | None
    workspace: str | None
    user: str | None
    stream: str | None
    email_class: str | None
    pool: str | None
    account: str | None
    due_at: datetime | None
    expires_at: datetime | None
    attempts_max: int | None
    on_doubt: str | None
    idempotency_key: str | None
    follows: int | None
    type: str | None
    tags: Mapping[str, str] | None
    metadata: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Enqueued:
    id: int
    new: bool  # False if the idempotency key was already used; `id` is then the ID of the e-mail that used it


@dataclass(frozen=True, slots=True)
class Rejected:
    """The reason why one e-mail in a batch was rejected. Nothing was stored for that e-mail.

    If the e-mail exceeded its user's quota, `until` is the time at which e-mails will be accepted again.
    """

    field: str
    message: str
    until: datetime | None = None


@overload
def enqueue(conn: AsyncConnection, **email: Unpack[EmailFields]) -> Awaitable[Enqueued]: ...
@overload
def enqueue(conn: SyncConnection, **email: Unpack[EmailFields]) -> Enqueued: ...
def enqueue(conn: SyncConnection | AsyncConnection, **email: Unpack[EmailFields]) -> Enqueued | Awaitable[Enqueued]:
    """Enqueue one e-mail in the transaction of `conn`. Await the result if `conn` is asynchronous.

    Raise InvalidEmail if the e-mail is invalid. The transaction remains usable.
    """
    return _run(link_to(conn), _enqueue_one(Email(**email)))


@overload
def enqueue_many(
    conn: AsyncConnection, emails: Iterable[Email | Mapping[str, Any]]
) -> Awaitable[list[Enqueued | Rejected]]: ...
@overload
def enqueue_many(conn: SyncConnection, emails: Iterable[Email | Mapping[str, Any]]) -> list[Enqueued | Rejected]: ...
def enqueue_many(
    conn: SyncConnection | AsyncConnection, emails: Iterable[Email | Mapping[str, Any]]
) -> list[Enqueued | Rejected] | Awaitable[list[Enqueued | Rejected]]:
    """Enqueue any number of e-mails, reading `emails` in chunks. Return one result per e-mail, in order.

    A mapping may use the field names of `Email` or those of the SQL function (`from`, `class`).
    """
    return _run(link_to(conn), _enqueue_chunks(emails))


def _run(link: SyncLink | AsyncLink, steps: Steps[T]) -> T | Awaitable[T]:
    match link:
        case SyncLink():
            return _run_sync(link, steps)
        case AsyncLink():
            return _run_async(link, steps)
        case _:
            assert_never(link)


def _run_sync(link: SyncLink, steps: Steps[T]) -> T:
    try:
        chunk = next(steps)
        while True:
            chunk = steps.send(link.call(chunk))
    except StopIteration as end:
        result: T = end.value
        return result


async def _run_async(link: AsyncLink, steps: Steps[T]) -> T:
    try:
        chunk = next(steps)
        while True:
            chunk = steps.send(await link.call(chunk))
    except StopIteration as end:
        result: T = end.value
        return result


def _enqueue_one(email: Email) -> Steps[Enqueued]:
    (result,) = yield from _enqueue_chunks([email])
    if isinstance(result, Rejected):
        raise InvalidEmail(result.field, result.message, result.until)
    return result


def _enqueue_chunks(emails: Iterable[Email | Mapping[str, Any]]) -> Steps[list[Enqueued | Rejected]]:
    results: list[Enqueued | Rejected] = []
    for chunk in _chunks(map(_to_json, emails)):
        sayable = [email for email in chunk if isinstance(email, str)]
        answers = map(_answer, (yield f"[{','.join(sayable)}]") if sayable else ())
        results.extend(email if isinstance(email, Rejected) else next(answers) for email in chunk)
    return results


def _chunks(emails: Iterable[str | Rejected]) -> Iterator[list[str | Rejected]]:
    chunk: list[str | Rejected] = []
    chars = 0
    for email in emails:
        more = len(email) if isinstance(email, str) else 0
        if len(chunk) == CHUNK_EMAILS_MAX or (chunk and chars + more > CHUNK_CHARS_MAX):
            yield chunk
            chunk, chars = [], 0
        chunk.append(email)
        chars += more
    if chunk:
        yield chunk


def _answer(row: Row) -> Enqueued | Rejected:
    if row[3] is None:
        return Enqueued(row[0], row[1])
    return Rejected(row[2], row[3], datetime.fromisoformat(row[4]) if row[4] else None)


def _to_json(email: Email | Mapping[str, Any]) -> str | Rejected:
    fields = vars(email) if isinstance(email, Email) else email
    try:
        return _encode(_plain(fields))
    except _UnsayableError as error:
        return _refusal(fields) or Rejected("", str(error))


def _refusal(fields: Mapping[str, Any]) -> Rejected | None:
    """Find the field that JSON cannot represent. The search is slow, but it is needed only for e-mails that are refused
    anyway.
    """
    for name, value in fields.items() if isinstance(fields, Mapping) else ():
        try:
            _encode(_plain({name: value}))
        except _UnsayableError as error:
            return Rejected(ascii(_SQL_NAMES.get(name, name)).strip("'"), str(error))
    return None


class _UnsayableError(Exception):
    """Raised for a value that JSON, or PostgreSQL's version of it, cannot represent."""


def _plain(fields: Any) -> Any:
    if not isinstance(fields, Mapping):
        return fields  # the database reports the error
    return {
        _SQL_NAMES.get(name, name): convert(value) if (convert := _CONVERSIONS.get(name)) else value
        for name, value in fields.items()
        if value is not None
    }


def _encode(value: Any) -> str:
    try:
        text = _ENCODER.encode(value)
        text.encode()
    except UnicodeEncodeError:
        raise _UnsayableError("must not contain lone surrogates") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise _UnsayableError(f"cannot be written as JSON: {error}") from None
    if r"\u0000" in text and _NUL.search(text):
        raise _UnsayableError("must not contain NUL characters")
    return text


def _encode_more(value: Any) -> Any:
    if isinstance(value, Attachment):
        return {
            "filename": value.filename,
            "data": b64encode(value.data).decode(),
            "content_type": value.content_type,
            "inline_id": value.inline_id,
        }
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON type")


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_encode_more)
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # does not match the text "\u0000", because JSON doubles its backslash


def _address(value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    if len(value) != 2 or _looks_like_two_addresses(*value):
        raise _UnsayableError("must be a list if there are several addresses; a tuple means one (name, address) pair")
    return {"name": value[0], "address": value[1]}


def _looks_like_two_addresses(name: object, address: object) -> bool:
    return isinstance(name, str) and "@" in name and " " not in name and name != address


def _addresses(value: Any) -> Any:
    if isinstance(value, str | bytes | tuple) or not isinstance(value, Sequence):
        return _address(value)
    return [_address(item) for item in value]


def _moment(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    if value.utcoffset() is None:
        raise _UnsayableError("must be a datetime with a time zone, for example datetime(2030, 1, 31, 9, tzinfo=UTC)")
    try:
        return value.astimezone(UTC).isoformat()
    except OverflowError:
        raise _UnsayableError(f"is not a valid time in UTC: {value}") from None


_SQL_NAMES = {each.python: each.name for each in EMAIL_FIELDS if each.python}
_BY_TYPE: dict[str, Callable[[Any], Any]] = {ADDRESSES: _addresses, ADDRESS: _address, MOMENT: _moment}
_CONVERSIONS = {
    name: _BY_TYPE[each.type]
    for each in EMAIL_FIELDS
    for name in (each.name, each.python)
    if name and each.type in _BY_TYPE
}
