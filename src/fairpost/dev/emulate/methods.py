"""The Gmail API's methods. Each method takes a request, checks the permissions that the request needs, and returns an
answer. No I/O.

A method runs without an await from its first check to its answer. A call therefore never sees another call's
intermediate state.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fairpost.dev.emulate import mime, shapes
from fairpost.dev.emulate.answers import (
    NOTHING,
    Answer,
    Refusal,
    answer,
    failed_precondition,
    google_error,
    insufficient_scopes,
    invalid_argument,
    not_found,
    rate_limited,
)
from fairpost.dev.emulate.bodies import Call, read_draft, read_message, text, wrong_type
from fairpost.dev.emulate.keys import PROJECT_NUMBER
from fairpost.dev.emulate.mailbox import Mailbox, Mailboxes, Message, recipients
from fairpost.dev.emulate.quota import Quota
from fairpost.dev.emulate.search import in_sight, matcher
from fairpost.dev.emulate.tokens import (
    COMPOSE,
    FULL_ACCESS,
    LABELS,
    METADATA,
    MODIFY,
    READONLY,
    SEND,
    SETTINGS,
    Access,
    Tokens,
)

PAGE = 100
PAGE_MAX = 500

WRITE = (FULL_ACCESS, MODIFY, COMPOSE)
READ = (FULL_ACCESS, MODIFY, READONLY)

SYSTEM_LABELS = ("INBOX", "SENT", "DRAFT", "SPAM", "TRASH", "UNREAD", "STARRED", "IMPORTANT", "CHAT")

Handler = Callable[["GmailApi", Call, Access, Mailbox], Answer]


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    http: str
    path: str  # path relative to the user's path
    scopes: tuple[str, ...]
    handle: Handler
    uploads: bool = False  # whether the method is also available under /upload


class GmailApi:
    def __init__(
        self,
        mailboxes: Mailboxes,
        tokens: Tokens,
        quota: Quota,
        *,
        now: Callable[[], datetime],
        retry_after_header: bool = False,
    ) -> None:
        self._mailboxes = mailboxes
        self._tokens = tokens
        self._quota = quota
        self._now = now
        self._retry_after_header = retry_after_header

    def run(self, method: Method, call: Call) -> Answer:
        """Completes the call, or raises a Refusal."""
        access = self._tokens.access(call.authorization)
        if not access.allows(method.scopes):
            raise insufficient_scopes()
        box = self._box(access, call.path["user"])
        self._take_units(box.user.address, method.name)
        return method.handle(self, call, access, box)

    def _box(self, access: Access, user_id: str) -> Mailbox:
        if access.user is None:  # a service account has no mailbox of its own
            raise failed_precondition("Precondition check failed.")
        if user_id != "me" and user_id.lower() != access.user.lower():
            raise Refusal(google_error(403, "forbidden", f"Delegation denied for {access.user}"))
        box = self._mailboxes.box(access.user)
        if not box.user.mail_enabled:
            raise failed_precondition("Mail service not enabled")
        return box

    def _take_units(self, user: str, method: str) -> None:
        now = self._now()
        if self._quota.units_free_at(user, method, now=now) <= now:
            return
        message = (
            "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute per user' "
            f"of service 'gmail.googleapis.com' for consumer 'project_number:{PROJECT_NUMBER}'."
        )
        raise Refusal(google_error(403, "rateLimitExceeded", message, domain="usageLimits"))

    def _send_within_limits(self, box: Mailbox, send: Callable[[], Message]) -> Answer:
        """Checks the limit before sending and counts the message afterwards."""
        user, now = box.user.address, self._now()
        free_at = self._quota.message_free_at(user, now=now)
        if free_at > now:
            raise rate_limited(free_at, now=now, what=" (Mail sending)", with_header=self._retry_after_header)
        message = send()
        self._quota.count_message(user, now=now)
        return answer(shapes.message_sent(message))

    def messages_send(self, call: Call, access: Access, box: Mailbox) -> Answer:
        written = read_message(call)
        raw = written.needed()
        return self._send_within_limits(
            box, lambda: self._mailboxes.send(box.user.address, raw, thread_id=written.thread_id)
        )

    def messages_get(self, call: Call, access: Access, box: Mailbox) -> Answer:
        form = _form(call, access)
        message = box.message(call.path["id"])
        return answer(shapes.message_shape(message, form=form, only_headers=call.all("metadataHeaders")))

    def messages_list(self, call: Call, access: Access, box: Mailbox) -> Answer:
        found = self._found(call, access, box.newest())
        page, token = _page(call, [message.id for message in found])
        shape: dict[str, Any] = {"messages": [shapes.message_ref(box.messages[id_]) for id_ in page]}
        return _listed(shape, "messages", token=token, total=len(found))

    def attachments_get(self, call: Call, access: Access, box: Mailbox) -> Answer:
        message = box.message(call.path["id"])
        owner, _, number = call.path["attachment"].partition(".")
        octets = mime.attachment(message.raw, number.strip("-")) if owner == message.id else None
        if octets is None:
            raise invalid_argument("Invalid attachment token")
        return answer({"size": len(octets), "data": mime.base64url(octets)})

    def drafts_create(self, call: Call, access: Access, box: Mailbox) -> Answer:
        written = read_draft(call)
        draft = self._mailboxes.create_draft(box.user.address, written.needed(), thread_id=written.thread_id)
        return answer(shapes.draft_made(draft))

    def drafts_update(self, call: Call, access: Access, box: Mailbox) -> Answer:
        written = read_draft(call)
        box.draft(call.path["id"])
        draft = self._mailboxes.update_draft(
            box.user.address, call.path["id"], written.needed(), thread_id=written.thread_id
        )
        return answer(shapes.draft_made(draft))

    def drafts_get(self, call: Call, access: Access, box: Mailbox) -> Answer:
        return answer(shapes.draft_shape(box.draft(call.path["id"]), form=_form(call, access)))

    def drafts_list(self, call: Call, access: Access, box: Mailbox) -> Answer:
        drafts = {draft.message.id: draft for draft in reversed(box.drafts.values())}
        found = self._found(call, access, (draft.message for draft in drafts.values()))
        page, token = _page(call, [message.id for message in found])
        shape: dict[str, Any] = {"drafts": [shapes.draft_ref(drafts[id_]) for id_ in page]}
        return _listed(shape, "drafts", token=token, total=len(found))

    def drafts_delete(self, call: Call, access: Access, box: Mailbox) -> Answer:
        self._mailboxes.delete_draft(box.user.address, call.path["id"])
        return NOTHING

    def drafts_send(self, call: Call, access: Access, box: Mailbox) -> Answer:
        """Sends a draft. A message in the request replaces the draft's message."""
        written = read_draft(call, message_needed=False)
        draft_id = text(written.draft, "id") or ""
        if not draft_id and written.raw:
            raw = written.raw
            return self._send_within_limits(
                box, lambda: self._mailboxes.send(box.user.address, raw, thread_id=written.thread_id)
            )
        box.draft(draft_id)

        def send() -> Message:
            if written.raw:
                self._mailboxes.check_sendable(written.raw)
                self._mailboxes.update_draft(box.user.address, draft_id, written.raw, thread_id=written.thread_id)
            return self._mailboxes.send_draft(box.user.address, draft_id)

        return self._send_within_limits(box, send)

    def threads_get(self, call: Call, access: Access, box: Mailbox) -> Answer:
        form = _form(call, access, but=("raw",))
        messages = box.thread(call.path["id"])
        return answer(shapes.thread_shape(messages, form=form, only_headers=call.all("metadataHeaders")))

    def threads_list(self, call: Call, access: Access, box: Mailbox) -> Answer:
        found = self._found(call, access, box.newest())
        threads = list(dict.fromkeys(message.thread_id for message in found))
        page, token = _page(call, threads)
        shape: dict[str, Any] = {"threads": [shapes.thread_ref(box.thread(id_)) for id_ in page]}
        return _listed(shape, "threads", token=token, total=len(threads))

    def profile_get(self, call: Call, access: Access, box: Mailbox) -> Answer:
        return answer(
            {
                "emailAddress": box.user.address,
                "messagesTotal": len(box.messages),
                "threadsTotal": len(box.threads),
                "historyId": str(self._mailboxes.history_id),
            }
        )

    def history_list(self, call: Call, access: Access, box: Mailbox) -> Answer:
        """Lists the messages that were added. Other changes are not recorded."""
        begin = call.first("startHistoryId")
        if not re.fullmatch(r"\d{1,20}", begin, re.ASCII):
            raise invalid_argument("Invalid startHistoryId") if begin else invalid_argument("Missing startHistoryId")
        types = {each.lower() for each in call.all("historyTypes")}
        found = box.added_since(int(begin)) if not types or "messageadded" in types else []
        written, token = call.first("maxResults", str(PAGE)), call.first("pageToken")
        if not re.fullmatch(r"\d{1,9}", written, re.ASCII):
            wrong_type("max_results", "TYPE_UINT32", written)
        if token and not re.fullmatch(r"\d{1,20}", token, re.ASCII):
            raise invalid_argument("Invalid pageToken")
        rest = [(at, message) for at, message in found if not token or at > int(token)]
        page = rest[: min(int(written), PAGE_MAX) or PAGE]
        shape: dict[str, Any] = {"historyId": str(self._mailboxes.history_id)}
        if page:
            shape["history"] = [shapes.history_record(at, message) for at, message in page]
        if len(page) < len(rest):
            shape["nextPageToken"] = str(page[-1][0])
        return answer(shape)

    def labels_list(self, call: Call, access: Access, box: Mailbox) -> Answer:
        return answer({"labels": [_label(name) for name in SYSTEM_LABELS]})

    def labels_get(self, call: Call, access: Access, box: Mailbox) -> Answer:
        if call.path["id"] not in SYSTEM_LABELS:
            raise not_found()
        marked = [message for message in box.messages.values() if call.path["id"] in message.labels]
        threads = {message.thread_id for message in marked}
        return answer({**_label(call.path["id"]), "messagesTotal": len(marked), "threadsTotal": len(threads)})

    def send_as_list(self, call: Call, access: Access, box: Mailbox) -> Answer:
        return answer({"sendAs": shapes.send_as(box.user)})

    def _found(self, call: Call, access: Access, messages: Iterable[Message]) -> list[Message]:
        """Returns the matching messages.

        A query uses the search index, which is updated with a delay. Without a query, the index is not used.
        """
        labels, query = set(call.all("labelIds")), call.first("q").strip()
        everywhere = call.first("includeSpamTrash").lower() == "true"
        found = [m for m in messages if labels <= set(m.labels) and (everywhere or in_sight(m))]
        if not query:
            return found
        if not access.allows((*READ, COMPOSE)):
            raise Refusal(google_error(403, "forbidden", "Metadata scope does not support 'q' parameter"))
        fits, now = matcher(query), self._now()
        return [message for message in found if message.searchable_at <= now and fits(message)]


