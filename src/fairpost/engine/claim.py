"""What the account has claimed and not begun.

Keeps those e-mails in the order in which they go out, with each recipient's own content, and the ids of which nobody can say
just now whether they are still ours. Promises: what is not begun soon goes back, so that others of the pool may send it; an
e-mail is only forgotten once the database has said that it waits again, and asked for otherwise when there is nothing else.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import assert_never

from fairpost.engine.blame import Books
from fairpost.engine.claims import ClaimGroup
from fairpost.engine.lease import HeldLease
from fairpost.engine.personalize import personal
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


class Batch:
    def __init__(self, store: Store, lease: HeldLease, books: Books, *, pool: str, claims: ClaimGroup) -> None:
        self._store = store
        self._pool = pool
        self._claims = claims
        self._lease = lease
        self._books = books
        self._emails: deque[Outgoing] = deque()
        self._unsendable: dict[EmailId, Reason] = {}  # and why their fields do not fit their template
        self._missed: set[EmailId] = set()  # locked by another when their turn came; they may still be ours

    @property
    def first(self) -> Outgoing | None:
        return self._emails[0] if self._emails else None

    def pop(self) -> Outgoing:
        return self._emails.popleft()

    def why_unsendable(self, email: Outgoing) -> Reason | None:
        return self._unsendable.get(email.id)

    # ── claim ─────────────────────────────────────────────────────────────────────────────────────────────

    async def fill(self, most: int, troubles: Troubles) -> Rested | None:
        """Claims up to so many. None: there is something to begin."""
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
        if not self._emails:  # taken away between the claim and the look at them: there may be others
            return Rested(Idle.BUSY, claim.next_at)
        if not troubles.has_passed:
            await self._keep_one(other_than=troubles.last)
        return None

    async def _claim(self, most: int) -> Claim:
        asked_at_s = clock.monotonic()
        claim, emails = await self._claims.claim(self._lease.now_held, pool=self._pool, limit=most)
        self._books.measure(Measure.CLAIM, asked_at_s)
        self._take(emails)
        failpoint("after_load")
        return claim

    def miss(self, email: Outgoing) -> None:
        self._missed.add(email.id)

    async def _take_up_missed(self) -> bool:
        """False: the lease is gone."""
        held = await self._store.held(self._lease.now_held)
        if held is None:
            return False
        left = await self._store.load(list(self._missed))
        account_id = self._lease.now_held.account_id
        self._missed = {e.id for e in left if e.account_id == account_id} - set(held)
        self._take(await self._store.load(held))
        return True

    def _take(self, emails: Iterable[Outgoing]) -> None:
        """Urgent ones go before what is already claimed."""
        emails = [self._personal(email) for email in emails]
        urgent = [email for email in emails if email.email_class is EmailClass.URGENT]
        self._emails.extendleft(reversed(urgent))
        self._emails.extend(email for email in emails if email.email_class is not EmailClass.URGENT)

    def _personal(self, email: Outgoing) -> Outgoing:
        try:
            return personal(email)
        except (TemplateError, Unrenderable) as error:
            self._unsendable[email.id] = Reason("email.fields_missing", problem=str(error))
            return email

    # ── and give back ─────────────────────────────────────────────────────────────────────────────────────

    async def fail_unsendable(self, email: Outgoing) -> bool:
        """False: it is not ours any more."""
        return await self._store.fail_claimed(self._lease.now_held, email.id, self._unsendable.pop(email.id))

    async def _keep_one(self, *, other_than: EmailId | None) -> None:
        """After a trouble the account comes back with a single e-mail, another one than before if there is one."""
        if len(self._emails) >= 2:
            first = next(email for email in self._emails if email.id != other_than)
            await self.give_back(*(email for email in self._emails if email is not first))

    async def give_back(self, *emails: Outgoing) -> None:
        gone = {email.id for email in emails}
        for id_ in gone:
            self._unsendable.pop(id_, None)
        self._emails = deque(email for email in self._emails if email.id not in gone)
        self._missed |= gone  # until the database has said so, they may still be ours
        self._missed -= set(await self._store.give_back(self._lease.now_held, list(gone)))
        failpoint("after_give_back")

    async def give_back_all(self, *emails: Outgoing) -> None:
        """With these, which are no longer among them."""
        await self.give_back(*emails, *self._emails)

    async def give_rest_back(self) -> None:
        if self._emails:
            await self.give_back(*self._emails)

    async def give_back_with(self, email: Outgoing, is_like_it: Callable[[Outgoing], bool]) -> None:
        """This one, which is no longer among them, and those for which the same holds."""
        await self.give_back(email, *filter(is_like_it, self._emails))

    def drop(self) -> None:
        """The database puts them back, with the lease or when it is taken up."""
        self._emails.clear()

    def forget(self) -> None:
        self._emails.clear()
        self._unsendable.clear()
        self._missed.clear()
