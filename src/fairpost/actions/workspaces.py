"""What operators decide about workspaces: added, placed, lent pools, suspended, readmitted, and how often they may ask."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairpost.actions.acting import Actor, action
from fairpost.actions.lending import Lent, Operator, first_loans, loans_of
from fairpost.model.errors import Refusal
from fairpost.model.workspace import Loan, Workspace
from fairpost.store import directory, workspaces
from fairpost.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """For good, in the directory of the home database."""

    workspace: str
    region: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddWorkspace:
    """`pools` None: those of a new workspace. `home`: where the directory is, if there are regions; `region`: that of the store."""

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
    """`changed`: whether this action did it."""

    workspace: Workspace
    changed: bool


@action("workspace.place")
async def place(actor: Actor, request: Place, store: Store) -> None:
    """On the home database. Placing one again in the same region changes nothing."""
    known = await directory.find_region(store, request.workspace)
    await directory.place(store, request.workspace, region=request.region)
    if known is None:
        await actor.record(store, "workspace.place", request.workspace, workspace=None, region=request.region)


@action("workspace.add")
async def add(actor: Actor, request: AddWorkspace, store: Store) -> WorkspaceAdded:
    """One that is there stays as it is."""
    workspaces.require_name(request.name)
    known = await workspaces.find_workspace(store, request.name)
    loans = [] if known else _loans(request)
    if request.home is not None:  # after all that could be refused: it is for good
        await directory.place(request.home, request.name, region=request.region)
    if known is not None:
        return WorkspaceAdded(workspace=known, is_new=False)
    is_new = await workspaces.add_workspace(store, request.name, loans=loans)
    if is_new:
        await _record(actor, store, "workspace.add", request.name, pools=[str(loan) for loan in loans])
    return WorkspaceAdded(workspace=await _workspace(store, request.name), is_new=is_new)


@action("workspace.pools")
async def set_pools(actor: Actor, request: SetPools, store: Store) -> Workspace:
    """In place of those lent before."""
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


@action("workspace.suspend")
async def suspend(actor: Actor, request: Suspend, store: Store) -> WorkspaceMoved:
    """Its keys and people come in no more; what it has queued still goes out."""
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
