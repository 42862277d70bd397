"""Keep the embedded server running. Restart it if it died, but not if it was stopped on purpose.

Every long-running program has a keeper. If several keepers watch a server, the start lock ensures that only one of them
starts it. embedded.py decides what counts as a deliberate stop.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fairpost.model.errors import EmbeddedServerError
from fairpost.model.reason import Log, Reason
from fairpost.store.embedded import EmbeddedServer
from fairpost.store.outage import Outage

LOOK_S = 1.0  # a death is noticed at once; a lost socket or a frozen server is detected within this time
BETWEEN_STARTS_S = 1.0


class Keeper:
    def __init__(self, server: EmbeddedServer, log: Log) -> None:
        self._server = server
        self._log = log
        self._outage = Outage(log, of="postgres", over="runs_again")
        self._frozen_pid: int | None = None

    def step(self) -> float:
        """Check once, and start the server if it has died. Return how long to wait before the next check."""
        try:
            has_died = not self._server.is_ready()
            if has_died:
                if not self._outage.is_on and not self._server.was_stopped:
                    self._outage.say(Reason("postgres.died"), sign="died")
                self._server.start(is_again=True)
            self._outage.over()
            if has_died:
                return BETWEEN_STARTS_S
            self._look_whether_frozen()
            self._server.wait_for_end(LOOK_S)
        except (EmbeddedServerError, OSError) as error:
            return self._outage.met(error)
        return 0.0

    def _look_whether_frozen(self) -> None:
        pid = self._server.frozen_pid()
        if pid != self._frozen_pid:
            self._frozen_pid = pid
            if pid is not None:
                self._log(Reason("postgres.frozen", pid=str(pid)))


@contextmanager
def keeping(server: EmbeddedServer, log: Log) -> Iterator[None]:
    """Keep the server running inside this context. The thread is not joined at the end, because a start may take
    minutes.
    """
    over = threading.Event()

    def say(event: Reason) -> None:
        if not over.is_set():
            log(event)

    def keep() -> None:
        keeper = Keeper(server, say)
        while not over.wait(keeper.step()):
            pass

    threading.Thread(target=keep, name="keeper", daemon=True).start()
    try:
        yield
    finally:
        over.set()
