"""One account used in several regions. Each region has a row for the account, with a share of its limits.

Regions do not communicate while sending. To keep the total within the account's limits, shares that shrink are written
before shares that grow.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from fairpost.model.account import Account, DailyMode, Limits, WarmUp
from fairpost.model.errors import FairpostError, NotFound
from fairpost.model.transport import UnknownTransport
from fairpost.policy.slices import sliced
from fairpost.regions.stores import RegionStores
from fairpost.store import shares
from fairpost.store.store import Store
from fairpost.transports.registry import write_transport
from fairpost.vault.rotation import write_sealed
from fairpost.vault.vault import Unopenable, Vault

WRITE_S_MAX = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A region's share of the account's total limits."""

    percent: int
    whole: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A region's new share of the limits, compared with the region's current row."""

    region: str
    percent: int
    limits: Limits
    change: Literal["new", "changed", "as before"]
    percent_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    account: Account
    share: Share | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The slices, in the order in which they are to be written."""

    name: str
    whole: Limits
    slices: tuple[Slice, ...]
    source: Account


Record = Callable[[Store, Slice], Awaitable[None]]


async def plan(
    stores: RegionStores, name: str, percents: Mapping[str, int], *, here: str, current_limits: bool = False
) -> Plan:
    """Reads every region and writes nothing. With `current_limits`, the account's current limits in this region are
    used as the total.
    """
    _require_percents(percents, here, stores)
    rows = await _rows(stores, name)
    mine = rows[here]
    if mine is None:
        raise NotFound(f"There is no account {name} in {here}. See: FAIRPOST_REGION={here} fairpost account list")
    _require_no_others(name, mine.account, rows, percents)
    whole = _whole(mine, here, current_limits=current_limits)
    try:
        slices = [
            _slice(region, percent, sliced(whole, percent), rows[region], mine) for region, percent in percents.items()
        ]
    except ValueError as error:
        raise FairpostError(f"{name} cannot be shared this way: {error}. Use fewer or larger slices") from error
    slices.sort(key=lambda each: each.percent - each.percent_before)
    return Plan(name=name, whole=whole, slices=tuple(slices), source=mine.account)


async def carry_out(stores: RegionStores, shared: Plan, vault: Vault, *, record: Record | None = None) -> None:
    """Commits each region separately. If the call is interrupted, repeat it.

    `record` is called within each region's commit.
    """
    secret = _opened(shared.source, vault)
    for each in shared.slices:
        async with stores.at(each.region, answer_s_max=WRITE_S_MAX) as store:
            await _write(store, shared, each, secret, vault, record)


async def record_share(store: Store, account_id: int, share: Share) -> None:
    await shares.record_share(store, account_id, percent=share.percent, whole=asdict(share.whole))


async def share_of(store: Store, account_id: int) -> Share | None:
    row = await shares.share_of(store, account_id)
    return Share(percent=row["percent"], whole=_read_limits(json.loads(row["whole"]))) if row else None


def _require_percents(percents: Mapping[str, int], here: str, stores: RegionStores) -> None:
    for region, percent in percents.items():
        stores.directory.region(region)
        if not 1 <= percent <= 100:
            raise FairpostError(f"A slice must be a whole number from 1 to 100, got {region}={percent}")
    if sum(percents.values()) > 100:
        raise FairpostError(f"The slices add up to {sum(percents.values())}%; the maximum is 100%")
    if here not in percents:
        raise FairpostError(f"{here}, the account's own region, also needs a slice. Add: --slice {here}=PERCENT")


async def _rows(stores: RegionStores, name: str) -> dict[str, _Row | None]:
    async def read(region: str) -> _Row | None:
        async with stores.at(region) as store:
            try:
                account = await store.account_named(name)
            except NotFound:
                return None
            return _Row(account=account, share=await share_of(store, account.id))

    names = stores.directory.names
    return dict(zip(names, await asyncio.gather(*map(read, names)), strict=True))


