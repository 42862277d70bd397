"""The parent of all of an engine's processes. The supervisor forks these processes, and they all exit when it does.

The supervisor is single-threaded and has imported everything but opened nothing: no loop, thread or connection exists
when it forks, so a child starts in milliseconds and shares the parent's memory. The supervisor holds the lifeline, a
pipe whose other end every child watches. If the supervisor ends for any reason, all children notice it.

The orchestrator asks for workers. The supervisor forks them, passes each worker's socket to the orchestrator, and
reports which workers ended and how. When asked to, the supervisor also starts a process that reads mailboxes. At most
one such process runs at a time.
"""

import gc
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from fairpost.engine.channel import Lines, Message, encode
from fairpost.model.errors import FairpostError
from fairpost.model.reason import Log, Reason
from fairpost.store.trouble import trouble_of
from fairpost.system import clock
from fairpost.system.pause import Pause

ORCHESTRATOR = "orchestrator"
READER = "reader"
STEP_S_MAX = 1.0
WELL_AFTER_S = 10.0  # once the orchestrator has run for this long, the pause before a restart is reset
FOR_GOOD = 78  # exit code: a restart would not help

Child = Callable[[socket.socket, int, Message], None]
"""The function that a child runs. Its arguments are the child's socket, its end of the lifeline, and the orchestrator's
message about the child.
"""


