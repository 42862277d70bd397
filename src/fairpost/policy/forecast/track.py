"""One account's progress through a campaign: what it has to send, how much of its limits it has used, and the runs in
which it sends.

`policy.limits` decides when the account may send, as in the engine. Limits shared by accounts are not considered here.
"""

from collections import deque
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from fairpost.model.account import Limits, Usage
from fairpost.policy.forecast.openings import Opening
from fairpost.policy.forecast.outcome import Bottleneck
from fairpost.policy.forecast.pauses import mean_pause
from fairpost.policy.forecast.plan import Plan, Sender
from fairpost.policy.forecast.runs import AT_ONCE, INSTANT, Run, append
from fairpost.policy.limits import MINUTE, Barrier, NotBefore, begins_within, charge_many, roll_windows, room

POOL = 0  # used as a step number for first steps that any account may send
REASONS = {
    Barrier.HOURLY: Bottleneck.HOURLY,
    Barrier.DAILY: Bottleneck.DAILY,
    Barrier.WARM_UP: Bottleneck.WARM_UP,
    Barrier.UNITS: Bottleneck.UNITS,
    Barrier.BACK_OFF: Bottleneck.PAUSE,
    Barrier.UNREACHABLE: Bottleneck.PAUSE,
    Barrier.STATUS: Bottleneck.PAUSE,
}
OF_A_DAY = frozenset({Bottleneck.DAILY, Bottleneck.WARM_UP, Bottleneck.QUOTA, Bottleneck.RAMP_UP})
FAR = datetime(9000, 1, 1, tzinfo=UTC)
EXACT_MAX = 100_000  # up to this many e-mails are ordered one by one
BURSTS_MAX = 10_000  # for accounts with more e-mails than this, bursts within a minute are smoothed out
TOGETHER = 10  # above EXACT_MAX, this many e-mails of one kind may be sent before others that were due first

Sends = dict[int, list[Run]]  # by step


@dataclass(slots=True)
class Track:
    name: str
    limits: Limits  # the account's limits, with a fixed mean pause
    pause: timedelta
    pause_reason: Bottleneck
    usage: Usage
    delays: tuple[timedelta, ...]  # for steps 2, 3, …: from one start to the next
    at: datetime  # the account sends nothing before this moment
    slack: timedelta  # how long the account may continue with e-mails of one kind while others are due
    queues: list[deque[Run]]  # due times; each step has a queue that grows and a queue of the initial e-mails
    waited: dict[Bottleneck, timedelta] = field(default_factory=dict)
    _waits: dict[Bottleneck, timedelta] = field(default_factory=dict)  # since the last send
    _free: int = 0  # how many e-mails the account's limits allow from `at` on; 0: unknown

    def copy(self) -> "Track":
        other = copy(self)
        other.queues = [queue.copy() for queue in self.queues]
        other.waited, other._waits = self.waited.copy(), self._waits.copy()
        return other

    def go_on(self, *, has_pool: bool) -> int:
        """Advance to the first moment at which the account's limits let it send. Return how many e-mails the account
        may send at that moment, or 0 if there is nothing to send.
        """
        if not has_pool:
            due = self._first_due()
            if due is None:
                return 0
            self._wait(due, Bottleneck.STEP_DELAY)
        while not self._free:
            match self._room(self.pause):
                case NotBefore(moment, reason):
                    assert moment is not None
                    self._wait(moment, REASONS.get(reason, self.pause_reason))
                case n:
                    self._free = n
        return self._free

    def wait_for(self, opening: Opening) -> None:
        """Wait for the opening. An account that has reached its daily limit is not delayed by a window that closes
        afterwards.
        """
        for until, reason in opening.closed:
            used_up = next((each for each in self._waits if each in OF_A_DAY), None)
            self._wait(until, used_up or reason)

    def send(self, *, until: datetime, pool: int, most: int) -> Sends:
        """Send as much as possible before `until`: e-mails that are due, or else e-mails from the pool."""
        sends: Sends = {}
        while most > 0 and (n := self.go_on(has_pool=pool > 0)) and self.at < until:
            interval, end = (self.pause, until) if pool else self._pace(until)
            if interval != self.pause:
                slower = self._room(interval)
                assert isinstance(slower, int)
                n = slower
            n = min(n, most, max(1, begins_within(end - self.at, interval)))
            sent, pooled = self._fill(Run(self.at, interval, n), pool, sends)
            self.usage = charge_many(self.limits, self.usage, now=self.at, interval=interval, count=sent)
            self._note_waits(interval * (sent - 1), is_own_pace=interval == self.pause)
            self.at, self._free = self.at + interval * (sent - 1), 0
            most, pool = most - sent, pool - pooled
        return sends

    def _room(self, interval: timedelta) -> int | NotBefore:
        self.usage = roll_windows(self.limits, self.usage, now=self.at)
        return room(self.limits, self.usage, now=self.at, interval=interval)

    def _pace(self, until: datetime) -> tuple[timedelta, datetime]:
        """Return the account's own pace, or the pace at which e-mails become due if there is nothing else to send, and
        when that pace ends.
        """
        index, others_due = self._heads()
        head = self.queues[index][0]
        if head.start < self.at or head.size == 1 or head.interval <= self.pause:
            return self.pause, until
        return head.interval, min(until, head.last + INSTANT, others_due, self._grows_at(_step(index), self.at))

    def _fill(self, slots: Run, pool: int, sends: Sends) -> tuple[int, int]:
        """Fill each slot with the e-mail that has been due the longest, or with one from the pool.

        Return how many slots were filled, and how many of those were filled from the pool.
        """
        left, pooled = slots, 0
        while left.size:
            index, others_due = self._heads()
            head = self.queues[index][0] if self.queues[index] else None
            if head is not None and head.start <= left.start:
                step = _step(index)
                n = _stretch(head, left, min(others_due, self._grows_at(step, left.start)) + self.slack)
                self._take(index, n)
            elif pool > pooled:
                step = POOL
                due = min(head.start if head is not None else FAR, self._grows_at(step, left.start)) + self.slack
                n = max(1, min(left.size, pool - pooled, begins_within(due - left.start, left.interval)))
                pooled += n
            else:
                break
            self._record(step, Run(left.start, left.interval, n), sends)
            left = left.without(n)
        return slots.size - left.size, pooled

    def _heads(self) -> tuple[int, datetime]:
        """Return the queue whose first e-mail is due earliest, and when the first e-mail in any other queue is due."""
        first, due, others_due = 0, FAR, FAR
        for index, queue in enumerate(self.queues):
            if queue:
                start = queue[0].start
                if start < due:
                    first, due, others_due = index, start, due
                elif start < others_due:
                    others_due = start
        return first, others_due

    def _first_due(self) -> datetime | None:
        return min((queue[0].start for queue in self.queues if queue), default=None)

    def _grows_at(self, step: int, moment: datetime) -> datetime:
        """Return when the follow-up to an e-mail sent at this moment is due, if the follow-up's queue is empty until
        then.
        """
        after = max(1, step)
        grows = after <= len(self.delays) and not self.queues[2 * after]
        return moment + self.delays[after - 1] if grows else FAR

    def _take(self, index: int, n: int) -> None:
        queue = self.queues[index]
        if queue[0].size == n:
            queue.popleft()
        else:
            queue[0] = queue[0].without(n)

    def _record(self, step: int, run: Run, sends: Sends) -> None:
        append(sends.setdefault(step, []), run)
        after = max(1, step)
        if after <= len(self.delays):
            append(self.queues[2 * after], Run(run.start + self.delays[after - 1], run.interval, run.size))

    def _wait(self, until: datetime, reason: Bottleneck) -> None:
        if until > self.at:
            self._waits[reason] = self._waits.get(reason, AT_ONCE) + (until - self.at)
            self.at, self._free = until, 0

    def _note_waits(self, in_run: timedelta, *, is_own_pace: bool) -> None:
        """Count the waits before a send.

        Waits are counted only when a send follows, because waits after the last e-mail delay nothing.
        """
        reason = self.pause_reason if is_own_pace else Bottleneck.STEP_DELAY
        self._waits[reason] = self._waits.get(reason, AT_ONCE) + in_run
        for reason, length in self._waits.items():
            self.waited[reason] = self.waited.get(reason, AT_ONCE) + length
        self._waits.clear()


