"""E-mails that the account has claimed but not started to send.

The e-mails are kept in sending order, with each recipient's own content, along with the IDs of e-mails that the account
might no longer hold. An e-mail whose sending does not start soon is returned to the queue, so other accounts in the
pool can send it. An e-mail is forgotten only after the database has confirmed that it is back in the queue. When there
is nothing else to do, the database is asked about e-mails that have not been confirmed yet.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import assert_never

from fairpost.engine.blame import Books
from fairpost.engine.claims import ClaimGroup
from fairpost.engine.lease import HeldLease
from fairpost.engine.personalize import personalize
from fairpost.engine.results import Idle, Rested
from fairpost.model.email import Outgoing
from fairpost.model.engine import Claim
from fairpost.model.errors import Unconfirmed
from fairpost.model.ids import EmailId
from fairpost.model.reason import Reason
from fairpost.model.states import EmailClass
from fairpost.model.troubles import Troubles
from fairpost.policy.ledger import Measure
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.failpoints import failpoint
from fairpost.templates.reader import TemplateError
from fairpost.templates.rendering import Unrenderable

AHEAD_MIN = 6  # accounts that may hold fewer e-mails than this do not claim until they have none left


class Batch:
    def __init__(self, store: Store, lease: HeldLease, books: Books, *, pool: str, claims: ClaimGroup) -> None:
        self._store = store
        self._pool = pool
        self._claims = claims
        self._lease = lease
        self._books = books
        self._emails: deque[Outgoing] = deque()
        self._unsendable: dict[EmailId, Reason] = {}  # why the recipient's fields do not match the template
        self._low = 0  # when this many are left, more are claimed ahead; 0: never
        self._may_hold_more = False  # e-mails unknown here, because the response to a claim was lost
        self._giving_back: set[asyncio.Task[None]] = set()
        self._missed: set[EmailId] = set()  # locked when their turn came; may still be held

    @property
    def first(self) -> Outgoing | None:
        return self._emails[0] if self._emails else None

    def pop(self) -> Outgoing:
        email = self._emails.popleft()
        if self._low and len(self._emails) == self._low:
            self._claims.claim_ahead(self._pool)
        return email

    def why_unsendable(self, email: Outgoing) -> Reason | None:
        return self._unsendable.get(email.id)

    # ── claim ─────────────────────────────────────────────────────────────────────────────────────────────

    async def fill(self, most: int, troubles: Troubles) -> Rested | None:
        """Claim up to `most` e-mails. Return None if at least one e-mail can be sent."""
        await self._claims.await_supply(self._lease.now_held.account_id)
        if self._emails:
            return None
        if self._may_hold_more:
            if not await self._take_up_missed():
                return Rested(Idle.LOST)
            self._may_hold_more = False
            if self._emails:
                return None
        claim = await self._claim(most)
        if not claim.ids and self._missed:
            if not await self._take_up_missed():
                return Rested(Idle.LOST)
            return None if self._emails else Rested(Idle.EMPTY, claim.next_at)
        match claim.verdict:
            case "paused":
                return Rested(Idle.PAUSED, claim.next_at)
            case "unconfirmed":
                raise Unconfirmed("The engines have not confirmed this server.")
            case "stale":
                return Rested(Idle.LOST)
            case "inactive":
                return Rested(Idle.INACTIVE)
            case "changed":
                return Rested(Idle.CHANGED)
            case "ok":
                pass
            case _:
                assert_never(claim.verdict)
        if not claim.ids:
            return Rested(Idle.BUSY if claim.again else Idle.EMPTY, claim.next_at)
        if not self._emails:  # disappeared between claiming and loading; others may be waiting
            return Rested(Idle.BUSY, claim.next_at)
        if not troubles.has_passed:
            await self._keep_one(other_than=troubles.last)
        return None

    async def add_urgent(self) -> bool:
        """Claim one more e-mail, because urgent mail may have arrived. Return whether the claimed e-mail is urgent, in which
        case more urgent mail may be waiting. If the claim is refused, so is the next begin, for the same reason.
        """
        await self._claim(1)
        return self.first is not None and self.first.email_class is EmailClass.URGENT

    async def _claim(self, most: int) -> Claim:
        asked_at_s = clock.monotonic()
        claim, emails = await self._claims.claim(self._lease.now_held, pool=self._pool, limit=most)
        self._books.measure(Measure.CLAIM, asked_at_s)
        self._take(emails)
        failpoint("after_load")
        return claim

    def room_within(self, most: int) -> int:
        """Return how many more e-mails to claim ahead, if the account may hold `most`."""
        is_low = len(self._emails) <= 2 * most // 3
        return most - len(self._emails) if most >= AHEAD_MIN and is_low and not self._may_hold_more else 0

    def take_ahead(self, emails: Iterable[Outgoing], *, keep: bool) -> None:
        """Take e-mails claimed ahead. If `keep` is False, the account has stopped sending, and the e-mails are returned
        to the queue.
        """
        self._take(emails)
        if not keep:
            task = asyncio.create_task(self.give_rest_back())
            self._giving_back.add(task)
            task.add_done_callback(self._gave_back)

    def _gave_back(self, task: "asyncio.Task[None]") -> None:
        """Finish returning e-mails to the queue. If this fails, the database is asked about them later."""
        self._giving_back.discard(task)
        if not task.cancelled():
            task.exception()

    async def end_ahead(self) -> None:
        """Wait until nothing is being claimed ahead or returned: a resting account must not hold e-mails that others
        could send.
        """
        await self._claims.await_supply(self._lease.now_held.account_id)
        if self._giving_back:
            await asyncio.wait(self._giving_back)

    def lose_ahead(self) -> None:
        self._may_hold_more = True

    def miss(self, email: Outgoing) -> None:
        self._missed.add(email.id)

    async def _take_up_missed(self) -> bool:
        """Ask the database about missed e-mails. Return False if the lease is gone."""
        held = await self._store.held(self._lease.now_held)
        if held is None:
            return False
        left = await self._store.load(list(self._missed))
        account_id = self._lease.now_held.account_id
        self._missed = {e.id for e in left if e.account_id == account_id} - set(held)
        self._take(await self._store.load(held))
        return True

    def _take(self, emails: Iterable[Outgoing]) -> None:
        """Add claimed e-mails. Urgent e-mails are inserted before the existing ones."""
        emails = [self._personalized(email) for email in emails]
        urgent = [email for email in emails if email.email_class is EmailClass.URGENT]
        self._emails.extendleft(reversed(urgent))
        self._emails.extend(email for email in emails if email.email_class is not EmailClass.URGENT)
        self._low = len(self._emails) // 4 if len(self._emails) >= AHEAD_MIN else 0

    def _personalized(self, email: Outgoing) -> Outgoing:
        try:
            return personalize(email)
        except (TemplateError, Unrenderable) as error:
            self._unsendable[email.id] = Reason("email.fields_missing", problem=str(error))
            return email

    # ── give back ─────────────────────────────────────────────────────────────────────────────────────────

    async def fail_unsendable(self, email: Outgoing) -> bool:
        """Fail an e-mail that cannot be rendered. Return False if the account no longer holds the e-mail."""
        return await self._store.fail_claimed(self._lease.now_held, email.id, self._unsendable.pop(email.id))

    async def _keep_one(self, *, other_than: EmailId | None) -> None:
        """After trouble, resume with a single e-mail, preferably a different one than before."""
        if len(self._emails) >= 2:
            first = next(email for email in self._emails if email.id != other_than)
            await self.give_back(*(email for email in self._emails if email is not first))

    async def give_back(self, *emails: Outgoing) -> None:
        gone = {email.id for email in emails}
        for id_ in gone:
            self._unsendable.pop(id_, None)
        self._emails = deque(email for email in self._emails if email.id not in gone)
        self._missed |= gone  # until the database has confirmed this, the account may still hold them
        self._missed -= set(await self._store.give_back(self._lease.now_held, list(gone)))
        failpoint("after_give_back")

    async def give_back_all(self, *emails: Outgoing) -> None:
        """Return to the queue all claimed e-mails and `emails`, which are no longer in the batch."""
        await self.give_back(*emails, *self._emails)

    async def give_rest_back(self) -> None:
        if self._emails:
            await self.give_back(*self._emails)

    async def give_back_with(self, email: Outgoing, is_like_it: Callable[[Outgoing], bool]) -> None:
        """Return to the queue this e-mail, which is no longer in the batch, and all e-mails like it in the batch."""
        await self.give_back(email, *filter(is_like_it, self._emails))

    def drop(self) -> None:
        """Forget the claimed e-mails. The database returns these e-mails to the queue when the lease ends or is
        resumed.
        """
        self._emails.clear()

    def forget(self) -> None:
        self._emails.clear()
        self._may_hold_more = False
        self._unsendable.clear()
        self._missed.clear()
