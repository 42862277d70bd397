"""Looks after the months of history: makes those to come, and drops those that are older than they need be.

Runs in every engine's orchestrator process. Several engines do it by turns, and what one has done is nothing to do for the next. Where the tables
are in use for long, it gives way and comes again soon.
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
MENDED_S = 3600.0  # what is wrong stays wrong until somebody mends it


class HistoryWatch:
    """`keep`: None is for good."""

    def __init__(self, store: Store, keep: timedelta | None, log: Log) -> None:
        self._store = store
        self._keep = keep
        self._log = log

    async def run(self) -> None:
        """Whatever goes wrong with one look, the next one comes: nobody else watches."""
        while True:
            wait_s = AGAIN_S
            try:
                await self.step()
                wait_s = EVERY_S
            except asyncpg.LockNotAvailableError:
                pass  # somebody reads for long
            except Exception as error:
                if not is_trouble(error):  # of which the orchestrator tells
                    failed("retention", error, self._log)
                    wait_s = MENDED_S
            await asyncio.sleep(wait_s)

    async def step(self) -> None:
        await retention.prepare_months(self._store)
        if self._keep is None:
            return
        before = await self._store.now() - self._keep
        async for dropped in retention.drop_months(self._store, before=before):
            self._log(
                Reason("history.dropped", month=f"{dropped.month:%Y-%m}", megabytes=round(dropped.bytes / 1_000_000, 1))
            )
        await retention.drop_rows(self._store, before=before)
