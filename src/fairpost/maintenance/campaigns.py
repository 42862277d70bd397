"""Maintain campaigns: finish interrupted launches, start, complete and clear campaigns, and extend calendars.

Runs in every engine's orchestrator process. At worst, several engines do the same work. Each step is a separate commit.
Sending windows are enforced even if no step runs, because a closed window opens by itself at the precomputed time. An
error in one workspace or campaign does not affect the others.
"""

from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from fairpost.campaigns.calendars import lay
from fairpost.campaigns.launching import BATCH
from fairpost.maintenance.loop import failed, keep_stepping
from fairpost.model.reason import Log, Reason
from fairpost.policy.calendar import RENEWED_BEFORE
from fairpost.store import campaigns, schedules
from fairpost.store.store import Store
from fairpost.store.trouble import is_trouble
from fairpost.system import clock
from fairpost.system.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Awaitable

LOOK_S = 0.5
CLEARED_AT_ONCE = 5000
STRANDED_AT_ONCE = 500
STRANDED_EVERY = timedelta(seconds=5)
SAID_AGAIN_S = 60.0


class CampaignWatch:
    def __init__(self, store: Store, log: Log) -> None:
        self._store = store
        self._log = log
        self._said_s: dict[str, float] = {}
        self._stranded_at: datetime | None = None

    async def run(self) -> None:
        complain = partial(self._complain, "maintaining campaigns")
        await keep_stepping(self.step, every_s=LOOK_S, complain=complain)

    async def step(self) -> bool:
        """Take one step. Return True if there is more to do immediately."""
        now = await self._store.now()
        for workspace in await schedules.to_lay(self._store, before=now + RENEWED_BEFORE):
            await self._safely(f"the schedule of workspace {workspace}", lay(self._store, workspace, now=now))
            failpoint("after_calendar")
        is_busy = False
        for campaign_id in await campaigns.to_plan(self._store):
            is_busy |= await self._plan(campaign_id)
        for campaign_id in await campaigns.to_clear(self._store):
            done = await self._safely(
                f"clearing campaign {campaign_id}", campaigns.clear(self._store, campaign_id, most=CLEARED_AT_ONCE)
            )
            failpoint("after_clearing")
            is_busy |= done is False
        if self._stranded_at is None or now >= self._stranded_at + STRANDED_EVERY:
            is_busy |= await campaigns.fail_stranded(self._store, most=STRANDED_AT_ONCE) == STRANDED_AT_ONCE
            self._stranded_at = now
            failpoint("after_stranded")
        moved = await campaigns.advance(self._store)
        failpoint("after_advance")
        for workspace, name, state, reason in moved:
            self._log(Reason(f"campaign.{state}", name=name, workspace=workspace, why=reason))
        for workspace in await campaigns.wrong_gates(self._store):
            await self._safely(f"the gates of workspace {workspace}", self._store.set_gates(workspace))
            failpoint("after_gates")
        return is_busy

    async def _plan(self, campaign_id: int) -> bool:
        """Plan one batch. Return True if there is more to plan. If a campaign cannot be planned, it is set to failed,
        and the reason is stored.
        """
        try:
            planned = await campaigns.plan_batch(self._store, campaign_id, most=BATCH)
            failpoint("after_batch")
            return not planned.done
        except Exception as error:
            if is_trouble(error):  # the campaign is not to blame, and the next step tries again
                raise
            self._complain(f"planning campaign {campaign_id}", error)
            await campaigns.fail_planning(self._store, campaign_id, str(error))
            return False

    async def _safely(self, what: str, work: "Awaitable[object]") -> object:
        try:
            return await work
        except Exception as error:
            if is_trouble(error):
                raise
            self._complain(what, error)
            return None

    def _complain(self, what: str, error: Exception) -> None:
        """Log an error at most once a minute, because the error persists until its cause is fixed manually."""
        if clock.monotonic() >= self._said_s.get(what, float("-inf")) + SAID_AGAIN_S:
            self._said_s[what] = clock.monotonic()
            failed(what, error, self._log)
