"""For admins: workspaces, other admins, and the audit log. To act in a workspace, admins send X-Workspace."""

from typing import Annotated

from fastapi import Query, Request, Response, status

from fairpost.actions import members, sessions
from fairpost.actions import workspaces as actions
from fairpost.actions.lending import Lent, Operator
from fairpost.api.access import Admin
from fairpost.api.acting import act_as_admin
from fairpost.api.admin import RegionQuery, region_meant, store_meant
from fairpost.api.answers import (
    AddressPath,
    Answer,
    Page,
    ReasonIn,
    Text,
    failures,
)
from fairpost.api.pages import Cursor, Limit, name_at, number_at, page_of, sealed
from fairpost.api.routes.members import offered_out
from fairpost.api.routes.pools import loan_out
from fairpost.api.routes.workspace import audit_out
from fairpost.api.routing import Router
from fairpost.api.service import TheService
from fairpost.api.shapes.auth import PersonOut
from fairpost.api.shapes.members import OfferedOut, SessionsEnded
from fairpost.api.shapes.operators import (
    AdminIn,
    AuditRegion,
    LoanIn,
    NamePath,
    WorkspaceIn,
    WorkspaceItem,
    WorkspaceSeen,
)
from fairpost.api.shapes.workspace import AuditOut
from fairpost.auth import membership
from fairpost.model.auth import Role
from fairpost.model.workspace import Workspace
from fairpost.store import workspaces

TAG = {"name": "operators", "description": "Endpoints for admins, who operate the service."}
router = Router(prefix="/v1/admin", tags=["operators"])

NAMES_MAX = 200


@router.get("/workspaces", summary="List workspaces by name", responses=failures("not_found"))
async def list_workspaces(
    _: Admin, service: TheService, region: RegionQuery = None, limit: Limit = 50, cursor: Cursor = None
) -> Answer[Page[WorkspaceItem]]:
    where = region_meant(service, region)
    store = await service.store_of(where)
    found = await workspaces.workspaces(store, after=name_at(cursor) or "", most=limit + 1)
    return page_of(found, limit, shown=lambda each: _told(each, where), place=lambda each: each.name)


@router.get(
    "/workspaces/names",
    summary="List names of workspaces that are registered or in use",
    responses=failures("not_found"),
)
async def list_workspace_names(
    _: Admin,
    service: TheService,
    region: RegionQuery = None,
    prefix: Annotated[Text, Query(max_length=100, description="Only names that begin with this text.")] = "",
) -> Answer[list[WorkspaceSeen]]:
    store = await store_meant(service, region)
    found = await workspaces.names_seen(store, prefix=prefix, most=NAMES_MAX)
    return Answer(data=[WorkspaceSeen(name=name, is_registered=is_registered) for name, is_registered in found])


@router.put(
    "/workspaces/{name}",
    status_code=status.HTTP_201_CREATED,
    summary="Add a workspace, or change which of the operator's pools it may use",
    responses={
        200: {"model": Answer[WorkspaceItem], "description": "The workspace already existed."},
        **failures("not_found", "conflict"),
    },
)
async def put_workspace(
    name: NamePath, given: WorkspaceIn, admin: Admin, service: TheService, request: Request, response: Response
) -> Answer[WorkspaceItem]:
    region = region_meant(service, given.region) if given.region is not None else await service.region_of(name)
    store, pools = (
        await service.store_of(region),
        None if given.pools is None else [_lent(each) for each in given.pools],
    )
    operator = Operator(workspace=service.settings.workspace, service_pool=service.settings.service_pool)
    home = None if service.settings.regions is None else service.home
    wanted = actions.AddWorkspace(name=name, operator=operator, pools=pools, home=home, region=region)
    done = await act_as_admin(admin, request, store, actions.add, wanted)
    if done.is_new:
        return Answer(data=_told(done.workspace, region))
    response.status_code = status.HTTP_200_OK
    if pools is None:
        return Answer(data=_told(done.workspace, region))
    asked = actions.SetPools(name=name, operator=operator, pools=pools)
    return Answer(data=_told(await act_as_admin(admin, request, store, actions.set_pools, asked), region))


