"""Limits how many slow requests from a workspace run at once, so other requests are still answered.

Requests above the limit wait briefly.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairpost.api.errors import ApiError

OF_ONE_MAX = 2  # maximum number of concurrent requests per workspace in this process
OF_ALL_MAX = 5  # maximum number of concurrent requests from all workspaces: half the database connections
TRIALS_MAX = 50  # maximum number of concurrent logins to other servers, which may be slow but occupy only sockets
WAITING_MAX = 20  # maximum number of waiting requests per workspace
WAIT_S_MAX = 20.0


class ConcurrencyLimit:
    def __init__(self, *, of_all_max: int = OF_ALL_MAX) -> None:
        self._of_all_max = of_all_max
        self._under_way: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._moved = asyncio.Condition()

    @property
    def workspaces(self) -> set[str]:
        """The workspaces that have running or waiting requests."""
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
    return counts - Counter([workspace])  # subtraction drops workspaces whose count is 0


def _too_many() -> ApiError:
    words = "Too many slow requests from this workspace are in progress. Try again when some of them have finished."
    return ApiError("rate_limited", words, headers={"Retry-After": "2"})
