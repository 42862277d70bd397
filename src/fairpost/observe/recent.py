"""A short-lived cache that lets many viewers share one read."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

from fairpost.system import clock

T = TypeVar("T")

KEPT_S_MAX = 4.0  # a viewer that polls every second sees changes within five seconds


class Recent(Generic[T]):
    """Caches one result. `cost_max` is the maximum share of time to spend on reads.

    Slow results are kept longer, up to KEPT_S_MAX.
    """

    def __init__(self, *, kept_s: float, cost_max: float = 1.0) -> None:
        self._kept_s = kept_s
        self._cost_max = cost_max
        self._one_at_a_time = asyncio.Lock()
        self._found: T
        self._fresh_until_s = float("-inf")

    async def look(self, look: Callable[[], Awaitable[T]]) -> T:
        async with self._one_at_a_time:
            began_s = clock.monotonic()
            if began_s >= self._fresh_until_s:
                self._found = await look()
                now_s = clock.monotonic()
                self._fresh_until_s = now_s + max(self._kept_s, min(KEPT_S_MAX, (now_s - began_s) / self._cost_max))
            return self._found


class Recents:
    """Caches for the most recently used names, one per name, so memory stays bounded even if there are very many names."""

    def __init__(self, *, kept_s: float, kept_max: int) -> None:
        self._kept_s = kept_s
        self._kept_max = kept_max
        self._named: OrderedDict[Hashable, Recent[Any]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._named)

    async def look(self, name: Hashable, look: Callable[[], Awaitable[T]]) -> T:
        recent: Recent[T] = self._named.setdefault(name, Recent(kept_s=self._kept_s))
        self._named.move_to_end(name)
        if len(self._named) > self._kept_max:
            self._named.popitem(last=False)
        return await recent.look(look)
