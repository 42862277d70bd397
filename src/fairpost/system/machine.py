"""Facts about the machine: its name, the current boot, and whether a folder can be trusted. A process checks these
facts before it trusts a file left by another process. The folder must be private and managed only by this kernel.
"""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MOUNTS = Path("/proc/self/mountinfo")

# File systems that this kernel manages itself, so all of its processes share locks and mapped pages. Once a block is
# allocated, it can be written again, so writing to mapped memory cannot fail because the disk is full.
LOCAL = frozenset({"tmpfs", "ramfs", "ext2", "ext3", "ext4", "xfs", "overlay"})


@cache
def full_name() -> str:
    """Return the host name, including the domain if there is one. This may query DNS."""
    name = socket.gethostname()
    return name if "." in name else socket.getfqdn(name)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def boot_id() -> bytes | None:
    """Return an ID that changes each time the machine boots, or None if the system does not provide one."""
    try:
        return bytes.fromhex(BOOT_ID.read_text().strip().replace("-", ""))
    except (OSError, ValueError):
        return None


@contextmanager
def private_folder(path: Path, *, make: bool = False) -> Iterator[int | None]:
    """Yield the folder as an open file descriptor. Yield None if the folder is missing, is accessible to others, or is
    not on one of this machine's file systems.
    """
    try:
        if make:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        seen = os.fstat(fd)
        yield fd if is_private(seen) and _file_system(seen.st_dev) in LOCAL else None
    finally:
        os.close(fd)


def is_private(seen: os.stat_result) -> bool:
    """Return whether the file belongs to this user and others have no access to it."""
    return seen.st_uid == os.geteuid() and not seen.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def _file_system(device: int) -> str | None:
    """Return the type of the file system mounted from this device, or None if it is unknown."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        for line in MOUNTS.read_text().splitlines():
            place, _, kind = line.partition(" - ")
            if place.split(" ", 3)[2] == number:
                return kind.split(" ", 1)[0]
    except (OSError, IndexError):
        pass
    return None
