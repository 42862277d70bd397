"""One account, one e-mail at a time: the whole way from claim to settled, as bounded steps.

Processes, signals and waiting are the worker's business; here is what keeps the promises. Settling one e-mail and
beginning the next is one commit wherever no pause lies between them. Each such commit is a numbered step of the account.

When the database is in trouble, a step raises. The runner keeps what it knows, and `take_up` goes on from there: what was
sent and not yet settled is settled, what was begun and never handed over waits again.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from fairpost.engine import blame
from fairpost.engine.doubts import ask_about_doubts, resolve_doubts, without
from fairpost.engine.handover import NOWHERE, Handover, Unwritten, put_back
from fairpost.engine.personalize import personal
from fairpost.engine.steps import NO_STEPS, Steps
from fairpost.model.account import Account, AccountStatus, Lease, Rest, RestReason, Usage
from fairpost.model.campaign import Gap
from fairpost.model.email import Outgoing
from fairpost.model.errors import TransportFault, Unconfirmed
from fairpost.model.ids import AccountId, EmailId, Epoch
from fairpost.model.report import Report
from fairpost.model.states import EmailClass
from fairpost.model.verdict import Bounced, Deferred, Failed, InDoubt, Retry, Sent, Untouched
from fairpost.policy.ledger import Ledger, Measure
from fairpost.policy.limits import Go, NotBefore, Reason, admit, batch_size, free_at, refund, widened
from fairpost.policy.soft_bounces import soft_bounced
from fairpost.policy.troubles import Weighed, weigh
from fairpost.policy.verdicts import account_rejection, is_rejected, judge, suspend_reason
from fairpost.store.store import Begun, Store, TakenUp
from fairpost.store.trouble import is_trouble
from fairpost.system import chance, clock
from fairpost.system.failpoints import failpoint
from fairpost.templates.reader import TemplateError
from fairpost.templates.rendering import Unrenderable
from fairpost.transports.port import DraftingTransport, Evidence, Transport

LEASE_S = 60.0
MARGIN = 1 / 12  # of the lease: what must be left of it to complete a message
EMPTY_HANDED_S = 1.0  # before a longer pause, what is held goes back
SLOW_S = 2.0  # when a send takes longer, what is held goes back
BOOK_MAX = 50  # e-mails that a crash may leave out of the counters
BOOK_S_MAX = 1.0  # how old the counters may be that others see
SHORT_REST = timedelta(minutes=10)  # less is not worth a change of status
ASK_AGAIN = timedelta(seconds=10)  # what became of an e-mail in doubt


class Idle(StrEnum):
    EMPTY = "nothing is waiting for this account"
    BUSY = "others are taking what there is"
    INACTIVE = "the account is not active"
    CHANGED = "the account's settings were changed"
    PAUSED = "everything is paused"
    NOT_YET = "it may not send before a certain moment"
    EXHAUSTED = "its day is used up"
    LOST = "the lease is gone"


ENDS = {"stale": Idle.LOST, "inactive": Idle.INACTIVE, "changed": Idle.CHANGED}
UNCONFIRMED = ("unconfirmed", "late")  # the lease has to be taken up first


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
    """Begun, and not yet handed to the transport. `draft`: what the provider keeps of it, or why it would not."""

    email: Outgoing
    attempt: int
    draft: Evidence | Report | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Known, and not yet acknowledged by the database."""

    email: Outgoing
    weighed: Weighed
    report: Report


