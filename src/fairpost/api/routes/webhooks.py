"""Webhooks of a workspace: endpoints to which its events are posted."""

from datetime import timedelta
from typing import Annotated

from fastapi import Query, status

from fairpost.actions import webhooks as actions
from fairpost.api.access import TRYING, Caller, Manages, Reads
from fairpost.api.acting import act
from fairpost.api.answers import Answer, Page, failures
from fairpost.api.errors import ApiError, not_found
from fairpost.api.pages import BIGGEST, Cursor, Limit, number_at, page_of, sealed
from fairpost.api.routing import Router
from fairpost.api.service import TheService
from fairpost.api.shapes.webhooks import (
    DeliveryOut,
    DeliveryPath,
    DeliveryWithRequest,
    ReplayIn,
    RotateIn,
    TestOut,
    WebhookIn,
    WebhookOut,
    WebhookPatch,
    WebhookPath,
    WebhookWithSecret,
    WhyOut,
)
from fairpost.model.errors import VaultError
from fairpost.model.public_ids import Kind
from fairpost.model.reason import Reason
from fairpost.model.webhook import Delivery, Webhook
from fairpost.observe.webhooks import request_of
from fairpost.reasons.rendering import brief
from fairpost.store import webhooks

TAG = {"name": "webhooks", "description": "Your endpoints, to which Fairpost posts events."}
router = Router(prefix="/v1/webhooks", tags=["webhooks"])


@router.get("", summary="List webhooks", responses=failures())
async def list_webhooks(caller: Reads) -> Answer[list[WebhookOut]]:
    return Answer(data=[_told(each, caller) for each in await webhooks.webhooks_of(caller.store, caller.workspace)])


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    summary="Add a webhook",
    responses=failures("conflict", "invalid"),
    dependencies=TRYING,
)
async def add_webhook(given: WebhookIn, caller: Manages, service: TheService) -> Answer[WebhookWithSecret]:
    request = actions.AddWebhook(
        workspace=caller.workspace,
        url=given.url,
        description=given.description,
        kinds=given.types,
        tags=given.tags,
        guard=service.guard,
        vault=service.vault,
        owner=caller.owner,
    )
    try:
        done = await act(caller, actions.add, request)
    except VaultError:
        raise _no_vault() from None
    return Answer(data=_with_secret(done, caller))


@router.get("/{webhook}", summary="Get a webhook", responses=failures("not_found"))
async def get_webhook(webhook: WebhookPath, caller: Reads) -> Answer[WebhookOut]:
    return Answer(data=_told(await _found(webhook, caller), caller))


@router.patch("/{webhook}", summary="Change a webhook", responses=failures("not_found", "invalid"), dependencies=TRYING)
async def change_webhook(
    webhook: WebhookPath, given: WebhookPatch, caller: Manages, service: TheService
) -> Answer[WebhookOut]:
    request = actions.EditWebhook(
        id=_number(webhook, caller),
        called=webhook,
        url=given.url,
        description=given.description,
        kinds=given.types,
        tags=given.tags,
        guard=service.guard,
    )
    return Answer(data=_told(await act(caller, actions.edit, request), caller))


@router.delete("/{webhook}", summary="Remove a webhook", responses=failures("not_found"))
async def remove_webhook(webhook: WebhookPath, caller: Manages) -> Answer[WebhookOut]:
    return Answer(data=_told(await act(caller, actions.remove, _named(webhook, caller)), caller))


@router.post("/{webhook}/pause", summary="Pause a webhook", responses=failures("not_found"))
async def pause_webhook(webhook: WebhookPath, caller: Manages) -> Answer[WebhookOut]:
    return Answer(data=_told(await act(caller, actions.pause, _named(webhook, caller)), caller))


@router.post("/{webhook}/resume", summary="Resume a webhook", responses=failures("not_found"))
async def resume_webhook(webhook: WebhookPath, caller: Manages) -> Answer[WebhookOut]:
    return Answer(data=_told(await act(caller, actions.resume, _named(webhook, caller)), caller))


@router.post("/{webhook}/rotate", summary="Replace a webhook's secret", responses=failures("not_found"))
async def rotate_webhook(
    webhook: WebhookPath, given: RotateIn, caller: Manages, service: TheService
) -> Answer[WebhookWithSecret]:
    request = actions.RotateWebhook(
        id=_number(webhook, caller),
        called=webhook,
        vault=service.vault,
        owner=caller.owner,
        overlap=timedelta(seconds=given.overlap_s),
    )
    try:
        done = await act(caller, actions.rotate, request)
    except VaultError:
        raise _no_vault() from None
    return Answer(data=_with_secret(done, caller))


