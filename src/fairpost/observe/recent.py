"""What a look found, kept for a moment: however many ask, one looks."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from fairpost.system import clock

T = TypeVar("T")


class Recent(Generic[T]):
    def __init__(self, *, kept_s: float) -> None:
        self._kept_s = kept_s
        self._one_at_a_time = asyncio.Lock()
        self._found: T
        self._looked_s: float | None = None

    async def look(self, look: Callable[[], Awaitable[T]]) -> T:
        async with self._one_at_a_time:
            if self._looked_s is None or clock.monotonic() >= self._looked_s + self._kept_s:
                self._found = await look()
                self._looked_s = clock.monotonic()
            return self._found