class Runner:
    """Drives one account. `step()` handles at most one e-mail and says what it did."""

    def __init__(
        self,
        store: Store,
        transport: Transport,
        lease: Lease,
        account: Account,
        *,
        asked_at_s: float,
        lease_s: float,
        handover: Handover = NOWHERE,
        steps: Steps = NO_STEPS,
    ) -> None:
        self._store = store
        self._all_steps = steps
        self._steps = steps.of(account.id)
        self._note = handover.note(account.id)
        self._transport = transport
        self._drafting = transport if isinstance(transport, DraftingTransport) else None
        self._lease = lease
        self._lease_s = lease_s
        self._deadline_s = asked_at_s + lease_s  # on our own clock, counted from before the lease was asked for
        self._account = account
        self._usage = account.usage
        self._batch: deque[Outgoing] = deque()
        self._beginning: Intent | None = None  # asked for, and not yet answered
        self._intent: Intent | None = None
        self._outcome: Outcome | None = None
        self._must_take_up = False
        self._told: deque[Step] = deque()  # what became of e-mails that were not sent, to be told one by one
        self._troubles = account.troubles
        self._ledger = Ledger()
        self._booked_s = clock.monotonic()
        self._ask_at: datetime | None = None  # when to ask again what became of an e-mail in doubt
        self._ahead = timedelta()  # how far the database's clock is ahead of ours: its time counts everywhere
        self._missed: set[EmailId] = set()  # locked by somebody when their turn came; they may still be ours
        self._each_s: float | None = None  # how long an e-mail takes, of late
        self._since_s = 0.0  # when the work on the present one began
        self._unsendable: dict[EmailId, str] = {}  # in hand, and why their fields do not fit their words
        self._urgent_at: datetime | None = (
            None  # within the pause that an e-mail asked for, something urgent becomes due
        )
        self._gap: Gap | None = None  # the pause that the last e-mail asked for: the next one probably does, too
        self._may_be_urgent = False
        self._is_stopping = False
        self._is_granted: bool | None = (
            None  # whether the message under way may be complete; None: nobody has asked yet
        )

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
        again: bool = False,
    ) -> "Runner | None":
        """Takes the account's lease and settles what its last holder left in doubt. None: another drives it.

        `again`: this worker has tried before, and got no answer."""
        asked_at_s = clock.monotonic()
        lease = await store.take_lease(account_id, owner=owner, seconds=lease_s, again=again)
        failpoint("after_lease")
        if lease is None:
            return None
        ahead = lease.until - timedelta(seconds=lease_s) - clock.now()
        account = await store.account(account_id)
        runner = cls(
            store, transport, lease, account, asked_at_s=asked_at_s, lease_s=lease_s, handover=handover, steps=steps
        )
        runner._ahead = ahead
        runner._usage = await runner._stored_usage(account)
        await handover.believe(store, account_id)
        await runner._resolve_doubts()
        return runner

    async def stop(self) -> None:
        """Gives the lease back; what was claimed waits again at once, and what was begun but never sent as well."""
        self._is_stopping = True
        self._batch.clear()
        if self._intent is not None:
            intent, self._intent = self._intent, None
            await self._settle_untouched(intent.email)
            await self._discard(intent.draft)
        if self._ledger.handled:
            await self._book()
        await self._store.drop_lease(self._lease)

    def stop_sending(self) -> None:
        """From now on no message is completed, not even the one under way: the worker must end at once."""
        self._is_stopping = True
        self._deadline_s = float("-inf")

    def finish(self) -> None:
        """After the e-mail under way, no other is begun."""
        self._is_stopping = True

    def look_for_urgent(self) -> None:
        """Something has arrived: it may change places with what is held."""
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
        done = await self._step()
        if isinstance(done, Rested) and self._ledger.handled and self._has_time_to_book(done):
            await self._book()
        return done

    def _has_time_to_book(self, rested: Rested) -> bool:
        if rested.why in (Idle.LOST, Idle.BUSY):
            return False
        is_old = clock.monotonic() > self._booked_s + BOOK_S_MAX
        return is_old or rested.until is None or rested.until > self.now() + timedelta(seconds=BOOK_S_MAX)

    async def _step(self) -> Step:
        if self._told:
            return self._told.popleft()
        if self._must_take_up:
            raise Unconfirmed("The database has to confirm the account's lease first.")
        if not await self._renew_if_needed():
            return Rested(Idle.LOST)
        if self._intent is None:
            if self._ask_at is not None and self.now() >= self._ask_at:
                await self._resolve_doubts()
            unsent = await self._begin_next()
            if unsent is not None:
                return unsent
        assert self._intent is not None
        intent, self._intent = self._intent, None
        return Handled(intent.email.id, await self._send(intent))

    # ── claim and begin ───────────────────────────────────────────────────────────────────────────────────

    async def _begin_next(self) -> Step | None:
        """None: the intent to send one is committed."""
        now = self.now()
        admitted = self._admit(now)
        if isinstance(admitted, NotBefore):
            if self._batch and (admitted.moment is None or admitted.moment - now > timedelta(seconds=EMPTY_HANDED_S)):
                await self._give_back(*self._batch)
            return await self._barred(admitted)
        waits_until = self._paced_until(self._gap, now)
        if self._urgent_at is not None and now >= self._urgent_at:
            self._may_be_urgent, self._urgent_at = True, None
        if waits_until is not None and not self._may_be_urgent:
            return await self._keep_pace(waits_until)
        if self._may_be_urgent and self._batch and self._batch[0].email_class is not EmailClass.URGENT:
            await self._give_back(*self._batch)
        self._may_be_urgent = False
        if not self._batch:
            if self._is_booking_due() and await self._book():
                return Rested(Idle.INACTIVE)
            rested = await self._claim(now)
            if rested is not None:
                return self._until_asked(rested)
        email = self._batch.popleft()
        if email.id in self._unsendable:
            is_failed = await self._store.fail_claimed(self._lease, email.id, self._unsendable.pop(email.id))
            return Handled(email.id, "failed" if is_failed else "gone")
        self._gap = email.gap
        waits_until = self._paced_until(email.gap, now)
        if waits_until is not None:
            return await self._keep_pace(waits_until, email)
        self._since_s = clock.monotonic()
        draft = await self._draft(email)
        evidence = None if isinstance(draft, Report) else draft
        self._note.begin(self._lease.epoch, email.id, email.attempts + 1)
        self._beginning = Intent(email, email.attempts + 1, draft)
        begun = await self._store.begin(
            self._lease, email.id, usage=admitted.usage, evidence=evidence, step=self._next_step
        )
        failpoint("after_begin")
        if begun.verdict == "begun":
            self._acknowledge(email.id)
        return await self._begun(email, begun, admitted, draft)

    @property
    def _next_step(self) -> int:
        return self._lease.step + 1

    def _acknowledge(self, begun: EmailId | None = None) -> None:
        """The database has taken the next step, and with it begun this e-mail."""
        self._lease = replace(self._lease, step=self._next_step)
        self._steps.acknowledge(self._lease.step, begun)

    def now(self) -> datetime:
        """By the database's clock: its time counts for all machines."""
        return clock.now() + self._ahead

    def _admit(self, now: datetime) -> Go | NotBefore:
        return admit(self._account.limits, self._usage, now=now, roll=chance.roll())

    def _paced_until(self, gap: Gap | None, now: datetime) -> datetime | None:
        """The end of the pause that an e-mail asks for, beside the account's own; None: it is over."""
        free = free_at(widened(self._account.limits, gap), self._usage) if gap is not None else None
        return free if free is not None and free > now else None

    async def _keep_pace(self, until: datetime, *emails: Outgoing) -> Rested:
        """What is in hand goes back meanwhile: others of the pool may be free."""
        if emails or self._batch:
            await self._give_back(*emails, *self._batch)
        self._urgent_at = await self._store.next_urgent(self._lease, before=until)
        return self._until_asked(Rested(Idle.NOT_YET, min(until, self._urgent_at or until)))

    async def _barred(self, why: NotBefore) -> Rested:
        """A day that is used up ends the work: whoever looks sees it, and the account comes back at the moment named. Where
        that is near (the oldest of a sliding day is just about to leave it), the account merely rests."""
        if why.reason not in (Reason.DAILY, Reason.WARM_UP) or why.moment is None:
            return self._until_asked(Rested(Idle.NOT_YET, why.moment))
        used = f"{why.reason} reached: {self._usage.day_used} sent"
        if why.moment - self.now() < SHORT_REST:
            if self._usage.rest is None or self._usage.rest.until != why.moment:
                await self._rest(Rest(why.moment, RestReason.DAILY, used))
            return self._until_asked(Rested(Idle.NOT_YET, why.moment))
        await self._store.set_status(self._lease, AccountStatus.PAUSED_LIMIT_REACHED, reason=used, until=why.moment)
        failpoint("after_status")
        return Rested(Idle.EXHAUSTED, why.moment)

    async def _draft(self, email: Outgoing) -> Evidence | Report | None:
        """Where the provider keeps the message before it is sent: so it can be asked about it, whatever happens to us."""
        if self._drafting is None:
            return None
        keeping = Keeping(self)
        try:
            return await self._drafting.draft(self._account, email)
        except Exception as error:
            raise TransportFault(f"{type(error).__name__}: {error}") from error
        finally:
            keeping.end()
            await keeping.over()
            failpoint("after_draft")

    async def _discard(self, draft: Evidence | Report | None) -> None:
        if self._drafting is not None and draft is not None and not isinstance(draft, Report):
            await self._drafting.discard(self._account, draft)

    async def _claim(self, now: datetime) -> Rested | None:
        """None: something is in hand."""
        size = self._batch_size(now)
        asked_at_s = clock.monotonic()
        claim = await self._store.claim(self._lease, limit=size)
        self._measure(Measure.CLAIM, asked_at_s)
        failpoint("after_claim")
        self._take(await self._store.load(claim.ids))
        failpoint("after_load")
        if not claim.ids and self._missed:
            return await self._take_up_missed(claim.next_at)
        if claim.verdict == "paused":
            return Rested(Idle.PAUSED, claim.next_at)
        if claim.verdict == "unconfirmed":
            raise Unconfirmed("The engines have not confirmed this server.")
        if claim.verdict != "ok":
            return Rested(ENDS[claim.verdict])
        if not claim.ids:
            return Rested(Idle.BUSY if claim.again else Idle.EMPTY, claim.next_at)
        if not self._batch:  # taken away between the claim and the look at them: there may be others
            return Rested(Idle.BUSY, claim.next_at)
        await self._try_another()
        return None

    async def _try_another(self) -> None:
        """After a trouble the account comes back with a single e-mail, another one than before if there is one."""
        if self._troubles.has_passed or len(self._batch) < 2:
            return
        first = next(email for email in self._batch if email.id != self._troubles.last)
        await self._give_back(*(email for email in self._batch if email is not first))

    def _batch_size(self, now: datetime) -> int:
        if not self._troubles.has_passed:
            return 2 if self._troubles.last is not None else 1  # it begins one, and not the same as before
        if self._gap is not None:  # nothing else can be sent before the pause is over
            return 1
        return batch_size(self._account.limits, self._usage, now=now, each_s=self._each_s)

    def _take(self, emails: list[Outgoing]) -> None:
        """With each recipient's own words. Urgent ones go before what is already in hand."""
        emails = [self._personal(email) for email in emails]
        urgent = [email for email in emails if email.email_class is EmailClass.URGENT]
        self._batch.extendleft(reversed(urgent))
        self._batch.extend(email for email in emails if email.email_class is not EmailClass.URGENT)

    def _personal(self, email: Outgoing) -> Outgoing:
        try:
            return personal(email)
        except (TemplateError, Unrenderable) as error:
            self._unsendable[email.id] = str(error)
            return email

    async def _take_up_missed(self, next_at: datetime | None) -> Rested | None:
        held = await self._store.held(self._lease)
        if held is None:
            return Rested(Idle.LOST)
        left = await self._store.load(list(self._missed))
        self._missed = {e.id for e in left if e.account_id == self._account.id} - set(held)
        self._take(await self._store.load(held))
        return None if self._batch else Rested(Idle.EMPTY, next_at)

    async def _begun(
        self, email: Outgoing, begun: Begun, admitted: Go, draft: Evidence | Report | None = None
    ) -> Step | None:
        if begun.verdict in UNCONFIRMED:
            raise Unconfirmed("The database has to confirm the account's lease first.")
        self._beginning = None
        if begun.verdict == "begun":
            assert begun.attempt is not None
            self._ahead = begun.now - clock.now()
            self._usage = replace(admitted.usage, last_begun_at=self.now())  # the next pause counts from the commit
            self._intent = Intent(without(email, begun.skip), begun.attempt, draft)
            waited = Measure.WAIT if email.is_fair else Measure.WAIT_FIFO
            self._ledger.measure(waited, begun.now - (email.due_at or begun.now), email.tier)
            return None
        await self._discard(draft)
        if begun.verdict in ENDS:
            if begun.verdict != "stale":
                await self._give_back(email, *self._batch)  # other accounts of the pool may send it
            return Rested(ENDS[begun.verdict])
        if begun.verdict == "held":
            await self._give_back(email)
        if begun.verdict == "blocked":
            await self._give_back(email, *(other for other in self._batch if other.workspace == email.workspace))
        if begun.verdict == "closed":
            same = [
                other for other in self._batch if (other.workspace, other.stream) == (email.workspace, email.stream)
            ]
            await self._give_back(email, *same)
            await self._store.set_gates(email.workspace, email.stream)
        if begun.verdict == "gone":
            self._missed.add(email.id)
        return Handled(email.id, begun.verdict)

    async def _give_back(self, *emails: Outgoing) -> None:
        gone = {email.id for email in emails}
        for id_ in gone:
            self._unsendable.pop(id_, None)
        self._batch = deque(email for email in self._batch if email.id not in gone)
        self._missed |= gone  # until the database has said so, they may still be ours
        self._missed -= set(await self._store.give_back(self._lease, list(gone)))
        failpoint("after_give_back")

    async def give_all_back(self) -> None:
        """What is in hand, and not begun."""
        if self._batch:
            await self._give_back(*self._batch)

    # ── send and settle ───────────────────────────────────────────────────────────────────────────────────

    async def _send(self, intent: Intent) -> str:
        email = intent.email
        self._is_granted = None
        try:
            report = intent.draft if isinstance(intent.draft, Report) else await self._timed_send(email, intent.draft)
        except BaseException:
            if not self._is_granted:
                self._intent = intent  # cut off before the message was complete: stopping gives it back
            raise
        self._outcome = Outcome(email, self._weigh(email, report, intent.attempt), report)
        asked_at_s = clock.monotonic()
        settled = await self._settle(self._outcome)
        self._measure(Measure.COMMIT, asked_at_s)
        failpoint("after_settle")
        return await self._conclude(self._outcome, settled)

    async def _conclude(self, outcome: Outcome, settled: str) -> str:
        """What came of the e-mail, in a word."""
        self._outcome = None
        self._learn_pace(is_whole=isinstance(outcome.weighed.verdict, Sent))
        if settled != "settled":
            return settled
        await self._draw_consequences(outcome.email, outcome.weighed, outcome.report)
        return type(outcome.weighed.verdict).__name__.lower()

    def _learn_pace(self, *, is_whole: bool) -> None:
        """A refusal is quicker than a message that is taken, and says nothing of how many of those can be sent soon."""
        now_s = clock.monotonic()
        took_s, self._since_s = now_s - self._since_s, now_s
        if is_whole or took_s > (self._each_s or 0.0):
            self._each_s = took_s if self._each_s is None else (self._each_s + took_s) / 2

    def _weigh(self, email: Outgoing, report: Report, attempt: int) -> Weighed:
        now, roll = self.now(), chance.roll()
        verdict = judge(email, report, attempts=attempt, now=now, roll=roll)
        if isinstance(verdict, Untouched) and self._is_granted is False:  # it was our lease that ran out
            return Weighed(verdict=verdict, troubles=self._troubles)
        return weigh(self._troubles, email, verdict, report, attempts=attempt, now=now, roll=roll)

    async def _draw_consequences(self, email: Outgoing, weighed: Weighed, report: Report) -> None:
        """For the account; those for the e-mail are settled."""
        verdict = weighed.verdict
        if weighed.troubles != self._troubles:
            self._troubles = weighed.troubles
            await self._store.set_troubles(self._lease, weighed.troubles, forgiven=weighed.forgiven)
            failpoint("after_troubles")
        if isinstance(verdict, Untouched | Deferred) and (reason := suspend_reason(report)) is not None:
            await self._suspend(reason)
        if weighed.rest is not None:
            await self._rest(weighed.rest)
        match verdict:
            case Untouched():
                self._usage = refund(self._usage)
            case Deferred():
                pass
            case InDoubt():
                self._ask_at = self.now() + ASK_AGAIN if self._drafting else None
                await resolve_doubts(self._store, self._account.id)
            case Sent(bounced) | Retry(_, _, bounced) | Bounced(bounced):
                self._ledger.count(
                    email.workspace,
                    email.user,
                    is_fair=email.is_fair,
                    at=self.now(),
                    is_handled=not isinstance(verdict, Retry),
                    bounces=len(bounced),
                    is_sent=isinstance(verdict, Sent),
                    is_bounced=isinstance(verdict, Bounced),
                )
                if bounced:
                    self._usage = replace(self._usage, day_bounces=self._usage.day_bounces + len(bounced))
            case Failed():
                refusal = account_rejection(report)
                self._ledger.count(
                    email.workspace,
                    email.user,
                    is_fair=email.is_fair,
                    at=self.now(),
                    is_handled=True,
                    is_rejected=is_rejected(report),
                    refusal=refusal,
                )
                if (reason := suspend_reason(report)) is not None:
                    await self._suspend(reason)
                elif refusal is not None:  # at once, and not when it suits: the next may be refused like this one
                    await self._book()

    def _is_booking_due(self) -> bool:
        if not self._ledger.handled:
            return False
        is_old = clock.monotonic() > self._booked_s + BOOK_S_MAX
        return is_old or self._ledger.handled >= BOOK_MAX or self._usage.day_bounces > 0

    async def _book(self) -> bool:
        """Writes down what was done, and stops who is to blame for it. True: the account itself."""
        self._booked_s = clock.monotonic()
        return await blame.book(self._store, self._lease, self._account, self._ledger, now=self.now())

    async def _rest(self, rest: Rest) -> None:
        """What it holds goes back, for other accounts of the pool."""
        await self._give_back(*self._batch)
        self._usage = replace(self._usage, rest=rest)
        await self._store.rest(self._lease, rest)
        failpoint("after_rest")

    async def _resolve_doubts(self) -> None:
        """By asking the provider, where one can be asked; else by the e-mails' own policy."""
        self._ask_at = None
        if self._drafting is not None:
            is_done = await ask_about_doubts(self._store, self._drafting, self._account, self._may_complete)
            self._ask_at = None if is_done else self.now() + ASK_AGAIN
        await resolve_doubts(self._store, self._account.id)

    def _until_asked(self, rested: Rested) -> Rested:
        moments = [moment for moment in (rested.until, self._ask_at) if moment is not None]
        return replace(rested, until=min(moments, default=None))

    async def _settle(self, outcome: Outcome) -> str:
        """Together with the beginning of the next, where it may begin at once."""
        email, verdict, report = outcome.email, outcome.weighed.verdict, outcome.report
        admitted = self._admit_follower(outcome.weighed)
        if admitted is None:
            return await self._settle_alone(outcome)
        follower = self._batch.popleft()
        self._note.begin(self._lease.epoch, follower.id, follower.attempts + 1)
        self._beginning = Intent(follower, follower.attempts + 1)
        settled, begun = await self._store.settle_and_begin(
            *(self._lease, email.id, verdict, report),
            follower=follower.id,
            usage=admitted.usage,
            soft_bounced=soft_bounced(email, verdict, report),
            step=self._next_step,
        )
        failpoint("after_settle_and_begin")
        if settled == "late":
            raise Unconfirmed("The database has to confirm the account's lease first.")
        if settled == "settled" or begun.verdict == "begun":
            self._acknowledge(follower.id if begun.verdict == "begun" else None)
        if begun.verdict in UNCONFIRMED:
            self._must_take_up = True  # once the consequences of this one are drawn
            return settled
        unsent = await self._begun(follower, begun, admitted)
        if unsent is not None:
            self._told.append(unsent)
        return settled

    async def _settle_alone(self, outcome: Outcome) -> str:
        email, verdict, report = outcome.email, outcome.weighed.verdict, outcome.report
        soft = soft_bounced(email, verdict, report)
        settled = await self._store.settle(
            self._lease, email.id, verdict, report, soft_bounced=soft, step=self._next_step
        )
        if settled == "late":
            raise Unconfirmed("The database has to confirm the account's lease first.")
        if settled == "settled":
            self._acknowledge()
        return settled

    def _admit_follower(self, weighed: Weighed) -> Go | None:
        if self._is_stopping or not self._batch or self._may_be_urgent:
            return None
        if weighed.rest is not None or isinstance(weighed.verdict, Untouched | Deferred | Failed):
            return None
        if self._batch[0].id in self._unsendable:
            return None
        if self._drafting is not None:  # the next is drafted first, and this one need not wait for that
            return None
        if clock.monotonic() >= self._renewal_s:  # what is begun must be sent, not wait for a renewal that may fail
            return None
        now = self.now()
        admitted = self._admit(now)
        if self._paced_until(self._batch[0].gap, now) is not None:
            return None
        return admitted if isinstance(admitted, Go) else None

    async def _suspend(self, reason: str) -> None:
        await self._store.set_status(self._lease, AccountStatus.SUSPENDED, reason=reason)
        failpoint("after_suspend")

    async def _timed_send(self, email: Outgoing, draft: Evidence | None) -> Report:
        started_s = clock.monotonic()
        keeping = Keeping(self)
        try:
            failpoint("before_send")
            report = await self._hand_over(email, draft)
            failpoint("after_send")
        finally:
            keeping.end()
        await keeping.over()
        took_s = clock.monotonic() - started_s
        self._ledger.measure(Measure.SEND, timedelta(seconds=took_s))
        return report if report.response_ms is not None else replace(report, response_ms=round(took_s * 1000))

    def _measure(self, kind: Measure, since_s: float) -> None:
        self._ledger.measure(kind, timedelta(seconds=clock.monotonic() - since_s))

    async def _hand_over(self, email: Outgoing, draft: Evidence | None) -> Report:
        """Whatever a transport raises is its own fault, and not the database's."""
        try:
            if draft is not None and self._drafting is not None:
                return await self._drafting.send_draft(self._account, email, draft, permission=self._may_complete)
            return await self._transport.send(self._account, email, permission=self._may_complete)
        except Exception as error:
            raise TransportFault(f"{type(error).__name__}: {error}") from error

    # ── after trouble of the database ─────────────────────────────────────────────────────────────────────

    @property
    def has_outcome(self) -> bool:
        """Something was sent, or refused, and the database does not know it yet."""
        return self._outcome is not None

    async def take_up(self) -> bool:
        """Goes on where the database left us, and raises for as long as it cannot. False: another has the lease."""
        self._batch.clear()
        self._unsendable.clear()
        self._missed.clear()
        asked_at_s = clock.monotonic()
        taken = await self._store.take_up(self._lease, seconds=self._lease_s, life=self._all_steps.life)
        failpoint("after_take_up")
        if taken.verdict in ("unconfirmed", "behind"):
            raise Unconfirmed(f"The engines have not confirmed this server ({taken.verdict}).")
        if taken.verdict == "lost":
            await self._offer_proof()
            return False
        assert taken.until is not None
        assert taken.step is not None
        self._lease = replace(self._lease, until=taken.until, step=taken.step)
        self._ahead = taken.now - clock.now()
        if self._deadline_s != float("-inf"):
            self._deadline_s = asked_at_s + self._lease_s
        if self._all_steps.follow(taken.life):
            self._steps = self._all_steps.of(self._account.id)
        self._steps.acknowledge(taken.step)
        await self._clear_up(taken)
        self._must_take_up = False
        self._usage = await self._stored_usage(await self._store.account(self._account.id))
        return True

    async def _clear_up(self, taken: TakenUp) -> None:
        """What was under way when the database went: an outcome is settled, unless only the answer was lost; what was begun and
        never handed over waits again. What only the database takes for under way is in doubt: it has forgotten what became of
        it."""
        outcome, intent = self._outcome, self._intent or self._beginning
        known = {each.email.id for each in (outcome, intent) if each is not None}
        if taken.sending is not None and taken.sending not in known:
            await self._settle_unknown(taken.sending)
        if outcome is not None:
            is_open = taken.sending == outcome.email.id
            settled = await self._settle_alone(outcome) if is_open else "settled"
            self._told.append(Handled(outcome.email.id, await self._conclude(outcome, settled)))
        self._intent = self._beginning = None
        if intent is not None:
            if taken.sending == intent.email.id:
                await self._settle_untouched(intent.email)
            await self._discard(intent.draft)

    async def _settle_untouched(self, email: Outgoing) -> None:
        if await self._store.settle(self._lease, email.id, Untouched(), step=self._next_step) == "settled":
            self._acknowledge()

    async def _settle_unknown(self, email_id: EmailId) -> None:
        if await self._store.settle(self._lease, email_id, InDoubt(), step=self._next_step) == "settled":
            self._acknowledge()
        await self._resolve_doubts()

    async def _offer_proof(self) -> None:
        """To the account's next holder, who is in doubt about what we had begun."""
        outcome, intent = self._outcome, self._intent or self._beginning
        self._outcome = self._intent = self._beginning = None
        if outcome is not None:
            soft = soft_bounced(outcome.email, outcome.weighed.verdict, outcome.report)
            await self._store.settle(
                self._lease, outcome.email.id, outcome.weighed.verdict, outcome.report, soft_bounced=soft
            )
        if intent is not None and intent.draft is None:
            unwritten = Unwritten(
                account_id=self._account.id,
                epoch=self._lease.epoch,
                email_id=intent.email.id,
                attempt=intent.attempt,
            )
            await put_back(self._store, unwritten)

    async def _stored_usage(self, account: Account) -> Usage:
        if not account.limits.needs_charges:
            return account.usage
        return replace(account.usage, charges=await self._store.charges(account.id))

    # ── the lease ─────────────────────────────────────────────────────────────────────────────────────────

    def _may_complete(self) -> bool:
        failpoint("before_dot")
        self._is_granted = clock.monotonic() < self._deadline_s - self._lease_s * MARGIN
        if self._is_granted:
            self._note.complete()
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

    @property
    def epoch(self) -> Epoch:
        return self._lease.epoch