@router.post("/{webhook}/test", summary="Post a test event", responses=failures("not_found"), dependencies=TRYING)
async def test_webhook(webhook: WebhookPath, caller: Manages, service: TheService) -> Answer[TestOut]:
    request = actions.TestWebhook(
        id=_number(webhook, caller), called=webhook, guard=service.guard, vault=service.vault, owner=caller.owner
    )
    try:
        done = await act(caller, actions.test, request)
    except VaultError:
        raise _no_vault() from None
    answered = done.answered
    return Answer(
        data=TestOut(
            message_id=done.message_id,
            is_delivered=answered.is_delivered,
            status=answered.status,
            reason=_why(answered.why),
            duration_ms=answered.duration_ms,
            answer=answered.answer,
        )
    )


@router.post("/{webhook}/replay", summary="Redeliver events", responses=failures("not_found", "invalid"))
async def replay_webhook(webhook: WebhookPath, given: ReplayIn, caller: Manages) -> Answer[WebhookOut]:
    request = actions.ReplayWebhook(id=_number(webhook, caller), called=webhook, since=given.since)
    return Answer(data=_told(await act(caller, actions.replay, request), caller))


@router.get(
    "/{webhook}/deliveries", summary="List requests to a webhook, newest first", responses=failures("not_found")
)
async def list_deliveries(
    webhook: WebhookPath,
    caller: Reads,
    failed: Annotated[bool, Query(description="Only failed requests.")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer[Page[DeliveryOut]]:
    hook = await _found(webhook, caller)
    before = number_at(cursor, caller.ids)
    found = await webhooks.deliveries(
        caller.store, hook, before=BIGGEST if before is None else before, most=limit + 1, is_failed=failed
    )
    return page_of(
        found, limit, shown=lambda each: _delivery(each, caller), place=lambda each: sealed(each.id, caller.ids)
    )


@router.get("/{webhook}/deliveries/{delivery}", summary="Get a request with its body", responses=failures("not_found"))
async def get_delivery(webhook: WebhookPath, delivery: DeliveryPath, caller: Reads) -> Answer[DeliveryWithRequest]:
    hook = await _found(webhook, caller)
    number = caller.ids.private(Kind.DELIVERY, delivery)
    found = None if number is None else await webhooks.delivery(caller.store, hook, number)
    if found is None:
        raise not_found("delivery", delivery)
    request = await request_of(caller.store, hook, found, caller.ids)
    return Answer(data=DeliveryWithRequest(**_delivery(found, caller).model_dump(), request=request))


def _number(webhook: str, caller: Caller) -> int:
    """Returns the internal ID, or -1 if `webhook` is not a webhook's ID."""
    number = caller.ids.private(Kind.WEBHOOK, webhook)
    return -1 if number is None else number


async def _found(webhook: str, caller: Caller) -> Webhook:
    found = await webhooks.find(caller.store, _number(webhook, caller))
    if found is None:
        raise not_found("webhook", webhook)
    return found


def _no_vault() -> ApiError:
    return ApiError(
        "unavailable", "Secrets cannot be stored or read at the moment. Ask the operator to check the master key."
    )


def _why(reason: Reason | None) -> WhyOut | None:
    return None if reason is None else WhyOut(code=reason.code, message=brief(reason))


def _told(webhook: Webhook, caller: Caller) -> WebhookOut:
    return WebhookOut(
        id=caller.ids.public(Kind.WEBHOOK, webhook.id),
        url=webhook.url,
        description=webhook.description,
        types=list(webhook.kinds),
        tags=dict(webhook.tags),
        state=webhook.state,
        created_at=webhook.created_at,
        delivered_at=webhook.delivered_at,
        failing_since=webhook.failing_since,
        next_at=webhook.next_at,
        disabled_at=webhook.disabled_at,
        reason=_why(webhook.why),
    )


def _named(webhook: str, caller: Caller) -> actions.NamedWebhook:
    return actions.NamedWebhook(id=_number(webhook, caller), called=webhook)


def _with_secret(done: actions.WebhookWithSecret, caller: Caller) -> WebhookWithSecret:
    return WebhookWithSecret(**_told(done.webhook, caller).model_dump(), secret=done.secret)


def _delivery(delivery: Delivery, caller: Caller) -> DeliveryOut:
    return DeliveryOut(
        id=caller.ids.public(Kind.DELIVERY, delivery.id),
        at=delivery.at,
        message_id=delivery.message_id,
        type=delivery.kind,
        attempt=delivery.attempt,
        status=delivery.status,
        reason=_why(delivery.why),
        duration_ms=delivery.duration_ms,
        answer=delivery.answer,
    )
