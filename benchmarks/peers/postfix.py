"""Postfix as a relay: its queue is filled while all mail is on hold, then it sends to the sink with default settings.

Its queue consists of files, each synced to the disk; it does not use the database.
"""

import smtplib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from benchmarks.peers.peer import Email, Missing, Place
from benchmarks.peers.processes import is_alive, kill_trees
from benchmarks.peers.workers.mailing import compose
from tests.peers import postfix as recipe
from tests.peers.fetch import require
from tests.peers.process import HOST, free_port
from tests.peers.room import Room, room_for
from tests.peers.servers import why_not

CONNECTIONS = 8
HOLD = {"smtpd_recipient_restrictions": "check_recipient_access static:HOLD"}


class Serving:
    """A running Postfix."""

    def __init__(self, room: Room, command: Sequence[str], port: int) -> None:
        self._stack = ExitStack()
        serving = room.serving(command, port=port, tls_port=None, log=recipe.LOG)
        self._pid = self._stack.enter_context(serving).pid

    def have_ended(self) -> bool:
        return not is_alive(self._pid)

    def kill(self) -> None:
        kill_trees([self._pid])
        self.end()

    def end(self) -> None:
        self._stack.close()


class Postfix:
    title = "Postfix"

    def __init__(self) -> None:
        self._stack = ExitStack()

    def install(self) -> None:
        if reason := why_not("postfix"):
            raise Missing(reason)

    def prepare(self, place: Place, emails: Sequence[Email]) -> None:
        self._place = place
        self._port = free_port()
        self._room = self._stack.enter_context(room_for(require("postfix")))
        recipe._make_folders(self._room)
        held, incoming = self._queue("hold"), self._queue("incoming")
        holding = self._serve(HOLD)
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            list(pool.map(self._fill, [emails[n::CONNECTIONS] for n in range(CONNECTIONS)]))
        holding.end()
        for file in held.iterdir():
            file.rename(incoming / file.name)

    def _fill(self, emails: Sequence[Email]) -> None:
        with smtplib.SMTP(HOST, self._port) as client:
            for email in emails:
                client.sendmail(email["sender"], [email["to"]], compose(dict(email)))

    def start(self) -> Serving:
        return self._serve({"relayhost": f"[{self._place.sink.host}]:{self._place.sink.port}"})

    def _serve(self, settings: Mapping[str, str]) -> Serving:
        software = require("postfix")
        chosen = recipe._main(self._room, software) | dict(settings)
        self._room.write("/etc/postfix/main.cf", "".join(f"{name} = {value}\n" for name, value in chosen.items()))
        self._room.write("/etc/postfix/master.cf", recipe._listeners(self._port, None) + recipe.SERVICES)
        command = [self._room.software(software.program("master")), "-i", "-c", "/etc/postfix"]
        return Serving(self._room, command, self._port)

    def is_done(self) -> bool:
        return not self._files()

    def recover(self) -> None: ...

    def left(self) -> int:
        return len(self._files())

    def close(self) -> None:
        self._stack.close()

    def _queue(self, name: str) -> Path:
        return self._room.outside(f"{recipe.QUEUE}/{name}")

    def _files(self) -> "list[Path]":
        queues = ("incoming", "active", "deferred", "hold", "corrupt")
        return [file for name in queues for file in self._queue(name).rglob("*") if file.is_file()]
