"""Actions on conversations with people: label a conversation or send an answer in it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fairpost.actions.acting import Actor, action
from fairpost.model.conversation import LABELS_MAX, Conversation, Thread, answer_subject, bad_labels
from fairpost.model.email import Mailbox
from fairpost.model.errors import Refusal
from fairpost.model.ids import ConversationId, EmailId
from fairpost.store import conversations
from fairpost.store.store import Store
from fairpost.system import clock

REFERENCES_CHARS_MAX = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A workspace's conversation. Refusals show the conversation's `public_id`."""

    id: ConversationId
    workspace: str
    public_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelConversation:
    """A request to label a conversation. `labels` replaces all labels, or keeps them if it is None; `add` and `remove`
    are then applied.
    """

    named: Named
    labels: tuple[str, ...] | None = None
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The limits for a service that submits mail for its users. None means no limit."""

    daily_max: int | None = None
    waiting_max: int | None = None
    workspace_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPerson:
    """A request to answer a person. `user` is the user who sends it, unless the previous e-mail names a user."""

    named: Named
    text: str | None = None
    html: str | None = None
    key: str | None = None
    user: str = ""
    caps: Caps = Caps()


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    id: EmailId
    new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAccepted:
    """The e-mail is invalid, or it exceeds a quota. If it exceeds a quota, `until` is the time at which e-mails will be
    accepted again. `code` is the database's error code.
    """

    field: str
    message: str
    code: str | None = None
    until: datetime | None = None


@action("conversation.label")
async def label(actor: Actor, request: LabelConversation, store: Store) -> Conversation:
    named = request.named
    await conversations.lock(store, named.id)
    before = await _conversation(store, named)
    kept = before.labels if request.labels is None else request.labels
    labels = sorted({*kept, *request.add} - {*request.remove})
    if bad := bad_labels(labels):
        raise Refusal("conversation.bad_label", label=bad[0])
    if len(labels) > LABELS_MAX:
        raise Refusal("conversation.too_many_labels", most=LABELS_MAX)
    if tuple(labels) != before.labels:
        await conversations.set_labels(store, named.id, labels)
        subject = f"conversation {named.id}"
        await actor.record(store, "conversation.label", subject, workspace=before.workspace, labels=labels)
    return await _conversation(store, named)


@action("conversation.answer")
async def answer(actor: Actor, request: AnswerPerson, store: Store) -> Queued | NotAccepted:
    """Queues an answer from the account that wrote to the person. The answer continues the same thread."""
    named = request.named
    await _conversation(store, named)
    thread = await conversations.thread_of(store, named.id)
    if thread is None:
        raise Refusal("conversation.unknown", conversation=named.public_id)
    if thread.account is None or thread.route is None:
        raise Refusal("conversation.account_removed", conversation=named.public_id)
    if not actor.is_operator:
        address = thread.sender.address if thread.sender else None
        is_allowed = await conversations.may_be_from(
            store, named.workspace, route=thread.route, address=address, now=clock.stated()
        )
        if not is_allowed:
            raise Refusal("conversation.sender_forbidden", sender=address or thread.account)
    (row,) = await store.enqueue_many(
        [_email(request, thread)],
        daily_max=request.caps.daily_max,
        waiting_max=request.caps.waiting_max,
        workspace_max=request.caps.workspace_max,
        now=clock.stated(),
        requests=[{"conversation": named.id, "text": request.text, "html": request.html}],
    )
    if row["error"] is not None:
        return _not_accepted(json.loads(row["error"]))
    if row["new"]:
        subject = f"conversation {named.id}"
        await actor.record(store, "conversation.answer", subject, workspace=named.workspace, email=row["id"])
    return Queued(id=EmailId(row["id"]), new=row["new"])


async def _conversation(store: Store, named: Named) -> Conversation:
    found = await conversations.by_id(store, named.id, workspace=named.workspace)
    if found is None:
        raise Refusal("conversation.unknown", conversation=named.public_id)
    return found


def _email(request: AnswerPerson, thread: Thread) -> dict[str, Any]:
    email = {
        "workspace": request.named.workspace,
        "account": thread.account,
        "user": thread.user or request.user,
        "from": _mailbox(thread.sender) if thread.sender else None,
        "to": _mailbox(thread.to),
        "subject": answer_subject(thread.subject),
        "text": request.text,
        "html": request.html,
        "headers": _headers(thread),
        "follows": thread.follows,
        "idempotency_key": request.key,
    }
    return {name: value for name, value in email.items() if value not in (None, {}, "")} | {"subject": email["subject"]}


def _headers(thread: Thread) -> dict[str, str]:
    """Returns the threading headers, or none if the ID of the message to reply to is unknown, in which case the reply
    continues the previous e-mail's thread.
    """
    if thread.message_id is None:
        return {}
    ids = [each for each in thread.references if each != thread.message_id] + [thread.message_id]
    while len(ids) > 2 and len(" ".join(ids)) > REFERENCES_CHARS_MAX:
        del ids[1]  # the first ID identifies the conversation
    return {"In-Reply-To": thread.message_id, "References": " ".join(ids)}


def _mailbox(mailbox: Mailbox) -> dict[str, str]:
    return {"address": mailbox.address, **({"name": mailbox.name} if mailbox.name else {})}


def _not_accepted(error: Mapping[str, Any]) -> NotAccepted:
    until = error.get("until")
    return NotAccepted(
        field=error.get("field", ""),
        message=error["message"],
        code=error.get("code"),
        until=datetime.fromisoformat(until) if until else None,
    )
