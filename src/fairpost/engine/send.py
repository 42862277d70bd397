"""Hand one e-mail to the transport, after storing it as a draft if the provider supports drafts.

Holds the transport, and records whether it may complete the message in progress. Right before the first byte that could
complete the message, the lease is checked and the handover note is removed. A long send neither delays other mail nor
causes the lease to expire. Exceptions raised by a transport never count as database failures.
"""

import asyncio
from datetime import timedelta

from fairpost.engine.blame import Books
from fairpost.engine.claim import Batch
from fairpost.engine.handover import Note
from fairpost.engine.lease import HeldLease
from fairpost.engine.settle import Draft, Intent
from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.errors import TransportFault
from fairpost.model.quick import changed
from fairpost.model.report import Report
from fairpost.policy.ledger import Measure
from fairpost.store.trouble import is_trouble
from fairpost.system import clock
from fairpost.system.failpoints import failpoint
from fairpost.transports.port import ComposingTransport, DraftingTransport, Evidence, Transport

SLOW_S = 2.0  # if a send takes longer, the other claimed e-mails are returned


class Sender:
    def __init__(
        self, transport: Transport, account: Account, *, lease: HeldLease, note: Note, batch: Batch, books: Books
    ) -> None:
        self._transport = transport
        self.drafting = transport if isinstance(transport, DraftingTransport) else None
        self._composing = transport if isinstance(transport, ComposingTransport) else None
        self._account = account
        self._lease = lease
        self._note = note
        self._batch = batch
        self._books = books
        self._long = LongSend(lease, batch)
        self.is_granted: bool | None = None  # may the message be completed? None: not asked yet

    def may_complete(self) -> bool:
        failpoint("before_dot")
        self.is_granted = self._lease.allows_completion()
        if self.is_granted:
            self._note.complete()
        return self.is_granted

    @property
    def is_slow(self) -> bool:
        """Whether the current send is taking so long that the account should hold no other e-mails."""
        return self._long.is_long

    def compose_ahead(self, email: Outgoing) -> None:
        if self._composing is not None:
            self._composing.compose_ahead(self._account, email)

    async def draft(self, email: Outgoing) -> Draft:
        """Store a draft with the provider before sending, so that the provider can be asked about it even after a
        crash.
        """
        if self.drafting is None:
            return None
        self._long.begin()
        try:
            return await self.drafting.draft(self._account, email)
        except Exception as error:
            raise TransportFault(f"{type(error).__name__}: {error}") from error
        finally:
            self._long.end()
            await self._long.over()
            failpoint("after_draft")

    async def discard(self, draft: Draft) -> None:
        if self.drafting is not None and draft is not None and not isinstance(draft, Report):
            await self.drafting.discard(self._account, draft)

    async def send(self, intent: Intent) -> Report:
        self.is_granted = None
        if isinstance(intent.draft, Report):
            return intent.draft
        started_s = clock.monotonic()
        self._long.begin()
        try:
            failpoint("before_send")
            report = await self._hand_over(intent.email, intent.draft)
            failpoint("after_send")
        finally:
            self._long.end()
        await self._long.over()
        took_s = clock.monotonic() - started_s
        self._books.ledger.measure(Measure.SEND, timedelta(seconds=took_s))
        return report if report.response_ms is not None else changed(report, response_ms=round(took_s * 1000))

    async def _hand_over(self, email: Outgoing, draft: Evidence | None) -> Report:
        try:
            if draft is not None and self.drafting is not None:
                return await self.drafting.send_draft(self._account, email, draft, permission=self.may_complete)
            return await self._transport.send(self._account, email, permission=self.may_complete)
        except Exception as error:
            raise TransportFault(f"{type(error).__name__}: {error}") from error


class LongSend:
    """Returns claimed e-mails to the queue and renews the lease during a long send.

    Short sends cost nothing, because many of them share one timer.
    """

    def __init__(self, lease: HeldLease, batch: Batch) -> None:
        self._lease = lease
        self._batch = batch
        self._giving_back: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._first_s = min(SLOW_S, lease.lease_s / 3)
        self._began_s: float | None = None  # None: nothing is being sent
        self._alarm: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._began_s = self._loop.time()
        if self._alarm is None:
            self._alarm = self._loop.call_at(self._began_s + self._first_s, self._look)

    @property
    def is_long(self) -> bool:
        return self._began_s is not None and self._loop.time() >= self._began_s + self._first_s

    def end(self) -> None:
        """Stop returning e-mails and renewing the lease."""
        self._began_s = None
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None

    async def over(self) -> None:
        """Wait until the e-mails have been returned. If this fails, they are returned later."""
        if self._giving_back is not None:
            giving_back, self._giving_back = self._giving_back, None
            await asyncio.wait([giving_back])
            giving_back.exception()

    def _look(self) -> None:
        self._alarm = None
        if self._began_s is None:
            return
        is_long_at = self._began_s + self._first_s
        if self._loop.time() < is_long_at:
            self._alarm = self._loop.call_at(is_long_at, self._look)
        elif self._giving_back is None:
            self._giving_back = asyncio.create_task(self._batch.give_rest_back())
            self._renewing = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        await asyncio.sleep(self._lease.lease_s / 3 - self._first_s)
        while await self._is_ours():  # noqa: ASYNC110 - it is time that passes
            await asyncio.sleep(self._lease.lease_s / 3)

    async def _is_ours(self) -> bool:
        """Return whether this worker still has the lease.

        If the database is not responding, the answer is unknown: the deadline stays the same, and the next call asks
        again.
        """
        try:
            return await self._lease.renew()
        except Exception as error:
            if not is_trouble(error):
                raise
            return True
