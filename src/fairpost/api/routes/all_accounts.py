"""For admins: shared accounts and the accounts of all workspaces, by full name."""

from datetime import datetime
from typing import Annotated

from fastapi import Query, Request

from fairpost.actions import accounts as actions
from fairpost.api import verification
from fairpost.api.access import FEW_ADMINS, Admin
from fairpost.api.acting import act_as_admin
from fairpost.api.admin import RegionQuery, region_meant, store_meant
from fairpost.api.answers import Answer, Page, Text, failures
from fairpost.api.errors import not_found
from fairpost.api.pages import Cursor, Limit, name_at, page_of
from fairpost.api.routes.accounts import account_out
from fairpost.api.routing import Router
from fairpost.api.service import TheService
from fairpost.api.shapes.accounts import Pause, Verified
from fairpost.api.shapes.all_accounts import AnyAccountOut, BlockOut, Blocks, FullName, Unblock, Unblocked
from fairpost.model.account import Account, AccountRuntime
from fairpost.model.errors import NotFound
from fairpost.model.fault import Block, fault_code, write_fault
from fairpost.observe.status import read_account, read_accounts
from fairpost.store import blocks
from fairpost.store.store import Store
from fairpost.system import clock

router = Router(prefix="/v1/admin/accounts", tags=["operators"])


@router.get("", summary="List all workspaces' accounts by name", responses=failures("not_found"))
async def list_all_accounts(
    _: Admin,
    service: TheService,
    region: RegionQuery = None,
    workspace: Annotated[Text | None, Query(max_length=200, description="Only accounts in this workspace.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer[Page[AnyAccountOut]]:
    where = region_meant(service, region)
    store = await service.store_of(where)
    found = await read_accounts(store, workspace=workspace, after=name_at(cursor) or "", most=limit + 1)
    now = clock.now()
    return page_of(found, limit, shown=lambda post: _shown(post, where, now), place=lambda post: post.account.name)


@router.post(
    "/{name:path}/pause", summary="Pause an account; only an admin can resume it", responses=failures("not_found")
)
async def pause_any_account(
    name: FullName, given: Pause, admin: Admin, service: TheService, request: Request, region: RegionQuery = None
) -> Answer[AnyAccountOut]:
    store = await store_meant(service, region)
    asked = actions.PauseAccount(name=name, reason=given.reason, until=given.until)
    await act_as_admin(admin, request, store, actions.pause, asked)
    return Answer(data=await _look(store, name, region_meant(service, region)))


@router.post("/{name:path}/resume", summary="Resume a paused or suspended account", responses=failures("not_found"))
async def resume_any_account(
    name: FullName, admin: Admin, service: TheService, request: Request, region: RegionQuery = None
) -> Answer[AnyAccountOut]:
    store = await store_meant(service, region)
    await act_as_admin(admin, request, store, actions.resume, actions.AccountNamed(name=name))
    return Answer(data=await _look(store, name, region_meant(service, region)))


@router.get(
    "/{name:path}/blocks",
    summary="List the workspaces that are blocked from using an account, and why",
    responses=failures("not_found"),
)
async def list_account_blocks(
    name: FullName, _: Admin, service: TheService, region: RegionQuery = None
) -> Answer[Blocks]:
    store = await store_meant(service, region)
    await _find(store, name)
    found = await blocks.read_blocks(store, now=clock.now(), account=name)
    return Answer(data=Blocks(items=[block_out(each) for each in found]))


@router.post(
    "/{name:path}/unblock",
    summary="Unblock workspaces on an account",
    description="Earlier bounces and refusals no longer count. If the workspace is not blocked, nothing changes.",
    responses=failures("not_found"),
)
async def unblock_workspace(
    name: FullName, given: Unblock, admin: Admin, service: TheService, request: Request, region: RegionQuery = None
) -> Answer[Unblocked]:
    store = await store_meant(service, region)
    asked = actions.Unblock(name=name, workspace=given.workspace)
    return Answer(data=Unblocked(workspaces=await act_as_admin(admin, request, store, actions.unblock, asked)))


@router.post(
    "/{name:path}/verify",
    summary="Connect and sign in to the account's server without sending anything",
    responses=failures("not_found"),
    dependencies=FEW_ADMINS,
)
async def verify_any_account(
    name: FullName, _: Admin, service: TheService, region: RegionQuery = None
) -> Answer[Verified]:
    account = await _find(await store_meant(service, region), name)
    return Answer(data=await verification.verify(account, service))


def block_out(block: Block) -> BlockOut:
    return BlockOut(
        workspace=block.workspace,
        since=block.since,
        until=block.until,
        reason=fault_code(block.fault),
        figures=write_fault(block.fault),
    )


async def _find(store: Store, name: str) -> Account:
    try:
        return await store.account_named(name)
    except NotFound:
        raise not_found("account", name, where="") from None


async def _look(store: Store, name: str, region: str) -> AnyAccountOut:
    return _shown(await read_account(store, name), region, clock.now())


def _shown(post: AccountRuntime, region: str, now: datetime) -> AnyAccountOut:
    told = account_out(post, now)
    usage, is_driven = told.usage, post.is_driven(now)
    return AnyAccountOut(
        **told.__dict__,
        region=region,
        workspace=post.account.workspace,
        bounce_percent=round(100 * usage.day_bounces / usage.day_used, 1) if usage.day_used else None,
        driven_by=post.owner if is_driven else None,
        driven_until=post.until if is_driven else None,
    )
