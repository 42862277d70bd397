"""Header lines: how to fold them, and the two kinds of headers that a caller can set.

Unstructured text (Subject, most X-… headers) is converted to encoded words if plain ASCII cannot represent it.
Structured headers are parsed by machines, so they are left unchanged.

Lines are broken only at a single space between two words, because every parser restores such a space, whereas many
parsers collapse multiple spaces and tabs.
"""

import re
from functools import lru_cache

from fairpost.compose.encoded_words import WORD_CHARS_MAX, WORD_CHARS_MIN, encoded_words
from fairpost.compose.errors import Uncomposable

LINE_BYTES_GOOD = 76  # RFC 2047's limit for lines with encoded words; RFC 5322 recommends 78
LINE_BYTES_MAX = 998

NAME = re.compile(r"[!-9;-~]+")
PLAIN_TEXT = re.compile(r"[!-~](?:[\t -~]*[!-~])?")
SINGLE_SPACE = re.compile(rb"(?<![ \t]) (?![ \t])")
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

STRUCTURED = frozenset({
    "archived-at", "authentication-results", "auto-submitted", "autocrypt", "cfbl-address", "cfbl-feedback-id", "deferred-delivery",
    "disposition-notification-options", "disposition-notification-to", "errors-to", "expires", "expiry-date", "feedback-id",
    "importance", "in-reply-to", "jabber-id", "original-message-id", "original-recipient", "precedence", "priority",
    "references", "reply-by", "require-recipient-valid-since", "return-receipt-to", "sensitivity", "solicitation",
    "supersedes", "tls-required", "x-auto-response-suppress", "x-confirm-reading-to", "x-entity-ref-id",
    "x-msmail-priority", "x-priority",
})  # fmt: skip
STRUCTURED_FAMILIES = ("arc-", "dkim-", "list-", "resent-")


def fold(name: bytes, words: list[bytes]) -> bytes:
    """Folds the header between words. A word may be at most 997 bytes long."""
    whole = b"%b: %b" % (name, b" ".join(words))
    if len(whole) <= LINE_BYTES_GOOD:
        return whole + b"\r\n"
    lines, line = [], b"%b: %b" % (name, words[0])
    if len(line) > LINE_BYTES_MAX:
        lines, line = [name + b":"], b" " + words[0]
    for word in words[1:]:
        if len(line) + 1 + len(word) <= LINE_BYTES_GOOD:
            line += b" " + word
        else:
            lines.append(line)
            line = b" " + word
    return b"\r\n".join([*lines, line, b""])


def custom_header(name: str, value: str) -> bytes:
    is_structured = _is_structured(name)
    if len(name) + len(value) + 2 <= LINE_BYTES_GOOD and PLAIN_TEXT.fullmatch(value) and "=?" not in value:
        return f"{name}: {value}\r\n".encode("ascii")
    return structured_header(name, value) if is_structured else text_header(name.encode("ascii"), value)


def text_header(name: bytes, value: str) -> bytes:
    if not value:
        return name + b":\r\n"
    if PLAIN_TEXT.fullmatch(value) and "=?" not in value:
        words = SINGLE_SPACE.split(value.encode("ascii"))
        if len(name) + 2 + max(map(len, words)) <= LINE_BYTES_MAX:
            return fold(name, words)
    # A break right after the name would leave more room, but some parsers then treat the space as part of the text.
    first = max(WORD_CHARS_MIN, min(WORD_CHARS_MAX, LINE_BYTES_GOOD - len(name) - 2))
    return b"%b: %b\r\n" % (name, b"\r\n ".join(encoded_words(value, first=first)))


def structured_header(name: str, value: str) -> bytes:
    """Formats a structured header. The value is never encoded, so if it contains non-ASCII characters, they remain
    UTF-8 and the message needs SMTPUTF8.
    """
    words = SINGLE_SPACE.split(CONTROLS.sub(" ", value).strip(" ").encode("utf-8", "replace"))
    longest = max(map(len, words))
    if not longest:
        return f"{name}:\r\n".encode("ascii")
    if longest >= LINE_BYTES_MAX:
        raise Uncomposable(
            f"The header {name} contains {longest} bytes without a space. A line can be at most {LINE_BYTES_MAX} bytes long. Shorten the header."
        )
    return fold(name.encode("ascii"), words)


@lru_cache(maxsize=1024)
def _is_structured(name: str) -> bool:
    if not NAME.fullmatch(name):
        raise Uncomposable(f"{name!r} is not a valid header name. Use printable ASCII without spaces and colons.")
    return name.lower() in STRUCTURED or name.lower().startswith(STRUCTURED_FAMILIES)
