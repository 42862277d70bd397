"""Actions on sender accounts: add, change, pause, resume, unblock and remove.

Requests contain only sealed secrets. Before a front end logs in to a server or seals a secret for it, it calls
`require_server`, because looking up a host takes too long for a commit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import asyncpg

from fairpost.actions.acting import Actor, action
from fairpost.model.account import AccountStatus, Limits
from fairpost.model.errors import NotFound, Refusal
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason
from fairpost.model.transport import ServerSettings
from fairpost.smtp.guard import NetworkGuard
from fairpost.store import blocks, workspaces
from fairpost.store.store import Store
from fairpost.transports.guarded import server_refusal
from fairpost.transports.registry import kind_of

OF_WORKSPACE_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailbox:
    """Proof that an address belongs to a workspace. The proof is a login to the mailbox `name` or, if `name` is None,
    the verified domain.
    """

    name: str | None
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddAccount:
    """A request to add an account.

    `name` and `pool` include the workspace's prefix, as in the database. `keys` are the keys that were in use when the
    secret was sealed.
    """

    id: AccountId
    name: str
    address: str
    pool: str
    limits: Limits
    display_name: str | None = None
    provider: str | None = None
    server: ServerSettings | None = None
    keys: Sequence[str] | None = None
    mailbox: Mailbox | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeAccount:
    """A request to change an account.

    The keys of `changes` are column names. `revision` is the revision that the caller read; None accepts any revision.
    """

    name: str
    changes: Mapping[str, Any]
    server: ServerSettings | None = None
    has_new_secret: bool = False
    keys: Sequence[str] | None = None
    revision: int | None = None
    mailbox: Mailbox | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseAccount:
    name: str
    reason: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountNamed:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unblock:
    """A request to unblock a workspace, or all blocked workspaces if `workspace` is None."""

    name: str
    workspace: str | None = field(default=None)


async def require_server(server: ServerSettings | None, guard: NetworkGuard) -> None:
    """Refuses servers that an engine would not use for a workspace's account."""
    wrong = await server_refusal(server, guard) if server is not None else None
    if server is not None and wrong is not None:
        raise Refusal("account.wrong_server", field=f"{server.kind}.{wrong.field}".rstrip("."), rule=wrong.rule)


@action("account.add")
async def add(actor: Actor, request: AddAccount, store: Store) -> AccountId:
    workspace = _workspace(request.name)
    if actor.workspace is not None and await workspaces.accounts_of(store, actor.workspace) >= OF_WORKSPACE_MAX:
        raise Refusal("account.too_many", most=OF_WORKSPACE_MAX, workspace=actor.workspace)
    try:
        await store.add_account(
            request.name,
            address=request.address,
            pool=request.pool,
            display_name=request.display_name,
            limits=request.limits,
            provider=request.provider,
            transport=request.server,
            id_=request.id,
            keys=request.keys,
        )
        await _prove(store, workspace, request.id, request.mailbox)
    except asyncpg.UniqueViolationError as error:
        if error.table_name == "mailboxes":
            raise Refusal("mailbox.taken", address=request.address) from None
        raise Refusal("account.exists", account=request.name) from None
    about = {"address": request.address, "pool": request.pool, "server": _in_audit(request.server)}
    await _record(actor, store, "account.add", request.name, **about)
    return request.id


@action("account.change")
async def change(actor: Actor, request: ChangeAccount, store: Store) -> None:
    """Changes an account. Raises ChangedMeanwhile if the account's revision is no longer the one that was read."""
    account = await _account(store, request.name)
    try:
        if (
            await store.change_account(
                request.name, dict(request.changes), keys=request.keys, revision=request.revision
            )
            is None
        ):
            raise Refusal("account.not_found", account=request.name)
        await _prove(store, _workspace(request.name), account.id, request.mailbox)
    except asyncpg.UniqueViolationError:
        address = str(request.changes.get("address", account.address))
        raise Refusal("mailbox.taken", address=address) from None
    changed = sorted(set(request.changes) - {"transport", "secret"})
    about = {"server": _in_audit(request.server), "new_secret": request.has_new_secret or None}
    await _record(actor, store, "account.change", request.name, changed=changed, **about)


@action("account.pause")
async def pause(actor: Actor, request: PauseAccount, store: Store) -> None:
    """Pauses an account. The account starts no more sends until it is resumed."""
    if request.until is not None and request.until <= await store.now():
        raise Refusal("pause.end_in_past", until=request.until)
    until = request.until.isoformat() if request.until else None
    why = Reason("account.paused_by_hand", note=request.reason)
    await _set(store, request.name, status=AccountStatus.PAUSED, status_reason=why, status_until=until)
    await _record(actor, store, "account.pause", request.name, reason=request.reason, until=until)


@action("account.resume")
async def resume(actor: Actor, request: AccountNamed, store: Store) -> None:
    await _set(store, request.name, status=AccountStatus.ACTIVE, status_reason=None)
    await _record(actor, store, "account.resume", request.name)


@action("account.unblock")
async def unblock(actor: Actor, request: Unblock, store: Store) -> list[str]:
    """Unblocks senders and returns their workspaces. Earlier bounces and refusals are no longer counted."""
    ended = await blocks.unblock(store, request.name, request.workspace)
    if ended is None:
        raise Refusal("account.not_found", account=request.name)
    if ended:
        await _record(actor, store, "account.unblock", request.name, senders=ended)
    return ended


@action("account.remove")
async def remove(actor: Actor, request: AccountNamed, store: Store) -> None:
    """Removes an account and its password. The e-mails that it sent stay in history."""
    done = await store.remove_account(request.name)
    if not done.known:
        raise Refusal("account.not_found", account=request.name)
    if not done.removed:
        raise Refusal(
            "account.has_mail",
            account=request.name,
            in_hand=done.in_hand,
            in_doubt=done.in_doubt,
            pinned=done.pinned,
        )
    await _record(actor, store, "account.remove", request.name)


async def _set(store: Store, name: str, **changes: Any) -> None:
    if await store.change_account(name, changes) is None:
        raise Refusal("account.not_found", account=name)


async def _account(store: Store, name: str) -> Any:
    try:
        return await store.account_named(name)
    except NotFound:
        raise Refusal("account.not_found", account=name) from None


async def _prove(store: Store, workspace: str | None, account_id: AccountId, mailbox: Mailbox | None) -> None:
    if mailbox is not None:
        assert workspace is not None, "only workspaces must prove that an address belongs to them"
        await workspaces.put_mailbox(store, workspace, account_id, mailbox=mailbox.name, address=mailbox.address)


def _workspace(name: str) -> str | None:
    return name.partition("/")[0] if "/" in name else None


def _in_audit(server: ServerSettings | None) -> str | None:
    """Returns the server as it appears in the audit log, without secrets."""
    return kind_of(server).in_audit(server) if server is not None else None


async def _record(actor: Actor, store: Store, action: str, name: str, **detail: object) -> None:
    """Writes an audit entry with the account's name as the workspace sees it."""
    workspace = _workspace(name)
    own = name.removeprefix(f"{workspace}/")
    await actor.record(store, action, f"account {own}", workspace=workspace, **detail)
