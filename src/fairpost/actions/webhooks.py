"""Actions on webhooks: add, edit, pause, resume, test and remove them, rotate their secrets, and replay events."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fairpost.actions.acting import Actor, action
from fairpost.model.errors import Refusal
from fairpost.model.event import EventKind
from fairpost.model.reason import Reason
from fairpost.model.webhook import Answered, Due, Tried, Webhook, owner_of_secret
from fairpost.smtp.guard import LOOK_UP_S_MAX, NetworkGuard, NotAllowed
from fairpost.store import events, webhooks, workspaces
from fairpost.store.store import Store
from fairpost.system import chance, clock
from fairpost.vault.rotation import write_sealed
from fairpost.vault.vault import Vault
from fairpost.webhooks.body import message_of, test_event
from fairpost.webhooks.deliver import logged
from fairpost.webhooks.post import Endpoint, Tls, system_tls
from fairpost.webhooks.signing import SECRET_BYTES, key_of, signature, written
from fairpost.webhooks.urls import WrongUrl, addresses, target_of

WEBHOOKS_MAX = 50  # maximum per workspace
OVERLAP = timedelta(days=1)  # during this time, the old secret is also used for signing


@dataclass(frozen=True, slots=True, kw_only=True)
class AddWebhook:
    """A request to add a webhook. If `workspace` is None, the webhook belongs to the operator.

    `owner` is the store that records which vault keys are in use; None means the action's own store.
    """

    workspace: str | None
    url: str
    description: str = ""
    kinds: Sequence[str] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    guard: NetworkGuard
    vault: Vault
    owner: Store | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedWebhook:
    """A webhook. `called` is the webhook's public ID, as the caller wrote it."""

    id: int
    called: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EditWebhook(NamedWebhook):
    """A request to change a webhook. None keeps a value."""

    url: str | None = None
    description: str | None = None
    kinds: Sequence[str] | None = None
    tags: Mapping[str, str] | None = None
    guard: NetworkGuard


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateWebhook(NamedWebhook):
    vault: Vault
    owner: Store | None = None
    overlap: timedelta = OVERLAP


@dataclass(frozen=True, slots=True, kw_only=True)
class TestWebhook(NamedWebhook):
    guard: NetworkGuard
    vault: Vault
    owner: Store | None = None
    tls: Tls = system_tls


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayWebhook(NamedWebhook):
    """A request to redeliver the events that follow a time or an event cursor."""

    since: datetime | None = None
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookWithSecret:
    """A webhook and its secret. The secret is shown only once and is stored encrypted."""

    webhook: Webhook
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTested:
    webhook: Webhook
    message_id: str
    answered: Answered


@action("webhook.add", in_one_commit=False)
async def add(actor: Actor, request: AddWebhook, store: Store) -> WebhookWithSecret:
    """Adds an endpoint, which receives events from then on."""
    kinds = _kinds(request.kinds)
    await _check_url(request.url, request.guard, is_operators=request.workspace is None)
    if request.workspace is not None and await workspaces.find_workspace(store, request.workspace) is None:
        raise Refusal("workspace.unknown", name=request.workspace)
    if len(await webhooks.webhooks_of(store, request.workspace)) >= WEBHOOKS_MAX:
        raise Refusal("webhook.too_many", most=WEBHOOKS_MAX)
    owner, secret = request.owner or store, written(chance.secret_bytes(SECRET_BYTES))
    secret_id = await webhooks.next_secret_id(owner)
    made: list[Webhook] = []

    async def write(sealed: str, keys: Sequence[str]) -> None:
        async with store.together() as one:
            hook = await webhooks.add(
                one,
                request.workspace,
                url=request.url,
                description=request.description,
                kinds=kinds,
                tags=request.tags,
                now=clock.now(),
            )
            await webhooks.add_secret(one, hook, secret_id, sealed=sealed, keys=keys, overlap=OVERLAP)
            await actor.record(one, "webhook.add", hook.url, workspace=request.workspace, types=list(kinds) or None)
        made.append(hook)

    await write_sealed(owner, request.vault, secret, owner=owner_of_secret(secret_id), write=write)
    return WebhookWithSecret(webhook=made[-1], secret=secret)


@action("webhook.edit")
async def edit(actor: Actor, request: EditWebhook, store: Store) -> Webhook:
    """Changes an endpoint's URL or the events that it receives."""
    before = await _webhook(actor, store, request)
    kinds = before.kinds if request.kinds is None else _kinds(request.kinds)
    if request.url is not None:
        await _check_url(request.url, request.guard, is_operators=before.workspace is None)
    after = await webhooks.change(
        store,
        before,
        url=before.url if request.url is None else request.url,
        description=before.description if request.description is None else request.description,
        kinds=kinds,
        tags=before.tags if request.tags is None else request.tags,
    )
    given = {"types": list(after.kinds), "description": after.description, "tags": dict(after.tags)}
    await actor.record(store, "webhook.edit", after.url, workspace=before.workspace, **given)
    return after


@action("webhook.pause")
async def pause(actor: Actor, request: NamedWebhook, store: Store) -> Webhook:
    """Pauses an endpoint. The endpoint's events are kept until it is resumed."""
    hook = await webhooks.pause(store, await _webhook(actor, store, request), now=clock.now())
    await actor.record(store, "webhook.pause", hook.url, workspace=hook.workspace)
    return hook


