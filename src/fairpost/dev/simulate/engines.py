"""A whole engine inside one event loop: the real orchestrator and the real workers, without processes.

The supervisor starts tasks instead of forking processes. All other parts are the same as in `fairpost work`.
"""

import asyncio
import itertools
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fairpost.engine.channel import Lines, Message, encode
from fairpost.engine.orchestrator import Orchestrator
from fairpost.engine.process import MakeTransport, WorkerOptions, WorkerProcess
from fairpost.model.reason import Log
from fairpost.store.store import Store

FIRST_PID = 1 << 30  # larger than any real PID, so that no real process is signalled

_pids = itertools.count(FIRST_PID)


class _Tasks:
    """The supervisor of an engine's processes, with the interface that the orchestrator uses."""

    def __init__(self, store: Store, options: WorkerOptions, make_transport: MakeTransport) -> None:
        self._store = store
        self._options = options
        self._make_transport = make_transport
        self._lines = Lines()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._held: dict[int, int] = {}  # our ends of the processes' lifelines
        self._ours, self.orchestrators = socket.socketpair()
        self._ours.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._ours, self._hear)

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            for message in self._lines.feed(self._ours.recv(65_536)):
                if "fork" in message:
                    self._fork(message)

    def _fork(self, message: Message) -> None:
        for_orchestrator, for_worker = socket.socketpair()
        pid = next(_pids)
        lifeline, self._held[pid] = os.pipe()
        self._tasks[pid] = asyncio.create_task(self._live(pid, for_worker, lifeline))
        socket.send_fds(self._ours, [encode({"forked": message["fork"], "pid": pid})], [for_orchestrator.fileno()])
        for_orchestrator.close()

    async def _live(self, pid: int, sock: socket.socket, lifeline: int) -> None:
        process = WorkerProcess(self._store, self._options, self._make_transport, exit_with=lambda _: None)
        try:
            await process.run(sock, lifeline)
        finally:
            self._loop.remove_reader(lifeline)
            os.close(lifeline)
            self._let_go(pid)
            self._ours.send(encode({"exited": pid, "code": 0}))

    def _let_go(self, pid: int) -> None:
        """Cuts a process's lifeline, which stops the process immediately."""
        held = self._held.pop(pid, None)
        if held is not None:
            os.close(held)

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for pid in list(self._held):
            self._let_go(pid)
        await asyncio.gather(*tasks)
        await asyncio.sleep(0.001)  # lets the orchestrator detect that the channels have closed
        self._loop.remove_reader(self._ours)
        for sock in (self._ours, self.orchestrators):
            sock.close()


@asynccontextmanager
async def engine(
    store: Store,
    name: str,
    make_transport: MakeTransport,
    *,
    accounts_per_process: int = 1,
    log: Log = lambda _: None,
) -> AsyncIterator[Orchestrator]:
    """Runs an engine until the `with` block ends, then finishes the current work."""
    options = WorkerOptions(url="", owner=name, accounts_max=accounts_per_process, poll_only=True)
    tasks = _Tasks(store, options, make_transport)
    orchestrator = Orchestrator(store, options, tasks.orchestrators, processes_max=1000, log=log)
    running = asyncio.create_task(orchestrator.run())
    try:
        yield orchestrator
    finally:
        orchestrator.end()
        await running
        await tasks.close()
