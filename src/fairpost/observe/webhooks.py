"""Webhooks that need attention, and logged requests, whose bodies are rebuilt from the stored events."""

from fairpost.model.public_ids import Kind, PublicIds
from fairpost.model.reason import Reason
from fairpost.model.webhook import Delivery, Webhook, WebhookState
from fairpost.policy.conditions import Condition, Tone
from fairpost.store import webhooks
from fairpost.store.store import Store
from fairpost.webhooks.body import message_of, test_event

BODY_CHARS_MAX = 20_000


async def request_of(store: Store, webhook: Webhook, delivery: Delivery, ids: PublicIds) -> str | None:
    """Return the body, or None if the event is no longer stored. Data that has since been erased is not included."""
    if delivery.cursor is None:
        event = test_event(webhook.workspace, now=delivery.at)
    else:
        found = await webhooks.event_at(store, webhook, delivery.cursor)
        if found is None:
            return None
        event = found
    return message_of(event, ids, to_operator=webhook.workspace is None)[1].decode()[:BODY_CHARS_MAX]


async def troubled(store: Store) -> list[Condition]:
    """Return endpoints that are failing or were disabled, in all workspaces."""
    ids = await store.public_ids()
    return [_trouble(each, ids) for each in await webhooks.all_webhooks(store, only_troubled=True)]


def _trouble(webhook: Webhook, ids: PublicIds) -> Condition:
    name = ids.public(Kind.WEBHOOK, webhook.id)
    if webhook.state is WebhookState.DISABLED:
        disabled = Reason("webhook.disabled", webhook=name, url=webhook.url, why=webhook.why)
        return Condition(reason=disabled, tone=Tone.STOPPED)
    failing = Reason("webhook.failing", webhook=name, url=webhook.url, why=webhook.why, since=webhook.failing_since)
    return Condition(reason=failing, tone=Tone.FAULT, until=webhook.next_at)
