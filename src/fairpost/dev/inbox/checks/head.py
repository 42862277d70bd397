"""Who it is from, when, its Message-ID and its subject; and whether its bytes may travel."""

import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

from fairpost.dev.inbox.checks.findings import SHOWN_CHARS_MAX, Finding, bad, count, cut, good, note, values_of
from fairpost.dev.inbox.reading import Reading

SUBJECT_CHARS_MAX = 78
LINE_BYTES_MAX = 998  # RFC 5321, without the line's end

_DOMAIN = re.compile(r"\[[^\[\]\s]+\]|[\w-][\w.-]*")
_MESSAGE_ID = re.compile(r"<[^<>@\s]+@[^<>@\s]+>")


def check_sender(reading: Reading) -> Iterator[Finding]:
    match values_of(reading, "from"):
        case []:
            yield bad("from", "There is no From header, and most servers refuse a mail without one. Set the sender.")
        case [value] if _is_address(_address_in(value)):
            yield good("from", f"It is from {cut(value)}.")
        case [value]:
            yield bad(
                "from",
                f"From has no address in it that could be answered: {cut(value)!r}. Write it like Ann <ann@example.com>.",
            )
        case values:
            yield bad("from", f"There are {len(values)} From headers, and many servers refuse that. Leave one.")


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
                "date", "There is no Date header, and filters count that against a mail. Set it when the mail is made."
            )
        case [value] if _is_date(value):
            yield good("date", f"Its date is {cut(value)}.")
        case [value]:
            yield bad("date", f"Date cannot be read: {cut(value)!r}. Write it like Tue, 01 Jan 2030 09:00:00 +0000.")
        case values:
            yield bad("date", f"There are {len(values)} Date headers, and there must be one. Leave one.")


def _is_date(value: str) -> bool:
    try:
        parsedate_to_datetime(value[:SHOWN_CHARS_MAX])
    except Exception:  # the library documents none of what it may raise here
        return False
    return True


def check_message_id(reading: Reading) -> Iterator[Finding]:
    match values_of(reading, "message-id"):
        case []:
            yield bad(
                "message-id",
                "There is no Message-ID, and filters count that against a mail. Give each mail one of its own.",
            )
        case [value] if _MESSAGE_ID.fullmatch(value):
            yield good("message-id", f"Its Message-ID is {cut(value)}.")
        case [value]:
            yield bad("message-id", f"Message-ID is not like <one@example.com>: {cut(value)!r}. Make it so.")
        case values:
            yield bad("message-id", f"There are {len(values)} Message-IDs, and there must be one. Leave one.")


def check_subject(reading: Reading) -> Iterator[Finding]:
    subject = reading.header("subject")
    if not subject:
        yield bad("subject", "There is no subject. Write one.")
    elif len(subject) > SUBJECT_CHARS_MAX:
        yield note(
            "subject",
            f"The subject has {len(subject):,} characters, and most programs show fewer than {SUBJECT_CHARS_MAX}. Make it shorter.",
        )
    else:
        yield good("subject", f"The subject has {count(len(subject), 'character')}.")
    if len(values_of(reading, "subject")) > 1:
        yield bad("subject", "There are several subjects, and there must be one. Leave one.")


def check_bytes(raw: bytes, reading: Reading) -> Iterator[Finding]:
    end = re.search(rb"\r?\n\r?\n", raw)
    head = raw[: end.start()] if end else raw
    if reading.headers and not head.isascii():
        yield bad(
            "headers", "Headers have bytes beyond ASCII, which only some servers take. Encode them: =?utf-8?q?…?=."
        )
    if _has_long_line(raw.replace(b"\r\n", b"\n")):
        yield bad(
            "lines",
            f"A line has more than {LINE_BYTES_MAX} bytes, and servers may refuse that. Use quoted-printable or base64.",
        )


def _has_long_line(raw: bytes) -> bool:
    """From each place to the last end of a line within reach: a thousand bytes at a step."""
    at = 0
    while len(raw) - at > LINE_BYTES_MAX:
        end = raw.rfind(b"\n", at, at + LINE_BYTES_MAX + 1)
        if end < 0:
            return True
        at = end + 1
    return False
