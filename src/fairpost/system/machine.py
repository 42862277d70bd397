"""What a process must know of its machine before it believes what another process left in a file: which boot this is,
and whether a folder is private and kept by this kernel alone."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MOUNTS = Path("/proc/self/mountinfo")

# Kept by this kernel, with locks and mapped pages that all its processes share; and a block that was allocated once can be
# written again, so that a store into mapped memory cannot fail because the disk is full.
LOCAL = frozenset({"tmpfs", "ramfs", "ext2", "ext3", "ext4", "xfs", "overlay"})


def boot_id() -> bytes | None:
    """Another one after each start of the machine; None: this system does not tell."""
    try:
        return bytes.fromhex(BOOT_ID.read_text().strip().replace("-", ""))
    except (OSError, ValueError):
        return None


@contextmanager
def private_folder(path: Path, *, make: bool = False) -> Iterator[int | None]:
    """Open as a file descriptor while this lasts. None: it is not there, not ours alone, or not on a file system of this
    machine."""
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
    """Belongs to us, and nobody else may do anything with it."""
    return seen.st_uid == os.geteuid() and not seen.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def _file_system(device: int) -> str | None:
    """The kind that is mounted from this device; None where the system does not tell."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        for line in MOUNTS.read_text().splitlines():
            place, _, kind = line.partition(" - ")
            if place.split(" ", 3)[2] == number:
                return kind.split(" ", 1)[0]
    except (OSError, IndexError):
        pass
    return None
