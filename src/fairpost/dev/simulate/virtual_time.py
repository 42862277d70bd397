"""An event loop in which time advances only when all tasks are waiting.

The loop simulates hours within seconds, and runs the engine's own code.

While the database works, real time passes and the loop's time stands still. All other work must take place in this
process, because any other wait for the outside world would take forever or no time at all.
"""

import asyncio
import heapq
import itertools
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from fairpost.store.connections import Connections
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.clock import ManualClock

if TYPE_CHECKING:
    import asyncpg

T = TypeVar("T")

LEAST = timedelta(microseconds=1)
STATEMENT_S = 0.001  # virtual duration of a statement; if it were zero, no task would ever overtake another
ROUNDS_MAX = 200  # maximum number of loop rounds at one moment; after that, each round takes virtual time
ROUNDS_TAKE = timedelta(milliseconds=1)
REAL_S_MAX = 1.0  # interval for checking whether the database has answered


class CountedConnections(Connections):
    """A pool with a single connection, so that the same seed always produces the same order. The pool counts the tasks
    that are using it or waiting for it.
    """

    in_use = 0

    @asynccontextmanager
    async def acquire(self) -> "AsyncIterator[asyncpg.Connection]":
        self.in_use += 1
        try:
            async with super().acquire() as conn:
                yield conn
        finally:
            self.in_use -= 1
        await asyncio.sleep(STATEMENT_S)


class _Selector(selectors.DefaultSelector):
    def __init__(self, manual: ManualClock) -> None:
        super().__init__()
        self._clock = manual
        self._rounds = 0
        self.is_busy: Callable[[], bool] = lambda: True

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            self._rounds += 1
            if self._rounds > ROUNDS_MAX:
                self._pass(ROUNDS_TAKE)
            return ready
        if self.is_busy():
            return super().select(REAL_S_MAX)
        if timeout is None:
            raise RuntimeError("all tasks are waiting, and no event is scheduled")
        self._pass(max(LEAST, timedelta(seconds=timeout)))
        return []

    def _pass(self, time: timedelta) -> None:
        self._rounds = 0
        self._clock.advance(time)


class _Timer(asyncio.TimerHandle):
    """A timer.

    Timers for the same moment fire in the order in which they were set, which the loop's heap does not guarantee.
    """

    nth = 0

    def __lt__(self, other: object) -> bool:
        assert isinstance(other, _Timer)
        return (self.when(), self.nth) < (other.when(), other.nth)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, manual: ManualClock) -> None:
        self._manual = manual
        self._virtual = _Selector(manual)
        super().__init__(self._virtual)
        self._timers = itertools.count()
        self._clock_resolution = LEAST.total_seconds()

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        timer.nth = next(self._timers)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def time(self) -> float:
        return self._manual.now.timestamp()

    def waits_for(self, is_busy: Callable[[], bool]) -> None:
        """Lets real time, but not virtual time, pass while the condition is true."""
        self._virtual.is_busy = is_busy

    def add_signal_handler(self, sig: int, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        """Does nothing, because signals are meant for the whole simulation, not for the engines in it."""


@asynccontextmanager
async def virtual_store(url: str) -> "AsyncIterator[Store]":
    """Yields a store whose work takes almost none of the loop's time."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    connections = await CountedConnections.open(url, most=1)
    loop.waits_for(lambda: connections.in_use > 0)
    try:
        yield Store(connections)
    finally:
        loop.waits_for(lambda: True)
        await connections.close()


def run_virtually(start: datetime, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs in virtual time from `start`. Before and after `virtual_store`, waits take real time."""
    with (
        clock.stopped_at(start) as manual,
        asyncio.Runner(loop_factory=lambda: VirtualLoop(manual)) as runner,
    ):
        return runner.run(main())
