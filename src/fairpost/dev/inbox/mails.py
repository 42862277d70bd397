"""Stores, lists, searches, reads, deletes and prunes the inbox's messages. `reading.py` parses the messages."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NewType

from fairpost.model.email import AttachedFile
from fairpost.model.errors import NotFound
from fairpost.quality.reading import Reading, fold, read, search_text
from fairpost.store.store import Store

MailId = NewType("MailId", int)

KEEP_MAILS = 10_000
KEEP_BYTES = 1_073_741_824
PRUNE_EVERY_MAILS = 100
PRUNE_AT_BYTES = 1_048_576  # also prune after a message of this size, because 99 large messages could take up gigabytes
WORDS_MAX = 50
GLIMPSE_CHARS = 300
GLIMPSE_RECIPIENTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A message as the server received it, with data about its delivery."""

    sender: str
    recipients: tuple[str, ...]
    helo: str
    peer: str
    tls: str | None
    auth_user: str | None
    raw: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A message as shown in a list. `from_header` is the sender in the headers; `sender` is the envelope sender."""

    id: MailId
    received_at: datetime
    sender: str
    recipients: tuple[str, ...]
    subject: str
    from_header: str
    message_id: str
    size: int
    attachments: tuple[AttachedFile, ...]
    helo: str
    peer: str
    tls: str | None
    auth_user: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpse:
    """The part of a message that fits on one line of a list."""

    id: MailId
    received_at: datetime
    from_header: str
    subject: str
    recipients: tuple[str, ...]  # only the first few recipients
    recipients_count: int
    size: int
    attachments: int


# Each statement is committed on its own. When the statement returns, the message is stored.
_ADD = """
    INSERT INTO fairpost.inbox (sender, recipients, subject, from_header, message_id, size, attachments,
                                helo, peer, tls, auth_user, search, raw)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING id, received_at"""

# Newest first, in primary-key order. Words are matched literally, because strpos has no wildcards.
_LIST = """
    SELECT id, received_at, sender, recipients, subject, from_header, message_id, size, attachments,
           helo, peer, tls, auth_user
    FROM fairpost.inbox i
    WHERE ($1::bigint IS NULL OR i.id < $1) AND ($2::bigint IS NULL OR i.id > $2)
      AND ($3::text IS NULL OR EXISTS (SELECT FROM unnest(i.recipients) r WHERE lower(r) = lower($3)))
      AND NOT EXISTS (SELECT FROM unnest($4::text[]) word WHERE strpos(i.search, word) = 0)
    ORDER BY i.id DESC LIMIT $5"""

_GLIMPSES = """
    SELECT id, received_at, left(from_header, $2) AS from_header, left(subject, $2) AS subject,
           ARRAY (SELECT left(r, $2) FROM unnest(recipients[1:$3]) r) AS recipients,
           cardinality(recipients) AS recipients_count, size, jsonb_array_length(attachments) AS attachments
    FROM fairpost.inbox ORDER BY id DESC LIMIT $1"""

# Keeps the newest message regardless of its size.
# After every hundredth message, reads the IDs and sizes of all messages (about ten thousand).
_PRUNE = """
    WITH counted AS (
        SELECT id, row_number() OVER newest AS mails, sum(size) OVER newest AS bytes
        FROM fairpost.inbox WINDOW newest AS (ORDER BY id DESC)
    ), gone AS (
        DELETE FROM fairpost.inbox
        WHERE id <= (SELECT max(id) FROM counted WHERE mails > $1 OR mails > 1 AND bytes > $2) RETURNING 1
    )
    SELECT count(*) FROM gone"""


async def add_mail(store: Store, arrived: Arrived) -> Mail:
    """Stores a message. The message is committed when this returns."""
    reading = await asyncio.to_thread(read, arrived.raw)  # parsing a large message takes seconds
    fields = {
        "sender": arrived.sender,
        "recipients": list(arrived.recipients),
        "subject": reading.header("subject"),
        "from_header": reading.header("from"),
        "message_id": reading.header("message-id"),
        "size": len(arrived.raw),
        "attachments": json.dumps(_listed(reading)),
        "helo": arrived.helo,
        "peer": arrived.peer,
        "tls": arrived.tls,
        "auth_user": arrived.auth_user,
    }
    search = search_text(reading, sender=arrived.sender, recipients=arrived.recipients)
    row = await store.row(_ADD, *fields.values(), search, arrived.raw)
    return _mail({**fields, **row})


def prune_is_due(mail: Mail) -> bool:
    return mail.id % PRUNE_EVERY_MAILS == 0 or mail.size >= PRUNE_AT_BYTES


async def prune(store: Store, *, keep_mails: int = KEEP_MAILS, keep_bytes: int = KEEP_BYTES) -> int:
    """Deletes the oldest messages beyond these limits and returns the number deleted."""
    return int(await store.value(_PRUNE, keep_mails, keep_bytes))


async def list_mails(
    store: Store,
    *,
    words: Sequence[str] = (),
    to: str | None = None,
    before: MailId | None = None,
    after: MailId | None = None,
    most: int = 50,
) -> list[Mail]:
    """Returns messages that contain all the words in the subject, addresses or text, newest first."""
    folded = [fold(word) for word in words[:WORDS_MAX]]
    return [_mail(row) for row in await store.fetch(_LIST, before, after, to, folded, most)]


async def glimpses(store: Store, most: int) -> list[Glimpse]:
    """Returns messages, newest first. The size of the result is limited, regardless of what the messages contain."""
    rows = await store.fetch(_GLIMPSES, most, GLIMPSE_CHARS, GLIMPSE_RECIPIENTS)
    return [Glimpse(**{**dict(row), "recipients": tuple(row["recipients"])}) for row in rows]


async def count_mails(store: Store, most: int) -> int:
    """Counts at most `most` messages so that frequent calls do not have to count millions."""
    return int(await store.value("SELECT count(*) FROM (SELECT FROM fairpost.inbox LIMIT $1) i", most))


async def newest(store: Store) -> MailId:
    id_ = await store.value("SELECT max(id) FROM fairpost.inbox")
    if id_ is None:
        raise NotFound("The inbox is empty. To receive mail, run: fairpost inbox serve")
    return MailId(id_)


async def open_mail(store: Store, mail_id: MailId) -> tuple[Mail, bytes]:
    """Returns the parsed message and its bytes as received."""
    row = await store.row("SELECT * FROM fairpost.inbox WHERE id = $1", mail_id)
    if row is None:
        raise NotFound(f"There is no message {mail_id} in the inbox. To list all messages, run: fairpost inbox list")
    return _mail(row), row["raw"]


async def delete_mails(store: Store, ids: Sequence[MailId] | None) -> set[MailId]:
    """Deletes these messages, or all messages if `ids` is None. Returns the IDs that existed."""
    sql = "DELETE FROM fairpost.inbox WHERE $1::bigint[] IS NULL OR id = ANY ($1) RETURNING id"
    return {MailId(row["id"]) for row in await store.fetch(sql, ids if ids is None else list(ids))}


def _listed(reading: Reading) -> list[dict[str, Any]]:
    return [
        {"filename": f.filename, "content_type": f.content_type, "inline_id": f.inline_id, "bytes": len(f.data)}
        for f in reading.attachments
    ]


def _mail(row: Any) -> Mail:
    named = {name: row[name] for name in Mail.__dataclass_fields__}
    files = tuple(AttachedFile(**file) for file in json.loads(row["attachments"]))
    return Mail(**{**named, "recipients": tuple(row["recipients"]), "attachments": files})
