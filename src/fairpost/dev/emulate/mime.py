"""Parses raw messages: their headers, addresses and parts. Never raises on untrusted input.

Headers that are needed for every message are parsed by code in this module rather than by the library. Sending a
message must take only microseconds, even with a 35 MB attachment, and all parts that are not rewritten must stay
unchanged, byte for byte.
"""

import base64
import re
from collections.abc import Iterator, Sequence
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.utils import getaddresses
from typing import Any

Headers = Sequence[tuple[str, str]]

SNIPPET_CHARS_MAX = 200
SNIPPET_BYTES_READ = 65_536  # a snippet needs only the beginning of a large message
PARTS_DEPTH_MAX = 20
INLINE_BYTES_MAX = 1_048_576  # a larger text part becomes an attachment in the answer

_END_OF_HEADERS = re.compile(rb"\r?\n\r?\n")
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")  # a lone CR does not end a line
_FIELD = re.compile(rb"([!-9;-~]+)[ \t]*:(.*)", re.DOTALL)
_ADDRESS = re.compile(r"[^\s@<>()\[\],;:\"\\]+(?:@|@\[)[^\s@<>()\[\],;\"\\]+\]?|\"[^\"\r\n]+\"@[^\s@<>,;]+")
_MESSAGE_ID = re.compile(r"<[^<>\s]+>")
_REPLY_MARK = re.compile(r"\s*(?:re|fwd?|aw|wg|sv)\s*:\s*", re.IGNORECASE)


def split(raw: bytes) -> tuple[bytes, bytes]:
    """Returns the headers, followed by the rest, which includes the empty line before the body."""
    if raw[:1] in (b"\r", b"\n"):
        return b"", raw
    match = _END_OF_HEADERS.search(raw)
    if match is None:
        return raw, b""
    end = raw.index(b"\n", match.start()) + 1
    return raw[:end], raw[end:]


def headers_of(raw: bytes) -> list[tuple[str, str]]:
    """Returns the headers in order, unfolded, with encoded words left as they are. Lines that are not headers are
    skipped.
    """
    fields = []
    for field in _fields(split(raw)[0]):
        if match := _FIELD.fullmatch(field):
            value = re.sub(rb"\r?\n", b"", match[2]).strip()
            fields.append((match[1].decode("ascii"), _text(value)))
    return fields


def values(headers: Headers, name: str) -> list[str]:
    return [value for key, value in headers if key.lower() == name.lower()]


def value(headers: Headers, name: str) -> str:
    return next(iter(values(headers, name)), "")


def decoded(text: str) -> str:
    """Decodes encoded words."""
    if "=?" not in text:
        return text
    try:
        return str(make_header(decode_header(text)))
    except (LookupError, ValueError, MessageError):
        return text


def addresses(headers: Headers, name: str) -> list[str] | None:
    """Returns the addresses in these headers, or None if they cannot be parsed. An empty group has no addresses."""
    found = []
    for text in values(headers, name):
        if not text or re.fullmatch(r"[^:;<>@]*:\s*;", text):
            continue
        pairs = getaddresses([text])
        if not pairs or not all(_ADDRESS.fullmatch(address) for _, address in pairs):
            return None
        found += [address for _, address in pairs]
    return found


def message_ids(headers: Headers, *names: str) -> set[str]:
    return {id_ for name in names for text in values(headers, name) for id_ in _MESSAGE_ID.findall(text)}


def bare_subject(headers: Headers) -> str:
    """Returns the subject without reply prefixes, for comparison."""
    text, before = decoded(value(headers, "Subject")), None
    while text != before:
        before, text = text, _REPLY_MARK.sub("", text, count=1) if _REPLY_MARK.match(text) else text
    return " ".join(text.split()).casefold()


