"""Maintain the history partitions: create partitions for the coming months and drop expired ones.

Runs in every engine's orchestrator process. Several engines may do this without harm. If the tables stay in use for too
long, the attempt is abandoned and soon repeated.
"""

import asyncio
from datetime import timedelta

import asyncpg

from fairpost.maintenance.loop import failed
from fairpost.model.reason import Log, Reason
from fairpost.store import retention
from fairpost.store.store import Store
from fairpost.store.trouble import is_trouble

EVERY_S = 86_400.0
AGAIN_S = 300.0
MENDED_S = 3600.0  # pause after an error, because its cause must be fixed manually


class HistoryWatch:
    """Maintains the history. If `keep` is None, the history is kept forever. Events stay readable for the period
    `keep_events`.
    """

    def __init__(self, store: Store, keep: timedelta | None, log: Log, *, keep_events: timedelta) -> None:
        self._store = store
        self._keep = keep
        self._keep_events = keep_events
        self._log = log

    async def run(self) -> None:
        """Run the steps. A failed step does not stop the loop, because nothing else would restart it."""
        while True:
            wait_s = AGAIN_S
            try:
                await self.step()
                wait_s = EVERY_S
            except asyncpg.LockNotAvailableError:
                pass  # the tables are in use by a long-running read
            except Exception as error:
                if not is_trouble(error):  # the orchestrator reports problems with the database
                    failed("retention", error, self._log)
                    wait_s = MENDED_S
            await asyncio.sleep(wait_s)

    async def step(self) -> None:
        await retention.prepare_months(self._store)
        await retention.drop_event_days(self._store, before=await self._store.now() - self._keep_events)
        if self._keep is None:
            return
        before = await self._store.now() - self._keep
        async for dropped in retention.drop_months(self._store, before=before):
            self._log(
                Reason("history.dropped", month=f"{dropped.month:%Y-%m}", megabytes=round(dropped.bytes / 1_000_000, 1))
            )
        await retention.drop_rows(self._store, before=before)
