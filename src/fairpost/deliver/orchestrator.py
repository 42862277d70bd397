"""Sees to it that every account with work has a worker, wakes those that sleep, and notices those that hang or die.

Runs as the mind of an engine: it thinks and talks, and never forks (nursery.py does). Each `step` is one look at the
database; in between it sleeps until a NOTIFY, a word from a worker, or the next moment that matters.
"""

import asyncio
import math
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from fairpost.deliver.channel import Channel, Lines, Word, encode
from fairpost.deliver.doubts import resolve_doubts
from fairpost.deliver.handover import clear_doubts
from fairpost.deliver.process import WorkerOptions
from fairpost.model.account import Lease
from fairpost.model.errors import Outgrown
from fairpost.model.ids import AccountId, Epoch
from fairpost.policy.placement import Plan, Seen, plan
from fairpost.postgres.blocks import blocked_for_all
from fairpost.postgres.migrations import require_known
from fairpost.postgres.store import Store
from fairpost.system import clock
from fairpost.system.vitals import vitals_of

AFTER_WAKING_S = 0.05
LOOK_S = 1.0  # unless set otherwise: the net under everything that should have told us
LOOK_S_MAX = 2.0  # other engines count on one that was here in the last five seconds
BEAT_S_MAX = 30.0  # a worker that says nothing for so long hangs
STUCK_S_MAX = 900.0  # busy, and not an e-mail further: five minutes beyond the longest that a server is waited for
REAP_S = 5.0
FAULTS_MAX = 10  # in a row, without an e-mail sent in between
FAULT_REST_S_MAX = 60.0
END_S_MAX = 25.0


@dataclass(slots=True)
class Hand:
    """A worker process."""

    pid: int
    channel: Channel
    heard_s: float
    accounts: set[AccountId] = field(default_factory=set)
    moved: dict[AccountId, tuple[int, float]] = field(default_factory=dict)  # e-mails handled, and since when so many
    is_finishing: bool = False


@dataclass(slots=True)
class Faults:
    count: int = 0
    until_s: float = 0.0


