"""Record an account's outcomes, and stop the account or sender that is to blame: see policy/blame.py.

Outcomes are buffered until they are written. A crash loses at most `BOOK_MAX` e-mails from the counters that detect
abuse, and other engines see counters that are at most about `BOOK_S_MAX` seconds old. Charges against limits are not
buffered: they are written with each begin.
"""

from datetime import datetime, timedelta

from fairpost.engine.lease import HeldLease
from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.policy.blame import blame, reason_of
from fairpost.policy.consequences import Count
from fairpost.policy.ledger import Ledger, Measure
from fairpost.store.blocks import block
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.failpoints import failpoint

BOOK_MAX = 250
BOOK_S_MAX = 1.0


class Books:
    def __init__(self, store: Store, lease: HeldLease, account: Account) -> None:
        self._store = store
        self._lease = lease
        self._account = account
        self._written_s = clock.monotonic()
        self.ledger = Ledger()

    def count(self, email: Outgoing, count: Count, *, at: datetime) -> None:
        self.ledger.count(
            email.workspace,
            email.user,
            is_fair=email.is_fair,
            at=at,
            is_handled=count.is_handled,
            bounces=count.bounces,
            is_sent=count.is_sent,
            is_bounced=count.is_bounced,
            is_rejected=count.is_rejected,
            refusal=count.refusal,
        )

    def measure(self, kind: Measure, since_s: float) -> None:
        self.ledger.measure(kind, timedelta(seconds=clock.monotonic() - since_s))

    @property
    def has_news(self) -> bool:
        return self.ledger.handled > 0

    def is_due(self, *, has_bounced: bool) -> bool:
        return self.has_news and (self._is_old() or self.ledger.handled >= BOOK_MAX or has_bounced)

    async def write_before_rest(self, until: datetime | None) -> None:
        """Write the outcomes if the account will rest for long enough, or if the last write was long ago."""
        is_long = until is None or until > self._lease.now() + timedelta(seconds=BOOK_S_MAX)
        if self.has_news and (self._is_old() or is_long):
            await self.write()

    def _is_old(self) -> bool:
        return clock.monotonic() > self._written_s + BOOK_S_MAX

    async def write(self) -> bool:
        """Write the outcomes. Return True if the account itself was stopped."""
        self._written_s = clock.monotonic()
        lease, limits, now = self._lease.now_held, self._account.limits, self._lease.now()
        sample = await self._store.book(lease, *self.ledger.take())
        failpoint("after_book")
        if sample is None:
            return False
        found = blame(sample, limits, now=now)
        until = now + timedelta(seconds=limits.cool_down_s) if limits.cool_down_s else None
        for each in found.accused:
            await block(self._store, lease, each.workspace, each.fault, until=until)
        if found.stop is not None:
            ends = until if found.stop.status == "paused" else None
            await self._store.set_status(lease, found.stop.status, reason=reason_of(found.stop.fault), until=ends)
        return found.stop is not None
