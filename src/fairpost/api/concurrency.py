"""Limits on slow requests: a few of each workspace at once, and never so many that others are not answered. The rest wait, for a while."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairpost.api.errors import ApiError

OF_ONE_MAX = 2  # of a workspace, in this process
OF_ALL_MAX = 5  # half of the connections
TRIALS_MAX = 50  # of servers, which may take their time: only sockets wait for them
WAITING_MAX = 20  # of a workspace
WAIT_S_MAX = 20.0


class ConcurrencyLimit:
    def __init__(self, *, of_all_max: int = OF_ALL_MAX) -> None:
        self._of_all_max = of_all_max
        self._under_way: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._moved = asyncio.Condition()

    @property
    def workspaces(self) -> set[str]:
        """With requests under way or waiting."""
        return {*self._under_way, *self._waiting}

    @asynccontextmanager
    async def one_more(self, workspace: str) -> AsyncIterator[None]:
        if self._waiting[workspace] >= WAITING_MAX:
            raise _too_many()
        self._waiting[workspace] += 1
        try:
            async with asyncio.timeout(WAIT_S_MAX), self._moved:
                await self._moved.wait_for(lambda: self._has_room(workspace))
                self._under_way[workspace] += 1
        except TimeoutError:
            raise _too_many() from None
        finally:
            self._waiting = _without_one(self._waiting, workspace)
        try:
            yield
        finally:
            async with self._moved:
                self._under_way = _without_one(self._under_way, workspace)
                self._moved.notify_all()

    def _has_room(self, workspace: str) -> bool:
        return self._under_way[workspace] < OF_ONE_MAX and self._under_way.total() < self._of_all_max


def _without_one(counts: Counter[str], workspace: str) -> Counter[str]:
    return counts - Counter([workspace])  # a workspace with none left is dropped


def _too_many() -> ApiError:
    words = "Too many slow requests of this workspace are in progress. Try again when some of them are done."
    return ApiError("rate_limited", words, headers={"Retry-After": "2"})
