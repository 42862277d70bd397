"""The worker processes of an engine: starting them, giving them accounts, handling their messages, and killing them if
they hang.

Tracks which accounts the workers drive, which of these accounts are idle, and which dead workers have not been recorded
in the database yet. The orchestrator makes all decisions about accounts and queries the database; this module does
neither.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from fairpost.engine.channel import Channel, Lines, Message, encode
from fairpost.engine.process import AT_ONCE, WorkerOptions
from fairpost.model.account import Account
from fairpost.model.ids import AccountId, Epoch
from fairpost.model.reason import Log, Reason
from fairpost.policy.packing import ALONE, MAILBOXES_ALONE_MAX, Place, place_of
from fairpost.system import clock, machine
from fairpost.system.pause import Pause

SUSPECT_EMAILS = 10  # after its shared process dies, an account sends this many e-mails alone before sharing one again
BEAT_S_MAX = 30.0  # a worker that is silent for this long is considered hung
# A worker is also considered hung if it is busy for this long without finishing an e-mail. This is five minutes more
# than the longest wait for a server.
STUCK_S_MAX = 900.0
# Exit codes that no account is to blame for: a normal exit, an exit on request, or the loss of the orchestrator.
BLAMELESS_CODES = (0, AT_ONCE, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)


@dataclass(slots=True)
class WorkerHandle:
    """A worker process."""

    pid: int
    channel: Channel
    heard_s: float
    accounts: set[AccountId] = field(default_factory=set)
    place: Place = ALONE
    moved: dict[AccountId, tuple[int, float]] = field(
        default_factory=dict
    )  # number of e-mails handled, and when this number last changed
    is_finishing: bool = False


@dataclass(frozen=True, slots=True)
class Dead:
    """An account's dead worker, with the epoch of its lease if it had one.

    `is_fault` means that the account may be the cause.
    """

    account_id: AccountId
    epoch: Epoch | None
    is_fault: bool


class Fleet:
    def __init__(
        self,
        supervisor: socket.socket,
        options: WorkerOptions,
        *,
        processes_max: int,
        on_news: Callable[[], None],
        is_excused: Callable[[], bool],
        log: Log,
    ) -> None:
        """Create the fleet.

        `on_news` is called when the orchestrator should check. `is_excused` returns whether a death at this moment is
        not the fault of any account.
        """
        self._supervisor = supervisor
        self._options = options
        self._processes_max = processes_max
        self._on_news = on_news
        self._is_excused = is_excused
        self._log = log
        self._lines = Lines()
        self._fds: list[int] = []
        self._workers: dict[int, WorkerHandle] = {}  # workers by pid
        self._asked: list[tuple[Place, set[AccountId]]] = []  # accounts whose processes are being forked
        self._suspects: set[AccountId] = set()  # accounts whose shared process has died
        self._at_rest: set[AccountId] = set()  # accounts that are idle and can send at once
        self._epochs: dict[AccountId, Epoch] = {}  # epochs of the leases that this engine's workers hold
        self._put_off_until_s: dict[AccountId, tuple[Pause, float]] = {}
        self._held_up: set[AccountId] = set()  # accounts whose workers are gone but not yet proven dead
        self._lost: dict[int, list[Dead]] = {}  # the accounts of workers that are gone but not yet proven dead, by PID
        self._is_finishing = False
        self.ours: dict[AccountId, bool] = {}  # whether the account is idle
        self.dead: list[Dead] = []  # not yet reported to the database
        self.names: Mapping[AccountId, str] = {}  # account names, for the log

    @property
    def pids(self) -> list[int]:
        return list(self._workers)

    @property
    def is_gone(self) -> bool:
        """Whether no process is running or being forked."""
        return not (self._workers or self._asked)

    def barred(self) -> set[AccountId]:
        """Return the accounts that must not be started right now."""
        now_s = clock.monotonic()
        return self._held_up | {id_ for id_, (_, until_s) in self._put_off_until_s.items() if now_s < until_s}

    # ── commands to workers ───────────────────────────────────────────────────────────────────────────────

    def start(self, account: Account) -> None:
        """Start the account in a process that has room, or in a new process.

        If the maximum number of processes is running, do nothing: the next check tries again.
        """
        running = [(worker.place, worker.accounts) for worker in self._workers.values() if not worker.is_finishing]
        places = [place for place, _ in running + self._asked]
        place = place_of(
            account,
            per_process=self._options.accounts_max,
            is_suspect=account.id in self._suspects,
            cores=machine.cores(),
            may_be_alone=places.count(ALONE) < min(MAILBOXES_ALONE_MAX, max(1, self._processes_max // 2)),
        )
        for shared, accounts in running + self._asked if place.is_shared else []:
            if shared == place and len(accounts) < place.room:
                accounts.add(account.id)
                self.ours[account.id] = False
                self._tell(account.id, {"drive": account.id})
                return
        if len(self._workers) + len(self._asked) < self._processes_max:
            self.ours[account.id] = False
            self._asked.append((place, {account.id}))
            self._supervisor.sendall(encode({"fork": len(self._asked), "url": self._options.url}))

    def wake(self, *account_ids: AccountId) -> None:
        for account_id in account_ids:
            self._tell(account_id, {"wake": account_id})

    def wake_one(self, account_ids: Iterable[AccountId]) -> bool:
        """Wake one account that can send immediately. Return False if there is no such account."""
        ready = next((id_ for id_ in account_ids if id_ in self._at_rest), None)
        if ready is not None:
            self._at_rest.discard(ready)
            self.wake(ready)
        return ready is not None

    def let_go(self, account_id: AccountId) -> None:
        self._tell(account_id, {"finish": account_id})

    def finish(self) -> None:
        """Let all workers finish, including those that are being forked."""
        self._is_finishing = True
        for worker in self._workers.values():
            worker.channel.send({"finish": None})

    def _tell(self, account_id: AccountId, message: Message) -> None:
        for worker in self._workers.values():
            if account_id in worker.accounts:
                worker.channel.send(message)

    def kill_the_hanging(self) -> None:
        now_s = clock.monotonic()
        for worker in self._workers.values():
            stuck = [id_ for id_ in worker.accounts if now_s > worker.moved.get(id_, (0, now_s))[1] + STUCK_S_MAX]
            if now_s <= worker.heard_s + BEAT_S_MAX and not stuck:
                continue
            if stuck:
                self._log(Reason("worker.stuck", pid=str(worker.pid), account=self._name_of(stuck[0])))
            else:
                self._log(Reason("worker.silent", pid=str(worker.pid), silent_s=BEAT_S_MAX))
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)

    def _name_of(self, account_id: AccountId) -> str:
        return self.names.get(account_id, str(account_id))

    # ── messages from workers ─────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """While this context is open, process the supervisor's messages about workers."""
        loop = asyncio.get_running_loop()
        self._supervisor.setblocking(False)
        loop.add_reader(self._supervisor, self._on_supervisor)
        try:
            yield
        finally:
            loop.remove_reader(self._supervisor)

    def _on_supervisor(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._supervisor, 65_536, 64)
        except BlockingIOError:
            return
        if not data:
            os._exit(1)  # the parent process is gone, so this process exits as well
        self._fds += fds
        for message in self._lines.feed(data):
            if "forked" in message:
                attaching = self._attach(message["pid"], socket.socket(fileno=self._fds.pop(0)), *self._asked.pop(0))
                asyncio.get_running_loop().create_task(attaching).add_done_callback(_raise)
            elif "exited" in message:
                self._on_exit(message["exited"], message["code"])

    async def _attach(self, pid: int, sock: socket.socket, place: Place, accounts: set[AccountId]) -> None:
        channel = await Channel.over(sock, lambda message: self._on_message(pid, message), lambda: self._on_end(pid))
        self._workers[pid] = WorkerHandle(pid, channel, clock.monotonic(), accounts, place)
        for account_id in accounts:
            channel.send({"drive": account_id})
        if self._is_finishing:
            channel.send({"finish": None})

    def _on_message(self, pid: int, message: Message) -> None:
        worker = self._workers.get(pid)
        if worker is None:
            return
        worker.heard_s = clock.monotonic()
        match message:
            case {"beat": list(counts)}:
                for account_id, handled in counts:
                    if worker.moved.get(account_id, (-1, 0.0))[0] != handled or self.ours.get(account_id):
                        worker.moved[account_id] = (handled, worker.heard_s)
                    if account_id in self._suspects and handled >= SUSPECT_EMAILS:
                        self._suspects.discard(account_id)
                        self.let_go(account_id)
            case {"account": int(id_), "idle": bool(is_idle), "until": until}:
                was_idle, self.ours[AccountId(id_)] = self.ours.get(AccountId(id_)), is_idle
                (self._at_rest.add if is_idle and until is None else self._at_rest.discard)(AccountId(id_))
                if is_idle and not was_idle:  # otherwise, a worker woken for nothing would trigger checks forever
                    self._on_news()
            case {"holds": int(id_), "epoch": int(epoch)}:
                self._epochs[AccountId(id_)] = Epoch(epoch)
                self._put_off_until_s.pop(AccountId(id_), None)
            case {"ended": int(id_), "why": str(why), "fault": bool(is_fault), **more}:
                if more.get("trouble"):
                    self._put_off(AccountId(id_))
                self._ended(worker, AccountId(id_), why, is_fault, more.get("unreleased"))

    def _put_off(self, account_id: AccountId) -> None:
        """Delay the account, because its worker could not reach the database although this process can.

        Trying again immediately would waste a process.
        """
        pause, _ = self._put_off_until_s.get(account_id, (Pause(), 0.0))
        self._put_off_until_s[account_id] = pause, clock.monotonic() + pause.next_s()

    def _ended(
        self, worker: WorkerHandle, account_id: AccountId, why: str, is_fault: bool, unreleased: Epoch | None
    ) -> None:
        worker.accounts.discard(account_id)
        self._forget(account_id)
        if is_fault:
            self._log(Reason("worker.failed", account=self._name_of(account_id), why=why))
        if is_fault or unreleased is not None:
            self.dead.append(Dead(account_id, unreleased, is_fault))
        if not worker.accounts and not worker.is_finishing:
            worker.is_finishing = True
            worker.channel.send({"finish": None})
        self._on_news()

    def _on_end(self, pid: int) -> None:
        """Handle a process that has ended, and the accounts that it had not released."""
        worker = self._workers.pop(pid, None)
        if worker is not None:
            # if the worker had several accounts, any of them may have caused its death
            is_alone = len(worker.accounts) == 1
            self._lost[pid] = [Dead(id_, self._epochs.get(id_), is_alone) for id_ in worker.accounts]
            for account_id in worker.accounts:
                self._forget(account_id)
                self._held_up.add(account_id)
        self._on_news()

    def _on_exit(self, pid: int, code: int) -> None:
        if code:
            self._log(Reason("worker.ended", pid=str(pid), code=code))
        self._on_end(pid)
        dead = self._lost.pop(pid, [])
        self._held_up -= {each.account_id for each in dead}
        if code in BLAMELESS_CODES or self._is_excused():
            dead = [replace(each, is_fault=False) for each in dead]
        elif len(dead) > 1:
            self._suspects |= {each.account_id for each in dead}
        self.dead += dead

    def _forget(self, account_id: AccountId) -> None:
        self.ours.pop(account_id, None)
        self._at_rest.discard(account_id)
        self._epochs.pop(account_id, None)


def _raise(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and task.exception() is not None:
        raise task.exception()  # type: ignore[misc]
