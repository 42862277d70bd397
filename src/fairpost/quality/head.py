"""Checks From, Date, Message-ID and Subject, and whether the bytes are valid for transport."""

import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

from fairpost.quality.findings import SHOWN_CHARS_MAX, Finding, bad, count, cut, good, note, values_of
from fairpost.quality.reading import Reading

SUBJECT_CHARS_MAX = 78
LINE_BYTES_MAX = 998  # RFC 5321, not counting the line ending

_DOMAIN = re.compile(r"\[[^\[\]\s]+\]|[\w-][\w.-]*")
_MESSAGE_ID = re.compile(r"<[^<>@\s]+@[^<>@\s]+>")


def check_sender(reading: Reading) -> Iterator[Finding]:
    match values_of(reading, "from"):
        case []:
            yield bad("from", "There is no From header. Most servers reject such mail. Set the sender.")
        case [value] if _is_address(_address_in(value)):
            yield good("from", f"The sender is {cut(value)}.")
        case [value]:
            yield bad(
                "from",
                f"From does not contain a valid address: {cut(value)!r}. Use a format such as Ann <ann@example.com>.",
            )
        case values:
            yield bad("from", f"There are {len(values)} From headers, which many servers reject. Keep one.")


def _address_in(value: str) -> str:
    return value.rpartition("<")[2].partition(">")[0]


def _is_address(text: str) -> bool:
    local, at, domain = text.strip().rpartition("@")
    is_plain = local.startswith('"') or not any(c.isspace() or c in ",;<>()" for c in local)
    return bool(local and at) and is_plain and _DOMAIN.fullmatch(domain) is not None


def check_date(reading: Reading) -> Iterator[Finding]:
    match values_of(reading, "date"):
        case []:
            yield bad(
                "date", "There is no Date header, which makes filters suspicious. Set it when you create the message."
            )
        case [value] if _is_date(value):
            yield good("date", f"The date is {cut(value)}.")
        case [value]:
            yield bad(
                "date", f"Date cannot be read: {cut(value)!r}. Use a format such as Tue, 01 Jan 2030 09:00:00 +0000."
            )
        case values:
            yield bad("date", f"There are {len(values)} Date headers, but there must be only one. Keep one.")


def _is_date(value: str) -> bool:
    try:
        parsedate_to_datetime(value[:SHOWN_CHARS_MAX])
    except Exception:  # the library does not document which exceptions it raises here
        return False
    return True


def check_message_id(reading: Reading) -> Iterator[Finding]:
    match values_of(reading, "message-id"):
        case []:
            yield bad(
                "message-id",
                "There is no Message-ID, which makes filters suspicious. Give each message a unique one.",
            )
        case [value] if _MESSAGE_ID.fullmatch(value):
            yield good("message-id", f"The Message-ID is {cut(value)}.")
        case [value]:
            yield bad(
                "message-id", f"The Message-ID does not have the format <one@example.com>: {cut(value)!r}. Correct it."
            )
        case values:
            yield bad("message-id", f"There are {len(values)} Message-IDs, but there must be only one. Keep one.")


def check_subject(reading: Reading) -> Iterator[Finding]:
    subject = reading.header("subject")
    if not subject:
        yield bad("subject", "There is no subject. Add one.")
    elif len(subject) > SUBJECT_CHARS_MAX:
        yield note(
            "subject",
            f"The subject is {len(subject):,} characters long, but most mail programs show fewer than {SUBJECT_CHARS_MAX}. Shorten it.",
        )
    else:
        yield good("subject", f"The subject is {count(len(subject), 'character')} long.")
    if len(values_of(reading, "subject")) > 1:
        yield bad("subject", "There are several subjects, but there must be only one. Keep one.")


def check_bytes(raw: bytes, reading: Reading) -> Iterator[Finding]:
    end = re.search(rb"\r?\n\r?\n", raw)
    head = raw[: end.start()] if end else raw
    if reading.headers and not head.isascii():
        yield bad(
            "headers", "Headers contain non-ASCII bytes, which only some servers accept. Encode them: =?utf-8?q?…?=."
        )
    if _has_long_line(raw.replace(b"\r\n", b"\n")):
        yield bad(
            "lines",
            f"A line is longer than {LINE_BYTES_MAX} bytes, which servers may reject. Use quoted-printable or base64.",
        )


def _has_long_line(raw: bytes) -> bool:
    """Returns whether a line is too long. Each step jumps to the last line ending within the next thousand bytes."""
    at = 0
    while len(raw) - at > LINE_BYTES_MAX:
        end = raw.rfind(b"\n", at, at + LINE_BYTES_MAX + 1)
        if end < 0:
            return True
        at = end + 1
    return False
