"""The current activity of the whole installation or of one workspace.

The cost depends on the number of senders and accounts, not on the number of e-mails.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from fairpost.model.ids import AccountId
from fairpost.model.states import EmailClass
from fairpost.observe.fairness import QueueHealth, read_health
from fairpost.observe.status import read_accounts, read_blocked, read_engines, read_facts, read_holds
from fairpost.observe.watch import Called, Watch, as_stored
from fairpost.policy.conditions import Condition, diagnose, headline
from fairpost.policy.facts import Claims, Facts, Hold, Pause, Route
from fairpost.policy.limits import may_send
from fairpost.store import outcomes
from fairpost.store.blocks import read_blocks
from fairpost.store.dkim import locked_keys
from fairpost.store.pauses import pause_now
from fairpost.store.store import Store
from fairpost.store.waiting import oldest_arrival, oldest_own, own_claimed, own_routes, waiting_by_class

HISTORY = timedelta(minutes=10)
PACE_OVER = timedelta(seconds=5)  # period over which the rate is measured
DAY = timedelta(hours=24)
SLOW_EVERY = timedelta(seconds=10)  # how often hourly figures are read


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A point in the history.

    Contains the number of e-mails sent since counting began, and the number of e-mails waiting.
    """

    at: datetime
    sent: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    hour: datetime
    sent: int
    bounced: int
    rejected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AtWork:
    """How many accounts there are, how many are usable, how many are driven by a worker, and how many can send now."""

    all: int
    active: int
    driven: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The figures of the current activity. `health` describes the installation and is None for a workspace.

    `oldest_wait_s` describes the installation or the workspace.
    """

    now: datetime
    workspace: str | None
    per_s: float
    waiting: int
    claimed: int
    sending: int
    in_doubt: int
    undecided: int
    next_due_at: datetime | None
    oldest_wait_s: float | None
    health: float | None
    classes: Mapping[str, int]
    accounts: AtWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Now(Activity):
    """The current activity, its conditions and its history."""

    headline: Condition
    reasons: Sequence[Condition]
    hours: Sequence[Hour]
    history: Sequence[Moment]


class NowWatch(Watch):
    """Reads the activity repeatedly and keeps the values needed to compute the rate."""

    def __init__(self, store: Store, workspace: str | None = None, *, called: Called = as_stored) -> None:
        super().__init__(store, workspace, called=called)
        self._history: deque[Moment] = deque()
        self._hours: list[Hour] = []
        self._slow_at: datetime | None = None
        self._own_sent = 0
        self._own_hours: Mapping[datetime, int] = {}

    async def look(self) -> Now:
        store, workspace = self._store, self._workspace
        facts = await (read_facts(store, with_finished=False) if workspace is None else self._own_facts(workspace))
        now = facts.now
        waiting = sum(route.waiting for route in facts.routes)
        sent = await (outcomes.sent_in_total(store) if workspace is None else self._sent_by(workspace, now))
        self._remember(Moment(at=now, sent=sent, waiting=waiting))
        await self._look_at_hours(now)
        classes, health = await asyncio.gather(waiting_by_class(store, workspace), self._health(now))
        reasons = diagnose(facts)
        per_s = self._per_s()
        total = facts.total()
        return Now(
            now=now,
            workspace=workspace,
            headline=headline(facts, reasons, per_s=per_s),
            reasons=reasons,
            per_s=per_s,
            waiting=waiting,
            claimed=total.claimed,
            sending=total.sending,
            in_doubt=total.in_doubt,
            undecided=total.undecided,
            next_due_at=min((route.next_at for route in facts.routes if route.next_at), default=None),
            oldest_wait_s=health.oldest_wait_s,
            health=health.health,
            classes={str(EmailClass(row["class"])): row["waiting"] for row in classes},
            accounts=_at_work(facts),
            hours=self._hours,
            history=tuple(self._history),
        )

    async def _sent_by(self, workspace: str, now: datetime) -> int:
        """Returns the number of e-mails sent so far. The number never decreases, because e-mails keep counting even
        when their hour is no longer read.
        """
        hours = await outcomes.own_sent_lately(self._store, workspace, now=now)
        self._own_sent += sum(max(0, sent - self._own_hours.get(hour, 0)) for hour, sent in hours.items())
        self._own_hours = hours
        return self._own_sent

    def _remember(self, moment: Moment) -> None:
        self._history.append(moment)
        while self._history[0].at < moment.at - HISTORY:
            self._history.popleft()

    def _per_s(self) -> float:
        last = self._history[-1]
        since = next(each for each in self._history if each.at >= last.at - PACE_OVER)
        seconds = (last.at - since.at).total_seconds()
        return max(0, last.sent - since.sent) / seconds if seconds > 0 else 0.0

    async def _look_at_hours(self, now: datetime) -> None:
        if self._slow_at is not None and now < self._slow_at + SLOW_EVERY:
            return
        rows = await outcomes.outcomes_by_hour(self._store, self._workspace, now - DAY)
        self._hours = [Hour(**row) for row in rows]
        self._slow_at = now

    async def _health(self, now: datetime) -> QueueHealth:
        if self._workspace is None:
            found = await read_health(self._store, now=now)
            return found if found.oldest_wait_s is not None else replace(found, oldest_wait_s=await self._noted(now))
        oldest_at = await oldest_own(self._store, self._workspace, now=now)
        wait_s = max(0.0, (now - oldest_at).total_seconds()) if oldest_at is not None else None
        return QueueHealth(oldest_wait_s=wait_s, health=None)

    async def _noted(self, now: datetime) -> float | None:
        """Returns how long the oldest e-mail that is still waiting for an engine has been due."""
        due_at = await oldest_arrival(self._store, now=now)
        return (now - due_at).total_seconds() if due_at is not None else None

    async def _own_facts(self, workspace: str) -> Facts:
        """Returns the facts that the workspace may see. The workspace does not see the names of the operator's accounts
        that it uses.
        """
        store = self._store
        now = await store.now()
        routes = [Route(**row) for row in await own_routes(store, workspace, now=now)]
        pause = await pause_now(store, now=now)
        claimed = await own_claimed(store, workspace)
        serving = {route.route for route in routes} | {row["route"] for row in claimed}
        found = await read_accounts(store, workspace=workspace, serving=serving)
        names = {each.account.name: self._called(each.account).name for each in found}
        blocked = await read_blocked(store, now=now, workspace=workspace)
        return Facts(
            now=now,
            workspace=workspace,
            pause=Pause(**{**pause, "paused_by": "the operator"}) if pause else None,
            engines=await read_engines(store),
            accounts=[replace(each, account=self._called(each.account)) for each in found],
            routes=[_renamed(route, names) for route in routes],
            holds=[_known(hold, names) for hold in await read_holds(store, now=now, workspace=workspace)],
            blocked=[replace(each, route=_renamed(each.route, names)) for each in blocked],
            shut={each.account_id for each in await read_blocks(store, now=now, workspace=workspace)},
            locked_keys=await locked_keys(store, now=now, workspace=workspace),
            claimed=_by_account(claimed),
        )


def _by_account(rows: Sequence[Any]) -> dict[AccountId, Claims]:
    """Groups the rows by account. An account may hold claimed e-mails from two routes: its pool's and its own."""
    found: dict[AccountId, Claims] = {}
    for row in rows:
        id_ = AccountId(row["account_id"] or 0)
        known = found.get(id_, Claims())
        found[id_] = Claims(**{name: getattr(known, name) + row[name] for name in asdict(known)})
    return found


def _renamed(route: Route, names: Mapping[str, str]) -> Route:
    called = names.get(route.pinned_to or "")
    return replace(route, route=f"@{called}") if called else route


def _known(hold: Hold, names: Mapping[str, str]) -> Hold:
    return replace(hold, routes=[_renamed(Route(route=route, waiting=0), names).route for route in hold.routes])


def _at_work(facts: Facts) -> AtWork:
    active = [each for each in facts.accounts if each.account.status == "active"]
    return AtWork(
        all=len(facts.accounts),
        active=len(active),
        driven=sum(map(facts.is_driven, facts.accounts)),
        free=sum(may_send(each.account, facts.now)[0] is None for each in active),
    )
