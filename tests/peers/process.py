"""Starts a server as a child process, waits until it responds, and ends it with all its children.

It knows nothing about the server or its configuration.
"""

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

HOST = "127.0.0.1"
# Below the range of the kernel's ports for outgoing connections, so that no client takes the port before the server
# does.
PORTS = range(20_000, 32_000)
# Each process of a parallel run has its own range, so that none takes a port that another has just found free.
PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
PROCESSES = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
READY_S_MAX = 90.0
STOP_S_MAX = 3.0
POLL_S = 0.02
LOG_LINES_SHOWN_MAX = 15
TCP_LISTEN = "0A"  # in /proc/net/tcp

# Ends the peer if this process dies suddenly: the pipe that it reads from is then closed.
GUARD = 'read -r _; kill -s KILL -- "-$1"'


class PeerBroken(Exception):
    """The peer was started but did not come up, or did not finish in time."""


def free_port() -> int:
    for port in random.sample(PORTS[PROCESS::PROCESSES], 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind((HOST, port))
                return port
    raise PeerBroken(f"no free port found in {PORTS.start}..{PORTS.stop}")


@contextmanager
def running(
    command: Sequence[str],
    *,
    name: str,
    ports: Sequence[int],
    log: Path,
    environment: Mapping[str, str],
    cwd: Path,
    stop_s_max: float = STOP_S_MAX,
) -> Iterator[int]:
    """Yields the pid once every port accepts connections."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | environment,
            cwd=cwd,
            start_new_session=True,
        )
    try:
        with _guarded(process.pid):
            _await_ports(process, name, ports, log)
            yield process.pid
    finally:
        _stop(process, stop_s_max)


@contextmanager
def _guarded(group: int) -> Iterator[None]:
    with subprocess.Popen(
        ["/bin/sh", "-c", GUARD, "guard", str(group)], stdin=subprocess.PIPE, start_new_session=True
    ) as guard:
        try:
            yield
        finally:
            guard.kill()


def _await_ports(process: "subprocess.Popen[bytes]", name: str, ports: Sequence[int], log: Path) -> None:
    deadline = time.monotonic() + READY_S_MAX
    while not set(ports) <= _listening_ports():
        if _has_ended(process):
            raise PeerBroken(f"{name} ended at once:\n{end_of(log)}")
        if time.monotonic() > deadline:
            raise PeerBroken(f"{name} did not open {ports} in {READY_S_MAX} s:\n{end_of(log)}")
        time.sleep(POLL_S)


def _listening_ports() -> set[int]:
    """Reads this from the kernel, because a test connection would count: smtp-sink can be told to serve only n."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].split(":")[1], 16) for row in rows if row[3] == TCP_LISTEN}


def await_greeting(port: int, log: Path, begins: bytes = b"220") -> None:
    """A port that accepts connections may not have an SMTP server behind it yet."""
    with socket.create_connection((HOST, port), timeout=READY_S_MAX) as connection, connection.makefile("rwb") as file:
        greeting = file.readline()
        if not greeting.startswith(begins):
            raise PeerBroken(f"expected a greeting on port {port}, got {greeting!r}:\n{end_of(log)}")
        file.write(b"QUIT\r\n" if begins == b"220" else b"a LOGOUT\r\n")
        file.flush()
        file.readline()


def end_of(log: Path) -> str:
    if not log.exists():
        return "(it wrote no log)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN_MAX:])


def _stop(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """The leader is reaped last, because until then its pid cannot be reused."""
    os.killpg(process.pid, signal.SIGTERM)
    if not _ends_in(process, seconds):
        # Its children first: unshare then sees an empty namespace before it ends.
        for child in _children(process.pid):
            os.kill(child, signal.SIGKILL)
        _ends_in(process, STOP_S_MAX)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ends_in(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (ended := _has_ended(process)) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return ended


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
