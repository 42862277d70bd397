"""Complaints: feedback reports (RFC 5965), and other messages that providers send instead."""

import re
from typing import NamedTuple

from fairpost.returns.addresses import address_of, addresses_in
from fairpost.returns.mail import MESSAGES, Mail

RECIPIENTS_MAX = 100
_FIELD = re.compile(r"^[ \t>]{0,3}([A-Za-z][\w-]{2,40})[ \t]*:[ \t]*(.*)$", re.MULTILINE)
_TYPE = re.compile(r"^[ \t>]{0,3}Feedback-Type[ \t]*:", re.IGNORECASE | re.MULTILINE)
_COMPANIONS = re.compile(
    r"^[ \t>]{0,3}(?:User-Agent|Version|Original-Mail-From|Source-IP|Arrival-Date)[ \t]*:", re.IGNORECASE | re.MULTILINE
)
# Phrases used by programs that forward mail marked as spam by a person but omit the standard fields.
_SUBJECT = re.compile(
    r"complaint about (?:a )?message from|abuse report\b|\bfeedback loop\b|\bspam (?:report|complaint)|(?:email|e-mail) abuse report",
    re.IGNORECASE,
)
_TEXT = re.compile(
    r"this is an? (?:e-?mail )?(?:abuse|spam|feedback)[\w ]{0,20} report|marked (?:this|the|your) (?:message|mail|e-?mail) as (?:spam|junk)",
    re.IGNORECASE,
)
_RECIPIENT_FIELDS = ("original-rcpt-to", "removal-recipient")
_RECIPIENT_HEADERS = (
    *("x-hmxmroriginalrecipient", "x-original-to", "x-rcpt-to", "delivered-to", "x-apparently-to", "envelope-to"),
    *("x-envelope-to", "to", "cc"),
)
_FOR = re.compile(r"\bfor\s{1,4}<([^<>\s]{1,250}@[^<>\s]{1,250})>")  # the recipient in a Received header

# Complaints by a person. All other kinds, such as auth-failure (RFC 6591) and not-spam, concern the delivery.
OF_PEOPLE = frozenset({"abuse", "fraud", "virus", "other", "opt-out", "opt-out-list", "miscategorized", ""})


class Complaint(NamedTuple):
    feedback_type: str
    addresses: list[str]


def read_complaint(mail: Mail) -> Complaint | None:
    fields = _fields(mail)
    if fields is None and not _is_forwarded_complaint(mail):
        return None
    fields = fields or {}
    found = [address for name in _RECIPIENT_FIELDS for value in fields.get(name, []) if (address := address_of(value))]
    kind = (fields.get("feedback-type") or [""])[0].strip().lower()
    return Complaint(kind, list(dict.fromkeys(found or _in_returned(mail)))[:RECIPIENTS_MAX])


def _fields(mail: Mail) -> dict[str, list[str]] | None:
    text = "\n".join(part.text()[:20_000] for part in mail.of_kind("message/feedback-report"))
    if not text:
        text = next((each for each in _texts(mail) if _TYPE.search(each) and _COMPANIONS.search(each)), "")
    if not text:
        return {} if "feedback-report" in mail.parameters.lower() else None
    fields: dict[str, list[str]] = {}
    for match in _FIELD.finditer(text):
        fields.setdefault(match[1].lower(), []).append(match[2])
    return fields


def _texts(mail: Mail) -> list[str]:
    return [part.text()[:20_000] for part in mail.parts if part.kind.startswith("text/") and part.kind != "text/html"]


def _is_forwarded_complaint(mail: Mail) -> bool:
    is_titled = bool(_SUBJECT.search(mail.headers.decoded("subject"))) or bool(_TEXT.search(mail.text[:4_000]))
    return is_titled and any(part.kind in MESSAGES for part in mail.parts)


def _in_returned(mail: Mail) -> list[str]:
    for part in mail.parts:
        if part.kind in MESSAGES:
            headers = part.message().headers
            values = (headers[name] for name in _RECIPIENT_HEADERS)
            named = next((found for value in values if (found := addresses_in(value))), [])
            return named or [match[1] for value in headers.all("received") if (match := _FOR.search(value))][:1]
    return []
