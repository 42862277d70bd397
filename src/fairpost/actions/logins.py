"""What operators decide about applications that enqueue over SQL with a login of their own: let in, and shut out."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairpost.actions.acting import Actor, action
from fairpost.store import applications
from fairpost.store.applications import ALL_WORKSPACES
from fairpost.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLogin:
    login: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantLogin(NamedLogin):
    """For these workspaces and no others; ALL_WORKSPACES is all of them."""

    workspaces: Sequence[str]


@action("login.grant")
async def grant(actor: Actor, request: GrantLogin, store: Store) -> None:
    await applications.grant(store, request.login, request.workspaces)
    await actor.record(store, "login.grant", request.login, workspace=None, workspaces=request.workspaces)


@action("login.revoke")
async def revoke(actor: Actor, request: NamedLogin, store: Store) -> None:
    """What it has enqueued stays."""
    await applications.revoke(store, request.login)
    await actor.record(store, "login.revoke", request.login, workspace=None)


@action("login.create")
async def create(actor: Actor, request: NamedLogin, store: Store) -> None:
    """On the embedded server alone, for all workspaces. One that is there stays as it is."""
    if await applications.create_login(store, request.login):
        await applications.grant(store, request.login, [ALL_WORKSPACES])
        await actor.record(store, "login.create", request.login, workspace=None)