class Keeping:
    """While a send takes long: what is held goes back for others, and the lease is renewed. A short one costs a timer, no more."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._giving_back: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        first_s = min(SLOW_S, runner.lease_s / 3)
        self._timer = self._loop.call_later(first_s, self._start, runner.lease_s / 3 - first_s)

    def end(self) -> None:
        """No more of it from now on."""
        self._timer.cancel()
        if self._renewing is not None:
            self._renewing.cancel()

    async def over(self) -> None:
        """What was being given back is. Where the database would not hear of it, the runner takes it up again later."""
        if self._giving_back is not None:
            await asyncio.wait([self._giving_back])
            self._giving_back.exception()

    def _start(self, more_s: float) -> None:
        self._giving_back = asyncio.create_task(self._runner.give_all_back())
        self._timer = self._loop.call_later(more_s, self._start_renewing)

    def _start_renewing(self) -> None:
        self._renewing = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        while await self._is_ours():  # noqa: ASYNC110 - it is time that passes
            await asyncio.sleep(self._runner.lease_s / 3)

    async def _is_ours(self) -> bool:
        """A database that does not answer says nothing: the deadline stands as it was, and we ask again."""
        try:
            return await self._runner.renew()
        except Exception as error:
            if not is_trouble(error):
                raise
            return True
