"""Events for programs: what happened to e-mails, accounts, campaigns, senders and domains.

The names of these events are stable. The log for people is separate (see reasons/events.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairpost.model.ids import EmailId


class EventKind(StrEnum):
    EMAIL_QUEUED = "email.queued"
    EMAIL_SENT = "email.sent"
    EMAIL_DELIVERY_DELAYED = "email.delivery_delayed"
    EMAIL_BOUNCED = "email.bounced"
    EMAIL_COMPLAINED = "email.complained"
    EMAIL_FAILED = "email.failed"
    EMAIL_SUPPRESSED = "email.suppressed"
    EMAIL_CANCELLED = "email.cancelled"
    EMAIL_IN_DOUBT = "email.in_doubt"
    EMAIL_REPLIED = "email.replied"
    EMAIL_AUTO_REPLIED = "email.auto_replied"
    EMAIL_UNSUBSCRIBED = "email.unsubscribed"
    ACCOUNT_PAUSED = "account.paused"
    ACCOUNT_RESUMED = "account.resumed"
    ACCOUNT_SUSPENDED = "account.suspended"
    CAMPAIGN_STARTED = "campaign.started"
    CAMPAIGN_PAUSED = "campaign.paused"
    CAMPAIGN_COMPLETED = "campaign.completed"
    CAMPAIGN_FAILED = "campaign.failed"
    SUPPRESSION_CREATED = "suppression.created"
    SENDER_THROTTLED = "sender.throttled"
    DOMAIN_VERIFIED = "domain.verified"


MEANING: Mapping[EventKind, str] = {
    EventKind.EMAIL_QUEUED: "An engine absorbed the e-mail, or the e-mail was queued again.",
    EventKind.EMAIL_SENT: "The next hop accepted the e-mail. The e-mail may still be returned.",
    EventKind.EMAIL_DELIVERY_DELAYED: "An attempt failed and the e-mail will be retried, or a server reported a delay.",
    EventKind.EMAIL_BOUNCED: "The recipient's server permanently rejected the e-mail or returned it.",
    EventKind.EMAIL_COMPLAINED: "The recipient reported the e-mail as spam.",
    EventKind.EMAIL_FAILED: "The e-mail failed. You can retry it.",
    EventKind.EMAIL_SUPPRESSED: "The e-mail was not sent, because every recipient is on the suppression list.",
    EventKind.EMAIL_CANCELLED: "The e-mail was cancelled or expired and was not sent.",
    EventKind.EMAIL_IN_DOUBT: "The outcome of an attempt is unknown.",
    EventKind.EMAIL_REPLIED: "A person replied.",
    EventKind.EMAIL_AUTO_REPLIED: "An automatic reply arrived, for example an out-of-office reply.",
    EventKind.EMAIL_UNSUBSCRIBED: "The recipient unsubscribed.",
    EventKind.ACCOUNT_PAUSED: "The account was paused or reached its daily limit.",
    EventKind.ACCOUNT_RESUMED: "The account is sending again.",
    EventKind.ACCOUNT_SUSPENDED: "The account was suspended. It needs attention.",
    EventKind.CAMPAIGN_STARTED: "The campaign started or resumed.",
    EventKind.CAMPAIGN_PAUSED: "The campaign was paused.",
    EventKind.CAMPAIGN_COMPLETED: "All of the campaign's e-mails are finished.",
    EventKind.CAMPAIGN_FAILED: "The campaign cannot continue.",
    EventKind.SUPPRESSION_CREATED: "An address was added to the suppression list.",
    EventKind.SENDER_THROTTLED: "A sender was throttled.",
    EventKind.DOMAIN_VERIFIED: "A sending domain was verified.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event. `id` never changes. To read later events, continue after `cursor`. `address` is the recipient that the
    event concerns; `recipients` are all of the e-mail's recipients.
    """

    cursor: str
    id: int
    at: datetime
    kind: str
    workspace: str | None = None
    email_id: "EmailId | None" = None
    account: str | None = None
    campaign: str | None = None
    subject: str | None = None
    address: str | None = None
    recipients: tuple[str, ...] = ()
    type: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """A page of events. Continue after `cursor`, even if there are no events. `is_end` means that there are no more
    events.
    """

    events: tuple[Event, ...]
    cursor: str | None
    is_end: bool

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)
