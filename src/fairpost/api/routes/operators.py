"""For those who run the service: workspaces, other admins, and who changed what. In a workspace they act with X-Workspace."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response, status
from pydantic import Field

from fairpost.api.access import Admin
from fairpost.api.answers import AddressPath, Answer, Given, Model, Moment, Page, Text, Why, failures
from fairpost.api.errors import invalid, not_found
from fairpost.api.operating import RegionQuery, region_meant, store_meant, write_down
from fairpost.api.pages import Cursor, Limit, name_at, number_at, page_of, sealed
from fairpost.api.routes.auth import Address, PersonName, PersonOut, person_out
from fairpost.api.routes.members import OfferedOut, offered_out
from fairpost.api.routes.pools import LoanOut, loan_out
from fairpost.api.routes.workspace import AuditOut, audit_out
from fairpost.api.service import Service, TheService
from fairpost.lending import SENDERS_MAX, WrongLoan, first_loans, loan_of, require_lendable
from fairpost.model.person import Person, Role
from fairpost.model.workspace import PROVEN, SERVICE_WORKSPACE, WORKSPACE_NAME, Loan, Workspace
from fairpost.people import membership
from fairpost.postgres import workspaces
from fairpost.postgres.directory import place
from fairpost.postgres.store import Store

TAG = {"name": "operators", "description": "For those who run the service."}
router = APIRouter(prefix="/api/admin", tags=["operators"])

NamePath = Annotated[str, Path(pattern=f"^{WORKSPACE_NAME.pattern}$", description="The workspace.")]
AuditRegion = Annotated[
    Text | None,
    Query(
        max_length=31, description="What was done to this region. [default: to people and workspaces, which home knows]"
    ),
]
NAMES_MAX = 200
PoolName = Annotated[Text, Field(min_length=1, max_length=100, pattern=r"^[^@\x00]")]


class LoanIn(Given):
    pool: PoolName
    from_: Annotated[
        list[Annotated[Text, Field(min_length=1, max_length=320)]],
        Field(
            alias="from",
            min_length=1,
            max_length=SENDERS_MAX,
            description="What may stand in From: addresses, domains, `proven` (what the workspace has shown to be its own), `account` (the account's own address).",
        ),
    ]


class WorkspaceItem(Model):
    name: str
    region: str
    pools: list[str]
    loans: list[LoanOut]
    created_at: Moment
    suspended_at: Moment | None
    reason: str | None


class WorkspaceSeen(Model):
    name: str
    is_registered: Annotated[
        bool, Field(description="False: applications or commands send from it, and it has no keys and no members.")
    ]


class WorkspaceIn(Given):
    region: Annotated[
        Text | None, Field(max_length=31, description="Where it lives, for good. [default: the first]")
    ] = None
    pools: Annotated[
        list[PoolName | LoanIn] | None,
        Field(
            max_length=100,
            description="To lend, in place of those lent before; a bare name means `proven`. Left out: what is lent stays, and a new workspace is lent nothing.",
        ),
    ] = None


class AdminIn(Given):
    address: Address
    name: PersonName = ""


@router.get("/workspaces", summary="By name", responses=failures("not_found"))
async def listed(
    _: Admin, service: TheService, region: RegionQuery = None, limit: Limit = 50, cursor: Cursor = None
) -> Answer[Page[WorkspaceItem]]:
    where = region_meant(service, region)
    store = await service.store_of(where)
    found = await workspaces.workspaces(store, after=name_at(cursor) or "", most=limit + 1)
    return page_of(found, limit, shown=lambda each: _told(each, where), place=lambda each: each.name)


@router.get(
    "/workspaces/names",
    summary="To choose from: those registered, and those that have accounts, or e-mails waiting or served in the last day",
    responses=failures("not_found"),
)
async def names(
    _: Admin,
    service: TheService,
    region: RegionQuery = None,
    prefix: Annotated[Text, Query(max_length=100, description="What they begin with.")] = "",
) -> Answer[list[WorkspaceSeen]]:
    store = await store_meant(service, region)
    found = await workspaces.names_seen(store, prefix=prefix, most=NAMES_MAX)
    return Answer(data=[WorkspaceSeen(name=name, is_registered=is_registered) for name, is_registered in found])


@router.put(
    "/workspaces/{name}",
    status_code=status.HTTP_201_CREATED,
    summary="Add a workspace, or say through which of your pools it may send",
    responses={
        200: {"model": Answer[WorkspaceItem], "description": "It was there."},
        **failures("not_found", "conflict"),
    },
)
async def add(
    name: NamePath, given: WorkspaceIn, admin: Admin, service: TheService, request: Request, response: Response
) -> Answer[WorkspaceItem]:
    if name == SERVICE_WORKSPACE:
        raise invalid("name", f"cannot be {SERVICE_WORKSPACE}: that is the service's own")
    region = region_meant(service, given.region) if given.region is not None else await service.region_of(name)
    store = await service.store_of(region)
    await store.value("SELECT true")  # it answers: nothing is placed where it could not be added
    if service.settings.regions is not None:
        await place(service.home, name, region=region)
    before = await workspaces.find_workspace(store, name)
    loans = _loans(given, name, service, before)
    async with store.together() as one:
        is_new = await workspaces.add_workspace(one, name, loans=loans)
        if not is_new:
            response.status_code = status.HTTP_200_OK
            if given.pools is not None:
                await workspaces.set_loans(one, name, loans)
        action = "workspace.add" if is_new else "workspace.pools"
        await write_down(one, admin, request, action, name, workspace=name, pools=[str(loan) for loan in loans])
        return Answer(data=_told(await workspaces.workspace_named(one, name), region))


@router.post(
    "/workspaces/{name}/suspend", summary="Its keys and people come in no more", responses=failures("not_found")
)
async def suspend(
    name: NamePath, admin: Admin, service: TheService, request: Request, why: Why | None = None
) -> Answer[WorkspaceItem]:
    region, store = await _where_is(service, name)
    async with store.together() as one:
        reason = why.reason if why else None
        if await workspaces.suspend_workspace(one, name, reason=reason):
            await write_down(one, admin, request, "workspace.suspend", name, workspace=name, reason=reason)
        return Answer(data=_told(await workspaces.workspace_named(one, name), region))


@router.post("/workspaces/{name}/readmit", summary="They come in again", responses=failures("not_found"))
async def readmit(name: NamePath, admin: Admin, service: TheService, request: Request) -> Answer[WorkspaceItem]:
    region, store = await _where_is(service, name)
    async with store.together() as one:
        if await workspaces.readmit_workspace(one, name):
            await write_down(one, admin, request, "workspace.readmit", name, workspace=name)
        return Answer(data=_told(await workspaces.workspace_named(one, name), region))


@router.get("/people", summary="All admins", responses=failures())
async def people(_: Admin, service: TheService) -> Answer[list[PersonOut]]:
    return Answer(data=[PersonOut.model_validate(each) for each in await membership.people(service.home, None)])


@router.post(
    "/people", status_code=status.HTTP_201_CREATED, summary="Invite an admin, by e-mail", responses=failures("conflict")
)
async def invite(given: AdminIn, admin: Admin, service: TheService, request: Request) -> Answer[OfferedOut]:
    async with service.home.together() as one:
        offered = offered_out(
            await membership.invite(
                one,
                workspace=None,
                address=given.address,
                name=given.name,
                role=Role.ADMIN,
                inviter=admin.person.name or admin.person.address,
                mail=service.mail,
            )
        )
        await write_down(one, admin, request, "admin.invite", offered.address)
    return Answer(data=offered)


@router.post(
    "/people/{address}/disable", summary="Keep an admin out, at once", responses=failures("not_found", "conflict")
)
async def disable(address: AddressPath, admin: Admin, service: TheService, request: Request) -> Answer[PersonOut]:
    person = await _find(service, address)
    async with service.home.together() as one:
        changed = person_out(await membership.disable_person(one, person.id))
        await write_down(one, admin, request, "admin.disable", person.address)
    return Answer(data=changed)


@router.post("/people/{address}/enable", summary="Let an admin in again", responses=failures("not_found"))
async def enable(address: AddressPath, admin: Admin, service: TheService, request: Request) -> Answer[PersonOut]:
    person = await _find(service, address)
    async with service.home.together() as one:
        changed = person_out(await membership.enable_person(one, person.id))
        await write_down(one, admin, request, "admin.enable", person.address)
    return Answer(data=changed)


@router.get("/audit", summary="Who changed what in the installation itself", responses=failures("not_found"))
async def audit(
    _: Admin, service: TheService, region: AuditRegion = None, limit: Limit = 50, cursor: Cursor = None
) -> Answer[Page[AuditOut]]:
    store = service.home if region is None else await store_meant(service, region)
    ids = await store.public_ids()
    found = await workspaces.audit(store, None, before=number_at(cursor, ids), most=limit + 1)
    return page_of(found, limit, shown=lambda entry: audit_out(entry, ids), place=lambda entry: sealed(entry.id, ids))


def _loans(given: WorkspaceIn, name: str, service: Service, before: Workspace | None) -> Sequence[Loan]:
    if given.pools is None:
        return before.loans if before else first_loans(name, service.settings)
    loans: dict[str, Loan] = {}
    for number, each in enumerate(given.pools):
        try:
            loan = loan_of(each, [PROVEN]) if isinstance(each, str) else loan_of(each.pool, each.from_)
            require_lendable(loan, name, service.settings, before=before.loans if before else ())
        except WrongLoan as error:
            raise invalid(f"pools.{number}", str(error)) from None
        loans[loan.pool] = loan
    return list(loans.values())


async def _where_is(service: Service, name: str) -> tuple[str, Store]:
    region = await service.region_of(name)
    store = await service.store_of(region)
    if await workspaces.find_workspace(store, name) is None:
        raise not_found("workspace", name, where="")
    return region, store


async def _find(service: Service, address: str) -> Person:
    person = await membership.person_named(service.home, None, address)
    if person is None:
        raise not_found("admin", address, where="")
    return person


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