def _require_no_others(name: str, mine: Account, rows: Mapping[str, _Row | None], percents: Mapping[str, int]) -> None:
    for region, row in rows.items():
        if row is None:
            continue
        if row.account.address != mine.address:
            raise FairpostError(
                f"{region} has a different account named {name}, which sends from {row.account.address}. To remove "
                f"that account, run: "
                f"FAIRPOST_REGION={region} fairpost account remove {name}"
            )
        if region not in percents:
            raise FairpostError(
                f"{region} also has account {name} but gets no slice. Add --slice {region}=PERCENT, or remove the "
                f"account from that region: FAIRPOST_REGION={region} fairpost account remove {name}"
            )


def _whole(mine: _Row, here: str, *, current_limits: bool) -> Limits:
    if mine.share is None or current_limits:
        return mine.account.limits
    if mine.account.limits != sliced(mine.share.whole, mine.share.percent):
        raise FairpostError(
            f"The limits for {mine.account.name} have changed in {here} since the account was shared. Set the total limits (fairpost account set {mine.account.name} …), then share the account again with --current-limits"
        )
    return mine.share.whole


def _slice(region: str, percent: int, limits: Limits, row: _Row | None, mine: _Row) -> Slice:
    before = 0 if row is None else row.share.percent if row.share else 100
    is_same = row is not None and before == percent and row.share is not None and row.account.limits == limits
    is_same = is_same and row is not None and _facts(row.account) == _facts(mine.account)
    change: Literal["new", "changed", "as before"] = "new" if row is None else "as before" if is_same else "changed"
    return Slice(region=region, percent=percent, limits=limits, change=change, percent_before=before)


def _facts(account: Account) -> dict[str, Any]:
    """Returns the values that all rows have in common."""
    return {
        "address": account.address,
        "display_name": account.display_name,
        "pool": account.pool,
        "provider": account.provider,
        "transport": _without_secret(account),
    }


def _without_secret(account: Account) -> dict[str, Any]:
    transport = account.transport
    if isinstance(transport, UnknownTransport):
        raise FairpostError(
            f"Account {account.name} uses a kind of server that this version does not support ({transport.kind}). "
            f"Upgrade Fairpost"
        )
    return write_transport(transport and replace(transport, secret=None))


def _opened(account: Account, vault: Vault) -> str | None:
    transport = account.transport
    if transport is None or isinstance(transport, UnknownTransport) or transport.secret is None:
        return None
    return vault.open(transport.secret, account_id=account.id, name=account.name)


async def _write(
    store: Store, shared: Plan, each: Slice, secret: str | None, vault: Vault, record: Record | None
) -> None:
    try:
        there: Account | None = await store.account_named(shared.name)
    except NotFound:
        there = None
    has_secret = there is not None and _is_sealed(there, secret, vault)
    if each.change == "as before" and has_secret:
        return
    id_ = there.id if there else await store.next_account_id()
    changes: dict[str, Any] = {**_facts(shared.source), **asdict(each.limits)}
    if there is None:  # after the account has been created here, each region manages its own row
        changes |= {"status": shared.source.status, "status_reason": shared.source.status_reason}

    async def write(sealed: str | None, keys: Sequence[str] | None) -> None:
        sealing = {} if has_secret else {"secret": sealed}
        async with store.together() as one:
            if there is None:
                await one.add_account(shared.name, address=shared.source.address, limits=each.limits, id_=id_)
            await one.change_account(shared.name, {**changes, **sealing}, keys=keys)
            await record_share(one, id_, Share(percent=each.percent, whole=shared.whole))
            if record is not None:
                await record(one, each)

    if secret is None or has_secret:
        await write(None, None)
    else:
        await write_sealed(store, vault, secret, account_id=id_, write=write)


def _is_sealed(account: Account, secret: str | None, vault: Vault) -> bool:
    """Returns whether this row has the same secret."""
    try:
        return _opened(account, vault) == secret
    except Unopenable:
        return False


def _read_limits(given: Mapping[str, Any]) -> Limits:
    warm_up = WarmUp(**given["warm_up"]) if given["warm_up"] else None
    return Limits(**{**given, "warm_up": warm_up, "daily_mode": DailyMode(given["daily_mode"])})
