"""Sees to it that every account with work has a worker, wakes those that sleep, and notices those that hang or die.

Has a process of its own, decides and talks, and never forks (supervisor.py does). Each `step` is one look at the
database; in between it sleeps until a NOTIFY, a message from a worker, or the next moment that matters.

When the database goes away, its workers wait, each with what it knows. When it is back, the engines first agree that nothing
is missing there (`_confirm`), and go on; what died meanwhile is told to the database then.
"""

import asyncio
import math
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, assert_never

from fairpost.engine.changes import AccountChanges
from fairpost.engine.channel import Channel, Lines, Message, encode
from fairpost.engine.doubts import resolve_doubts
from fairpost.engine.handover import clear_doubts
from fairpost.engine.process import AT_ONCE, WorkerOptions
from fairpost.engine.steps import Steps
from fairpost.model.account import AccountRuntime, Lease
from fairpost.model.errors import DatabaseUnavailable, Outgrown
from fairpost.model.ids import AccountId, Epoch
from fairpost.model.reason import Log, Reason
from fairpost.policy.placement import Plan, plan
from fairpost.policy.restored import ACCOUNTS_NAMED_MAX, GUARD, Missing, signs_of, why_paused, why_waiting
from fairpost.store.blocks import blocked_for_all
from fairpost.store.connections import connect
from fairpost.store.migrations import require_known
from fairpost.store.outage import Outage
from fairpost.store.store import Store
from fairpost.store.trouble import DRIVER_ERRORS
from fairpost.system import clock
from fairpost.system.pause import Pause
from fairpost.system.vitals import vitals_of

AFTER_WAKING_S = 0.05
LOOK_S = 1.0  # unless set otherwise: the net under everything that should have told us
LOOK_S_MAX = 2.0  # other engines count on one that was here in the last five seconds
BEAT_S_MAX = 30.0  # a worker that says nothing for so long hangs
STUCK_S_MAX = 900.0  # busy, and not an e-mail further: five minutes beyond the longest that a server is waited for
REAP_S = 5.0
FAULTS_MAX = 10  # in a row, over all engines, without an e-mail sent in between
FAULT_REST_S_MAX = 60.0
END_S_MAX = 25.0
# How a process ends for which no account is to blame: in good order, told to end, or without its orchestrator.
BLAMELESS_CODES = (0, AT_ONCE, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)
TRY_AGAIN_S = 0.25  # a database that does not answer, or is not confirmed
AFTER_TROUBLE_S = 5.0  # so long after it, those who held an account may take it up before others take it over


@dataclass(slots=True)
class WorkerHandle:
    """A worker process."""

    pid: int
    channel: Channel
    heard_s: float
    accounts: set[AccountId] = field(default_factory=set)
    moved: dict[AccountId, tuple[int, float]] = field(default_factory=dict)  # e-mails handled, and since when so many
    is_finishing: bool = False