METHODS = (
    Method("messages.send", "POST", "/messages/send", (*WRITE, SEND), GmailApi.messages_send, uploads=True),
    Method("drafts.send", "POST", "/drafts/send", WRITE, GmailApi.drafts_send, uploads=True),
    Method("drafts.create", "POST", "/drafts", WRITE, GmailApi.drafts_create, uploads=True),
    Method("drafts.list", "GET", "/drafts", (*WRITE, READONLY), GmailApi.drafts_list),
    Method("drafts.get", "GET", "/drafts/{id}", (*WRITE, READONLY), GmailApi.drafts_get),
    Method("drafts.update", "PUT", "/drafts/{id}", WRITE, GmailApi.drafts_update, uploads=True),
    Method("drafts.delete", "DELETE", "/drafts/{id}", WRITE, GmailApi.drafts_delete),
    Method("messages.list", "GET", "/messages", (*READ, METADATA), GmailApi.messages_list),
    Method("messages.get", "GET", "/messages/{id}", (*READ, METADATA), GmailApi.messages_get),
    Method(
        "messages.attachments.get", "GET", "/messages/{id}/attachments/{attachment}", READ, GmailApi.attachments_get
    ),
    Method("threads.list", "GET", "/threads", (*READ, METADATA), GmailApi.threads_list),
    Method("threads.get", "GET", "/threads/{id}", (*READ, METADATA), GmailApi.threads_get),
    Method("history.list", "GET", "/history", (*READ, METADATA), GmailApi.history_list),
    Method("getProfile", "GET", "/profile", (*READ, COMPOSE, METADATA), GmailApi.profile_get),
    Method("labels.list", "GET", "/labels", (*READ, METADATA, LABELS), GmailApi.labels_list),
    Method("labels.get", "GET", "/labels/{id}", (*READ, METADATA, LABELS), GmailApi.labels_get),
    Method("settings.sendAs.list", "GET", "/settings/sendAs", (*READ, SETTINGS), GmailApi.send_as_list),
)