@router.post(
    "/workspaces/{name}/suspend",
    summary="Suspend a workspace and reject its keys and members",
    responses=failures("not_found"),
)
async def suspend_workspace(
    name: NamePath, admin: Admin, service: TheService, request: Request, why: ReasonIn | None = None
) -> Answer[WorkspaceItem]:
    region = await service.region_of(name)
    asked = actions.Suspend(name=name, reason=why.reason if why else None)
    moved = await act_as_admin(admin, request, await service.store_of(region), actions.suspend, asked)
    return Answer(data=_told(moved.workspace, region))


@router.post("/workspaces/{name}/readmit", summary="Readmit a suspended workspace", responses=failures("not_found"))
async def readmit_workspace(
    name: NamePath, admin: Admin, service: TheService, request: Request
) -> Answer[WorkspaceItem]:
    region = await service.region_of(name)
    store = await service.store_of(region)
    moved = await act_as_admin(admin, request, store, actions.readmit, actions.Readmit(name=name))
    return Answer(data=_told(moved.workspace, region))


@router.get("/people", summary="List admins", responses=failures())
async def list_admins(_: Admin, service: TheService) -> Answer[list[PersonOut]]:
    return Answer(data=[PersonOut.model_validate(each) for each in await membership.people(service.home, None)])


@router.post(
    "/people", status_code=status.HTTP_201_CREATED, summary="Invite an admin by e-mail", responses=failures("conflict")
)
async def invite_admin(given: AdminIn, admin: Admin, service: TheService, request: Request) -> Answer[OfferedOut]:
    asked = members.Invite(
        workspace=None,
        address=given.address,
        name=given.name,
        role=Role.ADMIN,
        inviter=admin.person.name or admin.person.address,
        mail=service.mail,
    )
    return Answer(data=offered_out(await act_as_admin(admin, request, service.home, members.invite_admin, asked)))


@router.post(
    "/people/{address}/disable", summary="Disable an admin immediately", responses=failures("not_found", "conflict")
)
async def disable_admin(address: AddressPath, admin: Admin, service: TheService, request: Request) -> Answer[PersonOut]:
    asked = members.Disable(workspace=None, address=address)
    lowered = await act_as_admin(admin, request, service.home, members.disable_admin, asked)
    return Answer(data=PersonOut.model_validate(lowered.person))


@router.post("/people/{address}/enable", summary="Enable an admin", responses=failures("not_found"))
async def enable_admin(address: AddressPath, admin: Admin, service: TheService, request: Request) -> Answer[PersonOut]:
    named = members.NamedPerson(workspace=None, address=address)
    enabled = await act_as_admin(admin, request, service.home, members.enable_admin, named)
    return Answer(data=PersonOut.model_validate(enabled))


@router.post("/people/{address}/sign-out", summary="End all of an admin's sessions", responses=failures("not_found"))
async def sign_out_admin(
    address: AddressPath, admin: Admin, service: TheService, request: Request
) -> Answer[SessionsEnded]:
    named = members.NamedPerson(workspace=None, address=address)
    ended = await act_as_admin(admin, request, service.home, sessions.sign_out_admin, named)
    return Answer(data=SessionsEnded(sessions=ended))


@router.get("/audit", summary="List the changes made in the installation", responses=failures("not_found"))
async def list_installation_audit(
    _: Admin, service: TheService, region: AuditRegion = None, limit: Limit = 50, cursor: Cursor = None
) -> Answer[Page[AuditOut]]:
    store = service.home if region is None else await store_meant(service, region)
    ids = await store.public_ids()
    found = await workspaces.audit(store, None, before=number_at(cursor, ids), most=limit + 1)
    return page_of(found, limit, shown=lambda entry: audit_out(entry, ids), place=lambda entry: sealed(entry.id, ids))


def _lent(given: str | LoanIn) -> Lent:
    return Lent(given) if isinstance(given, str) else Lent(given.pool, given.from_)


def _told(workspace: Workspace, region: str) -> WorkspaceItem:
    return WorkspaceItem(
        name=workspace.name,
        region=region,
        pools=list(workspace.pools),
        loans=[loan_out(loan) for loan in workspace.loans],
        created_at=workspace.created_at,
        suspended_at=workspace.suspended_at,
        reason=workspace.reason,
    )
