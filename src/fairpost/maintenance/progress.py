"""Update campaign progress: count each campaign's sent e-mails from time to time, and revise its forecast.

Runs in every engine's orchestrator process. This task is separate from the campaign watch, because the task is slow:
counting a million e-mails takes a second, and forecasting them takes a few seconds. Only one engine counts at a time.
If the counting engine is killed, only one point is missing from the chart, because each count covers everything and is
stored in one commit.
"""

from datetime import datetime, timedelta

from fairpost.campaigns.forecasting import SECONDS_MAX, remember, revised_forecast_of
from fairpost.maintenance.loop import failed, keep_stepping
from fairpost.model.reason import Log
from fairpost.store import campaign_progress, campaigns
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.failpoints import failpoint

LOOK_S = 2.0
COUNTING_S_MAX = 1.0  # time limit for one commit
REVISE_EVERY_S = 60.0
COST_MAX = 0.01  # maximum fraction of time spent on forecasts; slow forecasts are revised less often
TURN_S = 6 * SECONDS_MAX  # after this time, an engine that has reserved a forecast is considered dead
SAID_AGAIN_S = 600.0


class ProgressWatch:
    def __init__(self, store: Store, log: Log) -> None:
        self._store = store
        self._log = log
        self._said_s = float("-inf")

    async def run(self) -> None:
        await keep_stepping(self.step, every_s=LOOK_S, complain=self._complain)

    async def step(self) -> None:
        failpoint("before_count")
        await campaign_progress.count(self._store, seconds_max=COUNTING_S_MAX)
        failpoint("after_count")
        now = await self._store.now()
        for lacking in await campaign_progress.launched_without_forecast(self._store, now=now):
            await remember(self._store, await campaigns.campaign_by_id(self._store, lacking), now=now)
        while (campaign_id := await campaign_progress.take_turn(self._store, now=now, turn_s=TURN_S)) is not None:
            failpoint("after_turn")
            await self._revise(campaign_id, now)

    async def _revise(self, campaign_id: int, now: datetime) -> None:
        begun_s = clock.monotonic()
        campaign = await campaigns.campaign_by_id(self._store, campaign_id)
        written = await revised_forecast_of(self._store, campaign, now=now)
        failpoint("before_revision")
        every_s = max(REVISE_EVERY_S, (clock.monotonic() - begun_s) / COST_MAX)
        await campaign_progress.keep_revised_forecast(
            self._store, campaign, written, next_at=now + timedelta(seconds=every_s)
        )
        failpoint("after_revision")

    def _complain(self, error: Exception) -> None:
        if clock.monotonic() >= self._said_s + SAID_AGAIN_S:
            self._said_s = clock.monotonic()
            failed("campaign progress", error, self._log)
