"""Reads the content of a raw message: headers, text and attachments.

Reading never raises, and recovers as much as possible. The standard library raises various errors on hostile mail. In
this module, a part that causes an error counts as missing.
"""

import base64
import binascii
import codecs
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import Message
from functools import partial
from typing import Any, TypeVar

from fairpost.compose.entities import unescaped
from fairpost.model.email import Attachment

T = TypeVar("T")

HEADERS_MAX = 1_000
HEADER_CHARS_MAX = 20_000
FILENAME_CHARS_MAX = 500
PARTS_MAX = 1_000
SEARCH_CHARS_MAX = 20_000  # for ten thousand messages, these texts take up a few hundred megabytes at worst

# Python codecs that no mail uses, or that convey no information.
_NO_CHARSETS = {"", "ascii", "idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape"}
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # a character that PostgreSQL cannot store
_WORD = re.compile(r"=\?([^?*\s]+)(?:\*[^?\s]*)?\?([bq])\?([^?]*)\?=", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    headers: tuple[tuple[str, str], ...]
    text: str | None
    html: str | None
    attachments: tuple[Attachment, ...]
    is_cut: bool = False  # not everything was read

    def header(self, name: str) -> str:
        """Returns the first header with this name, or ""."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")


def read(raw: bytes) -> Reading:
    message = _or(None, lambda: message_from_bytes(raw, policy=policy.compat32))
    if message is None:  # the parts were nested too deeply for the parser
        return Reading(headers=(), text=_storable(_guess(raw)), html=None, attachments=(), is_cut=True)
    texts, htmls, files = list[str](), list[str](), list[Attachment]()
    leaves, is_cut = _leaves(message)
    for part in leaves:
        kind = _body_kind(part)
        if kind is None:
            files.append(_attachment(part, number=len(files) + 1))
        else:
            (texts if kind == "text" else htmls).append(_text(part))
    return Reading(
        headers=_or((), lambda: _headers(message)),
        text="\n".join(texts) if texts else None,
        html="\n".join(htmls) if htmls else None,
        attachments=tuple(files),
        is_cut=is_cut or _or(False, lambda: len(list(message.raw_items())) > HEADERS_MAX),
    )


def search_text(reading: Reading, *, sender: str, recipients: tuple[str, ...]) -> str:
    """Returns the text that `fairpost inbox search` searches."""
    headers = (reading.header(name) for name in ("subject", "from", "to", "cc", "reply-to"))
    body = reading.text if reading.text is not None else _without_tags(reading.html or "")
    return fold("\n".join([*headers, sender, *recipients[:100], body])[:SEARCH_CHARS_MAX])


def fold(text: str) -> str:
    """Normalizes text for searching so that case and Unicode composition do not matter."""
    return unicodedata.normalize("NFKC", text).casefold()


def storable(text: str) -> str:
    """Makes text storable in the database, even if it contains undecodable bytes."""
    return _storable(_guess(_undecoded(text)))


def _or(fallback: T, call: Callable[[], T]) -> T:
    try:
        return call()
    except Exception:  # the library does not document which exceptions it raises here
        return fallback


def _storable(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text)


def _undecoded(text: str) -> bytes:
    """Returns the original bytes of a string in which the library escaped each non-ASCII byte."""
    return _or(text.encode("utf-8", "replace"), lambda: text.encode("utf-8", "surrogateescape"))


def _headers(message: Message) -> tuple[tuple[str, str], ...]:
    pairs = list(message.raw_items())[:HEADERS_MAX]
    return tuple((_header_text(name), _header_text(value)) for name, value in pairs)


def _header_text(value: Any) -> str:
    """Returns a header's text on one line, with encoded words decoded."""
    text = _guess(_undecoded(str(value)[:HEADER_CHARS_MAX]))
    return _storable(" ".join(_decode_words(text).split()))


def _decode_words(text: str) -> str:
    """Decodes encoded words (RFC 2047).

    Adjacent words in the same charset are joined before decoding, because many programs split a character between two
    words.
    """
    text = re.sub(r"\?=\s+=\?", "?==?", text)
    out, end, charset, octets = list[str](), 0, "", b""
    for match in _WORD.finditer(text):
        if match.start() != end or match[1].lower() != charset:
            out += [_decode(octets, charset), text[end : match.start()]]
            charset, octets = match[1].lower(), b""
        octets += _octets_of_word(match[2].lower(), match[3])
        end = match.end()
    return "".join([*out, _decode(octets, charset), text[end:]])


def _octets_of_word(encoding: str, text: str) -> bytes:
    octets = text.encode("utf-8", "replace")
    if encoding == "q":
        return binascii.a2b_qp(octets, header=True)
    return _or(octets, lambda: base64.b64decode(octets + b"==="))


def _leaves(message: Message) -> tuple[list[Message], bool]:
    """Returns the first leaf parts in order, and whether there are more. The parts of attached messages are not
    included.
    """
    waiting, leaves = [message], list[Message]()
    for _ in range(PARTS_MAX):
        if not waiting:
            break
        part = waiting.pop()
        if part.is_multipart() and part.get_content_maintype() == "multipart":
            waiting.extend(reversed(_children(part)))
        else:
            leaves.append(part)
    return leaves, bool(waiting)


def _children(part: Message) -> list[Message]:
    return [child for child in part.get_payload() if isinstance(child, Message)]


def _body_kind(part: Message) -> str | None:
    """Returns whether the part is shown as text or HTML, or None if it is a file."""
    if _or(None, part.get_content_disposition) == "attachment" or _or(None, part.get_filename) is not None:
        return None
    if part.is_multipart():
        return None
    kinds = {"text/html": "html", "text/plain": "text"}
    # A multipart without parts could not be parsed. Showing its text is better than nothing.
    return "text" if part.get_content_maintype() == "multipart" else kinds.get(part.get_content_type())


def _text(part: Message) -> str:
    text = _decode(_octets(part), _or(None, part.get_content_charset) or "")
    return _storable(text.replace("\r\n", "\n"))


def _octets(part: Message) -> bytes:
    if part.is_multipart():  # an attached message, or the parts of a report
        return b"".join(_or(b"", partial(child.as_bytes, policy=policy.SMTP)) for child in _children(part))
    decoded = _or(None, lambda: part.get_payload(decode=True))
    return decoded if isinstance(decoded, bytes) else _undecoded(_or("", lambda: str(part.get_payload())))


def _attachment(part: Message, *, number: int) -> Attachment:
    content_type = part.get_content_type()
    fallback = f"part-{number}.eml" if content_type == "message/rfc822" else f"part-{number}"
    inline_id = _or("", lambda: _header_text(part.get("content-id", ""))).strip("<>")
    return Attachment(
        filename=_header_text(_or(None, part.get_filename) or "")[:FILENAME_CHARS_MAX] or fallback,
        content_type=_header_text(content_type)[:200],
        inline_id=inline_id or None,
        data=_octets(part),
    )


def _decode(octets: bytes, charset: str) -> str:
    if _or("", lambda: codecs.lookup(charset).name) in _NO_CHARSETS:
        return _guess(octets)
    return _or(None, lambda: octets.decode(charset, "replace")) or _guess(octets)


def _guess(octets: bytes) -> str:
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return octets.decode("cp1252", "replace")


def _without_tags(text: str) -> str:
    return unescaped(_TAG.sub(" ", text[: 10 * SEARCH_CHARS_MAX]))
