"""If an account has been suspended for too long, fail the mail that only this account may send.

Runs in every engine's orchestrator process. Several engines may do the same work without harm.
"""

from datetime import timedelta
from functools import partial

from fairpost.maintenance.loop import failed, keep_stepping
from fairpost.model.reason import Log, Reason
from fairpost.store import pinned
from fairpost.store.store import Store

LOOK_S = 5.0
AT_ONCE = 500


class PatienceWatch:
    def __init__(self, store: Store, *, urgent: timedelta, bulk: timedelta, log: Log) -> None:
        self._store = store
        self._urgent, self._bulk = urgent, bulk
        self._log = log

    async def run(self) -> None:
        complain = partial(failed, "patience watch", log=self._log)
        await keep_stepping(self.step, every_s=LOOK_S, complain=complain)

    async def step(self) -> bool:
        """Fail some mail. Return True if there is more to do immediately."""
        await pinned.set_patience(self._store, urgent=self._urgent, bulk=self._bulk)
        given_up = await pinned.give_up(self._store, most=AT_ONCE)
        if given_up:
            self._log(Reason("email.given_up", emails=given_up))
        return given_up == AT_ONCE