@dataclass(frozen=True, slots=True)
class Dead:
    """An account's worker that is no more; of its lease the epoch, if it had one. `is_fault`: the account may be the cause, if
    `is_alone` in its process, or if it was sending."""

    account_id: AccountId
    epoch: Epoch | None
    is_fault: bool
    is_alone: bool


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
        self._nursery = supervisor
        self._processes_max = processes_max
        self._look_s = min(look_s, LOOK_S_MAX)
        self._log = log
        self._lines = Lines()
        self._fds: list[int] = []
        self._hands: dict[int, WorkerHandle] = {}
        self._ours: dict[AccountId, bool] = {}  # is it idle?
        self._at_rest: set[AccountId] = set()  # idle, and free to send at once
        self._asked: list[set[AccountId]] = []  # accounts for processes that are being forked
        self._routes: dict[AccountId, set[str]] = {}
        self._names: dict[AccountId, str] = {}
        self._changes = AccountChanges(options.owner)
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._is_ending = False
        self._outgrown: Outgrown | None = None
        self._reaped_s = 0.0
        self._epochs: dict[AccountId, Epoch] = {}  # of the leases that our workers hold
        self._put_off_until_s: dict[AccountId, tuple[Pause, float]] = {}
        self._held_up: set[AccountId] = set()  # their workers are gone, and not yet proven dead
        self.has_said_goodbye = False
        self._lost_hands: dict[int, list[Dead]] = {}  # of processes that are gone, and not yet proven dead
        self._dead: list[Dead] = []  # of whom the database does not know yet
        self._steps = Steps(options.steps)
        self._is_confirmed = False  # by this engine, since the database was last in trouble
        self._is_fresh = False  # just confirmed, and not looked at since
        self._away_since_s: float | None = None  # in trouble; None: it answers
        self._back_s = float("-inf")  # when it answered again
        self._said: Reason | None = None  # about the database, lately
        self._to_ask: list[AccountId] = []  # their providers, about e-mails in doubt
        self._outage = Outage(log)

    # ── the loop ──────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.end)
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

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """While this lasts, what the supervisor says of workers is heard."""
        self._nursery.setblocking(False)
        self._loop.add_reader(self._nursery, self._on_supervisor)
        try:
            yield
        finally:
            self._loop.remove_reader(self._nursery)

    def end(self) -> None:
        self._is_ending = True
        self._news.set()

    async def _say_goodbye(self) -> bool:
        """Whether the database knows that this engine is gone, and has freed what its workers could not give back. One that was
        asked about the server and has not answered leaves that to the next engine on this machine."""
        if not self._is_confirmed:
            return False
        try:
            if not self._hands:
                await self._store.bury_engine(self._options.owner)
            await self._store.engine_gone(self._options.owner)
        except (DatabaseUnavailable, *DRIVER_ERRORS):
            return False
        return True

    async def _step_or_rest(self) -> float:
        try:
            wait_s = await self.step()
        except Outgrown as error:  # what is under way is finished, and nothing begun
            self._outgrown = error
            self.end()
            return 0.0
        except (DatabaseUnavailable, *DRIVER_ERRORS) as error:
            self._is_confirmed = False
            if self._away_since_s is None:
                self._away_since_s = clock.monotonic()
            self._outage.met(error)
            return TRY_AGAIN_S
        return wait_s

    def _answers(self) -> None:
        """It did not, and now it does."""
        if self._away_since_s is not None:
            self._away_since_s, self._back_s = None, clock.monotonic()
            self._said = None
            self._outage.over()

    def _say_once(self, event: Reason) -> None:
        if event != self._said:
            self._said = event
            self._log(event)

    @property
    def _is_after_trouble(self) -> bool:
        return self._away_since_s is not None or clock.monotonic() < self._back_s + AFTER_TROUBLE_S

    async def step(self) -> float:
        """One look; how long to wait for the next, if nothing happens."""
        self._kill_the_hanging()
        require_known(await self._store.newest_migration())
        # Before it is noted that this engine is here: the engines that are asked are those of the database's last minute.
        is_known = await self._store.ask_about_server()
        self._answers()
        if not (is_known and self._is_confirmed) and not await self._confirm():
            await self._store.engine_here(self._options.owner, asleep=False)
            return TRY_AGAIN_S
        await self._reclaim_dead()
        if clock.monotonic() > self._reaped_s + REAP_S:
            self._reaped_s = clock.monotonic()
            if not self._is_after_trouble and await self._store.reap_leases():
                await self._clear_doubts()
            for account_id in await self._store.accounts_in_doubt():
                await resolve_doubts(self._store, account_id)
            self._to_ask = await self._store.accounts_to_ask()
            await self._store.engine_uses(self._options.owner, vitals_of([os.getpid(), os.getppid(), *self._hands]))
        # Asleep first, look after: whoever enqueues in between either wakes us or is seen.
        engines = await self._store.engine_here(self._options.owner, asleep=self._has_time())
        routes = await self._store.routes_with_work()
        found = await self._store.runtimes()
        accounts = [each for each in found if each.account.transport is not None]
        self._names = {each.account.id: each.account.name for each in found}
        for event in self._changes.seen(accounts):
            self._log(event)
        self._routes = {each.account.id: {each.account.pool, f"@{each.account.name}"} for each in accounts}
        if self._is_fresh:
            self._is_fresh = False
            self._forget_removed({each.account.id for each in found})
        now = clock.now()
        planned = plan(
            accounts,
            {route.route for route in routes if route.due}
            | {f"@{each.account.name}" for each in accounts if each.account.id in self._to_ask},
            ours=self._ours,
            driven={each.account.id for each in accounts if self._is_driven(each)},
            barred=[
                *self._held_up,
                *(id_ for id_, (_, until_s) in self._put_off_until_s.items() if clock.monotonic() < until_s),
                *(each.account.id for each in accounts if _rests_after_deaths(each, now)),
                *await blocked_for_all(self._store),
            ],
            engines=engines,
            places=self._places(),
            now=now,
        )
        self._carry_out(planned)
        moments = [route.next_at for route in routes if route.next_at] + ([planned.next_at] if planned.next_at else [])
        ahead_s = (min(moments) - now).total_seconds() if moments else math.inf
        return max(0.0, min(self._look_s, ahead_s))

    def _name_of(self, account_id: AccountId) -> str:
        return self._names.get(account_id, str(account_id))

    def _is_driven(self, runtime: AccountRuntime) -> bool:
        """After trouble of the database also by one whose lease has run out: it may take it up."""
        return runtime.is_driven() or (self._is_after_trouble and runtime.owner is not None)

    def _has_time(self) -> bool:
        return not self._ours or any(self._ours.values()) or len(self._ours) < len(self._routes)

    def _places(self) -> int:
        return self._processes_max * self._options.accounts_max

    def _carry_out(self, planned: Plan) -> None:
        for account_id in planned.wake:
            self._tell(account_id, {"wake": account_id})
        for account_id in planned.let_go:
            self._tell(account_id, {"finish": account_id})
        for account_id in planned.start:
            self._start(account_id)

    async def _let_all_finish(self) -> None:
        """A worker ends at once when we are gone: so we go last."""
        for hand in self._hands.values():
            hand.channel.send({"finish": None})
        deadline_s = clock.monotonic() + END_S_MAX
        while (self._hands or self._asked) and (left_s := deadline_s - clock.monotonic()) > 0:
            self._news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), left_s)

    # ── workers ───────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, account_id: AccountId) -> None:
        """Into a process with room, or a new one."""
        self._ours[account_id] = False
        room = self._options.accounts_max
        for hand in self._hands.values():
            if len(hand.accounts) < room and not hand.is_finishing and room > 1:
                hand.accounts.add(account_id)
                hand.channel.send({"drive": account_id})
                return
        for accounts in self._asked:
            if len(accounts) < room:
                accounts.add(account_id)
                return
        self._asked.append({account_id})
        self._nursery.sendall(encode({"fork": len(self._asked), "url": self._options.url}))

    def _tell(self, account_id: AccountId, message: Message) -> None:
        for hand in self._hands.values():
            if account_id in hand.accounts:
                hand.channel.send(message)

    def _on_supervisor(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._nursery, 65_536, 64)
        except BlockingIOError:
            return
        if not data:
            os._exit(1)  # the parent of all is gone: so are we
        self._fds += fds
        for message in self._lines.feed(data):
            if "forked" in message:
                sock = socket.socket(fileno=self._fds.pop(0))
                accounts = self._asked.pop(0)
                asyncio.get_running_loop().create_task(self._attach(message["pid"], sock, accounts)).add_done_callback(
                    _raise
                )
            elif "exited" in message:
                self._exited(message["exited"], message["code"])

    async def _attach(self, pid: int, sock: socket.socket, accounts: set[AccountId]) -> None:
        channel = await Channel.over(sock, lambda message: self._on_message(pid, message), lambda: self._lost(pid))
        self._hands[pid] = WorkerHandle(pid, channel, clock.monotonic(), accounts)
        for account_id in accounts:
            channel.send({"drive": account_id})
        if self._is_ending:
            channel.send({"finish": None})

    def _on_message(self, pid: int, message: Message) -> None:
        hand = self._hands.get(pid)
        if hand is None:
            return
        hand.heard_s = clock.monotonic()
        match message:
            case {"beat": list(counts)}:
                for account_id, handled in counts:
                    if hand.moved.get(account_id, (-1, 0.0))[0] != handled or self._ours.get(account_id):
                        hand.moved[account_id] = (handled, hand.heard_s)
            case {"account": int(id_), "idle": bool(is_idle), "until": until}:
                was_idle, self._ours[AccountId(id_)] = self._ours.get(AccountId(id_)), is_idle
                (self._at_rest.add if is_idle and until is None else self._at_rest.discard)(AccountId(id_))
                if is_idle and not was_idle:  # else one that is woken and finds nothing would have us look for ever
                    self._news.set()
            case {"holds": int(id_), "epoch": int(epoch)}:
                self._epochs[AccountId(id_)] = Epoch(epoch)
                self._put_off_until_s.pop(AccountId(id_), None)
            case {"ended": int(id_), "why": str(why), "fault": bool(is_fault), **more}:
                if more.get("trouble"):
                    self._put_off(AccountId(id_))
                self._ended(hand, AccountId(id_), why, is_fault, more.get("unreleased"))

    def _put_off(self, account_id: AccountId) -> None:
        """Its worker did not get to the database, though we do: another try is not worth a process at once."""
        pause, _ = self._put_off_until_s.get(account_id, (Pause(), 0.0))
        self._put_off_until_s[account_id] = pause, clock.monotonic() + pause.next_s()

    def _ended(
        self, hand: WorkerHandle, account_id: AccountId, why: str, is_fault: bool, unreleased: Epoch | None
    ) -> None:
        hand.accounts.discard(account_id)
        self._forget(account_id)
        if is_fault:
            self._log(Reason("worker.failed", account=self._name_of(account_id), why=why))
        if is_fault or unreleased is not None:
            self._dead.append(Dead(account_id, unreleased, is_fault, is_alone=True))
        if not hand.accounts and not hand.is_finishing:
            hand.is_finishing = True
            hand.channel.send({"finish": None})
        self._news.set()

    def _lost(self, pid: int) -> None:
        """The process is gone; with it the accounts it had not given back."""
        hand = self._hands.pop(pid, None)
        if hand is not None:
            is_alone = len(hand.accounts) == 1
            self._lost_hands[pid] = [Dead(id_, self._epochs.get(id_), True, is_alone) for id_ in hand.accounts]
            for account_id in hand.accounts:
                self._forget(account_id)
                self._held_up.add(account_id)
        self._news.set()

    def _forget(self, account_id: AccountId) -> None:
        self._ours.pop(account_id, None)
        self._at_rest.discard(account_id)
        self._epochs.pop(account_id, None)

    def _exited(self, pid: int, code: int) -> None:
        if code:
            self._log(Reason("worker.ended", pid=str(pid), code=code))
        self._lost(pid)
        dead = self._lost_hands.pop(pid, [])
        self._held_up -= {each.account_id for each in dead}
        is_fault = code not in BLAMELESS_CODES and not self._is_after_trouble
        self._dead += [replace(each, is_fault=is_fault) for each in dead]

    async def _reclaim_dead(self) -> None:
        """They are dead for certain: their deaths are counted, and nobody needs to wait until their leases run out."""
        if not self._dead:
            return
        while self._dead:
            dead = self._dead[0]
            if dead.is_fault:
                await self._store.worker_died(
                    *(dead.account_id, dead.epoch), is_alone=dead.is_alone, deaths_max=FAULTS_MAX
                )
                self._dead[0] = replace(dead, is_fault=False)
            if dead.epoch is not None:
                await self._store.drop_lease(Lease(account_id=dead.account_id, epoch=dead.epoch, until=clock.now()))
            self._dead.pop(0)
        await self._clear_doubts()

    async def _clear_doubts(self) -> None:
        if cut := await clear_doubts(self._store, self._options.notes):
            self._log(Reason("email.put_back", emails=cut))

    # ── another server, or the same one after a restart ───────────────────────────────────────────────────

    async def _confirm(self) -> bool:
        """Compares what this machine knows to be committed with what this server knows. True: all engines agree that nothing
        is missing, and mail may go out."""
        self._steps.follow(await self._store.current_life())
        known = {each.account_id: each for each in self._steps.known()}
        answer = await self._store.confirm_server(
            self._options.owner,
            life=self._steps.life,
            steps={id_: each.step for id_, each in known.items()},
        )
        match answer.verdict:
            case "confirmed":
                self._is_confirmed = self._is_fresh = True
                if answer.waits_for:
                    self._log(Reason("database.restarted", engines=answer.waits_for))
                for account_id in self._ours:
                    self._tell(account_id, {"wake": account_id})
                return True
            case "waiting":
                self._say_once(Reason("database.unconfirmed", engines=answer.waits_for))
            case "behind":
                names = {each.id: each.name for each in await self._store.accounts()}
                missing = [
                    Missing(
                        account=names.get(id_, f"account {id_}"),
                        steps=known[id_].step - step,
                        emails=known[id_].since(step),
                    )
                    for id_, step in answer.behind.items()
                ]
                reason = why_paused(signs_of(missing))
                await self._store.pause_restored(reason, GUARD, life=self._steps.life)
                self._say_once(Reason("database.behind", why=reason))
            case "silent":
                accounts = await self._store.accounts_of_engines(answer.waits_for)
                reason = why_waiting(answer.waits_for, accounts[:ACCOUNTS_NAMED_MAX])
                await self._store.pause_for_engines(reason, GUARD, answer.waits_for)
                self._say_once(Reason("database.engines_missing", engines=answer.waits_for, why=reason))
            case _:
                assert_never(answer.verdict)
        return False

    def _forget_removed(self, accounts: set[AccountId]) -> None:
        """Of accounts that a confirmed database no longer has, nothing is remembered."""
        self._steps.forget(each.account_id for each in self._steps.known() if each.account_id not in accounts)

    def _kill_the_hanging(self) -> None:
        now_s = clock.monotonic()
        for hand in list(self._hands.values()):
            stuck = [id_ for id_ in hand.accounts if now_s > hand.moved.get(id_, (0, now_s))[1] + STUCK_S_MAX]
            if now_s <= hand.heard_s + BEAT_S_MAX and not stuck:
                continue
            if stuck:
                self._log(Reason("worker.stuck", pid=str(hand.pid), account=self._name_of(stuck[0])))
            else:
                self._log(Reason("worker.silent", pid=str(hand.pid), silent_s=BEAT_S_MAX))
            with suppress(ProcessLookupError):
                os.kill(hand.pid, signal.SIGKILL)

    # ── being woken ───────────────────────────────────────────────────────────────────────────────────────

    async def _listen(self) -> None:
        """A connection of its own, opened again whenever it is lost."""
        while True:
            with suppress(*DRIVER_ERRORS):
                conn = await connect(self._options.url)
                lost = asyncio.Event()
                conn.add_termination_listener(lambda _, lost=lost: lost.set())
                await conn.add_listener("fairpost", lambda *notified: self.notified(notified[-1]))
                await lost.wait()
            await asyncio.sleep(LOOK_S)

    def notified(self, route: str) -> None:
        """Something has arrived. One worker that sleeps on this route is woken directly: more would wait for each other.
        The look a moment later wakes or starts others if there is still something."""
        ready = [id_ for id_, routes in self._routes.items() if route in routes and id_ in self._at_rest]
        if ready:
            self._at_rest.discard(ready[0])
            self._tell(ready[0], {"wake": ready[0]})
            self._loop.call_later(AFTER_WAKING_S, self._news.set)
        else:
            self._news.set()


def _rests_after_deaths(runtime: AccountRuntime, now: datetime) -> bool:
    if not runtime.deaths or runtime.died_at is None:
        return False
    return now < runtime.died_at + timedelta(seconds=min(FAULT_REST_S_MAX, 0.25 * 2 ** min(runtime.deaths, 20)))


def _raise(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and task.exception() is not None:
        raise task.exception()  # type: ignore[misc]
