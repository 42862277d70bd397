"""Pools: what an e-mail may name instead of an account."""

from fastapi import APIRouter

from fairpost.api.access import Reads
from fairpost.api.answers import Answer, Model, failures
from fairpost.api.names import own_name
from fairpost.model.account import AccountStatus
from fairpost.postgres.workspaces import workspace_named

TAG = {"name": "pools", "description": "Accounts that share the work."}
router = APIRouter(prefix="/api/pools", tags=["pools"])


class PoolAccount(Model):
    name: str
    status: AccountStatus


class Pool(Model):
    name: str
    accounts: list[PoolAccount]


class Pools(Model):
    """`own` are the workspace's; `lent` are the names of the operator's that it may use beside them."""

    own: list[Pool]
    lent: list[str]


@router.get("", summary="The workspace's own, and the operator's that it may use", responses=failures())
async def listed(caller: Reads) -> Answer[Pools]:
    accounts = await caller.store.accounts(workspace=caller.workspace)
    pools: dict[str, list[PoolAccount]] = {}
    for account in accounts:
        known = PoolAccount(name=own_name(account.name, caller), status=account.status)
        pools.setdefault(own_name(account.pool, caller), []).append(known)
    workspace = await workspace_named(caller.store, caller.workspace)
    return Answer(
        data=Pools(
            own=[Pool(name=name, accounts=pools[name]) for name in sorted(pools)],
            lent=sorted(set(workspace.pools) - set(pools)),
        )
    )
