"""Conversations with people: list, read and label them, and read the data needed to reply.

sql/settle/replies.sql writes conversations.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairpost.model.conversation import Conversation, ReplyKind, ReplyMail, Thread
from fairpost.model.email import Mailbox
from fairpost.model.ids import ConversationId, EmailId

if TYPE_CHECKING:
    from datetime import datetime

    from fairpost.store.store import Store

REPLIES_MAX = 200

_SHOWN = """
    SELECT c.id, c.workspace, c.address, c.labels, c.last_at, r.kind AS last_kind, r.subject,
        (SELECT count(*) FROM fairpost.replies n WHERE n.conversation_id = c.id) AS replies
    FROM found c
    LEFT JOIN LATERAL (SELECT r.kind, r.subject FROM fairpost.replies r WHERE r.conversation_id = c.id ORDER BY r.at DESC, r.id DESC LIMIT 1) r ON true
    ORDER BY c.last_at DESC, c.id DESC"""

# Reads the index conversations_by_time only as far as needed to fill the page.
_LISTED = """
    WITH found AS MATERIALIZED (
        SELECT c.* FROM fairpost.conversations c WHERE c.workspace = $1 AND ($2::text IS NULL OR $2 = ANY (c.labels))
        AND ($3::bigint IS NULL OR (c.last_at, c.id) < (SELECT b.last_at, b.id FROM fairpost.conversations b WHERE b.id = $3))
        ORDER BY c.last_at DESC, c.id DESC LIMIT $4)"""
_ONE = "WITH found AS (SELECT c.* FROM fairpost.conversations c WHERE c.id = $1 AND ($2::text IS NULL OR c.workspace = $2))"
_OF_PERSON = """
    WITH found AS (
        SELECT c.* FROM fairpost.conversations c WHERE c.workspace = $1 AND c.address = fairpost.normalize_address($2))"""


async def listed(
    store: "Store",
    *,
    workspace: str | None,
    label: str | None = None,
    before: ConversationId | None = None,
    most: int = 50,
) -> list[Conversation]:
    """Return conversations, sorted by their latest message, newest first.

    For the next page, pass the last ID as `before`.
    """
    sql = _LISTED if workspace is not None else _LISTED.replace("c.workspace = $1", "$1::text IS NULL")
    rows = await store.fetch(sql + _SHOWN, workspace, label, before, most)
    return [_conversation(row) for row in rows]


async def by_id(store: "Store", id_: ConversationId, *, workspace: str | None) -> Conversation | None:
    row = await store.row(_ONE + _SHOWN, id_, workspace)
    return _conversation(row) if row else None


async def by_address(store: "Store", address: str, *, workspace: str) -> Conversation | None:
    row = await store.row(_OF_PERSON + _SHOWN, workspace, address)
    return _conversation(row) if row else None


async def replies_of(store: "Store", id_: ConversationId) -> list[ReplyMail]:
    """Return the most recent replies in chronological order."""
    rows = await store.fetch(
        """SELECT r.email_id, a.name AS account, r.kind, r.from_name, r.from_address, r.to_addresses, r.subject, r.sent_at, r.at, r.message_id,
               r.in_reply_to, r.refs AS references, r.text_body AS text, r.html_body AS html, r.is_cut
           FROM fairpost.replies r LEFT JOIN fairpost.accounts a ON a.id = r.account_id
           WHERE r.conversation_id = $1 ORDER BY r.at DESC, r.id DESC LIMIT $2""",
        *(id_, REPLIES_MAX),
    )
    return [_reply(row) for row in reversed(rows)]


async def set_labels(store: "Store", id_: ConversationId, labels: Sequence[str]) -> None:
    await store.value("UPDATE fairpost.conversations SET labels = $2 WHERE id = $1", id_, sorted(labels))


async def lock(store: "Store", id_: ConversationId) -> None:
    """Lock the conversation so that no other transaction can change its labels until this transaction ends."""
    await store.value("SELECT id FROM fairpost.conversations WHERE id = $1 FOR UPDATE", id_)


async def thread_of(store: "Store", id_: ConversationId) -> Thread | None:
    """Return the last message that the person wrote or, if there is none, the last message from an auto-responder."""
    row = await store.row(
        """SELECT r.from_name, r.from_address, r.subject, r.message_id, r.refs, e.id AS follows, e.message_id AS follows_id, e.sender, coalesce(e.user_name, '') AS user,
               a.name AS account, CASE WHEN starts_with(a.name, r.workspace || '/') THEN '@' || a.name ELSE a.pool END AS route
           FROM fairpost.replies r LEFT JOIN fairpost.emails e ON e.id = r.email_id AND e.workspace = r.workspace
           LEFT JOIN fairpost.accounts a ON a.id = coalesce(e.account_id, r.account_id)
           WHERE r.conversation_id = $1 ORDER BY r.kind = 'auto_reply', r.at DESC, r.id DESC LIMIT 1""",
        id_,
    )
    if row is None:
        return None
    before = row["refs"] or ([row["follows_id"]] if row["follows_id"] else [])
    return Thread(
        to=Mailbox(address=row["from_address"], name=row["from_name"] or None),
        subject=row["subject"],
        message_id=row["message_id"],
        references=tuple(before),
        follows=EmailId(row["follows"]) if row["follows"] else None,
        account=row["account"],
        route=row["route"],
        sender=Mailbox(**json.loads(row["sender"])) if row["sender"] else None,
        user=row["user"],
    )


async def may_be_from(
    store: "Store", workspace: str, *, route: str, address: str | None, now: "datetime | None" = None
) -> bool:
    sql = "SELECT fairpost.may_be_from($1, $2, $3, $4)"
    return bool(await store.value(sql, workspace, route, address, now))


def _conversation(row: Any) -> Conversation:
    kind = ReplyKind(row["last_kind"]) if row["last_kind"] else None
    return Conversation(**{**dict(row), "labels": tuple(row["labels"]), "last_kind": kind})


def _reply(row: Any) -> ReplyMail:
    more = {"to_addresses": tuple(row["to_addresses"]), "references": tuple(row["references"])}
    return ReplyMail(**{**dict(row), **more, "kind": ReplyKind(row["kind"])})
