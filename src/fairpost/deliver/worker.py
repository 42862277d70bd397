"""Drives one account for as long as there is work: steps, and between them the waiting that a step asks for.

Knows nothing of processes. Whoever runs it hears how it is doing and may wake it, let it finish, or end it at once.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from fairpost.deliver.handover import NOWHERE, Handover
from fairpost.deliver.runner import LEASE_S, Handled, Idle, Rested, Runner
from fairpost.model.ids import AccountId, Epoch
from fairpost.postgres.store import Store
from fairpost.system import clock
from fairpost.transport.port import ClosableTransport

IDLE_S_MAX = 60.0  # with nothing to do for so long, it gives its place back
TELL_S = 1.0  # at most so long it sends without a word
SHORT_PAUSE = timedelta(seconds=1)  # between two sends: whoever has one is at work, and not to be woken
LOOK_AGAIN_S = 1.0  # what was enqueued without waking us is found by then


class Ending(StrEnum):
    TAKEN = "another drives the account"
    IDLE = "there was nothing to do"
    RESTING = "the account may not send for a while"
    LOST = "the lease was lost"
    INACTIVE = "the account is not active"
    CHANGED = "the account's settings were changed"
    EXHAUSTED = "the account's day is used up"
    STOPPED = "it was told to"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`is_idle`: nothing to do until woken, or until the moment. `sent` since the last word."""

    is_idle: bool
    until: datetime | None = None
    sent: int = 0


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
    ) -> None:
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
        self._news = asyncio.Event()
        self._is_stopping = False
        self._is_idle = False
        self._was_woken = False  # whoever woke it hears what came of it
        self._sent = 0
        self._told_s = float("-inf")
        self._runner: Runner | None = None
        self.handled = 0  # e-mails, since it began: whoever watches sees whether it moves

    def wake(self) -> None:
        """Something may have arrived for it."""
        if self._runner is not None:
            self._runner.look_for_urgent()
        self._was_woken = True
        self._news.set()

    def finish(self) -> None:
        """Ends after the e-mail under way."""
        self._is_stopping = True
        if self._runner is not None:
            self._runner.finish()
        self._news.set()

    def stop_sending(self) -> None:
        """No message is completed from now on, not even the one under way."""
        if self._runner is not None:
            self._runner.stop_sending()
        self.finish()

    async def run(self) -> Ending:
        self._runner = await Runner.start(
            self._store,
            self._transport,
            self._account_id,
            owner=self._owner,
            lease_s=self._lease_s,
            handover=self._handover,
        )
        if self._runner is None:
            return Ending.TAKEN
        self._holding(self._runner.epoch)
        try:
            return await self._work(self._runner)
        finally:
            await self._runner.stop()
            await self._transport.close()

    async def _work(self, runner: Runner) -> Ending:
        idle_since_s = clock.monotonic()
        while not self._is_stopping:
            self._news.clear()
            match await runner.step():
                case Handled(_, outcome):
                    self._busy(outcome)
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

    def _busy(self, outcome: str) -> None:
        self.handled += 1
        self._sent += outcome == "sent"
        if self._is_idle or clock.monotonic() > self._told_s + TELL_S:
            self._is_idle = False
            self._say(until=None)

    async def _rest(self, runner: Runner, until: datetime | None, left_s: float) -> None:
        """Until the moment, or news, or a look is due; and short enough to keep the lease."""
        if not self._is_idle or self._sent or self._was_woken:
            self._is_idle = True
            self._was_woken = False
            self._say(until)
        await self._wait(runner, until, min(self._look_again_s, left_s, self._lease_s / 3))

    async def _wait(self, runner: Runner, until: datetime | None, most_s: float) -> None:
        """Until the moment, or news, and no longer than this."""
        ahead_s = (until - runner.now()).total_seconds() if until else most_s
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), max(0.0, min(ahead_s, most_s)))

    def _say(self, until: datetime | None) -> None:
        self._tell(Progress(is_idle=self._is_idle, until=until, sent=self._sent))
        self._sent = 0
        self._told_s = clock.monotonic()
