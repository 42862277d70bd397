"""Check that the responding server has every commit that this machine knows of.

The engines must agree on this (sql/release/server.sql) for each new server, and again after any trouble with the
server. Until the engines have agreed, no e-mail is claimed and no send is started. If commits are missing, all mail is
paused until it is resumed manually.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import assert_never

from fairpost.engine.process import WorkerOptions
from fairpost.engine.steps import Known, Steps
from fairpost.model.ids import AccountId
from fairpost.model.reason import Log, Reason
from fairpost.policy.restored import ACCOUNTS_NAMED_MAX, GUARD, Missing, signs_of, why_paused, why_waiting
from fairpost.store.outage import Outage
from fairpost.store.store import Store
from fairpost.system import clock

AFTER_TROUBLE_S = 5.0  # after trouble, how long workers have to reclaim their accounts before others take over


class KnownServer:
    def __init__(self, store: Store, options: WorkerOptions, log: Log) -> None:
        self._store = store
        self._engine = options.owner
        self._steps = Steps(options.steps)
        self._log = log
        self._outage = Outage(log)
        self._is_away = False
        self._back_s = float("-inf")  # when the server started to respond again
        self._said: Reason | None = None  # the last message that was logged about the server
        self._is_fresh = False  # the server is confirmed, but its accounts are not checked yet
        self.is_confirmed = False  # confirmed by this engine since the last trouble

    def met(self, error: BaseException) -> None:
        """Record that the server is not responding."""
        self.is_confirmed, self._is_away = False, True
        self._outage.met(error)

    def answers(self) -> None:
        if self._is_away:
            self._is_away, self._back_s = False, clock.monotonic()
            self._said = None
            self._outage.over()

    @property
    def is_after_trouble(self) -> bool:
        return self._is_away or clock.monotonic() < self._back_s + AFTER_TROUBLE_S

    async def confirm(self) -> bool:
        """Return True if all engines agree that nothing is missing, so that e-mails may be sent."""
        self._steps.follow(await self._store.current_life())
        known = {each.account_id: each for each in self._steps.known()}
        steps = {id_: each.step for id_, each in known.items()}
        answer = await self._store.confirm_server(self._engine, life=self._steps.life, steps=steps)
        match answer.verdict:
            case "confirmed":
                self.is_confirmed = self._is_fresh = True
                if answer.waits_for:
                    self._log(Reason("database.restarted", engines=answer.waits_for))
            case "waiting":
                self._say_once(Reason("database.unconfirmed", engines=answer.waits_for))
            case "behind":
                await self._pause_restored(answer.behind, known)
            case "silent":
                await self._pause_for_engines(answer.waits_for)
            case _:
                assert_never(answer.verdict)
        return answer.verdict == "confirmed"

    async def _pause_restored(self, behind: Mapping[AccountId, int], known: Mapping[AccountId, Known]) -> None:
        names = {each.id: each.name for each in await self._store.accounts()}
        missing = [
            Missing(
                account=names.get(id_, f"account {id_}"), steps=known[id_].step - step, emails=known[id_].since(step)
            )
            for id_, step in behind.items()
        ]
        reason = why_paused(signs_of(missing))
        await self._store.pause_restored(reason, GUARD, life=self._steps.life)
        self._say_once(Reason("database.behind", why=reason))

    async def _pause_for_engines(self, engines: Sequence[str]) -> None:
        accounts = await self._store.accounts_of_engines(engines)
        reason = why_waiting(engines, accounts[:ACCOUNTS_NAMED_MAX])
        await self._store.pause_for_engines(reason, GUARD, engines)
        self._say_once(Reason("database.engines_missing", engines=engines, why=reason))

    def forget_removed(self, accounts: Collection[AccountId]) -> None:
        """Forget accounts that do not exist on a newly confirmed server."""
        if self._is_fresh:
            self._is_fresh = False
            self._steps.forget(each.account_id for each in self._steps.known() if each.account_id not in accounts)

    def _say_once(self, event: Reason) -> None:
        if event != self._said:
            self._said = event
            self._log(event)
