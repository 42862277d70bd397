"""Pools: an e-mail can name a pool instead of an account."""

from fairpost.api.access import Reads
from fairpost.api.answers import Answer, failures
from fairpost.api.names import own_name
from fairpost.api.routing import Router
from fairpost.api.shapes.pools import LoanOut, Pool, PoolAccount, Pools
from fairpost.model.workspace import Loan
from fairpost.store.workspaces import workspace_named

TAG = {"name": "pools", "description": "Groups of accounts that share the work of sending e-mails."}
router = Router(prefix="/v1/pools", tags=["pools"])


def loan_out(loan: Loan) -> LoanOut:
    return LoanOut(pool=loan.pool, senders=list(loan.senders))


@router.get("", summary="List the workspace's pools, and the operator's pools that it may use", responses=failures())
async def list_pools(caller: Reads) -> Answer[Pools]:
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
            loans=[loan_out(loan) for loan in workspace.loans if loan.pool not in pools],
        )
    )
