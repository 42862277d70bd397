"""The account's lease, which keeps all other workers out.

Tracks the epoch, the number of the last step, the deadline on this machine's clock, and how far the database's clock is
ahead of that clock. The deadline is measured from just before the last request for the lease. Messages may be completed
only up to a safety margin before this deadline. Steps are numbered: each step's number is one higher than the number of
the last acknowledged step, which this machine records. A stopped lease is never renewed.
"""

from datetime import datetime, timedelta
from typing import Self, assert_never

from fairpost.engine.steps import Steps
from fairpost.model.account import Lease
from fairpost.model.engine import TakenUp
from fairpost.model.errors import Unconfirmed
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.quick import changed
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.failpoints import failpoint

LEASE_S = 60.0
MARGIN = 1 / 12  # fraction of the lease that must remain to complete a message
STOPPED = float("-inf")


class HeldLease:
    def __init__(self, store: Store, lease: Lease, *, asked_at_s: float, lease_s: float, steps: Steps) -> None:
        self._store = store
        self.now_held = lease
        self.lease_s = lease_s
        self._deadline_s = asked_at_s + lease_s
        self._ahead = lease.until - timedelta(seconds=lease_s) - clock.now()
        self._all_steps = steps
        self._steps = steps.of(lease.account_id)

    @classmethod
    async def take(
        cls, store: Store, account_id: AccountId, *, owner: str, lease_s: float, steps: Steps, again: bool
    ) -> Self | None:
        """Take the account's lease. Return None if another worker holds the lease."""
        asked_at_s = clock.monotonic()
        lease = await store.take_lease(account_id, owner=owner, seconds=lease_s, again=again)
        failpoint("after_lease")
        if lease is None:
            return None
        return cls(store, lease, asked_at_s=asked_at_s, lease_s=lease_s, steps=steps)

    def now(self) -> datetime:
        """Return the time on the database's clock, which is the reference for all machines."""
        return clock.now() + self._ahead

    def hear_time(self, now: datetime) -> None:
        self._ahead = now - clock.now()

    @property
    def next_step(self) -> int:
        return self.now_held.step + 1

    def acknowledge(self, begun: EmailId | None = None) -> None:
        """Record that the database has taken the next step and, if an e-mail is given, begun it."""
        held = self.now_held
        self.now_held = changed(held, step=held.step + 1)
        self._steps.acknowledge(held.step + 1, begun)

    def allows_completion(self) -> bool:
        return clock.monotonic() < self._deadline_s - self.lease_s * MARGIN

    def is_renewal_due(self) -> bool:
        return clock.monotonic() >= self._deadline_s - self.lease_s / 2

    async def keep(self) -> bool:
        """Renew the lease if the renewal is due. Return False if the lease has been lost."""
        return not self.is_renewal_due() or await self.renew()

    async def renew(self) -> bool:
        """Renew the lease. Return False if the lease has been lost."""
        asked_at_s = clock.monotonic()
        renewed = await self._store.renew_lease(self.now_held, seconds=self.lease_s)
        if renewed is None or self._deadline_s == STOPPED:
            return False
        self.now_held = renewed
        self._deadline_s = asked_at_s + self.lease_s
        return True

    def stop_sending(self) -> None:
        """Prevent any message from being completed from now on, including the one in progress."""
        self._deadline_s = STOPPED

    async def take_up(self) -> TakenUp | None:
        """Resume the lease after a database outage, and return its state, or None if another worker has it. Raises
        while it is unknown which worker has the lease.
        """
        asked_at_s = clock.monotonic()
        taken = await self._store.take_up(self.now_held, seconds=self.lease_s, life=self._all_steps.life)
        failpoint("after_take_up")
        match taken.verdict:
            case "unconfirmed" | "behind":
                raise Unconfirmed(f"The engines have not confirmed this server ({taken.verdict}).")
            case "lost":
                return None
            case "held":
                self._go_on(taken, asked_at_s)
                return taken
            case _:
                assert_never(taken.verdict)

    def _go_on(self, taken: TakenUp, asked_at_s: float) -> None:
        assert taken.until is not None
        assert taken.step is not None
        self.now_held = changed(self.now_held, until=taken.until, step=taken.step)
        self.hear_time(taken.now)
        if self._deadline_s != STOPPED:
            self._deadline_s = asked_at_s + self.lease_s
        if self._all_steps.follow(taken.life):
            self._steps = self._all_steps.of(self.now_held.account_id)
        self._steps.acknowledge(taken.step)

    async def drop(self) -> None:
        await self._store.drop_lease(self.now_held)