class Orchestrator:
    def __init__(
        self,
        store: Store,
        options: WorkerOptions,
        nursery: socket.socket,
        *,
        processes_max: int,
        look_s: float = LOOK_S,
        log: Callable[[str], None],
    ) -> None:
        self._store = store
        self._options = options
        self._nursery = nursery
        self._processes_max = processes_max
        self._look_s = min(look_s, LOOK_S_MAX)
        self._log = log
        self._lines = Lines()
        self._fds: list[int] = []
        self._hands: dict[int, Hand] = {}
        self._ours: dict[AccountId, bool] = {}  # is it idle?
        self._at_rest: set[AccountId] = set()  # idle, and free to send at once
        self._asked: list[set[AccountId]] = []  # accounts for processes that are being forked
        self._faults: dict[AccountId, Faults] = {}
        self._routes: dict[AccountId, set[str]] = {}
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._is_ending = False
        self._outgrown: Outgrown | None = None
        self._reaped_s = 0.0
        self._epochs: dict[AccountId, Epoch] = {}  # of the leases that our workers hold
        self._lost_leases: dict[int, list[Lease]] = {}  # of processes that are gone, and not yet proven dead
        self._to_ask: list[AccountId] = []  # their providers, about e-mails in doubt

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
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await self._store.engine_gone(self._options.owner)
        if self._outgrown is not None:
            raise self._outgrown

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """While this lasts, what the nursery says of workers is heard."""
        self._nursery.setblocking(False)
        self._loop.add_reader(self._nursery, self._hear_nursery)
        try:
            yield
        finally:
            self._loop.remove_reader(self._nursery)

    def end(self) -> None:
        self._is_ending = True
        self._news.set()

    async def _step_or_rest(self) -> float:
        try:
            return await self.step()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            self._log(f"the database does not answer: {error or type(error).__name__}")
            return LOOK_S
        except Outgrown as error:  # what is under way is finished, and nothing begun
            self._outgrown = error
            self.end()
            return 0.0

    async def step(self) -> float:
        """One look; how long to wait for the next, if nothing happens."""
        self._kill_the_hanging()
        require_known(await self._store.newest_migration())
        if clock.monotonic() > self._reaped_s + REAP_S:
            self._reaped_s = clock.monotonic()
            if await self._store.reap_leases():
                await self._clear_doubts()
            for account_id in await self._store.accounts_in_doubt():
                await resolve_doubts(self._store, account_id)
            self._to_ask = await self._store.accounts_to_ask()
            await self._store.engine_uses(self._options.owner, vitals_of([os.getpid(), os.getppid(), *self._hands]))
        # Asleep first, look after: whoever enqueues in between either wakes us or is seen.
        engines = await self._store.engine_here(self._options.owner, asleep=self._has_time())
        routes = await self._store.routes_with_work()
        stations = [s for s in await self._store.stations() if s.account.transport is not None]
        self._routes = {s.account.id: {s.account.pool, f"@{s.account.name}"} for s in stations}
        now = clock.now()
        planned = plan(
            [Seen(s.account, s.is_driven, s.is_outdated) for s in stations],
            {route.route for route in routes if route.due}
            | {f"@{s.account.name}" for s in stations if s.account.id in self._to_ask},
            ours=self._ours,
            barred=[
                *(id_ for id_, faults in self._faults.items() if clock.monotonic() < faults.until_s),
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
            hand.channel.say({"finish": None})
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
                hand.channel.say({"drive": account_id})
                return
        for accounts in self._asked:
            if len(accounts) < room:
                accounts.add(account_id)
                return
        self._asked.append({account_id})
        self._nursery.sendall(encode({"fork": len(self._asked), "url": self._options.url}))

    def _tell(self, account_id: AccountId, word: Word) -> None:
        for hand in self._hands.values():
            if account_id in hand.accounts:
                hand.channel.say(word)

    def _hear_nursery(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._nursery, 65_536, 64)
        except BlockingIOError:
            return
        if not data:
            os._exit(1)  # the parent of all is gone: so are we
        self._fds += fds
        for word in self._lines.feed(data):
            if "forked" in word:
                sock = socket.socket(fileno=self._fds.pop(0))
                accounts = self._asked.pop(0)
                asyncio.get_running_loop().create_task(self._greet(word["pid"], sock, accounts)).add_done_callback(
                    _raise
                )
            elif "exited" in word:
                self._exited(word["exited"], word["code"])

    async def _greet(self, pid: int, sock: socket.socket, accounts: set[AccountId]) -> None:
        channel = await Channel.over(sock, lambda word: self._hear(pid, word), lambda: self._lost(pid))
        self._hands[pid] = Hand(pid, channel, clock.monotonic(), accounts)
        for account_id in accounts:
            channel.say({"drive": account_id})
        if self._is_ending:
            channel.say({"finish": None})

    def _hear(self, pid: int, word: Word) -> None:
        hand = self._hands.get(pid)
        if hand is None:
            return
        hand.heard_s = clock.monotonic()
        match word:
            case {"beat": list(counts)}:
                for account_id, handled in counts:
                    if hand.moved.get(account_id, (-1, 0.0))[0] != handled or self._ours.get(account_id):
                        hand.moved[account_id] = (handled, hand.heard_s)
            case {"account": int(id_), "idle": bool(is_idle), "until": until, "sent": int(sent)}:
                was_idle, self._ours[AccountId(id_)] = self._ours.get(AccountId(id_)), is_idle
                (self._at_rest.add if is_idle and until is None else self._at_rest.discard)(AccountId(id_))
                if sent:
                    self._faults.pop(AccountId(id_), None)
                if is_idle and not was_idle:  # else one that is woken and finds nothing would have us look for ever
                    self._news.set()
            case {"holds": int(id_), "epoch": int(epoch)}:
                self._epochs[AccountId(id_)] = Epoch(epoch)
            case {"ended": int(id_), "why": str(why), "fault": bool(is_fault)}:
                self._ended(hand, AccountId(id_), why, is_fault)

    def _ended(self, hand: Hand, account_id: AccountId, why: str, is_fault: bool) -> None:
        hand.accounts.discard(account_id)
        self._forget(account_id)
        if is_fault:
            self._log(f"account {account_id}: {why}")
            self._blame(account_id)
        if not hand.accounts and not hand.is_finishing:
            hand.is_finishing = True
            hand.channel.say({"finish": None})
        self._news.set()

    def _lost(self, pid: int) -> None:
        """The process is gone; with it the accounts it had not given back."""
        hand = self._hands.pop(pid, None)
        if hand is not None:
            self._lost_leases[pid] = [
                Lease(account_id=id_, epoch=self._epochs[id_], until=clock.now())
                for id_ in hand.accounts
                if id_ in self._epochs
            ]
            for account_id in hand.accounts:
                self._forget(account_id)
                self._blame(account_id)
        self._news.set()

    def _forget(self, account_id: AccountId) -> None:
        self._ours.pop(account_id, None)
        self._at_rest.discard(account_id)
        self._epochs.pop(account_id, None)

    def _exited(self, pid: int, code: int) -> None:
        if code:
            self._log(f"worker {pid} ended with {code}")
        self._lost(pid)
        leases = self._lost_leases.pop(pid, [])
        if leases:
            self._loop.create_task(self._free(leases)).add_done_callback(_raise)

    async def _free(self, leases: list[Lease]) -> None:
        """Their worker is dead for certain: nobody needs to wait until they run out."""
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            for lease in leases:
                await self._store.drop_lease(lease)
            await self._clear_doubts()
        self._news.set()

    async def _clear_doubts(self) -> None:
        if cut := await clear_doubts(self._store, self._options.notes):
            self._log(f"left incomplete by workers that died, and tried again: {cut} e-mails")

    def _blame(self, account_id: AccountId) -> None:
        """Starts it again, each time later, and not for ever."""
        faults = self._faults.setdefault(account_id, Faults())
        faults.count += 1
        faults.until_s = clock.monotonic() + min(FAULT_REST_S_MAX, 0.25 * 2**faults.count)
        if faults.count >= FAULTS_MAX:
            reason = f"its worker died {faults.count} times in a row"
            asyncio.get_running_loop().create_task(self._store.suspend_crashing(account_id, reason)).add_done_callback(
                _raise
            )

    def _kill_the_hanging(self) -> None:
        now_s = clock.monotonic()
        for hand in list(self._hands.values()):
            stuck = [id_ for id_ in hand.accounts if now_s > hand.moved.get(id_, (0, now_s))[1] + STUCK_S_MAX]
            if now_s <= hand.heard_s + BEAT_S_MAX and not stuck:
                continue
            why = f"has not moved on account {stuck[0]}" if stuck else f"has said nothing for {BEAT_S_MAX:.0f} s"
            self._log(f"worker {hand.pid} {why} and is killed")
            with suppress(ProcessLookupError):
                os.kill(hand.pid, signal.SIGKILL)

    # ── being woken ───────────────────────────────────────────────────────────────────────────────────────

    async def _listen(self) -> None:
        """A connection of its own, opened again whenever it is lost."""
        while True:
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                conn = await asyncpg.connect(self._options.url)
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


def _raise(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and task.exception() is not None:
        raise task.exception()  # type: ignore[misc]
