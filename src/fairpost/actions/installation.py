"""Actions on the whole installation: rotate the master key, drop old history, and share an account between regions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from asyncpg.exceptions import LockNotAvailableError

from fairpost.actions.acting import Actor, action
from fairpost.model.ids import AccountId
from fairpost.model.retention import DroppedMonth, OldMonth
from fairpost.model.transport import SealedSecret
from fairpost.regions import sharing
from fairpost.regions.sharing import Plan
from fairpost.regions.stores import RegionStores
from fairpost.store import retention
from fairpost.store.store import Store
from fairpost.vault import rotation
from fairpost.vault.rotation import Rotation
from fairpost.vault.vault import Vault


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateSecrets:
    """A request to rotate the master key. `drop_unreadable` drops the passwords that no key can decrypt."""

    vault: Vault
    drop_unreadable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropHistory:
    before: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryDropped:
    """The months that were dropped.

    If `is_in_use` is True, a long transaction is locking the history tables, and the other months must be dropped
    later.
    """

    dropped: list[DroppedMonth]
    kept: list[OldMonth]
    is_in_use: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAccount:
    plan: Plan
    stores: RegionStores
    vault: Vault


@action("secrets.rotate", in_one_commit=False)
async def rotate_secrets(actor: Actor, request: RotateSecrets, store: Store) -> Rotation | None:
    """Rotates the master key. Returns None if neither a key nor a password exists yet.

    The passwords and the audit entry are written in one commit, and then the key file is written.
    """
    recorded = _Recorded(actor, store)
    return await rotation.rotate(recorded, request.vault, drop_unreadable=request.drop_unreadable)


class _Recorded:
    """The store, extended to write an audit entry when secrets are resealed."""

    def __init__(self, actor: Actor, store: Store) -> None:
        self._actor = actor
        self._store = store

    async def keys_in_use(self, account_id: AccountId | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return await self._store.keys_in_use(account_id)

    async def secrets(self) -> Sequence[SealedSecret]:
        return await self._store.secrets()

    async def replace_secrets(self, before: Sequence[SealedSecret], after: Mapping[str, str | None]) -> bool:
        async with self._store.together() as one:
            is_replaced = await one.replace_secrets(before, after)
            if is_replaced:
                dropped = sum(1 for each in after.values() if each is None)
                detail = {"sealed": len(after) - dropped, "dropped": dropped}
                await self._actor.record(one, "secrets.rotate", "all passwords", workspace=None, **detail)
        return is_replaced


@action("history.drop", in_one_commit=False)
async def drop_history(actor: Actor, request: DropHistory, store: Store) -> HistoryDropped:
    """Drops history month by month, committing each month with its audit entry.

    If a month cannot be dropped now, the months before it remain dropped.
    """
    dropped: list[DroppedMonth] = []
    try:
        while (month := await _drop_month(actor, request, store)) is not None:
            dropped.append(month)
        await retention.drop_rows(store, before=request.before)
    except LockNotAvailableError:
        return HistoryDropped(dropped=dropped, kept=[], is_in_use=True)
    return HistoryDropped(dropped=dropped, kept=await retention.old_months(store, before=request.before))


async def _drop_month(actor: Actor, request: DropHistory, store: Store) -> DroppedMonth | None:
    async with store.together() as one:
        month = await retention.drop_month(one, before=request.before)
        if month is not None:
            await actor.record(one, "history.drop", f"{month.month:%Y-%m}", workspace=None, bytes=month.bytes)
    return month


@action("account.share", in_one_commit=False)
async def share_account(actor: Actor, request: ShareAccount, store: Store) -> None:
    """Writes the account's row in each region, committing each row with its audit entry. If the action is interrupted,
    run it again."""

    async def record(one: Store, slice_: sharing.Slice) -> None:
        subject = f"account {request.plan.name}"
        await actor.record(one, "account.share", subject, workspace=None, percent=slice_.percent, region=slice_.region)

    await sharing.carry_out(request.stores, request.plan, request.vault, record=record)
