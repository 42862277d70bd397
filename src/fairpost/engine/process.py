"""A worker process, which drives the accounts it is given, each in a separate task, and exits when its orchestrator is
gone.

Receives {"drive": id}, {"wake": id}, {"finish": id | null}. Sends {"holds": id, "epoch": …}, {"account": id, "idle":
…}, {"ended": id, "why": …}, and every few seconds {"beat": [[id, e-mails handled], …]}. After the first SIGTERM or
SIGINT, it finishes the e-mails in progress. A second signal ends the process immediately, as does the loss of the
orchestrator.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairpost.engine.channel import Channel, Message
from fairpost.engine.handover import NOWHERE, Handover
from fairpost.engine.lease import LEASE_S
from fairpost.engine.steps import Steps
from fairpost.engine.together import Together
from fairpost.engine.worker import IDLE_S_MAX, AccountWorker, Ending, Progress
from fairpost.model.account import Account
from fairpost.model.errors import FairpostError
from fairpost.model.ids import AccountId
from fairpost.policy.packing import SHARED_MAX
from fairpost.store.store import Store
from fairpost.store.trouble import is_trouble
from fairpost.transports.port import ClosableTransport

BEAT_S = 5.0
LOOK_AGAIN_S = 20.0  # the orchestrator checks every second or two and wakes this process
END_S_MAX = 5.0  # time limit for informing the database when the process ends immediately
CONNECTIONS_MAX = 8  # database connections, regardless of the number of accounts
AT_ONCE = 70  # exit code of a process that ended immediately, so any e-mails that it was sending are in doubt


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    url: str
    owner: str
    accounts_max: int | None = 1  # maximum number of accounts per process; None: policy/packing.py decides
    lease_s: float = LEASE_S
    idle_s_max: float = IDLE_S_MAX
    poll_only: bool = False
    notes: tuple[Path, ...] = ()  # folders for the handover notes of workers
    steps: tuple[Path, ...] = ()  # folders for the records of committed steps
    public_url: str = ""  # base of the unsubscribe links
    region: str = ""

    @property
    def room(self) -> int:
        """The maximum number of accounts in one process."""
        return self.accounts_max or SHARED_MAX


MakeTransport = Callable[[Account], ClosableTransport]


class WorkerProcess:
    def __init__(
        self,
        store: Store,
        options: WorkerOptions,
        make_transport: MakeTransport,
        *,
        exit_with: Callable[[int], object] = os._exit,
    ) -> None:
        """Create the worker process.

        `exit_with` ends the process immediately. A simulation, whose workers share one process, passes a function that
        ends only this worker.
        """
        self._store = store
        self._options = options
        self._make_transport = make_transport
        self._handover = NOWHERE
        self._steps: Steps | None = None
        self._together = Together.over(store)
        self._exit_with = exit_with
        self._workers: dict[AccountId, AccountWorker] = {}
        self._tasks: dict[AccountId, asyncio.Task[None]] = {}
        self._channel: Channel | None = None
        self._signals = 0
        self._over = asyncio.Event()

    async def run(self, sock: socket.socket, lifeline: int) -> None:
        """Run until the process has been told to finish and no longer drives any accounts, or until its orchestrator is
        gone.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        loop.add_reader(lifeline, self._end_at_once)  # readable only when the parent is gone
        self._channel = await Channel.over(sock, self._on_message, self._end_at_once)
        beat = asyncio.create_task(self._beat())
        await self._over.wait()
        beat.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._channel.close()
        self._handover.close()
        if self._steps is not None:
            self._steps.close()

    def _on_message(self, message: Message) -> None:
        match message:
            case {"drive": int(id_)}:
                self._drive(AccountId(id_))
            case {"wake": int(id_)} if id_ in self._workers:
                self._workers[AccountId(id_)].wake()
            case {"finish": None}:
                self._finish()
            case {"finish": int(id_)} if id_ in self._workers:
                self._workers[AccountId(id_)].finish()

    def _drive(self, account_id: AccountId) -> None:
        if account_id not in self._tasks and not self._over.is_set():
            self._tasks[account_id] = asyncio.create_task(self._work(account_id))

    async def _work(self, account_id: AccountId) -> None:
        why, is_fault, was_trouble = "", False, False
        try:
            why = await self._driven(account_id)
        except Exception as error:  # the orchestrator tries again later
            why = str(error) if isinstance(error, FairpostError) else f"{type(error).__name__}: {error}"
            was_trouble = is_trouble(error)
            is_fault = not was_trouble
        finally:
            worker = self._workers.pop(account_id, None)
            self._tasks.pop(account_id, None)
            self._handover.release(account_id)
            unreleased = worker.unreleased if worker is not None else None
            said = {"why": why, "fault": is_fault, "trouble": was_trouble, "unreleased": unreleased}
            self._send({"ended": account_id, **said})

    async def _open_notes(self) -> Steps:
        """Open the notes. Called for the first account, after the database has responded."""
        if self._steps is None:
            key, life = await self._store.handover_key(), await self._store.current_life()
            if self._steps is None:  # another account's task may have opened them first
                options = self._options
                self._handover = Handover.open(options.notes, database=key, accounts_max=options.room)
                self._steps = Steps(options.steps, life)
                await self._store.link_back(options.public_url, options.region)
        return self._steps

    async def _driven(self, account_id: AccountId) -> Ending:
        steps = await self._open_notes()
        account = await self._store.account(account_id)
        worker = self._workers[account_id] = AccountWorker(
            self._store,
            self._make_transport(account),
            account_id,
            owner=self._options.owner,
            lease_s=self._options.lease_s,
            idle_s_max=self._options.idle_s_max,
            look_again_s=LOOK_AGAIN_S,
            tell=lambda progress: self._progress(account_id, progress),
            holding=lambda epoch: self._send({"holds": account_id, "epoch": epoch}),
            handover=self._handover,
            steps=steps,
            together=self._together,
        )
        if self._over.is_set():  # a request to finish arrived while the account was being read
            worker.finish()
        return await worker.run()

    def _progress(self, account_id: AccountId, progress: Progress) -> None:
        until = progress.until.isoformat() if progress.until else None
        self._send({"account": account_id, "idle": progress.is_idle, "until": until})

    async def _beat(self) -> None:
        while True:
            self._send({"beat": [[account_id, worker.handled] for account_id, worker in self._workers.items()]})
            await asyncio.sleep(BEAT_S)

    def _signalled(self) -> None:
        self._signals += 1
        if self._signals > 1:
            self._end_at_once()
        else:
            self._finish()

    def _finish(self) -> None:
        for worker in self._workers.values():
            worker.finish()
        self._over.set()

    def _end_at_once(self) -> None:
        """End at once. After this, no final dot is written. Each account's next worker deals with any e-mail left in
        progress.
        """
        for worker in self._workers.values():
            worker.stop_sending()
        for task in self._tasks.values():
            task.cancel()
        self._over.set()
        asyncio.get_running_loop().call_later(END_S_MAX, self._exit_with, AT_ONCE)

    def _send(self, message: dict[str, Any]) -> None:
        if self._channel is not None:
            self._channel.send(message)


async def work(sock: socket.socket, lifeline: int, options: WorkerOptions, make_transport: MakeTransport) -> None:
    """Run a worker process. The process starts without a database connection, so it can wait if the database is
    unavailable.
    """
    connections = min(CONNECTIONS_MAX, options.room + 1)
    async with Store.unopened(options.url, connections_max=connections, behind_pooler=options.poll_only) as store:
        await WorkerProcess(store, options, make_transport).run(sock, lifeline)