def replaced(raw: bytes, name: str, text: str) -> bytes:
    """Sets a header: replaces the existing header, or adds a new header at the top."""
    head, rest = split(raw)
    newline = b"\n" if b"\n" in head and b"\r\n" not in head else b"\r\n"
    line, lines, done = f"{name}: {text}".encode() + newline, [], False
    for field in _fields(head):
        if field.lower().startswith(name.lower().encode() + b":"):
            lines += [] if done else [line]
            done = True
        else:
            lines.append(field if field.endswith(b"\n") else field + newline)
    return b"".join(lines if done else [line, *lines]) + rest


def snippet(raw: bytes) -> str:
    """Returns the beginning of the first text part."""
    part = next((p for p in _walk(_parsed(raw[:SNIPPET_BYTES_READ])) if p.get_content_type() == "text/plain"), None)
    text = _text(_payload(part)) if part is not None else ""
    return " ".join(text.split())[:SNIPPET_CHARS_MAX]


def payload(raw: bytes, *, message_id: str) -> dict[str, Any]:
    """Returns the message as a tree of parts."""
    return _part(_parsed(raw), number="", headers=headers_of(raw), message_id=message_id, depth=0)


def attachment(raw: bytes, number: str) -> bytes | None:
    part = _parsed(raw)
    for step in number.split(".") if number else []:
        children = _children(part)
        if not step.isdigit() or int(step) >= len(children):
            return None
        part = children[int(step)]
    return _payload(part)


def shown(headers: Headers) -> list[dict[str, str]]:
    return [{"name": name, "value": decoded(text)} for name, text in headers]


def base64url(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).decode()


def _fields(head: bytes) -> Iterator[bytes]:
    """Yields each field with its folded lines and line endings."""
    field = b""
    for line in _LINE.findall(head):
        if line[:1] in (b" ", b"\t") and field:
            field += line
        else:
            if field:
                yield field
            field = line
    if field:
        yield field


def _text(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets.decode("latin-1")


def _parsed(raw: bytes) -> "Message[str, str]":
    """Parses a message. The library raises various errors for hostile mail. A message that causes an error is shown
    without parts.
    """
    try:
        return message_from_bytes(raw)
    except Exception:
        return Message()


def _children(part: "Message[str, str]") -> "list[Message[str, str]]":
    inner = part.get_payload() if part.is_multipart() else None
    return [child for child in inner if isinstance(child, Message)] if isinstance(inner, list) else []


def _walk(part: "Message[str, str]") -> "Iterator[Message[str, str]]":
    yield part
    for child in _children(part):
        yield from _walk(child)


def _payload(part: "Message[str, str]") -> bytes:
    try:
        octets = part.get_payload(decode=True)
    except Exception:  # also raises various errors for hostile mail
        return b""
    return octets if isinstance(octets, bytes) else b""


def _filename(part: "Message[str, str]") -> str:
    try:
        return decoded(part.get_filename() or "")
    except Exception:  # also raises various errors for hostile mail
        return ""


def _part(part: "Message[str, str]", *, number: str, headers: Headers, message_id: str, depth: int) -> dict[str, Any]:
    filename, octets, children = _filename(part), _payload(part), _children(part)
    body: dict[str, Any] = {"size": 0 if children else len(octets)}
    is_text = part.get_content_maintype() == "text" and not filename and len(octets) <= INLINE_BYTES_MAX
    if not children and octets:
        body |= {"data": base64url(octets)} if is_text else {"attachmentId": f"{message_id}.{number or '-'}"}
    shape: dict[str, Any] = {
        "partId": number,
        "mimeType": part.get_content_type(),
        "filename": filename,
        "headers": shown(headers),
        "body": body,
    }
    if children and depth < PARTS_DEPTH_MAX:
        shape["parts"] = [
            _part(
                child,
                number=f"{number}.{index}" if number else str(index),
                headers=[(name, " ".join(str(text).split())) for name, text in child.items()],
                message_id=message_id,
                depth=depth + 1,
            )
            for index, child in enumerate(children)
        ]
    return shape
