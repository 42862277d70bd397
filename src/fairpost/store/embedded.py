"""Supervise the embedded PostgreSQL server: create, start and stop it, and recover after a crash.

There is one server per home directory, shared by any number of processes. folder.py manages the server's files,
postmaster.py manages its processes, and identity.py manages its user. Connections, migrations and queries do not belong
here.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from fairpost.model.errors import EmbeddedServerError, ServerStopped
from fairpost.model.reason import Reason
from fairpost.store.binaries import Binaries, find_binaries
from fairpost.store.folder import PORT, SOCKET, ServerFolder
from fairpost.store.identity import Identity, choose_identity, reachable_binaries, require_access
from fairpost.store.postmaster import (
    PidFile,
    belongs_to,
    cluster_tag,
    is_alive,
    is_frozen,
    processes_of,
    read_pid_file,
    send,
    wait_for_end,
    wait_until,
)

NAME = "fairpost"  # the name of both the superuser and the database

INIT_S_MAX = 120.0
READY_S_MAX = 300.0  # crash recovery replays up to max_wal_size of WAL
STOP_S_MAX = 60.0
ORPHANS_LEAVE_S = 3.0
ORPHANS_END_S = 3.0
LINES_SHOWN_MAX = 15
PANIC = " PANIC: "  # marks a panic in the log
TELLING = re.compile(r"\b(FATAL|PANIC|ERROR|error):")
MORE = re.compile(r"\b(DETAIL|HINT|hint):")  # marks a continuation of the previous line

# Tuned for a queue on a laptop: durability, low memory use, and quick vacuuming of tables whose rows change often.
DEFAULTS: Mapping[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "jit": "off",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "checkpoint_completion_target": "0.9",
    "autovacuum_naptime": "10s",
    "autovacuum_vacuum_scale_factor": "0.05",
    "autovacuum_vacuum_cost_limit": "2000",
    "random_page_cost": "1.1",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_destination": "stderr",
    "logging_collector": "off",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
    "listen_addresses": "",
    # After a crash, synchronize the whole file system with one call, instead of making one call for each of a thousand
    # files.
    **({"recovery_init_sync_method": "syncfs"} if sys.platform == "linux" else {}),
}

StopMode = Literal["smart", "fast", "immediate"]
STOP_SIGNALS: Mapping[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}

# The shell exits at once, so the server is not our child and cannot become our zombie.
LAUNCHER = '"$@" >&2 & echo $!'

ADVICE = (
    ("No space left on device", "The disk is full. Free up some space, then try again."),
    ("Disk quota exceeded", "The disk quota is exceeded. Free up some space, then try again."),
    ("Permission denied", "Check the owner of that directory, or set FAIRPOST_HOME to one of your own."),
    ("Read-only file system", "Set FAIRPOST_HOME to a writable directory."),
    ("Not a directory", "Set FAIRPOST_HOME to a writable directory."),
    ("could not look up effective user ID", "Add this user to /etc/passwd, or run as a different user."),
    ("unrecognized configuration parameter", "Correct the settings given to the embedded server."),
    ("invalid value for parameter", "Correct the settings given to the embedded server."),
)


@dataclass(frozen=True, slots=True)
class ServerStatus:
    running: bool
    ready: bool
    pid: int | None
    version: str | None
    url: str
    data_dir: Path
    log_file: Path
    started_at: datetime | None


class EmbeddedServer:
    """The PostgreSQL server for one home directory. Many processes and threads may use it at once."""

    def __init__(
        self, home: Path, *, settings: Mapping[str, str] | None = None, binaries: Binaries | None = None
    ) -> None:
        self._folder = ServerFolder(home)
        self._settings = {**DEFAULTS, **(settings or {})}
        self._given_binaries = binaries  # None means the newest programs found on this machine

    @property
    def url(self) -> str:
        return self._url(self._running())

    def start(self, *, is_again: bool = False) -> str:
        """Start the server unless it is running, wait until it is ready, and return its URL.

        The settings apply only if this call starts the server. With `is_again`, start the server only if it has died.
        Raise ServerStopped if it was stopped on purpose, and do not create new data if the data is gone.
        """
        with self._in_plain_words("start"):
            if not self.is_ready() or (self._folder.was_stopped and not is_again):
                if is_again:
                    self._require_data()
                identity = choose_identity(self._folder.path, self._folder.data)
                self._folder.make(identity)
                with self._folder.lock():
                    if is_again:
                        self._require_unstopped()
                    self._folder.forget_stop()
                    self._start(identity)
            return self.url

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server and wait until all of its processes have ended. Do nothing if there is no server.

        Afterwards, the server is treated as stopped on purpose and is not restarted automatically.
        """
        with self._in_plain_words("stop"):
            if not self._folder.path.is_dir():
                return
            with self._folder.lock():
                self._folder.note_stop()
                if running := self._running() or self._evict_orphans():
                    self._end(running.pid, mode)
                    self._evict_orphans()
                self._folder.remove_socket_dir()

    def status(self) -> ServerStatus:
        with self._in_plain_words("look at"):
            running = self._running()
            return ServerStatus(
                running=running is not None,
                ready=_is_ready(running),
                pid=running.pid if running else None,
                version=self._version(),
                url=self._url(running),
                data_dir=self._folder.data,
                log_file=self._folder.log,
                started_at=running.started_at if running else None,
            )

    def is_ready(self) -> bool:
        return _is_ready(self._running())

    @property
    def was_stopped(self) -> bool:
        """Whether the server was stopped on purpose and has not been started since."""
        return self._folder.was_stopped

    def wait_for_end(self, s_max: float) -> None:
        """Wait until the postmaster dies, but no longer than `s_max`."""
        running = self._running()
        if running is not None:
            wait_for_end(running.pid, s_max=s_max)

    def frozen_pid(self) -> int | None:
        """Return the pid of a postmaster that is alive but suspended by a signal."""
        running = self._running()
        return running.pid if running is not None and is_frozen(running.pid) else None

    def _require_data(self) -> None:
        if self._folder.major_version() is None:
            raise EmbeddedServerError(
                f"The embedded PostgreSQL's data is missing from {self._folder.data}. Restore it from a backup.",
                next_step=Reason("step.begin_empty"),
            )

    def _require_unstopped(self) -> None:
        if self._folder.was_stopped:
            raise ServerStopped(
                "The embedded PostgreSQL was stopped on purpose.", next_step=Reason("step.start_database")
            )

    def _start(self, identity: Identity) -> None:
        running = self._running()
        if running and _is_useless(running):
            self._end(running.pid, "fast")
            running = None
        running = running or self._evict_orphans()
        if running is None:
            self._folder.turn_log()
        log_offset = self._folder.log_bytes()
        pid = running.pid if running else self._launch(identity)
        self._wait_until_ready(pid, log_offset)

    def _launch(self, identity: Identity) -> int:
        binaries = reachable_binaries(self._binaries(), identity, folder=self._folder.path)
        if self._folder.major_version() is None:
            self._make_data(binaries, identity)
        self._folder.require_owner(identity)
        socket_dir = self._folder.make_socket_dir(identity)
        self._folder.clear_stale_files()
        server = [*identity.prefix, str(binaries.postgres), "-D", str(self._folder.data)]
        launcher = ["/bin/sh", "-c", LAUNCHER, "sh", *server, *self._options(socket_dir)]
        with self._folder.open(self._folder.log) as log:
            return int(self._run("sh", launcher, stderr=log))

    def _options(self, socket_dir: Path) -> list[str]:
        fixed = {
            "port": str(PORT),
            "unix_socket_directories": str(socket_dir),
            "unix_socket_permissions": "0700",
            "cluster_name": cluster_tag(self._folder.data),
        }
        settings = {**self._settings, **fixed}
        return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    def _wait_until_ready(self, pid: int, log_offset: int) -> None:
        def has_panicked() -> bool:
            return PANIC in self._folder.log_since(log_offset)

        wait_until(lambda: self.is_ready() or not is_alive(pid) or has_panicked(), s_max=READY_S_MAX)
        if self.is_ready():
            return
        if has_panicked():  # on a full disk, the server would recover and panic again and again
            self._end(pid, "immediate")
        elif is_alive(pid):
            raise EmbeddedServerError(
                f"PostgreSQL (process {pid}) is not ready after {READY_S_MAX:.0f} s. It may still be "
                f"recovering from a crash. Watch {self._folder.log}, and try again when PostgreSQL is ready."
            )
        last_words = self._folder.log_since(log_offset) or "nothing (it was killed)"
        raise _failure(f"PostgreSQL stopped while starting. From {self._folder.log}", last_words)

    def _make_data(self, binaries: Binaries, identity: Identity) -> None:
        self._folder.begin_data(identity)
        require_access(self._folder.data_incomplete, identity)
        where = ("-D", str(self._folder.data_incomplete))
        initdb = (*identity.prefix, str(binaries.initdb), *where)
        how = ("--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions")
        self._run("initdb", [*initdb, f"--username={NAME}", *how])
        single = (*identity.prefix, str(binaries.postgres), "--single", *where)
        options = ("-c", "fsync=off", "-c", "exit_on_error=on")
        self._run("postgres", [*single, *options, "postgres"], stdin=f"CREATE DATABASE {NAME};\n")
        if self._settings["fsync"] != "off":
            self._run("initdb", [*initdb, "--sync-only"])
        self._folder.finish_data()

    def _run(self, what: str, command: Sequence[str], *, stdin: str = "", stderr: int = subprocess.STDOUT) -> str:
        with self._folder.guard() as guard:
            done = subprocess.run(
                command,
                input=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                errors="replace",
                cwd="/",
                env=server_environment(),
                umask=0o077,
                pass_fds=(guard,),
                start_new_session=True,
                timeout=INIT_S_MAX,
                check=False,
            )
        if done.returncode != 0:
            raise _failure(f"{what} failed in {self._folder.path}", done.stdout)
        return done.stdout

    def _end(self, pid: int, mode: StopMode) -> None:
        ours = partial(belongs_to, data_dir=self._folder.data)
        send(STOP_SIGNALS[mode], pid, if_it=ours)
        if not wait_until(lambda: not ours(pid), s_max=STOP_S_MAX):
            raise EmbeddedServerError(
                f"PostgreSQL (process {pid}) did not stop within {STOP_S_MAX:.0f} s of a {mode} stop. "
                f"See {self._folder.log}. An immediate stop is quicker, and no committed data is lost."
            )

    def _evict_orphans(self) -> PidFile | None:
        """Wait until the processes of a dead server have ended, and kill any that remain.

        If a server turns out to be starting, return that server.
        """
        for patience_s, then in (
            (ORPHANS_LEAVE_S, signal.SIGQUIT),
            (ORPHANS_END_S, signal.SIGKILL),
            (ORPHANS_END_S, None),
        ):
            if wait_until(lambda: bool(self._running()) or not self._orphaned(), s_max=patience_s):
                return self._running()
            if then:
                self._signal_orphans(then)
        raise EmbeddedServerError(
            f"Another process is using {self._folder.data}, but no server is visible from here. "
            "Stop that process, which may be running in another container, then try again. "
            f"To find the process, try: lsof {self._folder.alive}"
        )

    def _orphaned(self) -> bool:
        return self._folder.is_guarded() or any(map(processes_of, self._folder.data_dirs()))

    def _signal_orphans(self, signum: signal.Signals) -> None:
        for data_dir in self._folder.data_dirs():
            for pid in processes_of(data_dir):
                send(signum, pid, if_it=partial(belongs_to, data_dir=data_dir))

    def _running(self) -> PidFile | None:
        """Return the pid file if it contains the pid of a live postmaster for this data directory."""
        found = read_pid_file(self._folder.data)
        if found is None or not belongs_to(found.pid, data_dir=self._folder.data):
            return None
        if found.single_user:
            raise EmbeddedServerError(
                f"A single-user PostgreSQL (process {found.pid}) is using {self._folder.data}. "
                "Let it finish, then try again."
            )
        return found

    def _binaries(self) -> Binaries:
        if self._given_binaries:
            return self._given_binaries
        major = self._folder.major_version()
        if major is None:
            return find_binaries()
        try:
            return find_binaries(major)
        except EmbeddedServerError as error:
            raise EmbeddedServerError(
                f"The data in {self._folder.data} was created by PostgreSQL {major}, but the installed version is "
                f"PostgreSQL {find_binaries().version}. Nothing was changed. To use the newer version: dump "
                f"the data with the old programs (pg_dump), move {self._folder.data} elsewhere, start again, and "
                f"load the dump. To keep the older version: {error}"
            ) from None

    def _version(self) -> str | None:
        try:
            return self._binaries().version
        except EmbeddedServerError:
            return None

    def _url(self, running: PidFile | None) -> str:
        # TMPDIR may differ between processes, so the path that the server recorded takes precedence over our guess.
        socket_dir = (running and running.socket_dir) or self._folder.socket_dir()
        # The port is explicit, because clients would otherwise use PGPORT from their environment.
        return f"postgresql://{NAME}@/{NAME}?host={quote(str(socket_dir), safe='')}&port={PORT}"

    @contextmanager
    def _in_plain_words(self, action: str) -> Iterator[None]:
        try:
            yield
        except subprocess.TimeoutExpired as error:
            raise _failure(f"Cannot {action} PostgreSQL in {self._folder.path}", str(error)) from error
        except OSError as error:
            raise _failure(f"Cannot {action} PostgreSQL in {self._folder.path}", str(error)) from error


