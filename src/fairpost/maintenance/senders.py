"""Maintain senders: score active senders, end expired throttles, and queue senders' mail under their assigned domains.
Also notify operators and measure queue health. Runs in every engine's orchestrator process. At worst, several engines
do the same work, because decisions based on outdated data are not written.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from fairpost.maintenance.loop import failed, keep_stepping
from fairpost.maintenance.notices import notice_of_throttles
from fairpost.model.reason import Log, Reason
from fairpost.model.sender import Fairness, Sender, SenderId, SenderLevel
from fairpost.policy.health import health
from fairpost.policy.senders import SenderPolicy, look
from fairpost.store import senders
from fairpost.store.store import Store
from fairpost.system.failpoints import failpoint

LOOK_S = 0.5  # a burst is noticed within this time plus the time that accounts take to write their outcomes
WORKSPACE_EVERY = timedelta(seconds=5)
TELL_EVERY = timedelta(minutes=1)  # all throttles that begin within a minute are reported in one e-mail
HEALTH_EVERY = timedelta(seconds=10)
FOLD_EVERY = timedelta(minutes=10)
SWEEP_EVERY = timedelta(minutes=1)
COMMITTED_WITHIN = timedelta(seconds=5)  # enough for nearly all transactions that claim e-mails or write outcomes
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderOptions:
    policy: SenderPolicy
    fairness: Fairness
    operators: tuple[str, ...] = ()  # recipients of throttle notices
    pool: str = "default"  # the pool that sends these notices


class SenderWatch:
    def __init__(self, store: Store, options: SenderOptions, log: Log) -> None:
        self._store = store
        self._options = options
        self._log = log
        self._hour: datetime | None = None
        self._later: dict[SenderId, datetime | None] = {}  # to be checked again: another process had locked them
        self._dirty: set[str] = set()  # workspaces to check
        self._looked_at: dict[str, datetime] = {}  # when each workspace was last checked
        self._told_at = self._health_at = self._folded_at = self._swept_at = LONG_AGO
        self._settled = [(LONG_AGO, 0)]  # when marks were read, and the highest mark number at that time

    async def start(self) -> None:
        """Apply the settings, and check all throttled senders, because the new settings may end their throttles."""
        if await senders.lay_fairness(self._store, self._options.fairness):
            self._log(Reason("fairness.set", fairness=_in_words(self._options.fairness)))
        failpoint("after_fairness")
        await senders.look_at_throttled(self._store)

    async def run(self) -> None:
        await keep_stepping(self.step, every_s=LOOK_S, complain=partial(failed, "sender watch", log=self._log))

    async def step(self) -> None:
        now = await self._store.now()
        await self._begin_hour(now)
        dirty = await senders.dirty_senders(self._store, after=self._settled_before(now))
        ids = {
            **dict.fromkeys(await senders.to_look_at(self._store, now=now)),
            **dict.fromkeys(self._workspaces(dirty.workspaces, now)),
            **dirty.users,
            **self._later,
        }
        self._later = {}
        await self._look_at(ids, now)
        await senders.settled(self._store, dirty)
        self._settled.append((now, max((self._settled[-1][1], *dirty.marks))))
        failpoint("after_looks")
        await senders.settle_homes(self._store)
        if now >= self._told_at + TELL_EVERY:
            await self._tell(now)
        if now >= self._health_at + HEALTH_EVERY:
            self._health_at = now
            await self._see_how_the_queue_is(now)
            failpoint("after_health")
        if now >= self._folded_at + FOLD_EVERY:
            self._folded_at = now
            await senders.fold(self._store)
            failpoint("after_fold")

    def _settled_before(self, now: datetime) -> int:
        """Return the number of the last mark to skip when looking for changed senders. All earlier marks have already
        been settled.

        A mark gets its number when it is written, but becomes visible only when its transaction commits. The result is
        therefore a few seconds behind. Once a minute, 0 is returned, so that no mark is missed. Settled marks are
        skipped by number, because deleted rows slow down reading as long as any older transaction stays open.
        """
        if now >= self._swept_at + SWEEP_EVERY:
            self._swept_at = now
            return 0
        while len(self._settled) > 1 and self._settled[1][0] <= now - COMMITTED_WITHIN:
            del self._settled[0]
        return self._settled[0][1]

    def _workspaces(self, workspaces: Collection[str], now: datetime) -> list[SenderId]:
        """Return the workspaces that are due for a check. Workspaces are checked less often than users, because it
        costs more to read the activity of all users in a workspace.
        """
        self._looked_at = {name: at for name, at in self._looked_at.items() if at > now - WORKSPACE_EVERY}
        self._dirty |= set(workspaces)
        due = self._dirty - self._looked_at.keys()
        self._dirty -= due
        self._looked_at |= dict.fromkeys(due, now)
        return [SenderId(workspace=name, level=SenderLevel.WORKSPACE) for name in due]

    async def _begin_hour(self, now: datetime) -> None:
        """From now on, count the e-mails planned for this hour as volume."""
        hour = now.replace(minute=0, second=0, microsecond=0)
        if self._hour is None:  # first, catch up on the hours in which no engine was running
            last = await senders.last_look(self._store)
            self._hour = max(hour - DAY, last.replace(minute=0, second=0, microsecond=0) - HOUR if last else hour - DAY)
        while self._hour < hour:
            self._hour += HOUR
            await senders.mark_hour(self._store, self._hour)
            failpoint("after_hour")

    async def _look_at(self, ids: Mapping[SenderId, datetime | None], now: datetime) -> None:
        """Check these senders. `ids` maps each sender to the time of the event that caused the check, or to None if
        unknown.
        """
        while ids:
            changed: dict[SenderId, datetime | None] = {}  # changed by another process, so checked again
            for active in await senders.with_activity(self._store, list(ids)):
                decided = look(active.sender, active.hours, active.days, self._options.policy, now=now)
                if decided is None:
                    continue
                id_ = active.sender.id
                is_written = await senders.decide(
                    self._store, decided.after, is_new=decided.is_new, offended_at=ids.get(id_)
                )
                failpoint("after_decision")
                match is_written:
                    case None:
                        self._later[id_] = ids.get(id_)
                    case False:
                        changed[id_] = ids.get(id_)
                    case True if decided.is_new:
                        self._log(_throttled(decided.after))
            ids = changed

    async def _tell(self, now: datetime) -> None:
        about = await senders.untold(self._store)
        if not about:
            return
        self._told_at = now
        emails = [notice_of_throttles(about, to, pool=self._options.pool, now=now) for to in self._options.operators]
        failpoint("before_telling")
        await senders.tell(self._store, [sender.id for sender in about], emails)
        failpoint("after_telling")

    async def _see_how_the_queue_is(self, now: datetime) -> None:
        queued, oldest_at = await senders.queue_now(self._store)
        found = health(
            queued=queued,
            queue_max=self._options.fairness.queue_max,
            oldest_wait=now - oldest_at if oldest_at else None,
        )
        await senders.set_health(self._store, queued=queued, oldest_at=oldest_at, multiplier=found.multiplier, now=now)


def _in_words(fairness: Fairness) -> str:
    tiers = "lanes" if fairness.has_lanes else "weights"
    if fairness.share == 0:
        return "off; e-mails are sent in order of arrival"
    share = "on" if fairness.share == 100 else f"for {fairness.share}% of the workspaces"
    return f"{share}; tiers are {tiers}"


def _throttled(sender: Sender) -> Reason:
    assert sender.throttle is not None
    code = "sender.throttled" if sender.is_enforced else "sender.suspicious"
    return Reason(code, sender=str(sender.id), until=sender.throttle.until, why=sender.reasons)
