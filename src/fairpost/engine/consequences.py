"""Apply the consequences of an outcome to the account: pause or suspend it, record trouble, or resolve a doubt.

This module keeps no state; policy/consequences.py decides. The e-mail has already been settled.
"""

from typing import assert_never

from fairpost.engine.blame import Books
from fairpost.engine.claim import Batch
from fairpost.engine.doubts import Doubts
from fairpost.engine.lease import HeldLease
from fairpost.engine.pace import Pace
from fairpost.engine.settle import Outcome
from fairpost.model.account import AccountStatus, Rest
from fairpost.model.dkim import LockedKey
from fairpost.model.email import Outgoing
from fairpost.policy.consequences import (
    Book,
    ClearDoubt,
    Consequence,
    Count,
    Refund,
    Remember,
    Suspend,
    consequences,
)
from fairpost.store.dkim import key_locked
from fairpost.store.store import Store
from fairpost.system.failpoints import failpoint


class Consequences:
    def __init__(
        self, store: Store, lease: HeldLease, *, pace: Pace, batch: Batch, books: Books, doubts: Doubts
    ) -> None:
        self._store = store
        self._lease = lease
        self._pace = pace
        self._batch = batch
        self._books = books
        self._doubts = doubts

    async def draw(self, outcome: Outcome) -> None:
        for each in consequences(self._pace.troubles, outcome.weighed, outcome.report):
            await self._draw(each, outcome.email)

    async def _draw(self, consequence: Consequence, email: Outgoing) -> None:
        match consequence:
            case Remember(troubles, forgiven):
                self._pace.troubles = troubles
                await self._store.set_troubles(self._lease.now_held, troubles, forgiven=forgiven)
                failpoint("after_troubles")
            case Suspend(reason):
                await self._store.set_status(self._lease.now_held, AccountStatus.SUSPENDED, reason=reason)
                failpoint("after_suspend")
            case Rest() as rest:
                await self.rest(rest)
            case Refund():
                self._pace.refund()
            case LockedKey() as key:
                await key_locked(self._store, key)
            case ClearDoubt():
                await self._doubts.resolve_new()
            case Count() as count:
                self._books.count(email, count, at=self._lease.now())
                self._pace.bounced(count.bounces)
            case Book():
                await self._books.write()
            case _:
                assert_never(consequence)

    async def rest(self, rest: Rest) -> None:
        """Let the account rest, and return its claimed e-mails to the queue for the other accounts in the pool."""
        await self._batch.give_back_all()
        self._pace.rest(rest)
        await self._store.rest(self._lease.now_held, rest)
        failpoint("after_rest")
