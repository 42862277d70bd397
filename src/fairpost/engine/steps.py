"""Commits known to the engines on this machine: the most recent steps of each account, and the e-mails started in those
steps.

Every durable begin and settle of an account has a number, its step. A worker records the number once the database has
acknowledged it. A server whose last number is lower has lost commits. It is either a standby that was lagging behind or
a restored copy. The numbers are therefore compared before anything else is done with another server (confirm.py,
release/server.sql).

Each life of the database has one file per home, shared by all engines in this home. The file outlives workers and
engines. Each account has a block in it, with its ID and a ring of its last steps. A step is one write of one record
into the page cache, which takes about 2 µs and does not wait for a disk. If this machine is lost together with the
server, the steps are lost as well.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from uuid import UUID
from zlib import crc32

from fairpost.model.ids import AccountId, EmailId
from fairpost.system.machine import private_folder

FOLDER = "steps"  # folder in Fairpost's home, with a subfolder for each region
BLOCK_BYTES = 8192
RECORD = Struct("<QQI4x")  # step, the e-mail that it began (0: none), checksum
ACCOUNT = Struct("<QI4x")  # the block's first record: account, checksum
RING = BLOCK_BYTES // RECORD.size - 1
BLOCKS_MAX = 16_384
FREE = bytes(BLOCK_BYTES)


@dataclass(frozen=True, slots=True)
class Known:
    """The recorded steps of an account. `step` is the last step; `ring` holds the records of the most recent steps."""

    account_id: AccountId
    step: int
    ring: bytes

    def since(self, step: int) -> list[EmailId]:
        """Return the recorded e-mails started after this step. A copy of the database that ends at this step contains
        no record that they were started.
        """
        begun = sorted((at, email_id) for at, email_id in _records(self.ring) if at > step and email_id)
        return [EmailId(email_id) for _, email_id in begun]


class AccountSteps:
    """The steps of one account, recorded by the worker that drives it."""

    def __init__(self, fd: int, at: int) -> None:
        self._fd = fd
        self._at = at + RECORD.size

    def acknowledge(self, step: int, begun: EmailId | None = None) -> None:
        with suppress(OSError):  # sending does not wait for this machine's disk
            os.pwrite(self._fd, _record(step, begun or 0), self._at + step % RING * RECORD.size)


class NoSteps(AccountSteps):
    """A substitute for a record that cannot be kept."""

    def __init__(self) -> None:
        pass

    def acknowledge(self, step: int, begun: EmailId | None = None) -> None:
        pass


class Steps:
    """The file of one life of a database. If none of the folders is suitable, nothing is recorded."""

    def __init__(self, folders: Sequence[Path] = (), life: UUID | None = None) -> None:
        self._folders = tuple(folders)
        self._fd = -1
        self._open(life)

    def _open(self, life: UUID | None) -> None:
        self.life = life
        for folder in self._folders if life is not None else ():
            with private_folder(folder, make=True) as place, suppress(OSError):
                if place is not None:
                    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                    self._fd = os.open(f"{life}.steps", flags, 0o600, dir_fd=place)
                    break

    @property
    def remembers(self) -> bool:
        return self._fd >= 0

    def of(self, account_id: AccountId) -> AccountSteps:
        with suppress(OSError):  # if the disk is full, nothing is recorded about this account
            if self.remembers:
                return AccountSteps(self._fd, self._place(account_id))
        return NoSteps()

    def known(self) -> list[Known]:
        """Return the recorded steps of all accounts that have been driven by engines in this home."""
        found = []
        for at, account_id in enumerate(self._owners() if self.remembers else ()):
            ring = os.pread(self._fd, BLOCK_BYTES - RECORD.size, at * BLOCK_BYTES + RECORD.size)
            step = max((step for step, _ in _records(ring)), default=0)
            if account_id is not None and step:
                found.append(Known(account_id, step, ring))
        return found

    def forget(self, account_ids: Iterable[AccountId]) -> None:
        """Forget accounts that were removed. The caller must have verified that this is the right database."""
        gone = set(account_ids)
        if not gone or not self.remembers:
            return
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            for at, account_id in enumerate(self._owners()):
                if account_id in gone:
                    os.pwrite(self._fd, FREE, at * BLOCK_BYTES)
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def follow(self, life: UUID | None) -> bool:
        """Switch to the file for this life of the database if the life is new. Other workers may still write to the old
        file.
        """
        if life == self.life or not self._folders:
            return False
        self._fd = -1
        self._open(life)
        return True

    def close(self) -> None:
        if self.remembers:
            os.close(self._fd)
            self._fd = -1

    def _place(self, account_id: AccountId) -> int:
        """Return the position of the account's block, creating it if necessary.

        The disk space for the block is allocated now, so that a later step cannot run out of space.
        """
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            owners = self._owners()
            nth = owners.index(account_id) if account_id in owners else -1
            if nth < 0:
                nth = owners.index(None) if None in owners else len(owners)
                if nth >= BLOCKS_MAX:
                    raise OSError("too many accounts")
                os.posix_fallocate(self._fd, nth * BLOCK_BYTES, BLOCK_BYTES)
                head = ACCOUNT.pack(account_id, crc32(account_id.to_bytes(8, "little")))
                os.pwrite(self._fd, head, nth * BLOCK_BYTES)
            return nth * BLOCK_BYTES
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _owners(self) -> list[AccountId | None]:
        """Return the account that each block belongs to, or None for a free block."""
        blocks = os.fstat(self._fd).st_size // BLOCK_BYTES
        return [_account_of(os.pread(self._fd, ACCOUNT.size, at * BLOCK_BYTES)) for at in range(blocks)]


NO_STEPS = Steps()


def _record(step: int, begun: int) -> bytes:
    return RECORD.pack(step, begun, crc32(step.to_bytes(8, "little") + begun.to_bytes(8, "little")))


def _records(ring: bytes) -> Iterator[tuple[int, int]]:
    """Yield the step and e-mail of each record, in no particular order. Damaged records are skipped."""
    for at in range(0, len(ring) - RECORD.size + 1, RECORD.size):
        step, begun, checksum = RECORD.unpack_from(ring, at)
        if step and checksum == crc32(ring[at : at + 16]):
            yield step, begun


def _account_of(head: bytes) -> AccountId | None:
    account_id, checksum = ACCOUNT.unpack(head)
    return AccountId(account_id) if account_id and checksum == crc32(head[:8]) else None
