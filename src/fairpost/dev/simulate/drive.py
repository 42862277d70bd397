"""Drives accounts as engines do, on a clock that advances only when all accounts are waiting."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from fairpost.engine.lease import LEASE_S
from fairpost.engine.results import Handled, Idle, Rested
from fairpost.engine.runner import Runner
from fairpost.model.ids import AccountId
from fairpost.store.blocks import blocked_for_all
from fairpost.store.store import Store
from fairpost.system.clock import ManualClock
from fairpost.transports.port import Transport

LOOK_AGAIN = timedelta(seconds=1)  # pause before looking again if other accounts have claimed the work
KEPT = timedelta(seconds=LEASE_S / 3)  # an account with a longer pause than this returns its lease


@dataclass(slots=True)
class _Driven:
    transport: Transport
    runner: Runner | None = None
    wakes_at: datetime | None = None  # None: it waits until an e-mail arrives


class Drive:
    def __init__(
        self,
        store: Store,
        clock: ManualClock,
        transports: Mapping[AccountId, Transport],
        *,
        orchestrate: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """Creates the driver. `orchestrate` does the orchestrator's work; it is called each time before the accounts wait."""
        self._store = store
        self._orchestrate = orchestrate
        self._clock = clock
        self._accounts = {id_: _Driven(transport, wakes_at=clock.now) for id_, transport in transports.items()}

    async def run(self, *, until: datetime, after_each: Callable[[], None] = lambda: None) -> None:
        """Advances the clock to this time, or until no account is waiting."""
        while True:
            for account_id, driven in self._accounts.items():
                if driven.wakes_at is not None and driven.wakes_at <= self._clock.now:
                    await self._work(account_id, driven)
            if self._orchestrate is not None:
                await self._step(self._orchestrate)
            after_each()
            moments = [driven.wakes_at for driven in self._accounts.values() if driven.wakes_at is not None]
            if not moments or min(moments) > until:
                break
            self._clock.move_to(max(self._clock.now, min(moments)))
        await self.stop()

    async def _step(self, orchestrate: Callable[[], Awaitable[object]]) -> None:
        await orchestrate()
        due = {route.route for route in await self._store.routes_with_work() if route.due}
        shut = await blocked_for_all(self._store)
        for account_id, driven in self._accounts.items():
            if due and driven.wakes_at is None and account_id not in shut:
                account = await self._store.account(account_id)
                if account.is_active(self._clock.now) and {account.pool, f"@{account.name}"} & due:
                    driven.wakes_at = self._clock.now

    def wake_all(self) -> None:
        """Wakes all accounts because e-mails have arrived."""
        for driven in self._accounts.values():
            driven.wakes_at = self._clock.now

    async def stop(self) -> None:
        for driven in self._accounts.values():
            await self._let_go(driven)

    async def _work(self, account_id: AccountId, driven: _Driven) -> None:
        driven.runner = driven.runner or await Runner.start(
            self._store, driven.transport, account_id, owner=f"simulated {account_id}"
        )
        if driven.runner is None:
            driven.wakes_at = self._clock.now + LOOK_AGAIN
            return
        while True:
            match await driven.runner.step():
                case Handled():
                    continue
                case Rested(Idle.BUSY):
                    driven.wakes_at = self._clock.now + LOOK_AGAIN
                case Rested(Idle.INACTIVE | Idle.CHANGED | Idle.EXHAUSTED | Idle.LOST | Idle.PAUSED, until):
                    await self._let_go(driven)
                    driven.wakes_at = until or (await self._store.account(account_id)).status_until
                case Rested(_, until):
                    driven.wakes_at = until
                    if until is None or until > self._clock.now + KEPT:
                        await self._let_go(driven)
            return

    async def _let_go(self, driven: _Driven) -> None:
        runner, driven.runner = driven.runner, None
        if runner is not None:
            await runner.stop()