@action("webhook.resume")
async def resume(actor: Actor, request: NamedWebhook, store: Store) -> Webhook:
    """Resumes a paused or disabled endpoint. Delivery continues where it stopped."""
    hook = await webhooks.resume(store, await _webhook(actor, store, request), now=clock.now())
    await actor.record(store, "webhook.resume", hook.url, workspace=hook.workspace)
    return hook


@action("webhook.remove")
async def remove(actor: Actor, request: NamedWebhook, store: Store) -> Webhook:
    """Removes an endpoint and its log."""
    hook = await _webhook(actor, store, request)
    await webhooks.remove(store, hook)
    await actor.record(store, "webhook.remove", hook.url, workspace=hook.workspace)
    return hook


@action("webhook.rotate", in_one_commit=False)
async def rotate(actor: Actor, request: RotateWebhook, store: Store) -> WebhookWithSecret:
    """Creates a new secret. The old secret is also used for signing until the overlap ends."""
    hook = await _webhook(actor, store, request)
    owner, secret = request.owner or store, written(chance.secret_bytes(SECRET_BYTES))
    secret_id = await webhooks.next_secret_id(owner)

    async def write(sealed: str, keys: Sequence[str]) -> None:
        async with store.together() as one:
            await webhooks.add_secret(one, hook, secret_id, sealed=sealed, keys=keys, overlap=request.overlap)
            await actor.record(one, "webhook.rotate", hook.url, workspace=hook.workspace)

    await write_sealed(owner, request.vault, secret, owner=owner_of_secret(secret_id), write=write)
    return WebhookWithSecret(webhook=hook, secret=secret)


@action("webhook.test", in_one_commit=False)
async def test(actor: Actor, request: TestWebhook, store: Store) -> WebhookTested:
    """Posts a test event immediately, even to a paused or disabled endpoint. The event is posted only once, and the
    attempt is logged.
    """
    hook = await _webhook(actor, store, request)
    owner, now = request.owner or store, clock.now()
    secrets = await webhooks.secrets_of(owner, hook.id, now=now)
    keys = [key_of(request.vault.open_secret(each.as_sealed)) for each in secrets]
    event = test_event(hook.workspace, now=now)
    message_id, body = message_of(event, await owner.public_ids(), to_operator=hook.workspace is None)
    endpoint = Endpoint(hook.url, request.guard, is_operators=hook.workspace is None, tls=request.tls)
    timestamp = int(now.timestamp())
    try:
        signed = signature(keys, message_id, timestamp, body)
        unsigned = Answered(why=Reason("webhook.no_secret"))
        answered = await endpoint.post(message_id, timestamp, signed, body) if signed else unsigned
    finally:
        endpoint.close()
    tried = Tried(due=Due(event=event), message_id=message_id, at=now, answered=answered)
    async with owner.together() as one:
        await webhooks.log_test(one, hook, logged(tried))
        await actor.record(one, "webhook.test", hook.url, workspace=hook.workspace, status=answered.status)
    return WebhookTested(webhook=hook, message_id=message_id, answered=answered)


@action("webhook.replay")
async def replay(actor: Actor, request: ReplayWebhook, store: Store) -> Webhook:
    """Redelivers all events after a time or a cursor, with the same IDs."""
    hook = await _webhook(actor, store, request)
    if request.cursor is not None:
        cursor = request.cursor
        try:
            await events.events_after(store, cursor, most=1, workspace=hook.workspace)
        except Refusal as refusal:
            is_old = refusal.reason.code == "events.cursor_expired"
            raise Refusal("webhook.events_expired" if is_old else "webhook.cursor_unknown") from None
    else:
        assert request.since is not None
        cursor = await webhooks.cursor_at(store, request.since)
    hook = await webhooks.move_to(store, hook, cursor)
    since = request.since.isoformat() if request.since else None
    await actor.record(store, "webhook.replay", hook.url, workspace=hook.workspace, since=since)
    return hook


async def _webhook(actor: Actor, store: Store, request: NamedWebhook) -> Webhook:
    hook = await webhooks.find(store, request.id)
    if hook is None or (actor.workspace is not None and hook.workspace != actor.workspace):
        raise Refusal("webhook.unknown", webhook=request.called[:100])
    return hook


def _kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    known = set(EventKind)
    for each in kinds:
        if each not in known:
            raise Refusal("webhook.kind_unknown", kind=each[:100])
    return tuple(dict.fromkeys(kinds))


async def _check_url(url: str, guard: NetworkGuard, *, is_operators: bool) -> None:
    try:
        target = target_of(url)
        async with asyncio.timeout(LOOK_UP_S_MAX):
            await addresses(target, guard, is_operators=is_operators)
    except (WrongUrl, NotAllowed) as error:
        problem = str(error) if isinstance(error, WrongUrl) else f"is not allowed: {error}"
        raise Refusal("webhook.url_invalid", problem=problem) from None
    except (TimeoutError, OSError, ValueError):
        raise Refusal("webhook.url_invalid", problem="refers to a host that was not found") from None
