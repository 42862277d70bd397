"""Webhooks: endpoints that events are posted to, as defined by the Standard Webhooks specification, and the request
log.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from fairpost.model.event import Event
from fairpost.model.reason import Reason
from fairpost.model.transport import SealedSecret

TEST = "webhook.test"
SECRET_PREFIX = "whsec_"  # noqa: S105 - a prefix


class WebhookState(StrEnum):
    ACTIVE = "active"
    FAILING = "failing"  # nothing could be delivered for a while; deliveries are still retried
    PAUSED = "paused"
    DISABLED = "disabled"  # turned off after a day of failures, or at the endpoint's request


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """An endpoint. If `workspace` is None, the endpoint belongs to the operator and covers all workspaces.

    If `kinds` is empty, the endpoint receives events of all kinds. The endpoint receives only events that have all of
    the `tags`.
    """

    id: int
    workspace: str | None
    url: str
    description: str = ""
    kinds: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime
    paused_at: datetime | None = None
    disabled_at: datetime | None = None
    failing_since: datetime | None = None
    failures: int = 0
    next_at: datetime | None = None
    why: Reason | None = None  # the reason for the last failure
    delivered_at: datetime | None = None
    cursor: str
    is_behind: bool = True
    epoch: int = 0

    @property
    def state(self) -> WebhookState:
        if self.disabled_at is not None:
            return WebhookState.DISABLED
        if self.paused_at is not None:
            return WebhookState.PAUSED
        return WebhookState.ACTIVE if self.failing_since is None or self.why is None else WebhookState.FAILING

    def wants(self, event: Event) -> bool:
        return (not self.kinds or event.kind in self.kinds) and all(
            event.tags.get(name) == value for name, value in self.tags.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSecret:
    """A secret. If `expires_at` is set, another secret has replaced this one, and both sign requests until then."""

    id: int
    webhook_id: int
    sealed: str = field(repr=False)
    expires_at: datetime | None = None

    @property
    def as_sealed(self) -> SealedSecret:
        return SealedSecret(owner=owner_of_secret(self.id), name=f"of webhook {self.webhook_id}", sealed=self.sealed)


def owner_of_secret(secret_id: int) -> str:
    return f"webhook {secret_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The result of one request.

    `why` is None if the event was delivered. `answer` is the start of the response body.
    """

    status: int | None = None
    why: Reason | None = None
    answer: str = ""
    duration_ms: int = 0
    retry_after_s: float | None = None

    @property
    def is_delivered(self) -> bool:
        return self.why is None

    @property
    def is_gone(self) -> bool:
        return self.status == 410


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """An event to deliver. `attempts` counts earlier attempts. `since` is when the event became pending, or None if the
    event is new.
    """

    event: Event
    attempts: int = 0
    since: datetime | None = None

    @property
    def place(self) -> tuple[int, int]:
        turn, _, id_ = self.event.cursor.partition(".")
        return int(turn), int(id_)

    @property
    def lane(self) -> str:
        """The event's lane. Events about the same e-mail or other object are delivered in order."""
        return lane_of(self.event)


def lane_of(event: Event) -> str:
    return str(event.email_id) if event.email_id is not None else f"{event.workspace} {event.subject or event.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A request, as written to the log."""

    due: Due
    message_id: str
    at: datetime
    answered: Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A log entry. `cursor` is None for a test."""

    id: int
    webhook_id: int
    at: datetime
    message_id: str
    kind: str
    cursor: str | None
    attempt: int
    status: int | None
    why: Reason | None
    duration_ms: int
    answer: str
