"""Actions on applications that enqueue e-mails over SQL with their own login: grant and revoke access."""

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
    """A request to grant access to exactly these workspaces. ALL_WORKSPACES grants access to all."""

    workspaces: Sequence[str]


@action("login.grant")
async def grant(actor: Actor, request: GrantLogin, store: Store) -> None:
    await applications.grant(store, request.login, request.workspaces)
    await actor.record(store, "login.grant", request.login, workspace=None, workspaces=request.workspaces)


@action("login.revoke")
async def revoke(actor: Actor, request: NamedLogin, store: Store) -> None:
    """Revokes access. E-mails that the application has enqueued are kept."""
    await applications.revoke(store, request.login)
    await actor.record(store, "login.revoke", request.login, workspace=None)


@action("login.create")
async def create(actor: Actor, request: NamedLogin, store: Store) -> None:
    """Creates a login with access to all workspaces, on the embedded server only. An existing login is left unchanged."""
    if await applications.create_login(store, request.login):
        await applications.grant(store, request.login, [ALL_WORKSPACES])
        await actor.record(store, "login.create", request.login, workspace=None)
