"""Gives up mail that only one account may send, when that account has been suspended for too long.

Runs in every engine's orchestrator process. Several engines do the same at worst: what one has given up is gone for the next.
"""

import asyncio
from datetime import timedelta

from fairpost.model.reason import Log, Reason
from fairpost.store import pinned
from fairpost.store.store import Store
from fairpost.store.trouble import is_trouble

LOOK_S = 5.0
AT_ONCE = 500


class PatienceWatch:
    def __init__(self, store: Store, *, urgent: timedelta, bulk: timedelta, log: Log) -> None:
        self._store = store
        self._urgent, self._bulk = urgent, bulk
        self._log = log

    async def run(self) -> None:
        """Whatever goes wrong with one look, the next one comes: nobody else watches."""
        while True:
            is_busy = False
            try:
                is_busy = await self.step()
            except Exception as error:
                if not is_trouble(error):  # of which the orchestrator tells
                    self._log(Reason("task.failed", task="patience watch", error=f"{type(error).__name__}: {error}"))
            await asyncio.sleep(0 if is_busy else LOOK_S)

    async def step(self) -> bool:
        """True: there is more to do at once."""
        await pinned.set_patience(self._store, urgent=self._urgent, bulk=self._bulk)
        given_up = await pinned.give_up(self._store, most=AT_ONCE)
        if given_up:
            self._log(Reason("email.given_up", emails=given_up))
        return given_up == AT_ONCE
