"""Senders that are blocked from using an account. Engines create blocks. A block ends at its end time or when a person
lifts it.
"""

import json
from datetime import datetime
from typing import Any

from fairpost.model.account import Lease
from fairpost.model.fault import Block, Fault, fault_code, read_fault, write_fault
from fairpost.model.ids import AccountId
from fairpost.store.store import Store
from fairpost.system import clock


async def block(
    store: Store,
    lease: Lease,
    workspace: str,
    fault: Fault,
    *,
    until: datetime | None = None,
    now: datetime | None = None,
) -> bool:
    """Block this workspace from using the account until `until` or, if `until` is None, until it is unblocked manually.

    Return False if the lease is gone or the account has reached its maximum number of blocks.
    """
    sql = "SELECT fairpost.block($1, $2, $3, coalesce($4, 'infinity'::timestamptz), $5, $6, $7)"
    figures = fault_code(fault), json.dumps(write_fault(fault))
    return bool(
        await store.value(sql, lease.account_id, lease.epoch, workspace, until, *figures, now or clock.stated())
    )


async def unblock(
    store: Store, account_name: str, workspace: str | None = None, *, now: datetime | None = None
) -> list[str] | None:
    """Unblock this workspace, or all workspaces. Return the names of the workspaces that were blocked.

    Return None if the account does not exist.
    """
    sql = "SELECT fairpost.unblock($1, $2, $3)"
    names: list[str] | None = await store.value(sql, account_name, workspace, now or clock.stated())
    return names


async def blocked_for_all(store: Store) -> list[AccountId]:
    """Return the accounts for which all due mail comes from blocked senders."""
    rows = await store.fetch("SELECT * FROM fairpost.accounts_blocked_for_all($1) AS id", clock.stated())
    return [AccountId(row["id"]) for row in rows]


async def read_blocks(
    store: Store, *, now: datetime, account: str | None = None, workspace: str | None = None, most: int | None = None
) -> list[Block]:
    """Return the current blocks, ordered by account and workspace, optionally restricted to one account or one sender."""
    rows = await store.fetch(_BLOCKS, now, account, workspace, most)
    return [_block(row) for row in rows]


async def read_blocked_mail(
    store: Store, *, now: datetime, most: int, workspace: str | None = None
) -> list[tuple[str, Block, int]]:
    """Return the routes on which blocks hold back mail, starting with those that have the most waiting e-mails.

    Each route includes the block that ends first and the number of waiting e-mails.
    """
    rows = await store.fetch("SELECT * FROM fairpost.blocked_mail($1, $2, $3)", most, now, workspace)
    return [(row["route"], _block(row), row["waiting"]) for row in rows]


_BLOCKS = """
    SELECT b.account_id, a.name AS account, b.workspace, b.since, nullif(b.until, 'infinity') AS until, b.reason, b.params
    FROM fairpost.blocks b JOIN fairpost.accounts a ON a.id = b.account_id
    WHERE b.until > $1 AND ($2::text IS NULL OR a.name = $2) AND ($3::text IS NULL OR b.workspace = $3)
    ORDER BY a.name, b.workspace LIMIT $4"""


def _block(row: Any) -> Block:
    return Block(
        account_id=AccountId(row["account_id"]),
        account=row["account"],
        workspace=row["workspace"],
        since=row["since"],
        until=row["until"],
        fault=read_fault(row["reason"], json.loads(row["params"])),
    )
