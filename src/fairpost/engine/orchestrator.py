"""Ensure that every account with work has a worker, and that worker deaths are recorded in the database.

The orchestrator has its own process. The orchestrator decides and communicates, but never forks processes
(supervisor.py does that). Each `step` is one check of the database. Between two steps, the orchestrator sleeps until a
NOTIFY, a message from a worker, or the next relevant moment.

When the database is unavailable, the workers wait and keep their state. When the database is back, the engines first
agree that nothing is missing (confirm.py), and then continue. Worker deaths that occurred in the meantime are then
reported to the database.
"""

import asyncio
import math
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fairpost.engine.changes import AccountChanges
from fairpost.engine.confirm import KnownServer
from fairpost.engine.doubts import resolve_doubts
from fairpost.engine.fleet import Fleet
from fairpost.engine.handover import clear_doubts
from fairpost.engine.process import WorkerOptions
from fairpost.model.account import Account, AccountRuntime, Lease
from fairpost.model.errors import DatabaseUnavailable, Outgrown
from fairpost.model.reason import Log, Reason
from fairpost.policy.packing import SHARED_MAX
from fairpost.policy.placement import Plan, plan
from fairpost.store.blocks import blocked_for_all
from fairpost.store.connections import connect, probe
from fairpost.store.migrations import require_known
from fairpost.store.store import Store
from fairpost.store.trouble import DRIVER_ERRORS
from fairpost.system import clock
from fairpost.system.vitals import vitals_of

if TYPE_CHECKING:
    import asyncpg

    from fairpost.model.ids import AccountId

AFTER_WAKING_S = 0.05
LOOK_S = 1.0  # default; finds work for which no notification arrived
LOOK_S_MAX = 2.0  # other engines consider an engine alive if it reported in the last five seconds
REAP_S = 5.0
FAULTS_MAX = 10  # consecutive deaths, across all engines, with no e-mail sent in between
FAULT_REST_S_MAX = 60.0
END_S_MAX = 25.0
LISTENER_S = 15.0
TRY_AGAIN_S = 0.25  # time between checks if the database is not responding or is not confirmed


