"""Drive one account for as long as there is work: take steps, and wait between them as each step asks.

A worker does not need a process of its own. The worker's owner is told the worker's state, and may wake the worker, let
it finish, or end it immediately. If the database is unavailable, the worker waits, keeps its state, and continues when
the database is back.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from fairpost.engine.handover import NOWHERE, Handover
from fairpost.engine.lease import LEASE_S
from fairpost.engine.results import Handled, Idle, Rested, Step
from fairpost.engine.runner import Runner
from fairpost.engine.steps import NO_STEPS, Steps
from fairpost.engine.together import Together
from fairpost.model.ids import AccountId, Epoch
from fairpost.store.store import Store
from fairpost.store.trouble import is_trouble
from fairpost.system import chance, clock
from fairpost.transports.port import ClosableTransport

IDLE_S_MAX = 60.0  # after this long without work, the worker gives up its place
SHORT_PAUSE = timedelta(seconds=1)  # a worker is not woken during a pause between two sends that is shorter than this
LOOK_AGAIN_S = 1.0  # e-mails enqueued without a wake-up are found within this time
TRY_AGAIN_S_MIN, TRY_AGAIN_S_MAX = 0.05, 3.0  # pauses between attempts, increasing while the database is unavailable


class Ending(StrEnum):
    TAKEN = "taken"  # another worker is working on the account
    IDLE = "idle"
    RESTING = "resting"  # the account may not send for a while
    LOST = "lost"  # the lease was lost
    INACTIVE = "inactive"
    CHANGED = "changed"  # the account's settings were changed
    EXHAUSTED = "exhausted"  # the account's daily limit is reached
    STOPPED = "stopped"  # stopped on request


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The state of a worker. `is_idle` means that the worker has nothing to do until it is woken, or until `until`."""

    is_idle: bool
    until: datetime | None = None


