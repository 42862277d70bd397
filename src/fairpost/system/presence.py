"""Proof that all of a program's processes are gone. The processes share a lock on a file. The lock belongs to the open
file, which forks inherit. The system releases the lock when the last of these processes ends, for whatever reason.
Another process that acquires the lock can be sure that all of the program's processes have ended.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_UNBORN = ".new"


class Presence:
    """The presence of one program, announced before the first fork and withdrawn when the program exits normally."""

    def __init__(self, file: Path, fd: int) -> None:
        self._file = file
        self._fd = fd

    @classmethod
    def announce(cls, folder: Path, name: str) -> "Presence":
        folder.mkdir(parents=True, exist_ok=True)
        unborn = folder / f"{name}{_UNBORN}"
        fd = os.open(unborn, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        unborn.rename(folder / name)  # the file is locked before other processes can find it
        return cls(folder / name, fd)

    def withdraw(self) -> None:
        with suppress(OSError):
            self._file.unlink()
        os.close(self._fd)


def announced(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.endswith(_UNBORN))
    except OSError:
        return []


@contextmanager
def if_gone(folder: Path, name: str) -> Iterator[bool]:
    """Yield whether all processes with this name are gone.

    While the context is open, no other process can run the cleanup. When the context closes, the name is removed.
    """
    try:
        fd = os.open(folder / name, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
        with suppress(OSError):
            (folder / name).unlink()
    finally:
        os.close(fd)
