"""Hands one e-mail to the transport, and drafts it first where the provider keeps drafts.

Keeps the transport and whether it may complete the message under way. Promises: right before the first byte that could
complete the message, the lease is asked, and the note of the hand-over is taken back; what takes long neither holds other
mail nor loses the lease; whatever a transport raises is its own fault, and not the database's.
"""

import asyncio
from dataclasses import replace
from datetime import timedelta

from fairpost.engine.blame import Books
from fairpost.engine.claim import Batch
from fairpost.engine.handover import Note
from fairpost.engine.lease import HeldLease
from fairpost.engine.settle import Draft, Intent
from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.errors import TransportFault
from fairpost.model.report import Report
from fairpost.policy.ledger import Measure
from fairpost.store.trouble import is_trouble
from fairpost.system import clock
from fairpost.system.failpoints import failpoint
from fairpost.transports.port import DraftingTransport, Evidence, Transport

SLOW_S = 2.0  # when a send takes longer, what is held goes back


class Sender:
    def __init__(
        self, transport: Transport, account: Account, *, lease: HeldLease, note: Note, batch: Batch, books: Books
    ) -> None:
        self._transport = transport
        self.drafting = transport if isinstance(transport, DraftingTransport) else None
        self._account = account
        self._lease = lease
        self._note = note
        self._batch = batch
        self._books = books
        self.is_granted: bool | None = None  # that the message under way is completed; None: it was not asked yet

    def may_complete(self) -> bool:
        failpoint("before_dot")
        self.is_granted = self._lease.allows_completion()
        if self.is_granted:
            self._note.complete()
        return self.is_granted

    async def draft(self, email: Outgoing) -> Draft:
        """Where the provider keeps the message before it is sent: so it can be asked about it, whatever happens to us."""
        if self.drafting is None:
            return None
        long = LongSend(self._lease, self._batch)
        try:
            return await self.drafting.draft(self._account, email)
        except Exception as error:
            raise TransportFault(f"{type(error).__name__}: {error}") from error
        finally:
            long.end()
            await long.over()
            failpoint("after_draft")

    async def discard(self, draft: Draft) -> None:
        if self.drafting is not None and draft is not None and not isinstance(draft, Report):
            await self.drafting.discard(self._account, draft)

    async def send(self, intent: Intent) -> Report:
        self.is_granted = None
        if isinstance(intent.draft, Report):
            return intent.draft
        started_s = clock.monotonic()
        long = LongSend(self._lease, self._batch)
        try:
            failpoint("before_send")
            report = await self._hand_over(intent.email, intent.draft)
            failpoint("after_send")
        finally:
            long.end()
        await long.over()
        took_s = clock.monotonic() - started_s
        self._books.ledger.measure(Measure.SEND, timedelta(seconds=took_s))
        return report if report.response_ms is not None else replace(report, response_ms=round(took_s * 1000))

    async def _hand_over(self, email: Outgoing, draft: Evidence | None) -> Report:
        try:
            if draft is not None and self.drafting is not None:
                return await self.drafting.send_draft(self._account, email, draft, permission=self.may_complete)
            return await self._transport.send(self._account, email, permission=self.may_complete)
        except Exception as error:
            raise TransportFault(f"{type(error).__name__}: {error}") from error


class LongSend:
    """While a send takes long: what is held goes back for others, and the lease is renewed. A short one costs a timer, no more."""

    def __init__(self, lease: HeldLease, batch: Batch) -> None:
        self._lease = lease
        self._batch = batch
        self._giving_back: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        first_s = min(SLOW_S, lease.lease_s / 3)
        self._timer = self._loop.call_later(first_s, self._start, lease.lease_s / 3 - first_s)

    def end(self) -> None:
        """No more of it from now on."""
        self._timer.cancel()
        if self._renewing is not None:
            self._renewing.cancel()

    async def over(self) -> None:
        """What was being given back is. Where the database would not hear of it, it is taken up again later."""
        if self._giving_back is not None:
            await asyncio.wait([self._giving_back])
            self._giving_back.exception()

    def _start(self, more_s: float) -> None:
        self._giving_back = asyncio.create_task(self._batch.give_rest_back())
        self._timer = self._loop.call_later(more_s, self._start_renewing)

    def _start_renewing(self) -> None:
        self._renewing = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        while await self._is_ours():  # noqa: ASYNC110 - it is time that passes
            await asyncio.sleep(self._lease.lease_s / 3)

    async def _is_ours(self) -> bool:
        """A database that does not answer says nothing: the deadline stands as it was, and we ask again."""
        try:
            return await self._lease.renew()
        except Exception as error:
            if not is_trouble(error):
                raise
            return True
