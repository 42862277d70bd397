"""Parses a returned message within bounds, and extracts headers, text and parts from any bytes. The standard library's
parser recurses into nested parts and takes seconds for a hostile message of 20 MB. This parser reads the beginning of a
message, walks its parts without recursion, and never fails, because broken parts are read as plain text. Other modules
interpret the parts.
"""

import binascii
import codecs
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.header import decode_header
from functools import cached_property

BYTES_MAX = 1_048_576  # enough, because the report is at the beginning, before the returned message
PARTS_MAX = 100
DEPTH_MAX = 8
HEADERS_MAX = 400
HEADER_CHARS_MAX = 8_000
TEXT_CHARS_MAX = 100_000

MESSAGES = frozenset({"message/rfc822", "message/global", "text/rfc822-headers", "message/global-headers"})
# Python codecs that are not mail charsets, or that take quadratic time.
_NO_CHARSETS = frozenset({"punycode", "idna", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem"})

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Headers:
    """Header fields in order. Names are case-insensitive; values are unfolded but not decoded."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self.fields = fields
        self._first: dict[str, str] = {}
        for name, value in fields:
            self._first.setdefault(name.lower(), value)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._first

    def __getitem__(self, name: str) -> str:
        """Returns the first field with this name, or ""."""
        return self._first.get(name.lower(), "")

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key.lower() == name]

    def decoded(self, name: str) -> str:
        return decoded_words(self[name])


@dataclass(frozen=True, slots=True)
class Part:
    headers: Headers
    kind: str  # content type in lower case, without parameters
    body: bytes
    charset: str = ""

    def text(self) -> str:
        return _decoded(_unwrapped(self.body, self.headers["content-transfer-encoding"]), self.charset)

    def message(self) -> "Mail":
        """The message in this part, or only the message's headers if the part contains nothing else."""
        return read_mail(_unwrapped(self.body, self.headers["content-transfer-encoding"]))


@dataclass(frozen=True)
class Mail:
    headers: Headers
    kind: str
    parameters: str  # parameters of the content type
    parts: tuple[Part, ...]  # the leaves in order; an embedded message is a leaf

    @cached_property
    def text(self) -> str:
        """The main text: the plain text or, if there is none, the text of the HTML."""
        plain = [part.text() for part in self.parts if _is_plain(part)]
        texts = plain if any(text.strip() for text in plain) else self._html_texts()
        return "\n".join(texts)[:TEXT_CHARS_MAX]

    def _html_texts(self) -> list[str]:
        return [text_of_html(part.text()) for part in self.parts if part.kind == "text/html"]

    def of_kind(self, *kinds: str) -> Iterator[Part]:
        return (part for part in self.parts if part.kind in kinds)


def _is_plain(part: Part) -> bool:
    is_text = part.kind.startswith("text/") and part.kind not in ("text/html", "text/rfc822-headers", "text/calendar")
    return is_text and not part.headers["content-disposition"].lower().startswith("attachment")


def read_mail(raw: bytes) -> Mail:
    raw = raw[:BYTES_MAX].replace(b"\r\n", b"\n").replace(b"\r", b"\n").lstrip(b"\n")
    headers, body = _split(raw)
    kind, parameters = _content_type(headers)
    return Mail(headers, kind, parameters, tuple(_leaves(headers, body)))


def _leaves(headers: Headers, body: bytes) -> Iterator[Part]:
    """Yields the leaves depth-first. Instead of recursion, this method uses a stack of the parts that have not been
    opened yet.
    """
    stack, found = [(headers, body, 0)], 0
    while stack and found < PARTS_MAX:
        headers, body, depth = stack.pop()
        kind, parameters = _content_type(headers)
        inner = _inner(body, parameters) if kind.startswith("multipart/") and depth < DEPTH_MAX else []
        if inner:
            stack += [(*_split(each), depth + 1) for each in reversed(inner)]
            continue
        found += 1
        kind = "text/plain" if kind.startswith("multipart/") else kind
        yield Part(headers, kind, body, _parameter(parameters, "charset"))


def _inner(body: bytes, parameters: str) -> list[bytes]:
    boundary = _parameter(parameters, "boundary")
    if boundary:
        pattern = rb"^--" + re.escape(boundary.encode("utf-8", "surrogateescape")) + rb"(--)?[ \t]*$"
    else:  # without a boundary parameter, a line of dashes before a part's header is treated as the boundary
        pattern = rb"^--[^\s]{4,200}(?<!-)()[ \t]*$(?=\nContent-)"
    parts, start = [], -1
    for mark in re.finditer(pattern, body, re.MULTILINE):
        if start >= 0:
            parts.append(body[start : max(start, mark.start() - 1)])
        start = mark.end() + 1
        if mark[1] or len(parts) >= PARTS_MAX:
            return parts
    return [*parts, body[start:]] if start >= 0 else parts


_FIELD = re.compile(r"([!-9;-~]{1,80})[ \t]*:[ \t]*(.*)", re.DOTALL)


def _split(raw: bytes) -> tuple[Headers, bytes]:
    """Splits a message into header and body. A part without a header consists only of a body."""
    if raw.startswith(b"\n"):
        return Headers([]), raw[1:]
    head, _, body = raw.partition(b"\n\n")
    fields: list[tuple[str, str]] = []
    for number, line in enumerate(_unfolded(head)):
        if match := _FIELD.match(line):
            fields.append((match[1], match[2].strip()[:HEADER_CHARS_MAX]))
        elif number and not fields and not line.startswith("From "):
            break
        if len(fields) >= HEADERS_MAX:
            break
    return (Headers(fields), body) if fields else (Headers([]), raw)


def _unfolded(head: bytes) -> Iterator[str]:
    lines: list[str] = []
    for line in _decoded(head, "utf-8").split("\n"):
        if line[:1] in (" ", "\t") and lines:
            lines.append(line.strip())
            continue
        if lines:
            yield " ".join(lines)
        lines = [line]
    if lines:
        yield " ".join(lines)


def _content_type(headers: Headers) -> tuple[str, str]:
    kind, _, parameters = headers["content-type"].partition(";")
    kind = kind.strip().lower()
    return (kind if re.fullmatch(r"[\w.+-]+/[\w.+-]+", kind) else "text/plain"), parameters


def _parameter(parameters: str, name: str) -> str:
    match = re.search(rf"(?:^|[;\s]){name}\s*=\s*(?:\"([^\"]*)\"|([^\s;]+))", parameters, re.IGNORECASE)
    return (match[1] or match[2] or "").rstrip() if match else ""


# Some programs declare base64, but write plain text.
_BASE64 = re.compile(rb"\s*[A-Za-z0-9+/]{2,}={0,2}[ \t]*(?:\n|\Z)")


def _unwrapped(body: bytes, encoding: str) -> bytes:
    match encoding.strip().lower():
        case "base64" if _BASE64.match(body):
            clean = re.sub(rb"[^A-Za-z0-9+/]", b"", body.partition(b"\n\n--")[0])
            return binascii.a2b_base64(clean[: len(clean) // 4 * 4] + _padded(clean[len(clean) // 4 * 4 :]))
        case "quoted-printable":
            return binascii.a2b_qp(body)
        case _:
            return body


def _padded(rest: bytes) -> bytes:
    return rest + b"=" * (4 - len(rest)) if len(rest) > 1 else b""


def _decoded(raw: bytes, charset: str) -> str:
    return storable(_as_text(raw, charset))


def storable(text: str) -> str:
    """Removes characters that PostgreSQL cannot store: NUL, and lone surrogates."""
    return _UNSTORABLE.sub("", text)


def _as_text(raw: bytes, charset: str) -> str:
    if not charset and b"\x1b$" in raw:
        charset = "iso2022_jp"
    try:
        name = codecs.lookup(charset or "utf-8").name
        if name not in _NO_CHARSETS:
            return raw.decode(name)
    except (LookupError, ValueError, UnicodeError):
        pass
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def decoded_words(value: str) -> str:
    """Returns a header value with its encoded words (RFC 2047) decoded."""
    if "=?" not in value:
        return value
    try:
        pieces = decode_header(value)
    except (HeaderParseError, ValueError, binascii.Error):
        return value
    return "".join(_decoded(raw, charset or "") if isinstance(raw, bytes) else raw for raw, charset in pieces)


_BREAKS = re.compile(r"<(?:br|/p|/div|/tr|/li|/h\d|/table|hr)\b[^<>]*>", re.IGNORECASE)
_HIDDEN = re.compile(r"<(/?)(?:style|script|head|title)\b[^<>]*>", re.IGNORECASE)


def text_of_html(source: str) -> str:
    source = _BREAKS.sub("\n", re.sub(r"\s+", " ", _shown(source[:TEXT_CHARS_MAX])))
    return html.unescape(re.sub(r"<[^<>]*>", " ", source))


def _shown(source: str) -> str:
    """Returns the HTML without styles, scripts and the head."""
    kept, start, depth = [], 0, 0
    for tag in _HIDDEN.finditer(source):
        if not depth:
            kept.append(source[start : tag.start()])
        depth = max(0, depth - 1) if tag[1] else depth + 1
        start = tag.end()
    return "".join(kept) + (source[start:] if not depth else "")
