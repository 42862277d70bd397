"""What the operating system knows about one server: its pid file, its processes, and signals to them.

A pid may have been handed to another program since it was written down, so nothing here signals a process
before it has proved to work in the data directory in question.
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
LOOK_S = 0.25  # where nothing tells of a process's end
PS_S_MAX = 10.0
HAS_PROC = Path("/proc/self/cwd").exists()


@dataclass(frozen=True, slots=True)
class PidFile:
    """postmaster.pid, line by line as src/include/utils/pidfile.h of PostgreSQL describes it."""

    pid: int
    started_at: datetime | None
    socket_dir: Path | None
    state: str
    # A `postgres --single` announces itself with a negative pid.
    single_user: bool


def read_pid_file(data_dir: Path) -> PidFile | None:
    """None when there is none, or when a crash left it empty or garbled."""
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
    """The cluster_name of this data directory: PostgreSQL puts it in the title of all its processes."""
    return f"fairpost-{hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]}"


def belongs_to(pid: int, *, data_dir: Path) -> bool:
    """Whether it is a living process of the server in this data directory, postmaster or child."""
    if HAS_PROC:
        return _works_in(pid, data_dir)
    return _is_titled(_ps("-p", str(pid)).get(pid, ""), data_dir)


def processes_of(data_dir: Path) -> list[int]:
    if HAS_PROC:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if _works_in(pid, data_dir)]
    return [pid for pid, command in _ps("-ax").items() if _is_titled(command, data_dir)]


def _works_in(pid: int, data_dir: Path) -> bool:
    # PostgreSQL's processes live in their data directory; a zombie has no directory any more.
    try:
        comm = Path(f"/proc/{pid}/comm").read_text().strip()
        return comm == "postgres" and os.path.samefile(f"/proc/{pid}/cwd", data_dir)
    except OSError:
        return False


def _is_titled(command: str, data_dir: Path) -> bool:
    # Children rewrite their command line into a title, the postmaster keeps the one it was started with.
    tag = cluster_tag(data_dir)
    started_here = "/postgres -D " in command and f" -c cluster_name={tag}" in command
    return started_here or command.startswith(f"postgres: {tag}: ")


def _ps(*selection: str) -> dict[int, str]:
    """Command lines of living processes by pid, in full length (-ww); for systems without /proc."""
    command = ["ps", "-ww", *selection, "-o", "pid=", "-o", "stat=", "-o", "command="]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PS_S_MAX, check=False)
    rows = [line.split(None, 2) for line in done.stdout.splitlines()]
    return {int(row[0]): row[2] for row in rows if len(row) == 3 and not row[1].startswith("Z")}


def is_alive(pid: int) -> bool:
    """Whether the process still runs; a zombie does not."""
    if not HAS_PROC:
        return pid in _ps("-p", str(pid))
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def is_frozen(pid: int) -> bool:
    """Whether it was stopped by a signal, and could go on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
    except OSError:
        return False


def pid_exists(pid: int) -> bool:
    """What PostgreSQL asks before it believes a pid file: zombies and strangers count."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def send(signum: signal.Signals, pid: int, *, if_it: Callable[[int], bool]) -> None:
    """Signals the process if the check holds; a handle keeps the pid from changing hands in between."""
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
    """None for a process that is gone, and on systems without such handles (macOS, Linux before 5.3)."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def wait_for_end(pid: int, *, s_max: float) -> None:
    """Returns when the process has ended, at the latest after so long; where nothing tells of its end, soon."""
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
