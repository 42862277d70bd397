"""Messages, drafts and threads as the Gmail API returns them, in its four formats."""

from collections.abc import Sequence
from typing import Any

from fairpost.dev.emulate import mime
from fairpost.dev.emulate.mailbox import Draft, Message, User

FORMATS = ("minimal", "full", "raw", "metadata")


def message_ref(message: Message) -> dict[str, Any]:
    return {"id": message.id, "threadId": message.thread_id}


def message_sent(message: Message) -> dict[str, Any]:
    return {**message_ref(message), "labelIds": list(message.labels)}


def message_shape(message: Message, *, form: str, only_headers: Sequence[str] = ()) -> dict[str, Any]:
    shape: dict[str, Any] = {
        **message_sent(message),
        "snippet": message.snippet,
        "sizeEstimate": len(message.raw),
        "historyId": str(message.history_id),
        "internalDate": str(int(message.at.timestamp() * 1_000)),
    }
    match form:
        case "full":
            shape["payload"] = mime.payload(message.raw, message_id=message.id)
        case "metadata":
            wanted = {name.lower() for name in only_headers}
            shown = [(name, text) for name, text in message.headers if not wanted or name.lower() in wanted]
            shape["payload"] = {"mimeType": _mime_type(message), "headers": mime.shown(shown)}
        case "raw":
            shape["raw"] = mime.base64url(message.raw)
    return shape


def history_record(history_id: int, message: Message) -> dict[str, Any]:
    return {
        "id": str(history_id),
        "messages": [message_ref(message)],
        "messagesAdded": [{"message": message_sent(message)}],
    }


def draft_ref(draft: Draft) -> dict[str, Any]:
    return {"id": draft.id, "message": message_ref(draft.message)}


def draft_made(draft: Draft) -> dict[str, Any]:
    return {"id": draft.id, "message": message_sent(draft.message)}


def draft_shape(draft: Draft, *, form: str) -> dict[str, Any]:
    return {"id": draft.id, "message": message_shape(draft.message, form=form)}


def thread_ref(messages: Sequence[Message]) -> dict[str, Any]:
    newest = messages[-1]
    return {"id": newest.thread_id, "snippet": newest.snippet, "historyId": str(newest.history_id)}


def thread_shape(messages: Sequence[Message], *, form: str, only_headers: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "id": messages[-1].thread_id,
        "historyId": str(max(message.history_id for message in messages)),
        "messages": [message_shape(message, form=form, only_headers=only_headers) for message in messages],
    }


def send_as(user: User) -> list[dict[str, Any]]:
    primary = {
        "sendAsEmail": user.address,
        "displayName": user.name,
        "replyToAddress": "",
        "signature": "",
        "isPrimary": True,
        "isDefault": True,
    }
    aliases = [
        {
            "sendAsEmail": alias,
            "displayName": user.name,
            "replyToAddress": "",
            "signature": "",
            "treatAsAlias": True,
            "verificationStatus": "accepted",
        }
        for alias in user.aliases
    ]
    return [primary, *aliases]


def _mime_type(message: Message) -> str:
    written = mime.value(message.headers, "Content-Type").partition(";")[0].strip().lower()
    return written if written.count("/") == 1 else "text/plain"
