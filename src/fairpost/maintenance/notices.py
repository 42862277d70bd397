"""E-mails of Fairpost's own, to those who run it. They go through the queue like any other."""

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from fairpost.model.sender import Sender, SenderLevel
from fairpost.model.workspace import SERVICE_WORKSPACE
from fairpost.reasons.rendering import brief


def notice_of_throttles(about: Sequence[Sender], to: str, *, pool: str, now: datetime) -> dict[str, Any]:
    """One e-mail about all of them. The key keeps a second engine from saying it again."""
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
    "Held e-mails are not lost: they go out when the throttle ends.\n"
    "See more: fairpost user list --throttled, fairpost fairness"
)


def _verb(sender: Sender) -> str:
    return "is throttled" if sender.is_enforced else "would be throttled (abuse detection only observes)"


def _paragraph(sender: Sender) -> str:
    assert sender.throttle is not None
    names = [sender.id.workspace, sender.id.name] if sender.id.level is SenderLevel.USER else [sender.id.workspace]
    return "\n".join(
        [
            f"{str(sender.id)[0].upper()}{str(sender.id)[1:]} {_verb(sender)}",
            f"  since {sender.throttle.since:%Y-%m-%d %H:%M:%S %Z}, until {sender.throttle.until:%Y-%m-%d %H:%M:%S %Z}",
            f"  score {sender.score} of 100, confidence {sender.confidence:.2f}",
            *(f"  - {brief(reason)}" for reason in sender.reasons),
            f"  To let it go: fairpost user unthrottle {shlex.join(names)}",
        ]
    )
