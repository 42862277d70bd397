"""Single e-mails as people look at them: a page of a list, or everything about one."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fairpost.model.email import Mailbox, Recipient
from fairpost.model.errors import NotFound
from fairpost.model.ids import EmailId
from fairpost.model.states import DoubtPolicy, EmailClass, State
from fairpost.postgres.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedEmail:
    id: EmailId
    state: State
    workspace: str
    user: str
    stream: str
    email_class: EmailClass
    route: str
    account: str | None
    recipients: tuple[Recipient, ...]
    subject: str | None  # None: its content is gone
    created_at: datetime
    due_at: datetime
    finished_at: datetime | None
    attempts: int
    attempts_max: int
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedFile:
    filename: str
    content_type: str
    inline_id: str | None
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    n: int
    account: str | None
    begun_at: datetime
    ended_at: datetime
    outcome: str
    code: int | None
    reply: str | None
    response_ms: int | None
    recipients: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEmail:
    """`remaining` is who is still to get it, or was when it ended."""

    id: EmailId
    state: State
    reason: str | None
    workspace: str
    domain: str
    user: str
    stream: str
    email_class: EmailClass
    route: str
    account: str | None
    created_at: datetime
    due_at: datetime
    expires_at: datetime | None
    claimed_at: datetime | None
    begun_at: datetime | None
    finished_at: datetime | None
    attempts: int
    attempts_max: int
    on_doubt: DoubtPolicy
    idempotency_key: str | None
    message_id: str | None
    thread_id: str | None
    sender: Mailbox | None
    recipients: tuple[Recipient, ...]
    remaining: tuple[str, ...]
    fields: Mapping[str, Any]
    content_id: int
    subject: str | None
    text: str | None
    html: str | None
    reply_to: Mailbox | None
    headers: Mapping[str, str]
    attachments: tuple[AttachedFile, ...]
    log: tuple[Attempt, ...]


async def list_emails(
    store: Store,
    *,
    workspace: str | None = None,
    states: Collection[State] | None = None,
    before: EmailId | None = None,
    most: int = 50,
    now: datetime | None = None,
) -> list[ListedEmail]:
    """The newest first, of the queue and history together; `before` an id, for the next page."""
    rows = await store.fetch(
        "SELECT * FROM fairpost.list_emails($1, $2, $3, $4, $5)",
        *(workspace, list(states) if states else None, before, most, now),
    )
    return [ListedEmail(**_common(row)) for row in rows]


async def show_email(store: Store, email_id: EmailId, *, now: datetime | None = None) -> ShownEmail:
    row = await store.row("SELECT * FROM fairpost.show_email($1, $2)", email_id, now)
    if row is None:
        raise NotFound(f"There is no e-mail {email_id}. Find the one you mean: fairpost email list")
    log = await store.fetch("SELECT * FROM fairpost.attempts_of($1)", email_id)
    shown = _common(row)
    return ShownEmail(
        **{
            **shown,
            "on_doubt": DoubtPolicy(row["on_doubt"]),
            "sender": _mailbox(row["sender"]),
            "reply_to": _mailbox(row["reply_to"]),
            "remaining": tuple(row["remaining"]),
            "fields": json.loads(row["fields"] or "{}"),
            "headers": json.loads(row["headers"] or "{}"),
            "attachments": tuple(AttachedFile(**file) for file in json.loads(row["attachments"] or "[]")),
            "log": tuple(_attempts(log)),
        }
    )


_NAMES = {"user_name": "user", "class": "email_class", "text_body": "text", "html_body": "html"}


def _common(row: Any) -> dict[str, Any]:
    named = {_NAMES.get(name, name): value for name, value in row.items()}
    return {
        **named,
        "id": EmailId(row["id"]),
        "state": State(row["state"]),
        "email_class": EmailClass(row["class"]),
        "recipients": tuple(Recipient(**recipient) for recipient in json.loads(row["recipients"])),
    }


def _mailbox(text: str | None) -> Mailbox | None:
    return Mailbox(**json.loads(text)) if text else None


def _attempts(rows: Sequence[Any]) -> list[Attempt]:
    return [Attempt(**{**row, "recipients": json.loads(row["recipients"] or "null")}) for row in rows]
