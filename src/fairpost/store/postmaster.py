"""The operating system's view of a server: its pid file, its processes, and the signals sent to them.

After a pid is written to a file, another program may reuse the pid, so this module never signals a process before
verifying that the process works in the given data directory.
"""

import hashlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fairpost.system import clock

POLL_S = 0.01
LOOK_S = 0.25  # polling interval if the system does not report when a process ends
PS_S_MAX = 10.0
HAS_PROC = Path("/proc/self/cwd").exists()


@dataclass(frozen=True, slots=True)
class PidFile:
    """The contents of postmaster.pid, as described in PostgreSQL's src/include/utils/pidfile.h."""

    pid: int
    started_at: datetime | None
    socket_dir: Path | None
    state: str
    # `postgres --single` writes a negative pid.
    single_user: bool


def read_pid_file(data_dir: Path) -> PidFile | None:
    """Read the pid file. Return None if it is missing, or if it is empty or incomplete after a crash."""
    try:
        lines = (data_dir / "postmaster.pid").read_text(errors="replace").splitlines()
        pid = int(lines[0])
    except (FileNotFoundError, IndexError, ValueError):
        return None
    lines += [""] * 8
    started = lines[2].strip()
    return PidFile(
        pid=abs(pid),
        started_at=datetime.fromtimestamp(int(started), UTC) if started.isdigit() else None,
        socket_dir=Path(lines[4]) if lines[4] else None,
        state=lines[7].strip(),
        single_user=pid < 0,
    )


def cluster_tag(data_dir: Path) -> str:
    """Return the cluster_name of this data directory, which PostgreSQL puts in the titles of all its processes."""
    return f"fairpost-{hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]}"


def belongs_to(pid: int, *, data_dir: Path) -> bool:
    """Return whether this is a live process (postmaster or child) of the server in this data directory."""
    if HAS_PROC:
        return _works_in(pid, data_dir)
    return _is_titled(_ps("-p", str(pid)).get(pid, ""), data_dir)


def processes_of(data_dir: Path) -> list[int]:
    if HAS_PROC:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if _works_in(pid, data_dir)]
    return [pid for pid, command in _ps("-ax").items() if _is_titled(command, data_dir)]


def _works_in(pid: int, data_dir: Path) -> bool:
    # PostgreSQL's processes run in their data directory; a zombie no longer has a working directory.
    try:
        comm = Path(f"/proc/{pid}/comm").read_text().strip()
        return comm == "postgres" and os.path.samefile(f"/proc/{pid}/cwd", data_dir)
    except OSError:
        return False


def _is_titled(command: str, data_dir: Path) -> bool:
    # Children replace their command line with a title; the postmaster keeps its original command line.
    tag = cluster_tag(data_dir)
    started_here = "/postgres -D " in command and f" -c cluster_name={tag}" in command
    return started_here or command.startswith(f"postgres: {tag}: ")


def _ps(*selection: str) -> dict[int, str]:
    """Return the full command lines (-ww) of live processes by pid, for systems without /proc."""
    command = ["ps", "-ww", *selection, "-o", "pid=", "-o", "stat=", "-o", "command="]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PS_S_MAX, check=False)
    rows = [line.split(None, 2) for line in done.stdout.splitlines()]
    return {int(row[0]): row[2] for row in rows if len(row) == 3 and not row[1].startswith("Z")}


def is_alive(pid: int) -> bool:
    """Return whether the process is running. Zombies do not count."""
    if not HAS_PROC:
        return pid in _ps("-p", str(pid))
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def is_frozen(pid: int) -> bool:
    """Return whether the process is suspended by a signal and could be resumed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
    except OSError:
        return False


def pid_exists(pid: int) -> bool:
    """Return whether the pid exists, using the same check that PostgreSQL makes before it trusts a pid file.

    Zombies and unrelated processes count.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def send(signum: signal.Signals, pid: int, *, if_it: Callable[[int], bool]) -> None:
    """Signal the process if the check passes. A handle ensures that the pid is not reused in the meantime."""
    handle = _handle(pid)
    try:
        if not if_it(pid):
            return
        if handle is None:
            os.kill(pid, signum)
        else:
            signal.pidfd_send_signal(handle, signum)
    except ProcessLookupError:
        pass
    finally:
        if handle is not None:
            os.close(handle)


def _handle(pid: int) -> int | None:
    """Return a handle, or None if the process is gone or the system has no handles (macOS, Linux before 5.3)."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def wait_for_end(pid: int, *, s_max: float) -> None:
    """Wait until the process ends, for at most `s_max`.

    If the system cannot report when a process ends, wait only briefly.
    """
    handle = _handle(pid)
    if handle is None:
        time.sleep(min(s_max, LOOK_S))
        return
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.poll(s_max * 1000)
    finally:
        os.close(handle)


def wait_until(condition: Callable[[], bool], *, s_max: float) -> bool:
    deadline = clock.monotonic() + s_max
    while not condition():
        if clock.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
