"""One account, one e-mail at a time: lease, pace, claim, send, settle, as bounded steps.

Each part has its own file, which documents its state and guarantees. This file defines the order in which the parts
act, and how their answers are handled. The worker handles processes, signals and waiting.

If the database is unavailable, a step raises. The parts keep their state, and `take_up` continues from it. An e-mail
that was sent but not yet settled is settled. An e-mail that was never handed over goes back to the queue.
"""

from collections import deque
from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from fairpost.engine.blame import Books
from fairpost.engine.claim import Batch
from fairpost.engine.consequences import Consequences
from fairpost.engine.doubts import Doubts
from fairpost.engine.handover import NOWHERE, Handover
from fairpost.engine.lease import LEASE_S, HeldLease
from fairpost.engine.pace import Exhausted, Pace, Paced
from fairpost.engine.results import Handled, Idle, Rested, Step
from fairpost.engine.send import Sender
from fairpost.engine.settle import Draft, Intent, Outcome, UnderWay
from fairpost.engine.steps import NO_STEPS, Steps
from fairpost.engine.together import Together
from fairpost.model.account import Account, AccountStatus, Lease, Rest, Usage
from fairpost.model.email import Outgoing
from fairpost.model.engine import TakenUp
from fairpost.model.ids import AccountId, Epoch
from fairpost.model.report import Report
from fairpost.model.states import EmailClass
from fairpost.model.step import Begun, SettleVerdict
from fairpost.model.verdict import Deferred, Failed, Sent, Untouched
from fairpost.policy.ledger import Measure
from fairpost.policy.limits import Go, NotBefore
from fairpost.policy.troubles import Weighed, weigh
from fairpost.policy.verdicts import judge
from fairpost.store.store import Store
from fairpost.system import chance, clock
from fairpost.system.failpoints import failpoint
from fairpost.transports.port import Transport

EMPTY_HANDED = timedelta(seconds=1)  # claimed e-mails are returned before any pause longer than this


