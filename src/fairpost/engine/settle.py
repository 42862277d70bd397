"""E-mails whose sending has started but that are not yet settled, and the numbered steps that report them to the
database.

Tracks at most three things: an e-mail whose begin was requested, one whose begin is confirmed but that has not been
handed over, and an outcome that the database has not acknowledged. Each is kept until the database has acknowledged it.
The handover note is written before the begin is requested. The outcome of one e-mail and the begin of the next are sent
as one request, so `TakeStep` can put the steps of many accounts into one commit.
"""

from collections.abc import Awaitable, Callable

from fairpost.engine.doubts import without
from fairpost.engine.handover import Note, Unwritten, put_back
from fairpost.engine.lease import HeldLease
from fairpost.model.email import Outgoing
from fairpost.model.errors import Unconfirmed
from fairpost.model.ids import EmailId
from fairpost.model.quick import quick
from fairpost.model.report import Report
from fairpost.model.step import Begins, Begun, Settles, SettleVerdict, StepAnswer, StepRequest
from fairpost.model.verdict import InDoubt, Sent, Untouched, Verdict
from fairpost.policy.limits import Go
from fairpost.policy.soft_bounces import soft_bounced
from fairpost.policy.troubles import Weighed
from fairpost.policy.verdicts import email_reason
from fairpost.store.store import Store
from fairpost.system.failpoints import failpoint
from fairpost.transports.port import Evidence

TakeStep = Callable[[StepRequest], Awaitable[StepAnswer]]
"""Commits one step and returns the result.

Raises if the database is unavailable; the outcome is then unknown until it is looked up.
"""

Draft = Evidence | Report | None
"""The draft that the provider stored, or why it refused to store one."""


@quick(frozen=True, slots=True)
class Intent:
    """An e-mail whose begin is confirmed but that has not been handed to the transport yet."""

    email: Outgoing
    attempt: int
    draft: Draft = None


@quick(frozen=True, slots=True)
class Outcome:
    """An outcome that the database has not acknowledged yet."""

    email: Outgoing
    weighed: Weighed
    report: Report

    @property
    def settles(self) -> Settles:
        verdict = self.weighed.verdict
        soft = soft_bounced(self.email, verdict, self.report)
        why = None if isinstance(verdict, Sent) else email_reason(self.report)
        return Settles(email_id=self.email.id, verdict=verdict, report=self.report, reason=why, soft_bounced=soft)


class UnderWay:
    def __init__(self, store: Store, lease: HeldLease, note: Note, take_step: TakeStep) -> None:
        self._store = store
        self._lease = lease
        self._note = note
        self._take_step = take_step
        self._beginning: Intent | None = None  # a begin that has been requested but not yet answered
        self.intent: Intent | None = None
        self.outcome: Outcome | None = None
        self._must_take_up = False

    def require_confirmed(self) -> None:
        if self._must_take_up:
            raise Unconfirmed("The database has to confirm the account's lease first.")

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────────────

    async def begin(self, email: Outgoing, admitted: Go, draft: Draft) -> Begun:
        answer = await self._take(begins=self._announce(email, admitted, draft))
        failpoint("after_begin")
        self._accept(answer)
        assert answer.begun is not None
        return answer.begun

    async def settle(self, outcome: Outcome) -> SettleVerdict:
        answer = await self._take(settles=outcome.settles)
        self._accept(answer)
        assert answer.settled is not None
        return answer.settled

    async def settle_and_begin(
        self, outcome: Outcome, follower: Outgoing, admitted: Go, *, meanwhile: Callable[[], None] | None = None
    ) -> StepAnswer:
        """Settle one e-mail and begin the next in one commit.

        If the begin is not confirmed, the consequences of the outcome are applied before the lease is resumed.
        """
        begins = self._announce(follower, admitted, None)
        answer = await self._take(settles=outcome.settles, begins=begins, meanwhile=meanwhile)
        failpoint("after_settle_and_begin")
        self._accept(answer)
        return answer

    def _announce(self, email: Outgoing, admitted: Go, draft: Draft) -> Begins:
        self._beginning = Intent(email, email.attempts + 1, draft)
        self._note.begin(self._lease.now_held.epoch, email.id, self._beginning.attempt)
        evidence = None if isinstance(draft, Report) else draft
        return Begins(email_id=email.id, usage=admitted.usage, evidence=evidence)

    async def _take(
        self,
        *,
        settles: Settles | None = None,
        begins: Begins | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> StepAnswer:
        held, number = self._lease.now_held, self._lease.next_step
        return await self._take_step(
            StepRequest(lease=held, number=number, settles=settles, begins=begins, meanwhile=meanwhile)
        )

    def _accept(self, answer: StepAnswer) -> None:
        begun, asked = answer.begun, self._beginning
        is_unconfirmed = begun is not None and begun.is_unconfirmed
        if answer.settled == "late" or (answer.settled is None and is_unconfirmed):
            raise Unconfirmed("The database has to confirm the account's lease first.")
        if answer.is_taken:
            self._lease.acknowledge(asked.email.id if asked is not None and answer.is_begun else None)
        if is_unconfirmed:
            self._must_take_up = True
        if begun is None or is_unconfirmed:
            return
        self._beginning = None
        if begun.verdict == "begun":
            assert asked is not None
            assert begun.attempt is not None
            self._lease.hear_time(begun.now)
            self.intent = Intent(without(asked.email, begun.skip), begun.attempt, asked.draft)

    # ── never handed over, or unknown ─────────────────────────────────────────────────────────────────────

    def take_intent(self) -> Intent:
        assert self.intent is not None
        intent, self.intent = self.intent, None
        return intent

    async def put_back(self, email: Outgoing) -> None:
        """Return to the queue an e-mail that was never handed over after its begin."""
        await self._settle_plainly(email.id, Untouched())

    async def leave_in_doubt(self, email_id: EmailId) -> None:
        await self._settle_plainly(email_id, InDoubt())

    async def _settle_plainly(self, email_id: EmailId, verdict: Verdict) -> None:
        """Settle an e-mail. If the database does not accept the outcome, the account's next holder finds the e-mail."""
        if (await self._take(settles=Settles(email_id=email_id, verdict=verdict))).is_taken:
            self._lease.acknowledge()

    # ── after database trouble ────────────────────────────────────────────────────────────────────────────

    @property
    def last_intent(self) -> Intent | None:
        return self.intent or self._beginning

    def forget_intent(self) -> None:
        self.intent = self._beginning = None

    def has_taken_up(self) -> None:
        self._must_take_up = False

    async def offer_proof(self) -> None:
        """Settle or requeue the e-mail that this worker was sending. For the account's next holder, it is in doubt."""
        outcome, intent = self.outcome, self.last_intent
        self.outcome = None
        self.forget_intent()
        held = self._lease.now_held
        if outcome is not None:
            settles = outcome.settles
            await self._store.settle(
                *(held, settles.email_id, settles.verdict, settles.report),
                reason=settles.reason,
                soft_bounced=settles.soft_bounced,
            )
        if intent is not None and intent.draft is None:
            unwritten = Unwritten(
                account_id=held.account_id, epoch=held.epoch, email_id=intent.email.id, attempt=intent.attempt
            )
            await put_back(self._store, unwritten)
