"""Reads e-mails for display: a page of a list, or everything about one e-mail."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from fairpost.model.email import AttachedFile, Attachment, Mailbox, Recipient
from fairpost.model.errors import Unknown
from fairpost.model.ids import EmailId
from fairpost.model.reason import Reason
from fairpost.model.states import DoubtPolicy, EmailClass, SequenceWord, State, wanted_states
from fairpost.policy.facts import Hold, Stop
from fairpost.store import email_rows
from fairpost.store.reasons import stored_reason, with_reason
from fairpost.store.store import Store

FIELDS_CHARS_MAX = 4_000  # maximum per e-mail in a list, because long fields take a long time to render


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
    subject: str | None  # None if the e-mail's content was deleted
    created_at: datetime
    due_at: datetime | None  # None while the e-mail waits for the previous one or for its prospect's pause to end
    finished_at: datetime | None
    attempts: int
    attempts_max: int
    reason: Reason | None
    type: str | None
    tags: Mapping[str, str]


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
class ShownEmail(ListedEmail):
    """One e-mail with all details. `remaining` lists the recipients that the e-mail has not reached or, if it has
    ended, had not reached by then.

    `has_places` means that its content comes from a campaign and contains placeholders for the recipient's fields.
    """

    domain: str
    expires_at: datetime | None
    claimed_at: datetime | None
    begun_at: datetime | None
    on_doubt: DoubtPolicy
    idempotency_key: str | None
    message_id: str | None
    thread_id: str | None
    sender: Mailbox | None
    remaining: tuple[str, ...]
    fields: Mapping[str, Any]
    content_id: int
    has_places: bool
    text: str | None
    html: str | None
    reply_to: Mailbox | None
    headers: Mapping[str, str]
    attachments: tuple[AttachedFile, ...]
    log: tuple[Attempt, ...]
    metadata: Mapping[str, Any]


def as_hold(stop: Stop) -> Hold:
    return Hold(**{field.name: getattr(stop, field.name) for field in fields(stop)})


async def list_emails(
    store: Store,
    *,
    workspace: str | None = None,
    states: Collection[State | SequenceWord] | None = None,
    before: EmailId | None = None,
    most: int = 50,
    now: datetime | None = None,
) -> list[ListedEmail]:
    """Returns the newest e-mails from the queue and the history combined. To get the next page, pass the last ID as
    `before`.
    """
    wanted = wanted_states(states) if states else None
    rows = await email_rows.list_emails(store, workspace=workspace, states=wanted, before=before, most=most, now=now)
    return [ListedEmail(**_common(row)) for row in rows]


async def listed_by_ids(
    store: Store, ids: Sequence[EmailId], *, workspace: str | None = None, now: datetime | None = None
) -> list[ListedEmail]:
    """Returns the e-mails with these IDs that exist in this workspace."""
    rows = await email_rows.list_by_ids(store, ids, workspace=workspace, now=now)
    return [ListedEmail(**_common(row)) for row in rows]


async def show_email(
    store: Store, email_id: EmailId, *, with_log: bool = True, now: datetime | None = None
) -> ShownEmail:
    """Returns everything about an e-mail. Raises Unknown.

    If `with_log` is False, the e-mail's attempts are left out, which saves a query.
    """
    row = await email_rows.show_email(store, email_id, now=now)
    if row is None:
        raise Unknown("email.unknown", id=str(email_id))
    log = await email_rows.attempts_of(store, email_id) if with_log else ()
    shown = _common(row)
    shown["text"], shown["html"] = shown.pop("text_body"), shown.pop("html_body")
    return ShownEmail(
        **{
            **shown,
            "on_doubt": DoubtPolicy(row["on_doubt"]),
            "sender": _mailbox(row["sender"]),
            "reply_to": _mailbox(row["reply_to"]),
            "remaining": tuple(row["remaining"]),
            "fields": json.loads(row["fields"] or "{}"),
            "headers": json.loads(row["headers"] or "{}"),
            "metadata": json.loads(row["metadata"] or "{}"),
            "attachments": tuple(AttachedFile(**file) for file in json.loads(row["attachments"] or "[]")),
            "log": tuple(_attempts(log)),
        }
    )


async def fields_of(store: Store, ids: Sequence[EmailId]) -> dict[EmailId, Mapping[str, Any]]:
    """Returns the values for placeholders in campaign content. E-mails with very long fields are left out."""
    rows = await email_rows.fields_of(store, ids, chars_max=FIELDS_CHARS_MAX)
    return {EmailId(row["id"]): json.loads(row["fields"] or "{}") for row in rows}


async def pictures_of(
    store: Store, email_id: EmailId, *, types: Collection[str], bytes_max: int
) -> tuple[Attachment, ...]:
    """Returns the images of these types that the HTML embeds with `cid:`, in order, up to a total of `bytes_max`."""
    rows = await email_rows.pictures_of(store, email_id, types=types, bytes_max=bytes_max)
    return tuple(Attachment(**row) for row in rows)


async def stops_of(store: Store, email: ShownEmail, *, now: datetime | None = None) -> list[Stop]:
    """Returns holds, throttles and closed windows that stop a waiting e-mail."""
    if email.state not in (State.SCHEDULED, State.READY):
        return []
    return await stops_on(store, email.workspace, domain=email.domain, user=email.user, stream=email.stream, now=now)


async def stops_on(
    store: Store,
    workspace: str,
    *,
    domain: str | None = None,
    user: str | None = None,
    stream: str | None = None,
    now: datetime | None = None,
) -> list[Stop]:
    """Returns holds and throttles on a workspace and on these names in it. A name may have both a hold and a throttle."""
    rows = await email_rows.stops_on(store, workspace, domain=domain, user=user, stream=stream, now=now)
    return [Stop(**with_reason(row)) for row in rows]


def _common(row: Any) -> dict[str, Any]:
    named = dict(row)
    named["state"] = State(named["state"])
    named["user"] = named.pop("user_name")
    named["email_class"] = EmailClass(named.pop("class"))
    named["recipients"] = tuple(Recipient(**recipient) for recipient in json.loads(named["recipients"]))
    named["reason"] = stored_reason(named["reason"], named.pop("reason_params"))
    named["tags"] = json.loads(named["tags"]) if named["tags"] else {}
    return named


def _mailbox(text: str | None) -> Mailbox | None:
    """Parses a From value. Returns None if the value has no address. A name without an address is used with the
    account's address.
    """
    given = json.loads(text) if text else {}
    return Mailbox(**given) if "address" in given else None


def _attempts(rows: Sequence[Any]) -> list[Attempt]:
    return [Attempt(**{**row, "recipients": json.loads(row["recipients"] or "null")}) for row in rows]
