"""The state of mailbox reading: which engine reads each mailbox, how far the engine has read, and why reading fails.
See sql/settle/mailbox_reads.sql.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fairpost.model.account import MailboxState
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason, write_params
from fairpost.store.database import at
from fairpost.store.reasons import stored_reason

if TYPE_CHECKING:
    from fairpost.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMailbox:
    """A mailbox to read. `settings` is a digest of the account's server, secret and address."""

    account_id: AccountId
    epoch: int
    settings: str
    position: Mapping[str, Any] | None
    looked_at: datetime | None
    failures: int
    due_at: datetime | None


class NoLongerOurs(Exception):
    """Another engine is now reading this mailbox. This engine's findings are rolled back, and the other engine will
    find them again.
    """


async def are_any(store: "Store") -> bool:
    """Whether to read an account's mailbox."""
    sql = """SELECT EXISTS (SELECT FROM fairpost.accounts a WHERE a.transport @> '{"read": true}')"""
    return bool(await store.value(sql))


async def take(store: "Store", owner: str, *, most: int, now: datetime | None = None) -> list[HeldMailbox]:
    rows = await store.fetch("SELECT * FROM fairpost.take_mailboxes($1, $2, $3)", owner, most, at(now))
    return [
        HeldMailbox(**{**dict(row), "position": json.loads(row["position"]) if row["position"] else None})
        for row in rows
    ]


async def advance(store: "Store", held: HeldMailbox, position: Mapping[str, Any]) -> None:
    """Raises NoLongerOurs."""
    sql = "SELECT fairpost.advance_mailbox($1, $2, $3)"
    if not await store.value(sql, held.account_id, held.epoch, json.dumps(position)):
        raise NoLongerOurs(held.account_id)


async def looked(store: "Store", held: HeldMailbox, position: Mapping[str, Any] | None, *, begun_at: datetime) -> None:
    """Raises NoLongerOurs."""
    sql = "SELECT fairpost.mailbox_looked($1, $2, $3, $4)"
    told = json.dumps(position) if position is not None else None
    if not await store.value(sql, held.account_id, held.epoch, told, begun_at):
        raise NoLongerOurs(held.account_id)


async def failed(store: "Store", held: HeldMailbox, reason: Reason, *, due_at: datetime) -> None:
    sql = "SELECT fairpost.mailbox_failed($1, $2, $3, $4, $5, $6, $7)"
    told = (reason.code, write_params(reason), due_at, at(None))
    await store.value(sql, held.account_id, held.epoch, held.settings, *told)


async def leave(store: "Store", owner: str) -> None:
    await store.value("SELECT fairpost.leave_mailboxes($1)", owner)


async def with_doubts(store: "Store", accounts: Collection[AccountId]) -> list[AccountId]:
    """Return which of these accounts have an e-mail in doubt."""
    sql = "SELECT DISTINCT d.account_id FROM fairpost.doubtful d WHERE d.account_id = ANY ($1)"
    return [AccountId(row["account_id"]) for row in await store.fetch(sql, list(accounts))]


async def states(store: "Store", accounts: Collection[AccountId]) -> dict[AccountId, MailboxState]:
    sql = """SELECT r.account_id, r.looked_at, r.reason, r.params, r.failed_at
             FROM fairpost.mailbox_reads r WHERE r.account_id = ANY ($1)"""
    rows = await store.fetch(sql, list(accounts))
    return {
        AccountId(row["account_id"]): MailboxState(
            looked_at=row["looked_at"], reason=stored_reason(row["reason"], row["params"]), failed_at=row["failed_at"]
        )
        for row in rows
    }