def track_of(sender: Sender, plan: Plan, *, share: float, now: datetime) -> Track:
    """Return an account's track. `share` is the average number of e-mails per account."""
    limits = sender.limits
    pause, reason = mean_pause(limits, plan.gap, seconds_per_send=sender.seconds_per_send)
    if share > BURSTS_MAX and limits.units_per_minute is not None:
        even = MINUTE / (limits.units_per_minute // limits.units_per_send)
        pause, reason = max((pause, reason), (even, Bottleneck.UNITS))
        limits = replace(limits, units_per_minute=None)
    track = Track(
        name=sender.name,
        limits=replace(limits, delay_ms=pause // timedelta(milliseconds=1), gap_max_ms=None),
        pause=pause,
        pause_reason=reason,
        usage=sender.usage,
        delays=tuple(timedelta(seconds=sender.seconds_per_send + delay) for delay in plan.delays_s),
        at=max(now, plan.starts_at or now).astimezone(UTC),
        slack=TOGETHER * pause if plan.emails > EXACT_MAX else AT_ONCE,
        queues=_queues(sender.name, plan),
    )
    if sender.not_before is not None:
        track._wait(sender.not_before.astimezone(UTC), Bottleneck.PAUSE)
    return track


def _queues(name: str, plan: Plan) -> list[deque[Run]]:
    queues: list[deque[Run]] = [deque() for _ in range(2 * plan.steps)]
    for pending in sorted(plan.pending, key=lambda p: p.due_at):
        if pending.account == name and pending.count:
            queues[2 * pending.step - 1].append(Run(pending.due_at.astimezone(UTC), AT_ONCE, pending.count))
    return queues


def _step(index: int) -> int:
    return index // 2 + 1


def _stretch(head: Run, slots: Run, others_due: datetime) -> int:
    """Return how many of these e-mails are sent in a row. Each of them must be due by its slot time and before any
    other e-mail.
    """
    n = min(head.size, slots.size)
    if head.interval > slots.interval:
        n = min(n, (slots.start - head.start) // (head.interval - slots.interval) + 1)
    if head.interval:
        n = min(n, begins_within(others_due - head.start, head.interval))
    return max(1, n)
