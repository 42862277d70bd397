"""Actions on workspaces: add, suspend and readmit them, assign them to a region, lend them pools, and set their request
limit.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fairpost.actions.acting import Actor, action
from fairpost.actions.lending import Lent, Operator, first_loans, loans_of
from fairpost.model.errors import Refusal
from fairpost.model.workspace import Loan, Workspace, WorkspaceSettings
from fairpost.store import directory, workspace_settings, workspaces
from fairpost.store.store import Store

RULES = {
    "title": re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,100}"),
    "accent": re.compile(r"#[0-9a-f]{6}"),
    "logo_url": re.compile(r"https://(?=.{1,492}\Z)[A-Za-z0-9.-]+(?::[0-9]+)?/[!#-&(-;=?-~]*"),
}
RULES_IN_WORDS = {
    "title": "must be 1 to 100 characters on one line",
    "accent": "must be a colour such as #1d5fd1",
    "logo_url": "must be a URL such as https://example.com/logo.png, at most 500 characters",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A request to assign a workspace to a region permanently. The assignment is stored in the home database's
    directory.
    """

    workspace: str
    region: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddWorkspace:
    """A request to add a workspace. If `pools` is None, the default for a new workspace applies.

    If there are regions, `home` is the store that holds the directory, and `region` is the region of the
    action's store.
    """

    name: str
    operator: Operator
    pools: Sequence[Lent] | None = None
    home: Store | None = None
    region: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPools:
    name: str
    operator: Operator
    pools: Sequence[Lent]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRate:
    name: str
    per_minute: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSettings:
    """A request to change a workspace's settings. `changes` are fields of WorkspaceSettings; other settings are
    not changed.
    """

    workspace: str
    changes: Mapping[str, str | bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend:
    name: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Readmit:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceAdded:
    workspace: Workspace
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceMoved:
    """A workspace, and whether this action changed it."""

    workspace: Workspace
    changed: bool


@action("workspace.place")
async def place(actor: Actor, request: Place, store: Store) -> None:
    """Assigns a region in the home database. Repeating the action with the same region changes nothing."""
    known = await directory.find_region(store, request.workspace)
    await directory.place(store, request.workspace, region=request.region)
    if known is None:
        await actor.record(store, "workspace.place", request.workspace, workspace=None, region=request.region)


@action("workspace.add")
async def add(actor: Actor, request: AddWorkspace, store: Store) -> WorkspaceAdded:
    """Adds a workspace. An existing workspace is left unchanged."""
    workspaces.require_name(request.name)
    known = await workspaces.find_workspace(store, request.name)
    loans = [] if known else _loans(request)
    if request.home is not None:  # permanent, so done only after every check that may refuse
        await directory.place(request.home, request.name, region=request.region)
    if known is not None:
        return WorkspaceAdded(workspace=known, is_new=False)
    is_new = await workspaces.add_workspace(store, request.name, loans=loans)
    if is_new:
        await _record(actor, store, "workspace.add", request.name, pools=[str(loan) for loan in loans])
    return WorkspaceAdded(workspace=await _workspace(store, request.name), is_new=is_new)


@action("workspace.pools")
async def set_pools(actor: Actor, request: SetPools, store: Store) -> Workspace:
    """Replaces the pools that are lent to a workspace."""
    before = (await _workspace(store, request.name)).loans
    loans = loans_of(request.pools, workspace=request.name, operator=request.operator, before=before)
    await workspaces.set_loans(store, request.name, loans)
    await _record(actor, store, "workspace.pools", request.name, pools=[str(loan) for loan in loans])
    return await _workspace(store, request.name)


@action("workspace.rate")
async def set_rate(actor: Actor, request: SetRate, store: Store) -> Workspace:
    await _workspace(store, request.name)
    await workspaces.set_rate(store, request.name, request.per_minute)
    await _record(actor, store, "workspace.rate", request.name, per_minute=request.per_minute)
    return await _workspace(store, request.name)


@action("workspace.settings")
async def change_settings(actor: Actor, request: ChangeSettings, store: Store) -> WorkspaceSettings:
    """Changes settings of a workspace, registered or not. Raises Refusal for an invalid value."""
    for name, rule in RULES.items():
        value = request.changes.get(name)
        if value is not None and not (isinstance(value, str) and rule.fullmatch(value)):
            raise Refusal("workspace.invalid_setting", field=name, rule=RULES_IN_WORDS[name])
    before = await workspace_settings.settings_of(store, request.workspace)
    after = replace(before, **request.changes)  # type: ignore[arg-type]
    if after != before:
        await workspace_settings.put_settings(store, request.workspace, after)
        await _record(actor, store, "workspace.settings", request.workspace, **request.changes)
    return after


@action("workspace.suspend")
async def suspend(actor: Actor, request: Suspend, store: Store) -> WorkspaceMoved:
    """Suspends a workspace. The workspace's keys stop working and its members are locked out, but its queued e-mails
    are still sent.
    """
    await _workspace(store, request.name)
    changed = await workspaces.suspend_workspace(store, request.name, reason=request.reason)
    if changed:
        await _record(actor, store, "workspace.suspend", request.name, reason=request.reason)
    return WorkspaceMoved(workspace=await _workspace(store, request.name), changed=changed)


@action("workspace.readmit")
async def readmit(actor: Actor, request: Readmit, store: Store) -> WorkspaceMoved:
    await _workspace(store, request.name)
    changed = await workspaces.readmit_workspace(store, request.name)
    if changed:
        await _record(actor, store, "workspace.readmit", request.name)
    return WorkspaceMoved(workspace=await _workspace(store, request.name), changed=changed)


def _loans(request: AddWorkspace) -> list[Loan]:
    if request.pools is None:
        return first_loans(request.name, request.operator)
    return loans_of(request.pools, workspace=request.name, operator=request.operator)


async def _workspace(store: Store, name: str) -> Workspace:
    found = await workspaces.find_workspace(store, name)
    if found is None:
        raise Refusal("workspace.unknown", name=name)
    return found


async def _record(actor: Actor, store: Store, action: str, name: str, **detail: object) -> None:
    await actor.record(store, action, name, workspace=name, **detail)
