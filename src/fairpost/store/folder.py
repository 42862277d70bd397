"""The files of one embedded server: their locations, permissions and locks.

    home/postgres/data             the data directory; data.incomplete while it is being created
    home/postgres/run              the socket, unless its path would be too long
    home/postgres/postgres.log     the server's log
    home/postgres/lock             held while the server is created, started or stopped
    home/postgres/alive            held by every process of the server while it is alive
    home/postgres/stopped          exists after a deliberate stop, until the next start
    home/postgres/programs-18.6    a copy of the programs, only if the server's user cannot reach ours

embedded.py decides what runs, and why.
"""

import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairpost.model.errors import EmbeddedServerError
from fairpost.store.identity import Identity
from fairpost.store.postmaster import pid_exists, read_pid_file, wait_until

PORT = 5432  # part of the socket's file name; nothing listens on the network
SOCKET = f".s.PGSQL.{PORT}"
SOCKET_PATH_BYTES_MAX = 100  # Linux allows 108 bytes and macOS 104, both including the terminating null
LOCK_S_MAX = 300.0  # another process may be starting the server, which takes a long time during crash recovery
LOG_BYTES_MAX = 10_000_000


class ServerFolder:
    def __init__(self, home: Path) -> None:
        self.home = Path(home).expanduser().resolve()
        self.path = self.home / "postgres"
        self.data = self.path / "data"
        self.data_incomplete = self.path / "data.incomplete"
        self.log = self.path / "postgres.log"
        self.alive = self.path / "alive"
        self._stopped = self.path / "stopped"

    def make(self, identity: Identity) -> None:
        # A different user must be able to access the data directory but not change the files next to it.
        mode = 0o700 if identity.uid == os.getuid() else 0o711
        for path in (self.home, self.path):
            if not path.is_dir():
                path.mkdir(parents=True, exist_ok=True)
                path.chmod(mode)  # regardless of the umask

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Ensure that only one process at a time creates, starts or stops the server."""
        with self.open(self.path / "lock") as file:
            if not wait_until(lambda: _try_lock(file), s_max=LOCK_S_MAX):
                raise EmbeddedServerError(
                    f"Another process has been starting or stopping the server in {self.path} for "
                    f"{LOCK_S_MAX:.0f} s. End that process, then try again."
                )
            try:
                yield
            finally:
                # Unlock explicitly, because a fork in another thread may hold a copy of the file descriptor.
                fcntl.flock(file, fcntl.LOCK_UN)

    @contextmanager
    def guard(self) -> Iterator[int]:
        """Yield a locked file descriptor. Every process that inherits the descriptor holds the lock for as long as the
        process lives.

        The lock shows whether any such process is still alive, even in another container, where its pid is not visible.
        """
        with self.open(self.alive) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file

    def is_guarded(self) -> bool:
        with self.open(self.alive) as file:
            if not _try_lock(file):
                return True
            fcntl.flock(file, fcntl.LOCK_UN)
            return False

    @contextmanager
    def open(self, path: Path) -> Iterator[int]:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(path, flags, 0o600)
        try:
            found, folder = os.fstat(file), self.path.stat()
            if found.st_uid != folder.st_uid and found.st_nlink == 1:
                # If root creates the file in a user's folder, that user must keep access to it. A link must not trick
                # root into giving away an existing file.
                os.fchown(file, folder.st_uid, folder.st_gid)
            yield file
        finally:
            os.close(file)

    @property
    def was_stopped(self) -> bool:
        """Whether the server was stopped on purpose and has not been started since."""
        return self._stopped.exists()

    def note_stop(self) -> None:
        with suppress(OSError), self.open(self._stopped):  # a full disk must not prevent the server from stopping
            pass

    def forget_stop(self) -> None:
        self._stopped.unlink(missing_ok=True)

    def major_version(self) -> int | None:
        """Return the major version of the data, or None if there is no data yet."""
        try:
            return int((self.data / "PG_VERSION").read_text())
        except FileNotFoundError:
            return None
        except ValueError:
            raise EmbeddedServerError(
                f"{self.data / 'PG_VERSION'} is damaged. Restore the data from a backup, then try again."
            ) from None

    def data_dirs(self) -> list[Path]:
        return [path for path in (self.data, self.data_incomplete) if path.is_dir()]

    def begin_data(self, identity: Identity) -> None:
        """Create an empty temporary directory for new data, so an interruption leaves no incomplete data behind."""
        if self.data.is_dir() and any(self.data.iterdir()):
            raise EmbeddedServerError(
                f"{self.data} is neither empty nor a PostgreSQL data directory. Move the directory elsewhere, then try again."
            )
        if self.data_incomplete.exists():
            shutil.rmtree(self.data_incomplete)
        _make_private(self.data_incomplete, identity)

    def finish_data(self) -> None:
        self.data_incomplete.rename(self.data)
        directory = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def require_owner(self, identity: Identity) -> None:
        if self.data.stat().st_uid != identity.uid:
            raise EmbeddedServerError(
                f"{self.data} does not belong to the user that PostgreSQL runs as. "
                f"Change the owner: chown -R {identity.uid}:{identity.gid} {self.path}"
            )

    def socket_dir(self) -> Path:
        """Return the socket's directory. The directory is in this folder if that results in a valid path; otherwise, it
        is in the temporary directory.
        """
        name = hashlib.sha256(b"%d %s" % (os.getuid(), os.fsencode(self.home))).hexdigest()[:16]
        places = (tempfile.gettempdir(), "/tmp")  # noqa: S108 (TMPDIR may be too long as well)
        paths = [self.path / "run", *(Path(place) / f"fairpost-{name}" for place in places)]
        return next((path for path in paths if _fits(path)), paths[-1])

    def make_socket_dir(self, identity: Identity) -> Path:
        path = self.socket_dir()
        with suppress(FileExistsError):
            _make_private(path, identity)
        found = path.lstat()
        private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700
        if not private or found.st_uid != identity.uid:
            raise EmbeddedServerError(
                f"{path} is not a private directory of the server's user, so the server cannot create its socket there. "
                "Find out who created the directory, remove it, then try again."
            )
        return path

    def remove_socket_dir(self) -> None:
        path = self.socket_dir()
        if path.parent != self.path:
            with suppress(OSError):
                path.rmdir()

    def clear_stale_files(self) -> None:
        """Remove files that would make PostgreSQL fail. Call this only when all of the server's processes have
        ended.
        """
        for name in (SOCKET, f"{SOCKET}.lock"):
            (self.socket_dir() / name).unlink(missing_ok=True)
        # Keep a pid file with a dead pid, because PostgreSQL then checks again for leftover shared memory.
        found = read_pid_file(self.data)
        if found is None or pid_exists(found.pid):
            (self.data / "postmaster.pid").unlink(missing_ok=True)

    def turn_log(self) -> None:
        """Rotate the log if it is large. Call this only while no server is writing to it."""
        if self.log_bytes() > LOG_BYTES_MAX:
            self.log.replace(self.path / "postgres.log.1")

    def log_bytes(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def log_since(self, offset: int) -> str:
        with self.log.open("rb") as file:
            file.seek(offset)
            return file.read().decode(errors="replace")


def _fits(socket_dir: Path) -> bool:
    # Besides limiting the length, libpq and PostgreSQL parse these paths as lists, in which commas and quotes have a
    # special meaning.
    plain = re.fullmatch(r"[\w/.+-]+", str(socket_dir), re.ASCII)
    return bool(plain) and len(os.fsencode(socket_dir / SOCKET)) <= SOCKET_PATH_BYTES_MAX


def _make_private(path: Path, identity: Identity) -> None:
    path.mkdir(mode=0o700)
    if identity.uid != os.getuid():
        os.chown(path, identity.uid, identity.gid, follow_symlinks=False)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
