"""A real engine (`fairpost work`) as a separate process, and what the system knows about the processes below it.

Most are forks of a process that has loaded everything, because a fresh interpreter takes a second.

A worker is identified by its connection to the recorder, which also shows which account it drives; the orchestrator is
the oldest of the other processes. Needs /proc.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from fairpost.store.postmaster import is_alive
from tests.chaos.recorder import Recorder
from tests.chaos.victims import fork, work

FAIRPOST = Path(sys.executable).with_name("fairpost")
ESTABLISHED = "01"


class Forked:
    """Has the part of `subprocess.Popen` that is used."""

    def __init__(self, process: ForkServerProcess) -> None:
        assert process.pid is not None
        self.pid, self._process = process.pid, process

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired("fairpost work", timeout or 0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


@dataclass
class Engine:
    process: "subprocess.Popen[bytes] | Forked"
    log: Path
    recorder: Recorder | None  # None if its workers are not identified
    _workers: set[int] = field(default_factory=set)  # once known, they stay known

    @classmethod
    def start(
        cls,
        url: str,
        recorder: Recorder | None,
        folder: Path,
        *arguments: str,
        env: Mapping[str, str] | None = None,
    ) -> "Engine":
        """Starts it as users do."""
        log = _next_log(folder)
        with log.open("wb") as out:
            process = subprocess.Popen(
                [FAIRPOST, "work", *arguments], stdout=out, stderr=out, env=_environment(url, folder, env)
            )
        return cls(process, log, recorder)

    @classmethod
    def fork(
        cls, url: str, recorder: Recorder | None, folder: Path, *arguments: str, env: Mapping[str, str] | None = None
    ) -> "Engine":
        log = _next_log(folder)
        return cls(Forked(fork(work, arguments, _environment(url, folder, env), log)), log, recorder)

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self, words: str) -> int:
        """Returns how often the log contains this text."""
        return self.log.read_text(errors="replace").count(words)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, f"the engine ended by itself:\n{self.log.read_text()}"
        return self.said("engine.started") > 0

    def children(self) -> list[int]:
        """Returns live processes, oldest first."""
        return sorted((pid for pid in _children(self.pid) if is_alive(pid)), key=_started)

    def workers(self) -> dict[int, str]:
        """Returns the workers connected to the recorder, each with an account that it drives."""
        found = {pid: max(accounts) for pid in self.children() if (accounts := self.accounts_of(pid))}
        self._workers |= set(found)
        return found

    def accounts_of(self, pid: int) -> set[str]:
        """Returns the accounts that this worker has connected to the recorder."""
        assert self.recorder is not None
        ports = _ports_to(self.recorder.port)
        found = {self.recorder.account_at(ports[inode]) for inode in _sockets(pid) if inode in ports}
        return {account for account in found if account}

    def orchestrator(self) -> int | None:
        self.workers()
        return next((pid for pid in self.children() if pid not in self._workers), None)

    def kill(self) -> list[int]:
        """Kills only the parent. Returns the processes that it leaves behind."""
        children = self.children()
        self.process.kill()
        self.process.wait()
        return children

    def end(self) -> None:
        """Kills all of them, in whatever state they are."""
        for pid in self.children():
            signal_to(pid, signal.SIGCONT)
        if self.process.poll() is None:
            children = self.kill()
            for pid in children:
                signal_to(pid, signal.SIGKILL)


def _next_log(folder: Path) -> Path:
    log = folder / f"engine-{len(list(folder.glob('engine-*')))}.log"
    log.touch()
    return log


def _environment(url: str, folder: Path, more: Mapping[str, str] | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAIRPOST_")}
    return {**kept, "FAIRPOST_DATABASE_URL": url, "FAIRPOST_HOME": str(folder), **(more or {})}


def signal_to(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def still_alive(pids: Iterable[int]) -> list[int]:
    return [pid for pid in pids if is_alive(pid)]


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _started(pid: int) -> tuple[int, int]:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]), pid
    return sys.maxsize, pid


def _sockets(pid: int) -> list[str]:
    found = []
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
                if target.startswith("socket:["):
                    found.append(target[8:-1])
    return found


def _ports_to(port: int) -> dict[str, int]:
    """Returns the local ports of connections to a port of this machine, by inode."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {
        row[9]: int(row[1].split(":")[1], 16)
        for row in rows
        if row[3] == ESTABLISHED and row[2] == f"0100007F:{port:04X}"
    }