def _is_ready(running: PidFile | None) -> bool:
    return running is not None and running.state == "ready" and _has_socket(running)


def _is_useless(running: PidFile) -> bool:
    """Return whether the server is stopping, or is unreachable because the temporary directory was emptied."""
    return running.state == "stopping" or (running.state == "ready" and not _has_socket(running))


def _has_socket(running: PidFile) -> bool:
    return running.socket_dir is not None and (running.socket_dir / SOCKET).exists()


def server_environment() -> dict[str, str]:
    """Return our environment without the master key or any variables that affect PostgreSQL.

    With a fixed TZ, initdb does not search through all time zones.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "LC_", "LANG", "FAIRPOST_"))}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def _failure(what: str, output: str) -> EmbeddedServerError:
    """Return an error with the log lines that explain the failure.

    Each distinct line is included only once, because a server may panic many times before it exits.
    """
    said = output.strip().splitlines()
    telling = list(_telling(said)) or said
    distinct = {re.sub(r"\d+", "", line): line for line in telling}  # compare lines without their times and pids
    lines = [f"  {line}" for line in distinct.values()][-LINES_SHOWN_MAX:]
    advice = next((advice for sign, advice in ADVICE if sign in output), "Fix this, then try again.")
    return EmbeddedServerError("\n".join([f"{what}:", *lines, advice]))


def _telling(said: Sequence[str]) -> Iterator[str]:
    """Yield error lines, each with its details and hints.

    The details and hints of other lines are skipped, because they can be misleading. For example, after an interrupted
    start, a server hints at damaged data.
    """
    is_telling = False
    for line in said:
        is_telling = bool(TELLING.search(line) or (is_telling and MORE.search(line)))
        if is_telling:
            yield line
