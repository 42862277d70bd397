"""Assigns each event its position so that the event can be read. Runs in every engine's orchestrator process, but only
one engine assigns positions at a time.
"""

from functools import partial

from fairpost.maintenance.loop import failed, keep_stepping
from fairpost.model.reason import Log
from fairpost.store.events import take_turn
from fairpost.store.store import Store

EVERY_S = 1.0


class EventWatch:
    def __init__(self, store: Store, log: Log) -> None:
        self._store = store
        self._log = log

    async def run(self) -> None:
        await keep_stepping(self.step, every_s=EVERY_S, complain=partial(failed, "events", log=self._log))

    async def step(self) -> None:
        await take_turn(self._store)
