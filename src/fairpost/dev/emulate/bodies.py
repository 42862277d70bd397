"""Parses request bodies, which are JSON or uploads, and the messages in them. Refuses invalid bodies."""

import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from fairpost.dev.emulate import mime
from fairpost.dev.emulate.answers import Refusal, google_error, invalid_argument

JSON_BYTES_MAX = 5_242_880
UPLOAD_BYTES_MAX = 36_700_160
NO_RAW = "'raw' RFC822 payload message string or uploading message via /upload/* URL required"

_MESSAGE_FIELDS = {
    "id",
    "threadId",
    "labelIds",
    "snippet",
    "historyId",
    "internalDate",
    "payload",
    "sizeEstimate",
    "raw",
    "classificationLabelValues",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request in the form used by the methods."""

    path: dict[str, str] = field(default_factory=dict)
    query: Sequence[tuple[str, str]] = ()
    authorization: str | None = None
    content_type: str = ""
    body: bytes = b""
    upload: bool = False

    def first(self, name: str, default: str = "") -> str:
        return next((text for key, text in self.query if key == name), default)

    def all(self, name: str) -> list[str]:
        return [text for key, text in self.query if key == name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A message in a request, with its bytes and metadata."""

    raw: bytes | None
    message: dict[str, Any]
    draft: dict[str, Any]

    def needed(self) -> bytes:
        if not self.raw:
            raise invalid_argument(NO_RAW)
        return self.raw

    @property
    def thread_id(self) -> str | None:
        return text(self.message, "threadId")


def read_message(call: Call) -> Written:
    given, media = _given(call)
    _check_names(given, _MESSAGE_FIELDS)
    return Written(raw=media if media is not None else _raw(given, "raw"), message=given, draft={})


def read_draft(call: Call, *, message_needed: bool = True) -> Written:
    given, media = _given(call)
    _check_names(given, {"id", "message"})
    message = given.get("message")
    if message is not None and not isinstance(message, dict):
        wrong_type("message", "type.googleapis.com/google.gmail.v1.Message", message)
    if message is None and media is None and message_needed:
        raise invalid_argument("Missing draft message")
    _check_names(message or {}, _MESSAGE_FIELDS, where=" at 'draft.message'")
    raw = media if media is not None else _raw(message or {}, "message.raw")
    return Written(raw=raw, message=message or {}, draft=given)


def _given(call: Call) -> tuple[dict[str, Any], bytes | None]:
    """Returns the request's JSON and the message uploaded with it."""
    if not call.upload:
        return _object(call.body), None
    kind = call.first("uploadType", call.first("upload_protocol"))
    if kind == "media":
        _check_media_type(call.content_type)
        return {}, call.body
    if kind == "multipart":
        return _multipart(call)
    raise invalid_argument(f"Upload type {kind!r:.40} is not emulated: use media or multipart")


def _multipart(call: Call) -> tuple[dict[str, Any], bytes]:
    match = re.search(r'boundary="?([^";,]{1,200})"?', call.content_type, re.IGNORECASE)
    if match is None or not call.content_type.lower().startswith("multipart/"):
        raise _bad_content("Missing end boundary in multipart body.")
    pieces = (b"\r\n" + call.body).split(b"\r\n--" + match[1].encode())
    if len(pieces) != 4 or not pieces[3].startswith(b"--"):
        raise _bad_content("A multipart body must contain exactly two parts: the JSON and the message.")
    about, media = (_piece(piece) for piece in pieces[1:3])
    _check_media_type(mime.value(media[0], "Content-Type"))
    octets = media[1]
    if mime.value(media[0], "Content-Transfer-Encoding").lower() == "base64":
        octets = _base64(octets.decode("ascii", "replace"), "media")
    return _object(about[1]), octets


def _piece(piece: bytes) -> tuple[list[tuple[str, str]], bytes]:
    head, rest = mime.split(piece.removeprefix(b"\r\n"))
    return mime.headers_of(head), rest.removeprefix(b"\r\n") if rest.startswith(b"\r\n") else rest.removeprefix(b"\n")


def _check_media_type(written: str) -> None:
    media_type = written.partition(";")[0].strip().lower()
    if not media_type.startswith("message/"):
        raise _bad_content(f"Media type '{media_type[:80]}' is not supported. Valid media types: [message/*]")


def _bad_content(message: str) -> Refusal:
    return Refusal(google_error(400, "badContent", message))


def _object(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        shown = body[:40].decode("utf-8", "replace")
        message = f"Invalid JSON payload received. Unexpected token.\n{shown}\n^"
        raise Refusal(google_error(400, "parseError", message)) from None
    if not isinstance(value, dict):
        message = 'Invalid JSON payload received. Unknown name "": Root element must be a message.'
        raise Refusal(google_error(400, "badRequest", message))
    return value


def _check_names(given: dict[str, Any], known: set[str], *, where: str = "") -> None:
    for name in given:
        if name not in known:
            message = f'Invalid JSON payload received. Unknown name "{name[:80]}"{where}: Cannot find field.'
            raise Refusal(google_error(400, "badRequest", message))


def text(given: dict[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        wrong_type(name, "TYPE_STRING", value)
    return value


def _raw(given: dict[str, Any], name: str) -> bytes | None:
    text = given.get("raw")
    if text is None:
        return None
    if not isinstance(text, str):
        wrong_type(name, "TYPE_BYTES", text)
    return _base64(text, name)


def _base64(text: str, name: str) -> bytes:
    """Decodes base64 in either alphabet, with or without padding, as Google's JSON parsers do."""
    try:
        plain = re.sub(r"[\r\n]", "", text).rstrip("=").translate(_TO_STANDARD)
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        message = f"Invalid value at '{name}' (TYPE_BYTES), Base64 decoding failed for \"{text[:80]}\""
        raise Refusal(google_error(400, "badRequest", message)) from None


_TO_STANDARD = str.maketrans("-_", "+/")


def wrong_type(name: str, kind: str, value: Any) -> NoReturn:
    shown = json.dumps(value)[:80]
    raise Refusal(google_error(400, "badRequest", f"Invalid value at '{name}' ({kind}), {shown}"))