class Orchestrator:
    def __init__(
        self,
        store: Store,
        options: WorkerOptions,
        supervisor: socket.socket,
        *,
        processes_max: int,
        look_s: float = LOOK_S,
        log: Log,
    ) -> None:
        self._store = store
        self._options = options
        self._places = processes_max * (options.accounts_max or SHARED_MAX)
        self._look_s = min(look_s, LOOK_S_MAX)
        self._log = log
        self._news = asyncio.Event()
        self._server = KnownServer(store, options, log)
        self._fleet = Fleet(
            *(supervisor, options),
            processes_max=processes_max,
            on_news=self._news.set,
            is_excused=lambda: self._server.is_after_trouble,
            log=log,
        )
        self._routes: dict[AccountId, set[str]] = {}
        self._accounts: dict[AccountId, Account] = {}
        self._changes = AccountChanges(options.owner)
        self._is_ending = False
        self._outgrown: Outgrown | None = None
        self._reaped_s = 0.0
        self._to_ask: list[AccountId] = []  # accounts whose providers must be asked about e-mails in doubt
        self.has_said_goodbye = False

    # ── the loop ──────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.end)
        with self.hearing():
            listener = asyncio.create_task(self._listen()) if not self._options.poll_only else None
            while not self._is_ending:
                self._news.clear()
                wait_s = await self._step_or_rest()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), wait_s)
            if listener is not None:
                listener.cancel()
            await self._let_all_finish()
        self.has_said_goodbye = await self._say_goodbye()
        if self._outgrown is not None:
            raise self._outgrown

    def hearing(self) -> AbstractContextManager[None]:
        return self._fleet.hearing()

    def end(self) -> None:
        self._is_ending = True
        self._news.set()

    async def _let_all_finish(self) -> None:
        """Wait for all workers. Workers end as soon as the orchestrator is gone, so the orchestrator ends last."""
        self._fleet.finish()
        deadline_s = clock.monotonic() + END_S_MAX
        while not self._fleet.is_gone and (left_s := deadline_s - clock.monotonic()) > 0:
            self._news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), left_s)

    async def _say_goodbye(self) -> bool:
        """Deregister this engine. Return whether the database has released the leases that this engine's
        workers could not release.

        If the engine was asked about the server and has not answered, it leaves the answer to the next engine on this
        machine.
        """
        if not self._server.is_confirmed:
            return False
        try:
            if not self._fleet.pids:
                await self._store.reclaim_engine(self._options.owner)
            await self._store.engine_gone(self._options.owner)
        except (DatabaseUnavailable, *DRIVER_ERRORS):
            return False
        return True

    async def _step_or_rest(self) -> float:
        try:
            return await self.step()
        except Outgrown as error:  # sends in progress may finish, but no others begin
            self._outgrown = error
            self.end()
            return 0.0
        except (DatabaseUnavailable, *DRIVER_ERRORS) as error:
            self._server.met(error)
            return TRY_AGAIN_S

    # ── one check ─────────────────────────────────────────────────────────────────────────────────────────

    async def step(self) -> float:
        """Check once, and return how long to wait before the next check if nothing happens."""
        self._fleet.kill_the_hanging()
        require_known(await self._store.newest_migration())
        if not await self._knows_server():
            await self._store.engine_here(self._options.owner, asleep=False)
            return TRY_AGAIN_S
        await self._reclaim_dead()
        if clock.monotonic() > self._reaped_s + REAP_S:
            self._reaped_s = clock.monotonic()
            await self._reap()
        # Announce sleep before checking: an e-mail that is enqueued in between either wakes this process or is seen by
        # the check.
        engines = await self._store.engine_here(self._options.owner, asleep=self._has_time())
        routes = await self._store.routes_with_work()
        accounts = await self._look_at_accounts()
        now = clock.now()
        planned = await self._plan(accounts, {each.route for each in routes if each.due}, engines=engines, now=now)
        self._carry_out(planned)
        moments = [each for each in (planned.next_at, *(route.next_at for route in routes)) if each]
        ahead_s = (min(moments) - now).total_seconds() if moments else math.inf
        return max(0.0, min(self._look_s, ahead_s))

    async def _knows_server(self) -> bool:
        """Return whether the server is confirmed. Called before this engine is registered, because all engines
        registered within the last minute are asked.
        """
        is_known = await self._store.ask_about_server()
        self._server.answers()
        if is_known and self._server.is_confirmed:
            return True
        if not await self._server.confirm():
            return False
        self._fleet.wake(*self._fleet.ours)
        return True

    async def _reclaim_dead(self) -> None:
        """Count the workers that are certainly dead, and release their leases immediately."""
        waiting = self._fleet.dead
        if not waiting:
            return
        while waiting:
            dead = waiting[0]
            if dead.is_fault:
                await self._store.worker_died(dead.account_id, deaths_max=FAULTS_MAX)
                waiting[0] = replace(dead, is_fault=False)
            if dead.epoch is not None:
                await self._store.drop_lease(Lease(account_id=dead.account_id, epoch=dead.epoch, until=clock.now()))
            waiting.pop(0)
        await self._clear_doubts()

    async def _reap(self) -> None:
        if not self._server.is_after_trouble and await self._store.reap_leases():
            await self._clear_doubts()
        await resolve_doubts(self._store)
        self._to_ask = await self._store.accounts_to_ask()
        await self._store.engine_uses(self._options.owner, vitals_of([os.getpid(), os.getppid(), *self._fleet.pids]))

    async def _clear_doubts(self) -> None:
        if cut := await clear_doubts(self._store, self._options.notes):
            self._log(Reason("email.put_back", emails=cut))

    async def _look_at_accounts(self) -> list[AccountRuntime]:
        """Return the accounts that have a server."""
        found = await self._store.runtimes()
        accounts = [each for each in found if each.account.transport is not None]
        self._fleet.names = {each.account.id: each.account.name for each in found}
        self._accounts = {each.account.id: each.account for each in accounts}
        self._routes = {each.account.id: {each.account.pool, f"@{each.account.name}"} for each in accounts}
        for event in self._changes.seen(accounts):
            self._log(event)
        self._server.forget_removed(self._fleet.names)
        return accounts

    async def _plan(self, accounts: Sequence[AccountRuntime], due: set[str], *, engines: int, now: datetime) -> Plan:
        """Decide which accounts to start. `due` contains the routes for which mail is waiting."""
        to_ask = {f"@{each.account.name}" for each in accounts if each.account.id in self._to_ask}
        after_deaths = [each.account.id for each in accounts if _rests_after_deaths(each, now)]
        return plan(
            accounts,
            due | to_ask,
            ours=self._fleet.ours,
            driven={each.account.id for each in accounts if self._is_driven(each)},
            barred=[*self._fleet.barred(), *after_deaths, *await blocked_for_all(self._store)],
            engines=engines,
            places=self._places,
            now=now,
        )

    def _is_driven(self, runtime: AccountRuntime) -> bool:
        """Return whether the account is driven.

        After a database outage, accounts whose leases have expired count as driven, too, because their workers may
        resume the leases.
        """
        return runtime.is_driven() or (self._server.is_after_trouble and runtime.owner is not None)

    def _has_time(self) -> bool:
        ours = self._fleet.ours
        return not ours or any(ours.values()) or len(ours) < len(self._routes)

    def _carry_out(self, planned: Plan) -> None:
        self._fleet.wake(*planned.wake)
        for account_id in planned.let_go:
            self._fleet.let_go(account_id)
        for account_id in planned.start:
            self._fleet.start(self._accounts[account_id])

    # ── notifications ─────────────────────────────────────────────────────────────────────────────────────

    async def _listen(self) -> None:
        """Listen for notifications on a separate connection, which is reopened whenever it is lost."""
        while True:
            with suppress(*DRIVER_ERRORS):
                await self._hear_notifications(await connect(self._options.url))
            await asyncio.sleep(LOOK_S)

    async def _hear_notifications(self, conn: "asyncpg.Connection") -> None:
        """Check now and then that the connection still works, because there may be no notification for a long time."""
        try:
            lost = asyncio.Event()
            conn.add_termination_listener(lambda _: lost.set())
            await conn.add_listener("fairpost", lambda *notified: self.notified(notified[-1]))
            while not lost.is_set():
                await probe(conn)
                with suppress(TimeoutError):
                    await asyncio.wait_for(lost.wait(), LISTENER_S)
        finally:
            conn.terminate()

    def notified(self, route: str) -> None:
        """Handle the arrival of mail by waking one sleeping worker of this route directly.

        If several workers were woken at once, they would wait for each other. The next check, a moment later, wakes or
        starts other workers if there is still work.
        """
        if self._fleet.wake_one(id_ for id_, routes in self._routes.items() if route in routes):
            asyncio.get_running_loop().call_later(AFTER_WAKING_S, self._news.set)
        else:
            self._news.set()


def _rests_after_deaths(runtime: AccountRuntime, now: datetime) -> bool:
    if not runtime.deaths or runtime.died_at is None:
        return False
    return now < runtime.died_at + timedelta(seconds=min(FAULT_REST_S_MAX, 0.25 * 2 ** min(runtime.deaths, 20)))
