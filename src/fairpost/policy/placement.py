"""Decide, for one engine among several, which accounts need a worker, which to wake, and which to release."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fairpost.model.account import Account, AccountRuntime
from fairpost.model.ids import AccountId
from fairpost.policy.limits import NotBefore, availability


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    start: tuple[AccountId, ...] = ()
    wake: tuple[AccountId, ...] = ()
    let_go: tuple[AccountId, ...] = ()
    next_at: datetime | None = None  # when to check again if nothing happens before then


def plan(
    accounts: Sequence[AccountRuntime],
    due_routes: Collection[str],
    *,
    ours: Mapping[AccountId, bool],
    driven: Collection[AccountId],
    barred: Collection[AccountId],
    engines: int,
    places: int,
    now: datetime,
) -> Plan:
    """Plan the next step of an engine.

    `ours` maps each account that this engine drives to whether it is idle. `driven` lists the accounts that any engine
    drives, and `barred` lists those that must not be started yet.
    """
    moments = {seen.account.id: moment for seen in accounts if (moment := _next_moment(seen.account, now)) is not None}
    able = [seen for seen in accounts if seen.account.id in moments]
    wanted = [s for s in able if _routes(s.account) & set(due_routes) and moments[s.account.id] <= now]
    share = min(places, math.ceil(len(able) / max(1, engines))) if engines > 1 else places
    free = [s.account.id for s in wanted if s.account.id not in {*ours, *driven, *barred}]
    later = [m for id_, m in moments.items() if m > now]
    return Plan(
        start=tuple(free[: max(0, share - len(ours))]),
        wake=tuple(s.account.id for s in wanted if ours.get(s.account.id)),
        let_go=tuple(
            dict.fromkeys(
                [*_outdated(accounts, driven, ours), *(_surplus(ours, len(ours) - share) if engines > 1 else [])]
            )
        ),
        next_at=min(later, default=None),
    )


def _routes(account: Account) -> set[str]:
    return {account.pool, f"@{account.name}"}


def _next_moment(account: Account, now: datetime) -> datetime | None:
    """Return when to check the account again, or None if manual action is needed first."""
    admitted = availability(account, now=now)
    return admitted.moment if isinstance(admitted, NotBefore) else now


def _outdated(
    accounts: Sequence[AccountRuntime], driven: Collection[AccountId], ours: Mapping[AccountId, bool]
) -> list[AccountId]:
    return [s.account.id for s in accounts if s.is_outdated and s.account.id in driven and s.account.id in ours]


def _surplus(ours: Mapping[AccountId, bool], too_many: int) -> tuple[AccountId, ...]:
    """Return the accounts to release, idle ones first."""
    return tuple(sorted(ours, key=lambda id_: (not ours[id_], id_))[: max(0, too_many)])
