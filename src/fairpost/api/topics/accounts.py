"""Live topics about accounts. Each watcher gets only what they are allowed to see."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

from fairpost.api.access import Caller
from fairpost.api.answers import Id, Moment, ResponseModel, as_dict
from fairpost.api.conditions import shown
from fairpost.api.live import COST_MAX, Look, Screen
from fairpost.api.names import full_name, own_name
from fairpost.api.topics.drawings import warm_up_chart
from fairpost.api.topics.watching import Watcher, drawn, told
from fairpost.api.versions import tag_of
from fairpost.model.account import Account, Limits
from fairpost.model.errors import NotFound
from fairpost.observe.accounts import (
    AccountNow,
    Accounts,
    Situation,
    account_now,
    chosen,
    read_account_facts,
    read_accounts,
    read_failures,
    server_in_words,
)
from fairpost.observe.recent import Recent
from fairpost.policy.blame import reason_of
from fairpost.policy.conditions import Condition
from fairpost.policy.limits import roll_windows
from fairpost.reasons.rendering import Shown, brief
from fairpost.store.blocks import read_blocks
from fairpost.store.store import Store

FRESH_S = 0.8  # how long a result is shared: less than a second, so that polling once per second shows every change
FAILURES_EVERY = timedelta(seconds=4)  # how often failures are read


class FailureShown(ResponseModel):
    at: Moment
    email_id: Id
    outcome: str
    code: int | None
    reply: str | None
    why: str | None


class BlockShown(ResponseModel):
    """A blocked workspace. `because` gives the reason, with the workspace's own figures."""

    workspace: str
    since: Moment
    until: Moment | None
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountShown:
    now: AccountNow
    tag: str  # the account version, for If-Match
    display_name: str | None
    server: str | None
    limits: Limits
    limits_in_words: Sequence[tuple[str, str]]  # label and value
    warm_day: int
    failures: Sequence[FailureShown]
    blocks: Sequence[BlockShown]  # blocked workspaces; callers in a workspace see only their own
    warm_up: str | None = None  # a chart, as SVG


@dataclass(frozen=True, slots=True, kw_only=True)
class OneShown:
    """One account, or null if there is no account with this name."""

    account: AccountShown | None


def accounts_look(watcher: Watcher) -> Look:
    asked = watcher.asked
    return told(Accounts, AccountsLook(watcher.store, watcher.caller, asked.having, asked.situation))


def account_look(watcher: Watcher) -> Look:
    return drawn(OneShown, AccountLook(watcher.store, watcher.caller, watcher.asked.name or ""))


class Everyone:
    """The accounts of one workspace, or of all workspaces, read once for all watchers."""

    def __init__(self, store: Store, caller: Caller | None) -> None:
        self._store, self._caller = store, caller
        self._recent: Recent[list[AccountNow]] = Recent(kept_s=FRESH_S, cost_max=COST_MAX)

    async def look(self) -> list[AccountNow]:
        return await self._recent.look(self._read)

    async def _read(self) -> list[AccountNow]:
        found = await read_accounts(self._store, workspace=_workspace(self._caller), shown=_told(self._caller))
        return [_as_known(each, self._caller) for each in found]


_everyone: WeakValueDictionary[tuple[int, str | None], Everyone] = WeakValueDictionary()


class AccountsLook:
    def __init__(self, store: Store, caller: Caller | None, having: str | None, situation: Situation | None) -> None:
        self._having, self._situation = having, situation
        self._everyone = _everyone.setdefault((id(store), _workspace(caller)), Everyone(store, caller))

    async def __call__(self) -> Accounts:
        return chosen(await self._everyone.look(), having=self._having, situation=self._situation)


class AccountLook:
    def __init__(self, store: Store, caller: Caller | None, name: str) -> None:
        self._store, self._caller = store, caller
        self._name = full_name(name, caller) if caller is not None else name
        self._failures: list[FailureShown] = []
        self._failures_at: datetime | None = None

    async def __call__(self) -> Callable[[Screen], OneShown]:
        try:
            facts = await read_account_facts(self._store, workspace=_workspace(self._caller), name=self._name)
        except NotFound:
            return lambda screen: OneShown(account=None)
        (runtime,), now = facts.accounts, facts.now
        await self._look_for_failures(runtime.account, now)
        account, limits, ids = runtime.account, runtime.account.limits, await self._store.public_ids()
        warm_day = roll_windows(limits, account.usage, now=now).warm_day
        shown = AccountShown(
            now=_as_known(account_now(runtime, facts, _told(self._caller)), self._caller),
            tag=tag_of(account, ids),
            display_name=account.display_name,
            server=server_in_words(account.transport),
            limits=limits,
            limits_in_words=[(each.label, words) for each, words in limits.in_words()],
            warm_day=warm_day,
            failures=self._failures,
            blocks=await self._blocks(now),
        )
        if limits.warm_up is None:
            return lambda screen: OneShown(account=shown)
        return lambda screen: OneShown(account=replace(shown, warm_up=warm_up_chart(limits, warm_day, screen)))

    async def _blocks(self, now: datetime) -> list[BlockShown]:
        found = await read_blocks(self._store, now=now, account=self._name, workspace=_workspace(self._caller))
        return [
            BlockShown(workspace=b.workspace, since=b.since, until=b.until, because=brief(reason_of(b.fault)))
            for b in found
        ]

    async def _look_for_failures(self, account: Account, now: datetime) -> None:
        if self._failures_at is None or now >= self._failures_at + FAILURES_EVERY:
            ids = await self._store.public_ids()
            self._failures = [
                FailureShown.model_validate({**as_dict(each), "email_id": ids.email(each.email_id)})
                for each in await read_failures(self._store, account)
            ]
            self._failures_at = now


def _workspace(caller: Caller | None) -> str | None:
    return caller.workspace if caller is not None else None


def _as_known(account: AccountNow, caller: Caller | None) -> AccountNow:
    """Returns the account as a workspace may see it, with the workspace's own name for it and without machine names."""
    if caller is None:
        return account
    return replace(
        account,
        name=own_name(account.name, caller),
        pool=own_name(account.pool, caller),
        driven_by=None,
    )


def _told(caller: Caller | None) -> Callable[[Condition], Shown]:
    return lambda condition: shown(condition, caller)
