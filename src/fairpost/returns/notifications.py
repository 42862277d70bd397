"""Amazon's notifications by mail: bounces, complaints and deliveries as JSON (SES over SNS)."""

import json
from typing import Any, NamedTuple

from fairpost.returns.mail import Mail, storable

CHARS_MAX = 100_000


class Notified(NamedTuple):
    is_complaint: bool
    recipients: list[tuple[str, str, str, str]]  # address, action, status, diagnostic
    feedback_type: str = ""


def read_notification(mail: Mail) -> Notified | None:
    told = _object(mail.text[:CHARS_MAX])
    if isinstance(told.get("Message"), str):
        told = _object(told["Message"])
    match told.get("notificationType") or told.get("eventType"):
        case "Bounce":
            bounce = _dict(told.get("bounce"))
            return Notified(False, [_bounced(each, bounce) for each in _dicts(bounce.get("bouncedRecipients"))])
        case "Complaint":
            complaint = _dict(told.get("complaint"))
            found = [
                (_text(each, "emailAddress"), "", "", "") for each in _dicts(complaint.get("complainedRecipients"))
            ]
            return Notified(True, found, _text(complaint, "complaintFeedbackType"))
        case "Delivery":
            delivery = _dict(told.get("delivery"))
            said, names = _text(delivery, "smtpResponse"), delivery.get("recipients")
            found = [(storable(str(name)), "delivered", "", said) for name in names] if isinstance(names, list) else []
            return Notified(False, found)
        case _:
            return None


def _bounced(each: dict[str, Any], bounce: dict[str, Any]) -> tuple[str, str, str, str]:
    action = _text(each, "action") or ("delayed" if bounce.get("bounceType") == "Transient" else "failed")
    return _text(each, "emailAddress"), action, _text(each, "status"), _text(each, "diagnosticCode")


def _object(text: str) -> dict[str, Any]:
    text = text.lstrip().replace("!\n ", "")  # line breaks that old mail programs insert into long lines
    if not text.startswith("{"):
        return {}
    try:
        return _dict(json.JSONDecoder(strict=False).raw_decode(text)[0])
    except (ValueError, RecursionError):
        return {}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    return storable(value) if isinstance(value, str) else ""