class AccountWorker:
    def __init__(
        self,
        store: Store,
        transport: ClosableTransport,
        account_id: AccountId,
        *,
        owner: str,
        lease_s: float = LEASE_S,
        idle_s_max: float = IDLE_S_MAX,
        look_again_s: float = LOOK_AGAIN_S,
        tell: Callable[[Progress], None] = lambda _: None,
        holding: Callable[[Epoch], None] = lambda _: None,
        handover: Handover = NOWHERE,
        steps: Steps = NO_STEPS,
        together: Together | None = None,
    ) -> None:
        self._together = together
        self._store = store
        self._transport = transport
        self._account_id = account_id
        self._owner = owner
        self._lease_s = lease_s
        self._idle_s_max = idle_s_max
        self._look_again_s = look_again_s
        self._tell = tell
        self._holding = holding
        self._handover = handover
        self._steps = steps
        self._news = asyncio.Event()
        self._is_stopping = False
        self._must_end = False
        self._is_idle = False
        self._was_woken = False  # the result goes to the caller that woke the worker
        self._runner: Runner | None = None
        self.handled = 0  # e-mails handled since the start, to see whether the worker is making progress
        self.unreleased: Epoch | None = None  # set if the database could not be told that the lease is free

    def wake(self) -> None:
        """Wake the worker because something may have arrived for it."""
        if self._runner is not None:
            self._runner.look_for_urgent()
        self._was_woken = True
        self._news.set()

    def finish(self) -> None:
        """End after the e-mail in progress."""
        self._is_stopping = True
        if self._runner is not None:
            self._runner.finish()
        self._news.set()

    def stop_sending(self) -> None:
        """Prevent any message from being completed from now on, including the one in progress."""
        self._must_end = True
        if self._runner is not None:
            self._runner.stop_sending()
        self.finish()

    async def run(self) -> Ending:
        self._runner = await self._start()
        if self._runner is None:
            return Ending.STOPPED if self._is_stopping else Ending.TAKEN
        self._holding(self._runner.epoch)
        try:
            return await self._work(self._runner)
        finally:
            await self._stop(self._runner)
            await self._transport.close()

    async def _start(self) -> Runner | None:
        """Start the runner. If the answer was lost, ask again, because the lost answer may have granted the lease.

        Only the worker that asked for the lease may ask for it again.
        """
        tries = 0
        while True:
            try:
                return await Runner.start(
                    self._store,
                    self._transport,
                    self._account_id,
                    owner=self._owner,
                    lease_s=self._lease_s,
                    handover=self._handover,
                    steps=self._steps,
                    together=self._together,
                    again=tries > 0,
                )
            except Exception as error:
                if not is_trouble(error):
                    raise
            tries += 1
            await self._await_database(tries)
            if self._is_stopping:
                return None

    async def _stop(self, runner: Runner) -> None:
        try:
            await runner.stop()
        except Exception as error:
            if not is_trouble(error):
                raise
            self.unreleased = runner.epoch

    async def _step(self, runner: Runner) -> Step:
        """Take a step, waiting for as long as the database is unavailable."""
        try:
            return await runner.step()
        except Exception as error:
            if not is_trouble(error):
                raise
        tries = 0
        while (runner.has_outcome and not self._must_end) or not self._is_stopping:
            tries += 1
            await self._await_database(tries)
            try:
                return await runner.step() if await runner.take_up() else Rested(Idle.LOST)
            except Exception as error:
                if not is_trouble(error):
                    raise
        return Rested(Idle.LOST)

    async def _await_database(self, tries: int) -> None:
        """Wait until it makes sense to try again, or until the owner reports that the database is responding again."""
        if not self._is_idle:
            self._is_idle = True
            self._say(until=None)
        await asyncio.sleep(TRY_AGAIN_S_MIN)
        self._news.clear()
        wait_s = min(TRY_AGAIN_S_MAX, TRY_AGAIN_S_MIN * 2**tries) * (1 + chance.roll()) / 2
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), wait_s)

    async def _work(self, runner: Runner) -> Ending:
        idle_since_s = clock.monotonic()
        while not self._is_stopping:
            self._news.clear()
            match await self._step(runner):
                case Handled():
                    self._busy()
                    idle_since_s = clock.monotonic()
                case Rested(Idle.BUSY):
                    await runner.await_turn()
                case Rested(Idle.LOST):
                    return Ending.LOST
                case Rested(Idle.INACTIVE):
                    return Ending.INACTIVE
                case Rested(Idle.CHANGED):
                    return Ending.CHANGED
                case Rested(Idle.EXHAUSTED):
                    return Ending.EXHAUSTED
                case Rested(Idle.NOT_YET, datetime() as until) if until <= runner.now() + SHORT_PAUSE:
                    await self._wait(runner, until, self._lease_s / 3)
                case Rested(why, until):
                    left_s = idle_since_s + self._idle_s_max - clock.monotonic()
                    if left_s <= 0:
                        return Ending.IDLE if why is Idle.EMPTY else Ending.RESTING
                    await self._rest(runner, until, left_s)
        return Ending.STOPPED

    def _busy(self) -> None:
        self.handled += 1
        if self._is_idle:
            self._is_idle = False
            self._say(until=None)

    async def _rest(self, runner: Runner, until: datetime | None, left_s: float) -> None:
        """Rest until `until`, a wake-up or the next check, but never long enough to lose the lease."""
        if not self._is_idle or self._was_woken:
            self._is_idle = True
            self._was_woken = False
            self._say(until)
        await self._wait(runner, until, min(self._look_again_s, left_s, self._lease_s / 3))

    async def _wait(self, runner: Runner, until: datetime | None, most_s: float) -> None:
        """Wait until `until` or until something arrives, up to a maximum of `most_s` seconds."""
        ahead_s = (until - runner.now()).total_seconds() if until else most_s
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), max(0.0, min(ahead_s, most_s)))

    def _say(self, until: datetime | None) -> None:
        self._tell(Progress(is_idle=self._is_idle, until=until))
