"""Actions on API keys: add and revoke."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fairpost.actions.acting import Actor, action
from fairpost.model.errors import Refusal
from fairpost.model.workspace import ApiKey, Scope
from fairpost.store import workspaces
from fairpost.store.store import Store
from fairpost.store.workspaces import RATE_DEFAULT

KEYS_MAX = 1_000  # maximum per workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class AddKey:
    """A request to add a key. The key expires at `expires_at`, or after the duration `lasts`. If neither is given, the
    key never expires.
    """

    workspace: str
    region: str
    scopes: Collection[Scope]
    name: str = ""
    per_minute: int = RATE_DEFAULT
    expires_at: datetime | None = None
    lasts: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeKey:
    workspace: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAdded:
    """A new key. `text` is the key itself, which is not stored anywhere."""

    key: ApiKey
    text: str = field(repr=False)


@action("key.add")
async def add(actor: Actor, request: AddKey, store: Store) -> KeyAdded:
    """Adds a key. The key cannot have more scopes than its creator or a higher rate limit than its workspace."""
    now, scopes = await store.now(), sorted(set(request.scopes))
    workspace = await workspaces.find_workspace(store, request.workspace)
    if workspace is None:
        raise Refusal("workspace.unknown", name=request.workspace)
    if actor.scopes is not None and (beyond := sorted(set(scopes) - actor.scopes)):
        raise Refusal("key.beyond_maker", scopes=beyond)
    if request.expires_at is not None and request.expires_at <= now:
        raise Refusal("key.expires_in_past", expires_at=request.expires_at)
    if actor.workspace is not None and request.per_minute > workspace.per_minute:
        raise Refusal("key.rate_too_high", most=workspace.per_minute)
    if len(await workspaces.keys(store, request.workspace)) >= KEYS_MAX:
        raise Refusal("key.too_many", workspace=request.workspace, most=KEYS_MAX)
    key, text = await workspaces.add_key(
        store,
        request.workspace,
        region=request.region,
        name=request.name,
        scopes=scopes,
        by=actor.who,
        per_minute=request.per_minute,
        expires_at=now + request.lasts if request.lasts else request.expires_at,
    )
    await actor.record(store, "key.add", key.id, workspace=request.workspace, name=request.name, scopes=scopes)
    return KeyAdded(key=key, text=text)


@action("key.revoke")
async def revoke(actor: Actor, request: RevokeKey, store: Store) -> ApiKey:
    """Revokes a key. The key stops working immediately."""
    key = await workspaces.revoke_key(store, request.workspace, request.key)
    if key is None:
        raise Refusal("key.unknown", key=request.key, workspace=request.workspace)
    await actor.record(store, "key.revoke", request.key, workspace=request.workspace)
    return key