class Runner:
    """Drives one account. `step()` handles at most one e-mail and returns the result."""

    def __init__(
        self,
        store: Store,
        transport: Transport,
        lease: HeldLease,
        account: Account,
        usage: Usage,
        *,
        handover: Handover,
        together: Together,
    ) -> None:
        note = handover.note(account.id)
        self._store = store
        self._account = account
        self._lease = lease
        self._books = Books(store, lease, account)
        self._pace = Pace(account, usage)
        self._batch = Batch(store, lease, self._books, pool=account.pool, claims=together.claims)
        self._under_way = UnderWay(store, lease, note, together.steps.take_step)
        self._sender = Sender(transport, account, lease=lease, note=note, batch=self._batch, books=self._books)
        self._doubts = Doubts(
            store, account, self._sender.drafting, permission=self._sender.may_complete, now=lease.now
        )
        self._consequences = Consequences(
            *(store, lease), pace=self._pace, batch=self._batch, books=self._books, doubts=self._doubts
        )
        self._told: deque[Step] = deque()  # results of e-mails that were not sent, to be reported one by one
        self._is_stopping = False
        self._is_at_work = False  # neither resting nor in trouble
        together.claims.join(account.pool, self)

    @classmethod
    async def start(
        cls,
        store: Store,
        transport: Transport,
        account_id: AccountId,
        *,
        owner: str,
        lease_s: float = LEASE_S,
        handover: Handover = NOWHERE,
        steps: Steps = NO_STEPS,
        together: Together | None = None,
        again: bool = False,
    ) -> "Runner | None":
        """Take the account's lease, and settle the e-mails that its last holder left in doubt. Return None if another
        worker drives it.

        `together` provides the claims and commits shared with other accounts. `again` means that this worker has tried
        before but got no answer.
        """
        lease = await HeldLease.take(store, account_id, owner=owner, lease_s=lease_s, steps=steps, again=again)
        if lease is None:
            return None
        account = await store.account(account_id)
        usage = await _stored_usage(store, account)
        runner = cls(
            store,
            transport,
            lease,
            account,
            usage,
            handover=handover,
            together=together or Together.over(store),
        )
        await handover.believe(store, account_id)
        await runner._doubts.resolve()
        return runner

    async def stop(self) -> None:
        """Release the lease. Its unsent e-mails immediately go back to the queue."""
        self._is_stopping = True
        self._batch.drop()
        if self._under_way.intent is not None:
            intent = self._under_way.take_intent()
            await self._under_way.put_back(intent.email)
            await self._sender.discard(intent.draft)
        if self._books.has_news:
            await self._books.write()
        await self._lease.drop()

    def stop_sending(self) -> None:
        """Prevent any message from being completed, including the one in progress. The worker must end at once."""
        self._is_stopping = True
        self._lease.stop_sending()

    def finish(self) -> None:
        """Begin no other e-mail after the one in progress."""
        self._is_stopping = True

    def look_for_urgent(self) -> None:
        """Note that mail has arrived that may take precedence over claimed e-mails."""
        self._pace.look_for_urgent()

    def now(self) -> datetime:
        return self._lease.now()

    @property
    def epoch(self) -> Epoch:
        return self.lease.epoch

    @property
    def lease(self) -> Lease:
        return self._lease.now_held

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
        """Wait up to one second for the e-mails held by others to be released. Called after Idle.BUSY."""
        await self._store.await_turn(self._lease.now_held)

    async def step(self) -> Step:
        try:
            done = await self._step()
        except BaseException:
            self._is_at_work = False
            raise
        self._is_at_work = isinstance(done, Handled)
        if not self._is_at_work:
            await self._batch.end_ahead()
        if isinstance(done, Rested) and done.why not in (Idle.LOST, Idle.BUSY):
            await self._books.write_before_rest(done.until)
        return done

    async def _step(self) -> Step:
        if self._told:
            return self._told.popleft()
        self._under_way.require_confirmed()
        if not await self._lease.keep():
            return Rested(Idle.LOST)
        if self._under_way.intent is None:
            await self._doubts.resolve_if_due()
            unsent = await self._begin_next()
            if unsent is not None:
                return unsent
        intent = self._under_way.take_intent()
        outcome = await self._send(intent)
        settled = await self._settle(outcome)
        return Handled(intent.email.id, await self._conclude(outcome, settled))

    async def _begin_next(self) -> Step | None:
        """Begin the next e-mail. Return None once the intent to send it is committed."""
        now = self.now()
        match self._pace.ask(now):
            case NotBefore() as why:
                return await self._barred(why, now)
            case Paced(until):
                return await self._keep_pace(until)
            case Go() as admitted:
                return await self._begin_one(admitted, now)
            case never:
                assert_never(never)

    async def _begin_one(self, admitted: Go, now: datetime) -> Step | None:
        rested = await self._claim(now)
        if rested is not None:
            return rested
        email = self._batch.pop()
        if self._batch.why_unsendable(email) is not None:
            return Handled(email.id, "failed" if await self._batch.fail_unsendable(email) else "gone")
        paced = self._pace.ask_for(email, now)
        if paced is not None:
            return await self._keep_pace(paced.until, email)
        return await self._begin(email, admitted)

    # ── pace ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _keep_pace(self, until: datetime, *emails: Outgoing) -> Rested:
        """Return claimed e-mails to the queue for the duration of the pause, because other accounts in the pool may be
        free.
        """
        if emails or self._batch.first:
            await self._batch.give_back_all(*emails)
        urgent_at = await self._store.next_urgent(self._lease.now_held, before=until)
        self._pace.await_urgent(urgent_at)
        return self._until_asked(Rested(Idle.NOT_YET, min(until, urgent_at or until)))

    async def _barred(self, why: NotBefore, now: datetime) -> Rested:
        if why.moment is None or why.moment - now > EMPTY_HANDED:
            await self._batch.give_rest_back()
        match self._pace.barred(why, self.now()):
            case NotBefore(moment):
                return self._until_asked(Rested(Idle.NOT_YET, moment))
            case Rest() as rest:
                await self._consequences.rest(rest)
                return self._until_asked(Rested(Idle.NOT_YET, rest.until))
            case Exhausted(until, reason):
                await self._store.set_status(
                    self._lease.now_held, AccountStatus.PAUSED_LIMIT_REACHED, reason=reason, until=until
                )
                failpoint("after_status")
                return Rested(Idle.EXHAUSTED, until)
            case never:
                assert_never(never)

    def _until_asked(self, rested: Rested) -> Rested:
        return replace(rested, until=self._doubts.until_asked(rested.until))

    # ── claim ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _claim(self, now: datetime) -> Rested | None:
        """Claim e-mails. Return None if at least one is claimed."""
        first = self._batch.first
        is_behind_bulk = first is not None and first.email_class is not EmailClass.URGENT
        if not (self._pace.may_be_urgent and is_behind_bulk and await self._batch.add_urgent()):
            self._pace.has_looked_for_urgent()
        has_bounced = self._pace.usage.day_bounces > 0 and not self._batch.first
        if self._books.is_due(has_bounced=has_bounced) and await self._books.write():
            return Rested(Idle.INACTIVE)
        if self._batch.first:
            return None
        rested = await self._batch.fill(self._pace.batch_size(now), self._pace.troubles)
        return self._until_asked(rested) if rested is not None else None

    def room_ahead(self) -> int:
        is_steady = self._is_at_work and not (self._is_stopping or self._pace.may_be_urgent or self._sender.is_slow)
        return self._batch.room_within(self._pace.batch_size(self.now())) if is_steady else 0

    def take_ahead(self, lease: Lease, emails: list[Outgoing]) -> None:
        if not self._is_stopping and lease.epoch == self.epoch:  # otherwise, releasing the lease returns them
            self._batch.take_ahead(emails, keep=self._is_at_work and not self._sender.is_slow)

    def lose_ahead(self) -> None:
        self._batch.lose_ahead()

    # ── begin ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _begin(self, email: Outgoing, admitted: Go) -> Step | None:
        self._pace.start_measuring()
        draft = await self._sender.draft(email)
        begun = await self._under_way.begin(email, admitted, draft)
        return await self._begun(email, begun, admitted, draft)

    async def _begun(self, email: Outgoing, begun: Begun, admitted: Go, draft: Draft = None) -> Step | None:
        """Act on the answer to a begin. Return None if the begin is confirmed."""
        if begun.verdict == "begun":
            self._pace.begun(admitted, self.now())
            waited = Measure.WAIT if email.is_fair else Measure.WAIT_FIFO
            self._books.ledger.measure(waited, begun.now - (email.due_at or begun.now), email.tier)
            return None
        await self._sender.discard(draft)
        match begun.verdict:
            case "stale":
                return Rested(Idle.LOST)
            case "inactive" | "changed":  # the e-mail is returned, so that other accounts in the pool can send it
                await self._batch.give_back_all(email)
                return Rested(Idle.INACTIVE if begun.verdict == "inactive" else Idle.CHANGED)
            case "held":
                await self._batch.give_back(email)
            case "blocked":
                await self._batch.give_back_with(email, lambda other: other.workspace == email.workspace)
            case "closed":
                flow = email.workspace, email.stream
                await self._batch.give_back_with(email, lambda other: (other.workspace, other.stream) == flow)
                await self._store.set_gates(*flow)
            case "gone":
                self._batch.miss(email)
            case "parked" | "suppressed" | "expired" | "unconfirmed" | "late":
                pass
            case _:
                assert_never(begun.verdict)
        return Handled(email.id, begun.verdict)

    # ── send ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _send(self, intent: Intent) -> Outcome:
        try:
            report = await self._sender.send(intent)
        except BaseException:
            if not self._sender.is_granted:
                self._under_way.intent = intent  # interrupted before the message was complete: `stop` returns it
            raise
        outcome = Outcome(intent.email, self._weigh(intent, report), report)
        self._under_way.outcome = outcome
        return outcome

    def _weigh(self, intent: Intent, report: Report) -> Weighed:
        now, roll, troubles = self.now(), chance.roll(), self._pace.troubles
        verdict = judge(intent.email, report, attempts=intent.attempt, now=now, roll=roll)
        if isinstance(verdict, Untouched) and self._sender.is_granted is False:  # because this worker's lease expired
            return Weighed(verdict=verdict, troubles=troubles)
        return weigh(troubles, intent.email, verdict, report, attempts=intent.attempt, now=now, roll=roll)

    # ── settle ────────────────────────────────────────────────────────────────────────────────────────────

    async def _settle(self, outcome: Outcome) -> SettleVerdict:
        """Settle the outcome and, if the next e-mail may start at once, begin it in the same commit."""
        asked_at_s = clock.monotonic()
        admitted = self._admit_follower(outcome.weighed)
        if admitted is None:
            settled = await self._under_way.settle(outcome)
        else:
            settled = await self._settle_and_begin(outcome, self._batch.pop(), admitted)
        self._books.measure(Measure.COMMIT, asked_at_s)
        failpoint("after_settle")
        return settled

    async def _settle_and_begin(self, outcome: Outcome, follower: Outgoing, admitted: Go) -> SettleVerdict:
        answer = await self._under_way.settle_and_begin(
            outcome, follower, admitted, meanwhile=lambda: self._sender.compose_ahead(follower)
        )
        assert answer.settled is not None
        assert answer.begun is not None
        if not answer.begun.is_unconfirmed:
            unsent = await self._begun(follower, answer.begun, admitted)
            if unsent is not None:
                self._told.append(unsent)
        return answer.settled

    def _admit_follower(self, weighed: Weighed) -> Go | None:
        follower = self._batch.first
        if self._is_stopping or follower is None or self._pace.may_be_urgent:
            return None
        if weighed.rest is not None or isinstance(weighed.verdict, Untouched | Deferred | Failed):
            return None
        if self._batch.why_unsendable(follower) is not None:
            return None
        if self._sender.drafting is not None:  # the next e-mail needs a draft, and this one need not wait for that
            return None
        if self._books.is_due(has_bounced=False):
            return None
        if self._lease.is_renewal_due():  # after begin, a failed renewal would delay the e-mail
            return None
        return self._pace.ask_for_follower(follower, self.now())

    async def _conclude(self, outcome: Outcome, settled: SettleVerdict) -> str:
        """Apply the consequences, and return the e-mail's outcome as a single word."""
        self._under_way.outcome = None
        verdict = outcome.weighed.verdict
        self._pace.learn(is_whole=isinstance(verdict, Sent))
        if settled != "settled":
            return settled
        await self._consequences.draw(outcome)
        return type(verdict).__name__.lower()

    # ── after database trouble ────────────────────────────────────────────────────────────────────────────

    @property
    def has_outcome(self) -> bool:
        """Whether an e-mail was sent or refused, but its outcome is not in the database yet."""
        return self._under_way.outcome is not None

    async def take_up(self) -> bool:
        """Resume after a database outage. Return False if another worker has the lease. Raises while resuming is
        impossible.
        """
        self._batch.forget()
        taken = await self._lease.take_up()
        if taken is None:
            await self._under_way.offer_proof()
            return False
        await self._clear_up(taken)
        self._under_way.has_taken_up()
        self._pace.usage = await _stored_usage(self._store, await self._store.account(self._account.id))
        return True

    async def _clear_up(self, taken: TakenUp) -> None:
        """Resolve the e-mails that were in progress when the database became unavailable.

        An outcome is settled, unless the database already has it and only the answer was lost. An e-mail that was never
        handed over goes back to the queue. An e-mail that is in progress only according to the database is in doubt,
        because the database has lost its outcome.
        """
        outcome, intent = self._under_way.outcome, self._under_way.last_intent
        known = {each.email.id for each in (outcome, intent) if each is not None}
        if taken.sending is not None and taken.sending not in known:
            await self._under_way.leave_in_doubt(taken.sending)
            await self._doubts.resolve()
        if outcome is not None:
            is_open = taken.sending == outcome.email.id
            settled = await self._under_way.settle(outcome) if is_open else "settled"
            self._told.append(Handled(outcome.email.id, await self._conclude(outcome, settled)))
        self._under_way.forget_intent()
        if intent is not None:
            if taken.sending == intent.email.id:
                await self._under_way.put_back(intent.email)
            await self._sender.discard(intent.draft)


async def _stored_usage(store: Store, account: Account) -> Usage:
    if not account.limits.needs_charges:
        return account.usage
    return replace(account.usage, charges=await store.charges(account.id))