class Supervisor:
    def __init__(
        self, *, orchestrator: Child, worker: Child, log: Log, reader: Child | None = None, ends_with: int | None = None
    ) -> None:
        """Create the supervisor. `ends_with` is a file that reaches end-of-file when the supervisor's own parent is
        gone; the supervisor then finishes.
        """
        self._orchestrator = orchestrator
        self._worker = worker
        self._reader = reader
        self._log = log
        self._ends_with = ends_with
        self._children: dict[int, str] = {}  # the role of each process, by PID
        self._to_orchestrator: socket.socket | None = None
        self._lines = Lines()
        self._pause = Pause()
        self._orchestrator_began_s = 0.0
        self._orchestrator_due_s = 0.0  # earliest restart, on the monotonic clock
        self._signals = 0
        self._is_ending = False
        self._has_given_up = False
        self._lifeline, self._held = os.pipe()
        self._wake = socket.socketpair()
        self._selector = selectors.DefaultSelector()

    def run(self) -> bool:
        """Run until the first signal to stop. A second signal ends everything immediately.

        Returns False if the orchestrator found that it cannot continue.
        """
        gc.collect()
        gc.freeze()  # existing objects are exempt from garbage collection, so they stay shared with the children
        for end in self._wake:
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake[1].fileno())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        self._selector.register(self._wake[0], selectors.EVENT_READ)
        if self._ends_with is not None:
            self._selector.register(self._ends_with, selectors.EVENT_READ)
        self._start_orchestrator()
        while self._children or not self._is_ending:
            self._step()
        return not self._has_given_up

    def _step(self) -> None:
        for key, _ in self._selector.select(timeout=self._patience_s()):
            if key.fileobj is self._wake[0]:
                self._signalled(self._wake[0].recv(4096))
            elif key.fileobj == self._ends_with:
                self._on_end(key.fd)
            else:
                self._on_orchestrator()
        self._reap()
        if self._lacks_orchestrator() and clock.monotonic() >= self._orchestrator_due_s:
            self._start_orchestrator()

    def _patience_s(self) -> float:
        return (
            max(0.0, min(STEP_S_MAX, self._orchestrator_due_s - clock.monotonic()))
            if self._lacks_orchestrator()
            else STEP_S_MAX
        )

    def _lacks_orchestrator(self) -> bool:
        return self._to_orchestrator is None and not self._is_ending and ORCHESTRATOR not in self._children.values()

    def _signalled(self, numbers: bytes) -> None:
        for number in numbers:
            if number in (signal.SIGTERM, signal.SIGINT):
                self._signals += 1
                self._is_ending = True
                self._tell_all(signal.SIGTERM if self._signals == 1 else signal.SIGKILL)

    def _on_end(self, fd: int) -> None:
        if not os.read(fd, 4096):
            self._selector.unregister(fd)
            self._signalled(bytes([signal.SIGTERM]))

    def _tell_all(self, number: int) -> None:
        for pid in self._children:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    # ── children ──────────────────────────────────────────────────────────────────────────────────────────

    def _start_orchestrator(self) -> None:
        ours, theirs = socket.socketpair()
        workers = [pid for pid, role in self._children.items() if role not in (ORCHESTRATOR, READER)]
        is_again = self._orchestrator_began_s > 0
        self._orchestrator_began_s = clock.monotonic()
        self._fork(ORCHESTRATOR, self._orchestrator, theirs, {"workers": workers, "again": is_again}, close=ours)
        theirs.close()
        self._to_orchestrator = ours
        self._lines = Lines()
        self._selector.register(ours, selectors.EVENT_READ)

    def _on_orchestrator(self) -> None:
        assert self._to_orchestrator is not None
        data = b""
        with suppress(ConnectionError):
            data = self._to_orchestrator.recv(65_536)
        if not data:
            self._lose_orchestrator()
            return
        for message in self._lines.feed(data):
            if "fork" in message:
                self._start_worker(message)
            elif "read" in message and READER not in self._children.values() and not self._is_ending:
                self._start_reader(message)

    def _lose_orchestrator(self) -> None:
        """Handle the loss of the orchestrator.

        The orchestrator's workers notice that their sockets have closed, and end immediately. A new orchestrator starts
        without workers.
        """
        assert self._to_orchestrator is not None
        self._selector.unregister(self._to_orchestrator)
        self._to_orchestrator.close()
        self._to_orchestrator = None

    def _start_worker(self, message: Message) -> None:
        assert self._to_orchestrator is not None
        for_orchestrator, for_worker = socket.socketpair()
        pid = self._fork("worker", self._worker, for_worker, message, close=for_orchestrator)
        for_worker.close()
        with suppress(ConnectionError):
            socket.send_fds(
                self._to_orchestrator, [encode({"forked": message["fork"], "pid": pid})], [for_orchestrator.fileno()]
            )
        for_orchestrator.close()

    def _start_reader(self, message: Message) -> None:
        assert self._reader is not None
        ours, theirs = socket.socketpair()
        self._fork(READER, self._reader, theirs, message, close=ours)
        ours.close()
        theirs.close()

    def _fork(self, role: str, child: Child, sock: socket.socket, message: Message, *, close: socket.socket) -> int:
        pid = os.fork()
        if not pid:
            self._be_child(child, sock, message, close)
        self._children[pid] = role
        return pid

    def _be_child(self, child: Child, sock: socket.socket, message: Message, close: socket.socket) -> NoReturn:
        """Run the child and exit. This method never returns, so none of the parent's code runs in the child."""
        code = 1
        try:
            os.setsid()  # Ctrl-C then reaches only the parent, which passes it on once
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            os.close(self._held)
            self._selector.close()
            for inherited in (close, self._to_orchestrator, *self._wake):
                if inherited is not None:
                    inherited.close()
            child(sock, self._lifeline, message)
            code = 0
        except BaseException as error:
            code = self._tell_of(error)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _tell_of(self, error: BaseException) -> int:
        """Log an expected error in one line, and a bug with its full traceback. Return the exit code."""
        trouble = trouble_of(error)
        known = trouble.as_error() if trouble else error
        if not isinstance(known, FairpostError):
            traceback.print_exception(error)
            return 1
        self._log(Reason("engine.failed", why=str(known)))
        return 1 if known.passes else FOR_GOOD

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            role = self._children.pop(pid, "")
            code = os.waitstatus_to_exitcode(status)
            if role == ORCHESTRATOR and code == FOR_GOOD:
                self._is_ending = self._has_given_up = True
            elif role == ORCHESTRATOR and not self._is_ending:
                self._put_off_orchestrator(code)
            elif role != READER and self._to_orchestrator is not None:
                with suppress(ConnectionError):
                    self._to_orchestrator.sendall(encode({"exited": pid, "code": code}))

    def _put_off_orchestrator(self, code: int) -> None:
        if clock.monotonic() - self._orchestrator_began_s >= WELL_AFTER_S:
            self._pause.reset()
        pause_s = self._pause.next_s()
        self._orchestrator_due_s = clock.monotonic() + pause_s
        self._log(Reason("orchestrator.ended", how=_in_words(code), again_in_s=pause_s))


def _in_words(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
