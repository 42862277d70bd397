"""One account, one e-mail at a time: the whole way from claim to settled, as bounded steps.

Processes, signals and waiting are the worker's business; here is what keeps the promises. Settling one e-mail and
beginning the next is one commit wherever no pause lies between them.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from fairpost.deliver.doubts import resolve_doubts
from fairpost.model.account import Account, Lease
from fairpost.model.email import Outgoing
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.report import Report
from fairpost.model.states import EmailClass
from fairpost.model.verdict import InDoubt, Untouched, Verdict
from fairpost.policy.limits import Go, NotBefore, admit, batch_size, refund
from fairpost.policy.retries import unreachable_delay
from fairpost.policy.verdicts import judge, suspicion
from fairpost.postgres.store import Begun, Store
from fairpost.system import chance, clock
from fairpost.system.failpoints import failpoint
from fairpost.transport.port import Transport

LEASE_S = 60.0
MARGIN = 1 / 12  # of the lease: what must be left of it to complete a message
IN_HAND_S = 0.25  # no more than this is claimed ahead: what is urgent waits no longer behind it
URGENT_MAX = 5  # looked for at once, in the middle of a batch


class Idle(StrEnum):
    EMPTY = "nothing is waiting for this account"
    BUSY = "others are taking what there is"
    INACTIVE = "the account is not active"
    CHANGED = "the account's settings were changed"
    PAUSED = "everything is paused"
    LIMIT = "a limit of the account is reached"
    UNREACHABLE = "its server could not be reached"
    LOST = "the lease is gone"


ENDS = {"stale": Idle.LOST, "inactive": Idle.INACTIVE, "changed": Idle.CHANGED}


@dataclass(frozen=True, slots=True)
class Rested:
    """Nothing was sent, why, and when to look again (None: when something new arrives)."""

    why: Idle
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Handled:
    email_id: EmailId
    outcome: str


Step = Handled | Rested


@dataclass(frozen=True, slots=True)
class Intent:
    """Begun, and not yet handed to the transport."""

    email: Outgoing
    attempt: int


class Runner:
    """Drives one account. `step()` handles at most one e-mail and says what it did."""

    def __init__(
        self, store: Store, transport: Transport, lease: Lease, account: Account, *, asked_at_s: float, lease_s: float
    ) -> None:
        self._store = store
        self._transport = transport
        self._lease = lease
        self._lease_s = lease_s
        self._deadline_s = asked_at_s + lease_s  # on our own clock, counted from before the lease was asked for
        self._account = account
        self._usage = account.usage
        self._batch: deque[Outgoing] = deque()
        self._intent: Intent | None = None
        self._told: deque[Step] = deque()  # what became of e-mails that were not sent, to be told one by one
        self._unreachable = 0  # times in a row
        self._rest_until: datetime | None = None
        self._missed: set[EmailId] = set()  # locked by somebody when their turn came; they may still be ours
        self._each_s = 0.0  # how long an e-mail takes, of late
        self._may_be_urgent = False
        self._is_stopping = False
        self._is_granted = False  # the message under way may be complete

    @classmethod
    async def start(
        cls, store: Store, transport: Transport, account_id: AccountId, *, owner: str, lease_s: float = LEASE_S
    ) -> "Runner | None":
        """Takes the account's lease and settles what its last holder left in doubt. None: another drives it."""
        asked_at_s = clock.monotonic()
        lease = await store.take_lease(account_id, owner=owner, seconds=lease_s)
        failpoint("after_lease")
        if lease is None:
            return None
        account = await store.account(account_id)
        runner = cls(store, transport, lease, account, asked_at_s=asked_at_s, lease_s=lease_s)
        await resolve_doubts(store, account_id)
        return runner

    async def stop(self) -> None:
        """Gives the lease back; what was claimed waits again at once, and what was begun but never sent as well."""
        self._is_stopping = True
        self._batch.clear()
        if self._intent is not None:
            intent, self._intent = self._intent, None
            await self._store.settle(self._lease, intent.email.id, Untouched())
        await self._store.drop_lease(self._lease)

    def stop_sending(self) -> None:
        """From now on no message is completed, not even the one under way: the worker must end at once."""
        self._is_stopping = True
        self._deadline_s = float("-inf")

    def finish(self) -> None:
        """After the e-mail under way, no other is begun."""
        self._is_stopping = True

    def look_for_urgent(self) -> None:
        """Something has arrived: before the rest of the batch, see whether it is urgent."""
        self._may_be_urgent = True

    async def run_until_idle(self) -> list[Handled]:
        handled = []
        while True:
            match await self.step():
                case Handled() as one:
                    handled.append(one)
                case Rested(Idle.BUSY):
                    await self.await_turn()
                case Rested():
                    return handled

    async def await_turn(self) -> None:
        """After Idle.BUSY: waits until whoever holds what there is lets go of it, a second at most."""
        await self._store.await_turn(self._lease)

    async def step(self) -> Step:
        if self._told:
            return self._told.popleft()
        if not await self._renew_if_needed():
            return Rested(Idle.LOST)
        if self._intent is None:
            unsent = await self._begin_next()
            if unsent is not None:
                return unsent
        assert self._intent is not None
        intent, self._intent = self._intent, None
        return Handled(intent.email.id, await self._send(intent))

    # ── claim and begin ───────────────────────────────────────────────────────────────────────────────────

    async def _begin_next(self) -> Step | None:
        """None: the intent to send one is committed."""
        now = clock.now()
        if self._rest_until and now < self._rest_until:
            return Rested(Idle.UNREACHABLE, self._rest_until)
        admitted = admit(self._account.limits, self._usage, now=now)
        if isinstance(admitted, NotBefore):
            return Rested(Idle.LIMIT, admitted.moment)
        if not self._batch or self._may_be_urgent:
            rested = await self._claim(now)
            if rested and not self._batch:
                return rested
        email = self._batch.popleft()
        begun = await self._store.begin(self._lease, email.id, usage=admitted.usage)
        failpoint("after_begin")
        return await self._begun(email, begun, admitted)

    async def _claim(self, now: datetime) -> Rested | None:
        self._may_be_urgent = False
        size = URGENT_MAX if self._batch else self._batch_size(now)
        claim = await self._store.claim(self._lease, limit=size)
        failpoint("after_claim")
        self._take(await self._store.load(claim.ids))
        failpoint("after_load")
        if not claim.ids and self._missed:
            return await self._take_up_missed()
        if claim.verdict == "paused":
            return Rested(Idle.PAUSED, claim.next_at)
        if claim.verdict != "ok":
            return Rested(ENDS[claim.verdict])
        if not claim.ids:
            return Rested(Idle.BUSY if claim.again else Idle.EMPTY, claim.next_at)
        return None

    def _batch_size(self, now: datetime) -> int:
        most = batch_size(self._account.limits, self._usage, now=now)
        return min(most, max(1, round(IN_HAND_S / self._each_s))) if self._each_s else most

    def _take(self, emails: list[Outgoing]) -> None:
        """Urgent ones go before what is already in hand."""
        urgent = [email for email in emails if email.email_class is EmailClass.URGENT]
        self._batch.extendleft(reversed(urgent))
        self._batch.extend(email for email in emails if email.email_class is not EmailClass.URGENT)

    async def _take_up_missed(self) -> Rested | None:
        held = await self._store.held(self._lease)
        if held is None:
            return Rested(Idle.LOST)
        left = await self._store.load(list(self._missed))
        self._missed = {e.id for e in left if e.account_id == self._account.id} - set(held)
        self._take(await self._store.load(held))
        return None if self._batch else Rested(Idle.EMPTY)

    async def _begun(self, email: Outgoing, begun: Begun, admitted: Go) -> Step | None:
        if begun.verdict == "begun":
            assert begun.attempt is not None
            self._usage = replace(admitted.usage, last_begun_at=clock.now())  # the next pause counts from the commit
            self._intent = Intent(_without(email, begun.skip), begun.attempt)
            return None
        if begun.verdict in ENDS:
            if begun.verdict != "stale":
                await self._give_back(email, *self._batch)  # other accounts of the pool may send it
            return Rested(ENDS[begun.verdict])
        if begun.verdict == "held":
            await self._give_back(email)
        if begun.verdict == "gone":
            self._missed.add(email.id)
        return Handled(email.id, begun.verdict)

    async def _give_back(self, *emails: Outgoing) -> None:
        gone = {email.id for email in emails}
        self._missed |= gone - set(await self._store.give_back(self._lease, list(gone)))
        failpoint("after_give_back")
        self._batch = deque(email for email in self._batch if email.id not in gone)

    # ── send and settle ───────────────────────────────────────────────────────────────────────────────────

    async def _send(self, intent: Intent) -> str:
        email = intent.email
        self._is_granted = False
        try:
            report = await self._timed_send(email)
        except BaseException:
            if not self._is_granted:
                self._intent = intent  # cut off before the message was complete: stopping gives it back
            raise
        verdict = judge(email, report, attempts=intent.attempt, now=clock.now(), roll=chance.roll())
        settled = await self._settle(email, verdict, report)
        failpoint("after_settle")
        if settled != "settled":
            return settled
        if isinstance(verdict, InDoubt):
            await resolve_doubts(self._store, self._account.id)
        if isinstance(verdict, Untouched):
            self._usage = refund(self._usage)
            await self._blame_the_server(report)
        else:
            self._unreachable = 0
        return type(verdict).__name__.lower()

    async def _settle(self, email: Outgoing, verdict: Verdict, report: Report) -> str:
        """Together with the beginning of the next, where it may begin at once."""
        admitted = self._admit_follower(verdict)
        if admitted is None:
            return await self._store.settle(self._lease, email.id, verdict, report)
        follower = self._batch.popleft()
        settled, begun = await self._store.settle_and_begin(
            self._lease, email.id, verdict, report, follower=follower.id, usage=admitted.usage
        )
        failpoint("after_settle_and_begin")
        unsent = await self._begun(follower, begun, admitted)
        if unsent is not None:
            self._told.append(unsent)
        return settled

    def _admit_follower(self, verdict: Verdict) -> Go | None:
        if self._is_stopping or not self._batch or self._may_be_urgent or isinstance(verdict, Untouched):
            return None
        if clock.monotonic() >= self._renewal_s:  # what is begun must be sent, not wait for a renewal that may fail
            return None
        admitted = admit(self._account.limits, self._usage, now=clock.now())
        return admitted if isinstance(admitted, Go) else None

    async def _blame_the_server(self, report: Report) -> None:
        """Not the e-mails: they go back, for other accounts of the pool, and this one rests or is suspended."""
        await self._give_back(*self._batch)
        reason = suspicion(report)
        if reason is not None:
            await self._store.suspend(self._lease, reason)
            failpoint("after_suspend")
        self._unreachable += 1
        self._rest_until = clock.now() + unreachable_delay(times=self._unreachable, roll=chance.roll())

    async def _timed_send(self, email: Outgoing) -> Report:
        started_s = clock.monotonic()
        keeping = Keeping(self)
        try:
            failpoint("before_send")
            report = await self._transport.send(self._account, email, permission=self._may_complete)
            failpoint("after_send")
        finally:
            keeping.end()
        took_s = clock.monotonic() - started_s
        self._each_s = took_s if not self._each_s else 0.8 * self._each_s + 0.2 * took_s
        return report if report.response_ms is not None else replace(report, response_ms=round(took_s * 1000))

    # ── the lease ─────────────────────────────────────────────────────────────────────────────────────────

    def _may_complete(self) -> bool:
        failpoint("before_dot")
        self._is_granted = clock.monotonic() < self._deadline_s - self._lease_s * MARGIN
        return self._is_granted

    @property
    def _renewal_s(self) -> float:
        return self._deadline_s - self._lease_s / 2

    async def _renew_if_needed(self) -> bool:
        return clock.monotonic() < self._renewal_s or await self.renew()

    async def renew(self) -> bool:
        """False: the lease is gone."""
        asked_at_s = clock.monotonic()
        renewed = await self._store.renew_lease(self._lease, seconds=self._lease_s)
        if renewed is None or self._deadline_s == float("-inf"):
            return False
        self._lease = renewed
        self._deadline_s = asked_at_s + self._lease_s
        return True

    @property
    def lease_s(self) -> float:
        return self._lease_s


class Keeping:
    """Renews the lease while a send takes long. A short one costs a timer, no more."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(runner.lease_s / 3, self._start)

    def end(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        self._task = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        is_ours = True
        while is_ours:
            is_ours = await self._runner.renew()
            await asyncio.sleep(self._runner.lease_s / 3)


def _without(email: Outgoing, skip: tuple[str, ...]) -> Outgoing:
    return replace(email, envelope=tuple(a for a in email.envelope if a not in skip)) if skip else email
