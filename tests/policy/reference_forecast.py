"""The forecast in its simplest form: one e-mail at a time, each as soon as `admit` and the schedule allow it. Slow, but
easy to understand."""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from statistics import fmean

from fairpost.model.account import Limits, Usage
from fairpost.policy.forecast import Plan, Sender
from fairpost.policy.limits import Go, NotBefore, admit, free_at, widened
from fairpost.policy.quotas import allowed_on, day_number
from fairpost.policy.windows import local_day, next_day, next_open


@dataclass
class Sent:
    at: datetime
    account: str
    step: int


@dataclass
class Worker:
    name: str
    limits: Limits
    usage: Usage
    sending: timedelta
    at: datetime
    due: list[tuple[datetime, int]] = field(default_factory=list)  # a heap of times and steps


def with_mean_pause(sender: Sender, plan: Plan) -> Limits:
    """Returns the mean of a thousand dice rolls, because no two sends happen at the same moment."""
    limits, begun_at = widened(sender.limits, plan.gap), datetime(2030, 1, 1, tzinfo=UTC)
    pauses = []
    for n in range(1000):
        free = free_at(limits, Usage(last_begun_at=begun_at, gap_roll=(n + 0.5) / 1000))
        assert free is not None
        pauses.append(max((free - begun_at).total_seconds(), sender.seconds_per_send))
    return replace(limits, delay_ms=max(1, round(fmean(pauses) * 1000)), gap_max_ms=None)


class Reference:
    def __init__(self, plan: Plan, senders: Sequence[Sender], now: datetime) -> None:
        self.plan, self.pool = plan, plan.recipients
        begin = max(now, plan.starts_at or now)
        window, timezone = plan.schedule.window, plan.schedule.timezone
        self.first_day = plan.first_day or local_day(timezone, begin if window is None else next_open(window, begin))
        self.used: Counter[date] = Counter({local_day(timezone, now): plan.quota_used})
        self.workers = [self._worker(sender, max(begin, sender.not_before or begin)) for sender in senders]
        self.sent: list[Sent] = []
        while self._send_next():
            pass

    def _worker(self, sender: Sender, at: datetime) -> Worker:
        sending = timedelta(seconds=sender.seconds_per_send)
        worker = Worker(sender.name, with_mean_pause(sender, self.plan), sender.usage, sending, at)
        for pending in self.plan.pending:
            if pending.account == sender.name:
                worker.due += [(pending.due_at, pending.step)] * pending.count
        heapq.heapify(worker.due)
        return worker

    def _send_next(self) -> bool:
        """The first free account takes the next e-mail."""
        moments = [(moment, place) for place, w in enumerate(self.workers) if (moment := self._next(w)) is not None]
        if not moments:
            return False
        moment, place = min(moments)
        self._send(self.workers[place], moment)
        return True

    def _next(self, worker: Worker) -> datetime | None:
        if not self.pool and not worker.due:
            return None
        moment = worker.at if self.pool else max(worker.at, worker.due[0][0])
        while True:
            before = moment
            match admit(worker.limits, worker.usage, now=moment):
                case NotBefore(until, _):
                    assert until is not None
                    moment = until
                case Go(_):
                    moment = self._open(moment)
            if moment == before:
                return moment

    def _open(self, moment: datetime) -> datetime:
        schedule = self.plan.schedule
        moment = moment if schedule.window is None else next_open(schedule.window, moment)
        day = local_day(schedule.timezone, moment)
        allowed = allowed_on(schedule.quota, day_number(self.first_day, day, schedule.window))
        return moment if allowed is None or self.used[day] < allowed else next_day(schedule.timezone, moment)

    def _send(self, worker: Worker, moment: datetime) -> None:
        answer = admit(worker.limits, worker.usage, now=moment)
        assert isinstance(answer, Go)
        if worker.due and worker.due[0][0] <= moment:
            _, step = heapq.heappop(worker.due)
        else:
            step, self.pool = 1, self.pool - 1
        day = local_day(self.plan.schedule.timezone, moment)
        self.used[day] += 1
        self.sent.append(Sent(moment, worker.name, step))
        worker.usage, worker.at = answer.usage, moment + worker.sending
        if step < self.plan.steps:
            due = moment + worker.sending + timedelta(seconds=self.plan.delays_s[step - 1])
            heapq.heappush(worker.due, (due, step + 1))


def sends(plan: Plan, senders: Sequence[Sender], *, now: datetime) -> list[Sent]:
    return Reference(plan, senders, now).sent
