"""Looks after the campaigns: plans those whose launch was cut off, starts, ends and clears them, and keeps their calendars ahead.

Part of every engine's mind. Several engines do the same at worst, each step is a commit of its own, and none of them
is needed for mail to keep its hours: what is shut opens by itself at the moment that was worked out before.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime

import asyncpg

from fairpost.campaigns.calendars import renew
from fairpost.campaigns.launching import BATCH
from fairpost.postgres import campaigns
from fairpost.postgres.store import Store
from fairpost.system import clock

LOOK_S = 0.5
CLEARED_AT_ONCE = 5000


class CampaignWatch:
    def __init__(self, store: Store, log: Callable[[str], None]) -> None:
        self._store = store
        self._log = log

    async def run(self) -> None:
        """Whatever goes wrong with one look, the next one comes: nobody else watches."""
        while True:
            is_busy = False
            try:
                is_busy = await self.step()
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                pass  # the orchestrator says so
            except Exception as error:
                self._log(f"looking after campaigns: {type(error).__name__}: {error}")
            await asyncio.sleep(0 if is_busy else LOOK_S)

    async def step(self) -> bool:
        """True: there is more to do at once."""
        now = await self._now()
        await renew(self._store, now=now)
        is_busy = False
        for campaign_id in await campaigns.to_plan(self._store):
            is_busy |= not (await campaigns.plan_batch(self._store, campaign_id, most=BATCH)).done
        for campaign_id in await campaigns.to_clear(self._store):
            is_busy |= not await campaigns.clear(self._store, campaign_id, most=CLEARED_AT_ONCE)
        for workspace, name, state, reason in await campaigns.advance(self._store):
            self._log(f"campaign {name} of {workspace} is {state}" + (f": {reason}" if reason else ""))
        await campaigns.check_gates(self._store)
        return is_busy

    async def _now(self) -> datetime:
        """The database's own, as everywhere; ours only where somebody has stopped it."""
        return clock.stated() or await self._store.value("SELECT clock_timestamp()")
