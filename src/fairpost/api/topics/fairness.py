"""The live topic `fairness`, for the installation or one workspace."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from fairpost.api.live import Look, Screen
from fairpost.api.topics.drawings import evenness_chart
from fairpost.api.topics.watching import Watcher, drawn, shared
from fairpost.observe.fairness import (
    EvenHour,
    Mode,
    Portion,
    Queue,
    Served,
    Throttle,
    ThrottleCounts,
    ThrottledSender,
    Throttling,
    Took,
    Waiting,
    read_fairness,
    read_hours,
    read_share,
)
from fairpost.observe.status import read_holds
from fairpost.policy.facts import Hold
from fairpost.reasons.rendering import brief, brief_or_none
from fairpost.store.store import Store

HOURS_EVERY = timedelta(minutes=1)  # how often hourly figures are read
ALL_TIERS = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldShown:
    workspace: str
    level: str
    key: str
    until: datetime | None
    reason: str | None
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottledShown(Throttle):
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottlingShown(ThrottleCounts):
    latest: Sequence[ThrottledShown]


@dataclass(frozen=True, slots=True, kw_only=True)
class FairnessShown:
    """The fairness figures. `mode` and `queue` describe the installation and are null for a workspace.

    `waits` measures the time from when an e-mail is due until sending starts, by queue and tier. For a workspace, all
    tiers are combined."""

    mode: Mode | None
    queue: Queue | None
    waiting: Waiting
    served: Served
    served_workspaces: Sequence[Portion]
    served_users: Sequence[Portion]
    waits: Mapping[str, Mapping[str, Took]]
    throttling: ThrottlingShown
    holds: Sequence[HoldShown]
    chart: str = ""


def fairness_look(watcher: Watcher) -> Look:
    return drawn(FairnessShown, FairnessLook(watcher.store, watcher.workspace))


class FairnessLook:
    def __init__(self, store: Store, workspace: str | None) -> None:
        self._store, self._workspace = store, workspace
        self._hours: list[EvenHour] = []
        self._hours_at: datetime | None = None

    async def __call__(self) -> Callable[[Screen], FairnessShown]:
        now = await self._store.now()
        hours, hours_at = await self._read_hours(now)
        found = await (self._of_all(now) if self._workspace is None else self._of_one(self._workspace, now))
        return lambda screen: replace(found, chart=evenness_chart(hours, hours_at, screen))

    async def _of_all(self, now: datetime) -> FairnessShown:
        found = await read_fairness(self._store)
        return FairnessShown(
            mode=found.mode,
            queue=found.queue,
            waiting=found.waiting,
            served=found.served,
            served_workspaces=found.top_workspaces,
            served_users=found.top_users,
            waits={queue: found.waits[queue] for queue in found.queues},
            throttling=_throttling(found.throttling),
            holds=await self._held(now),
        )

    async def _of_one(self, workspace: str, now: datetime) -> FairnessShown:
        found = await read_share(self._store, workspace)
        return FairnessShown(
            mode=None,
            queue=None,
            waiting=replace(found.waiting, top_workspaces=()),
            served=found.served,
            served_workspaces=(),
            served_users=found.served_users,
            waits={"fair": {ALL_TIERS: found.waits}} if found.waits else {},
            throttling=_throttling(_as_known(found.throttling)),
            holds=await self._held(now),
        )

    async def _held(self, now: datetime) -> list[HoldShown]:
        return [_hold(each) for each in await read_holds(self._store, now=now, workspace=self._workspace, by_hand=True)]

    async def _read_hours(self, now: datetime) -> tuple[list[EvenHour], datetime]:
        if self._hours_at is None or now >= self._hours_at + HOURS_EVERY:
            self._hours = await read_hours(self._store, now=now, workspace=self._workspace)
            self._hours_at = now
        return self._hours, self._hours_at


def _as_known(throttling: Throttling) -> Throttling:
    """Returns the stopped senders and their reasons, without scores and without senders that are only observed."""
    stopped = [replace(each, score=0, found_after_s=None) for each in throttling.latest if each.is_enforced]
    return replace(throttling, observed=0, latest=stopped)


def _hold(hold: Hold) -> HoldShown:
    return HoldShown(
        workspace=hold.workspace,
        level=hold.level,
        key=hold.key,
        until=hold.until,
        reason=brief_or_none(hold.reason),
        waiting=hold.waiting,
    )


def _throttling(found: Throttling) -> ThrottlingShown:
    return ThrottlingShown(**shared(found, ThrottleCounts), latest=[_throttled(each) for each in found.latest])


def _throttled(sender: ThrottledSender) -> ThrottledShown:
    return ThrottledShown(**shared(sender, Throttle), reasons=[brief(reason) for reason in sender.reasons])