def peeked_recipients(method: Method, call: Call, mailboxes: Mailboxes, user: str | None) -> list[str]:
    """Returns the recipients of a call that sends or drafts a message, if they can be determined before the call is
    checked.
    """
    try:
        if method.name == "drafts.send":
            draft_id = json.loads(call.body or b"{}").get("id")
            return recipients(mailboxes.box(user or "").draft(draft_id).message.raw)
        return recipients((read_draft if method.name == "drafts.create" else read_message)(call).raw or b"")
    except (Refusal, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return []


def _form(call: Call, access: Access, *, but: Sequence[str] = ()) -> str:
    form = call.first("format", "full").lower()
    if form not in shapes.FORMATS or form in but:
        wrong_type("format", "TYPE_ENUM", call.first("format"))
    if form in ("full", "raw") and not access.allows((*READ, COMPOSE)):
        raise Refusal(google_error(403, "forbidden", f"Metadata scope doesn't allow format {form.upper()}"))
    return form


def _page(call: Call, ids: Sequence[str]) -> tuple[Sequence[str], str | None]:
    """Returns a page of the newest items and the token for the next page.

    A token contains the ID of the last item, not a position.
    """
    written = call.first("maxResults", str(PAGE))
    if not re.fullmatch(r"\d{1,9}", written, re.ASCII):
        wrong_type("max_results", "TYPE_UINT32", written)
    most, start = min(int(written), PAGE_MAX) or PAGE, 0
    if token := call.first("pageToken"):
        if not re.fullmatch(r"\d{1,20}", token, re.ASCII):
            raise invalid_argument("Invalid pageToken")
        last = f"{int(token):016x}"
        older = next((n for n, id_ in enumerate(ids) if id_ < last), len(ids))  # the last item may no longer exist
        start = ids.index(last) + 1 if last in ids else older
    page = ids[start : start + most]
    return page, str(int(page[-1], 16)) if start + most < len(ids) else None


def _listed(shape: dict[str, Any], name: str, *, token: str | None, total: int) -> Answer:
    """Returns a field that contains the list, or no field if the list is empty, as Google does."""
    if not shape[name]:
        del shape[name]
    if token:
        shape["nextPageToken"] = token
    return answer({**shape, "resultSizeEstimate": total})


def _label(name: str) -> dict[str, str]:
    return {"id": name, "name": name, "type": "system"}
