"""Reads the facts for `fairpost status`, which takes the same time with ten e-mails waiting as with ten million."""

from collections.abc import Collection
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from fairpost.model.account import Account, AccountRuntime
from fairpost.model.ids import AccountId
from fairpost.model.states import State
from fairpost.policy.facts import BlockedMail, Claims, Facts, Hold, Pause, Route
from fairpost.store import mailbox_reads, outcomes, waiting
from fairpost.store.blocks import blocked_for_all, read_blocked_mail
from fairpost.store.dkim import locked_keys
from fairpost.store.pauses import pause_now
from fairpost.store.reasons import with_reason
from fairpost.store.store import Store

FINISHED_WITHIN = timedelta(hours=24)
ALIVE = timedelta(seconds=5)  # engines report every two to four seconds
HOLDS_MAX = 20
HOLDS_SEEN_MAX = 1_000  # maximum number of holds, including throttles and gates


async def read_facts(store: Store, *, now: datetime | None = None, with_finished: bool = True) -> Facts:
    """Reads all parts one after another.

    The result is not a consistent snapshot. Show the result to people, but do not base decisions on it.

    Finished e-mails are counted one by one, so frequent callers should omit them.
    """
    engines = await read_engines(store, now=now)
    now = now or await store.now()
    routes = await waiting.waiting_by_route(store, now=now)
    holds = await read_holds(store, now=now)
    since = now - FINISHED_WITHIN
    finished = await outcomes.finished_since(store, since) if with_finished else []
    return Facts(
        now=now,
        pause=await read_pause(store, now=now),
        engines=engines,
        accounts=await read_accounts(store),
        routes=[Route(**row) for row in routes],
        holds=holds,
        blocked=await read_blocked(store, now=now),
        shut=await blocked_for_all(store),
        locked_keys=await locked_keys(store, now=now),
        claimed={AccountId(row["account_id"]): _held(row) for row in await waiting.claimed_by_account(store)},
        finished={State(row["state"]): row["n"] for row in finished},
    )


async def read_pause(store: Store, *, now: datetime) -> Pause | None:
    pause = await pause_now(store, now=now)
    return Pause(**pause) if pause else None


async def read_holds(store: Store, *, now: datetime, workspace: str | None = None, by_hand: bool = False) -> list[Hold]:
    """Returns the holds with the most e-mails waiting behind them, in all workspaces or in one.

    With `by_hand`, throttles and gates are left out.
    """
    looked_at = HOLDS_SEEN_MAX if by_hand else HOLDS_MAX
    rows = await waiting.holds(store, workspace, most=looked_at, now=now)
    return [hold for row in rows if (hold := Hold(**with_reason(row))).kind == "held" or not by_hand][:HOLDS_MAX]


async def read_blocked(store: Store, *, now: datetime, workspace: str | None = None) -> list[BlockedMail]:
    found = await read_blocked_mail(store, now=now, most=HOLDS_MAX, workspace=workspace)
    return [BlockedMail(route=Route(route=route, waiting=waiting), block=block) for route, block, waiting in found]


async def read_engines(store: Store, *, now: datetime | None = None) -> frozenset[str]:
    """Returns the engines that are running, according to the database's clock."""
    return frozenset(row["id"] for row in await waiting.engines_seen(store, within=ALIVE, now=now))


async def read_accounts(
    store: Store,
    *,
    workspace: str | None = None,
    serving: Collection[str] | None = None,
    after: str = "",
    most: int | None = None,
) -> list[AccountRuntime]:
    """Returns all accounts, a workspace's accounts, or the accounts that serve one of these routes. Sorted by name."""
    found = await store.runtimes(workspace=workspace, serving=serving, after=after, most=most)
    return await _observed(store, found)


async def read_account(store: Store, name: str) -> AccountRuntime:
    (found,) = await _observed(store, [await store.runtime_named(name)])
    return found


async def _observed(store: Store, runtimes: list[AccountRuntime]) -> list[AccountRuntime]:
    """Adds the sends in progress, the individual sends needed for sliding-window limits, and the mailbox states."""
    ids = [each.account.id for each in runtimes]
    rows = await waiting.on_the_wire(store, ids)
    begun_at = {row["account_id"]: row["begun_at"] for row in rows}
    mailboxes = await mailbox_reads.states(store, ids)
    return [
        replace(
            each,
            account=await _charged(store, each.account),
            begun_at=begun_at.get(each.account.id),
            mailbox=mailboxes.get(each.account.id),
        )
        for each in runtimes
    ]


async def _charged(store: Store, account: Account) -> Account:
    if not account.limits.needs_charges:
        return account
    return replace(account, usage=replace(account.usage, charges=await store.charges(account.id)))


def _held(row: Any) -> Claims:
    return Claims(**{name: row[name] for name in asdict(Claims())})
