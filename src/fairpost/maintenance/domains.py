"""Once a day, recheck the DNS of every domain that has been checked before, because records may disappear and keys may
be published.

Runs in every engine's orchestrator process. A domain is reserved before its check, so that no other engine checks it.
Several domains are checked concurrently, each within a time limit, so that one slow DNS server does not delay the
others.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial

from fairpost.maintenance.loop import failed, keep_stepping
from fairpost.model.reason import Log
from fairpost.store import workspaces
from fairpost.store.store import Store

EVERY_S = 600.0
AGAIN_AFTER = timedelta(days=1)
TAKEN_MAX = 20
AT_ONCE = 5
CHECK_S_MAX = 60.0

Check = Callable[[str, str], Awaitable[object]]
"""The function that checks a domain, called with the workspace and the domain."""


class DomainWatch:
    def __init__(self, store: Store, check: Check, log: Log, *, check_s_max: float = CHECK_S_MAX) -> None:
        self._check_s_max = check_s_max
        self._store = store
        self._check = check
        self._log = log

    async def run(self) -> None:
        await keep_stepping(self.step, every_s=EVERY_S, complain=partial(failed, "domain watch", log=self._log))

    async def step(self) -> bool:
        """Check some domains. Return True if there is more to do immediately."""
        before = await self._store.now() - AGAIN_AFTER
        due = await workspaces.take_unchecked(self._store, before=before, most=TAKEN_MAX)
        turns = asyncio.Semaphore(AT_ONCE)
        checks = [self._check_in_turn(turns, workspace, domain) for workspace, domain in due]
        for result in await asyncio.gather(*checks, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result  # pause after all domains have been checked
        return len(due) == TAKEN_MAX

    async def _check_in_turn(self, turns: asyncio.Semaphore, workspace: str, domain: str) -> None:
        """Check one domain. If the check takes too long, the last result is kept until the next day."""
        async with turns:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._check_s_max):
                    await self._check(workspace, domain)
