"""Write Fairpost's e-mails to operators and workspace managers. These e-mails are queued like any others."""

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from fairpost.model.sender import Sender, SenderLevel
from fairpost.model.webhook import Webhook
from fairpost.model.workspace import SERVICE_WORKSPACE
from fairpost.reasons.rendering import brief


def notice_of_throttles(about: Sequence[Sender], to: str, *, pool: str, now: datetime) -> dict[str, Any]:
    """Return one e-mail about all of these throttles. The idempotency key keeps other engines from sending a copy."""
    first = about[0]
    subject = f"Fairpost: {first.id} {_verb(first)}"
    if len(about) > 1:
        subject += f", and {len(about) - 1} more"
    return {
        "workspace": SERVICE_WORKSPACE,
        "stream": "",
        "class": "urgent",
        "pool": pool,
        "to": to,
        "subject": subject[:200],
        "text": "\n\n".join([_paragraph(sender) for sender in about] + [_CLOSING]),
        "idempotency_key": f"throttles {to} {now.isoformat()}",
    }


_CLOSING = (
    "E-mails from a throttled sender stay in the queue and are sent when the throttle ends.\n"
    "Details: fairpost user list --throttled, fairpost fairness"
)


def _verb(sender: Sender) -> str:
    return "is throttled" if sender.is_enforced else "would be throttled (abuse detection is set to observe)"


def _paragraph(sender: Sender) -> str:
    assert sender.throttle is not None
    names = [sender.id.workspace, sender.id.name] if sender.id.level is SenderLevel.USER else [sender.id.workspace]
    return "\n".join(
        [
            f"{str(sender.id)[0].upper()}{str(sender.id)[1:]} {_verb(sender)}",
            f"  since {sender.throttle.since:%Y-%m-%d %H:%M:%S %Z}, until {sender.throttle.until:%Y-%m-%d %H:%M:%S %Z}",
            f"  score {sender.score} of 100, confidence {sender.confidence:.2f}",
            *(f"  - {brief(reason)}" for reason in sender.reasons),
            f"  To end the throttle: fairpost user unthrottle --workspace {shlex.join(names)}",
        ]
    )


def notice_of_disabled_webhook(webhook: Webhook, name: str, to: str, *, pool: str, public_url: str) -> dict[str, Any]:
    """Return one e-mail about a disabled webhook, whose public ID is `name`.

    The idempotency key keeps other engines from sending a copy.
    """
    assert webhook.disabled_at is not None
    whose = f"workspace {webhook.workspace}" if webhook.workspace else "the operator"
    since = f" since {webhook.failing_since:%Y-%m-%d %H:%M %Z}" if webhook.failing_since else ""
    why = f"\nLast failure: {brief(webhook.why)}." if webhook.why else ""
    place = f"on {public_url.rstrip('/')}/settings/webhooks, or " if public_url and webhook.workspace else ""
    return {
        "workspace": SERVICE_WORKSPACE,
        "stream": "",
        "class": "urgent",
        "pool": pool,
        "type": "webhook_disabled",
        "to": to,
        "subject": f"A webhook was disabled: {webhook.url}"[:200],
        "text": (
            f"Fairpost stopped posting events from {whose} to\n\n  {webhook.url}\n\n"
            f"Nothing could be delivered{since}.{why}\n\n"
            f"New events are kept. When the endpoint works again, resume it {place}with:\n\n"
            f"  fairpost webhook resume {name}\n\n"
            "The endpoint then receives all missed events that are still stored.\n"
        ),
        "headers": {"Auto-Submitted": "auto-generated"},
        "idempotency_key": f"webhook {webhook.id} {to} {webhook.disabled_at.isoformat()}",
    }
