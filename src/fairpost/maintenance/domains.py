"""Check DNS once a day for every domain whose health was checked before: records get lost, and keys get published.

Runs in every engine's orchestrator process. A domain is reserved before its check, so that no other engine checks it.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from fairpost.maintenance.loop import failed, keep_stepping
from fairpost.model.reason import Log
from fairpost.store import workspaces
from fairpost.store.store import Store

EVERY_S = 600.0
AGAIN_AFTER = timedelta(days=1)
AT_ONCE = 20

Check = Callable[[str, str], Awaitable[object]]
"""Called with a workspace and its domain."""


class DomainWatch:
    def __init__(self, store: Store, check: Check, log: Log) -> None:
        self._store = store
        self._check = check
        self._log = log

    async def run(self) -> None:
        await keep_stepping(self.step, every_s=EVERY_S, complain=partial(failed, "domain watch", log=self._log))

    async def step(self) -> bool:
        """Check some domains. Return True if there is more to do immediately."""
        before = await self._store.now() - AGAIN_AFTER
        due = await workspaces.take_unchecked(self._store, before=before, most=AT_ONCE)
        for workspace, domain in due:
            await self._check(workspace, domain)
        return len(due) == AT_ONCE
