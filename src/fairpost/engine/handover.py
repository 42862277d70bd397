"""Notes on the e-mails that each worker is handing over, for the successor of a worker that was killed.

When a worker dies between `begin` and `settle`, the database cannot tell whether the e-mail in progress was sent. Only
the worker itself knows whether it wrote the final dot. The worker therefore notes the e-mail, attempt and epoch in a
file mapped into its memory before `begin` is committed, and removes the note right before the dot. If the note still
exists, it proves that the attempt was not completed. In every other case (no note, a torn note, or a note about another
attempt), nothing is proven, and the e-mail stays in doubt.

A note is trusted only if the kernel proves that its writer is dead. The worker locks its file after the fork and keeps
the lock for its whole life, even if it is frozen or slow, or has lost its lease. A process that acquires the lock can
be sure that no dot will follow. The note must be from the current boot, because after a machine crash, the page on the
disk may be older than the one that was in memory. The note must also be about the same database, because other
databases use the same numbers for other e-mails.

It is enough that stores happen in order; there is no need to wait for the disk, because SIGKILL stops a process between
two instructions. Earlier stores are in the page cache, which outlives the process. Later stores never happen, on x86
and ARM alike, because processors make a store visible only once the instructions before it are certain. On ARM, another
core may briefly see stores in a different order, but not across a lock: releasing the dead process's lock counts as a
release, and taking it counts as an acquire. So a reader sees a prefix of the writer's stores. Copying a record into the
map is not a single store, so the record is framed: its mark (a single byte) is cleared first and set last, and a
checksum covers the record and its mark.

Each account has two records, because one commit can settle an e-mail and begin the next one.
"""

import fcntl
import hashlib
import mmap
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from struct import Struct
from typing import Self
from uuid import UUID
from zlib import crc32

from fairpost.model.ids import AccountId, EmailId, Epoch
from fairpost.policy.retries import retry_delay
from fairpost.store.store import Store
from fairpost.system import chance, clock
from fairpost.system.machine import boot_id, is_private, private_folder

FOLDER = "handover"  # folder in Fairpost's home, with a subfolder for each region
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - in a private folder of ours
FILES_MAX = 20_000  # maximum number of files to read
ACCOUNTS_MAX = 10_000  # accounts per file

MAGIC = b"fairpost handover 1\n".ljust(24, b"\0")
HEADER = Struct("<24s16s16sI4x")  # the header, which fills a cache line: magic, boot, database, accounts
FIELDS = Struct("<QQQI")  # account, epoch, e-mail, attempt
CHECKSUM = Struct("<I")
FIELDS_AT = 8  # offset of the fields in a record, whose first byte is the mark
CHECKSUM_AT = FIELDS_AT + FIELDS.size
END_AT = CHECKSUM_AT + CHECKSUM.size
RECORD_BYTES = 64  # the size of a cache line
PAIR_BYTES = 2 * RECORD_BYTES
FILE_BYTES_MAX = HEADER.size + ACCOUNTS_MAX * PAIR_BYTES

BLANK = 0
UNWRITTEN = ord("u")  # the final dot was not written in this attempt
WRITTEN = ord("w")  # the dot is being written or has been written
NO_CHECKSUM = bytes(CHECKSUM.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten:
    """An attempt that was not completed."""

    account_id: AccountId
    epoch: Epoch
    email_id: EmailId
    attempt: int


Memory = mmap.mmap | bytearray
"""Memory mapped from a file, which outlives the process, or memory in a test."""


class Note:
    """The notes for one account, written by the worker that sends through it."""

    def __init__(self, memory: Memory, account_id: AccountId, at: int) -> None:
        self._memory = memory
        self._account_id = account_id
        self._at = (at, at + RECORD_BYTES)
        self._emails: list[EmailId | None] = [None, None]
        self._last = 1
        self.stands = False

    def begin(self, epoch: Epoch, email_id: EmailId, attempt: int) -> None:
        """Write a note about an e-mail that is about to begin. Call this before the begin is committed.

        The note of the previous e-mail is kept, because that e-mail may not be settled yet.
        """
        turn = self._last if self._emails[self._last] == email_id else 1 - self._last
        at, memory = self._at[turn], self._memory
        record = _sealed(self._account_id, epoch, email_id, attempt)
        memory[at] = BLANK
        memory[at + FIELDS_AT : at + END_AT] = record
        memory[at] = UNWRITTEN
        self._emails[turn] = email_id
        self._last = turn
        self.stands = True

    def complete(self) -> None:
        """Remove the notes. Call this right before the first byte that could complete the message.

        The previous e-mail has been settled by now, so its note is removed as well.
        """
        memory = self._memory
        for at in self._at:
            memory[at] = WRITTEN
            memory[at + CHECKSUM_AT : at + END_AT] = NO_CHECKSUM
        self.stands = False


class NoNote(Note):
    """A substitute that is used if notes cannot be written; any interrupted e-mail is then in doubt."""

    def __init__(self) -> None:
        self.stands = False

    def begin(self, epoch: Epoch, email_id: EmailId, attempt: int) -> None:
        pass

    def complete(self) -> None:
        pass


class Handover:
    """The file of a worker process, if the process has one. The file is opened after the fork, because otherwise the
    process would share its parent's lock.
    """

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._folders = tuple(folders)
        self._place: tuple[Path, str] | None = None
        self._fd = -1
        self._memory: mmap.mmap | None = None
        self._free: list[int] = []
        self._notes: dict[AccountId, tuple[Note, int]] = {}
        self._left: dict[AccountId, None] = {}  # accounts that this process no longer drives, but whose notes are kept

    @classmethod
    def open(cls, folders: Sequence[Path], *, database: UUID, accounts_max: int) -> Self:
        """Open a file in the first suitable folder. If no folder is suitable, no notes are written."""
        handover = cls(folders)
        boot = boot_id()
        for folder in folders if boot is not None else ():
            with private_folder(folder, make=True) as place, suppress(OSError):
                if place is not None and boot is not None:
                    handover._make(folder, place, boot, database, min(accounts_max, ACCOUNTS_MAX))
                    break
        return handover

    def note(self, account_id: AccountId) -> Note:
        """Return the account's note, which is valid until the account is released.

        If there is no room, the oldest note left by a released account is dropped.
        """
        self._left.pop(account_id, None)
        if account_id not in self._notes:
            if not self._free and self._left:
                self._forget(next(iter(self._left)))
            if self._memory is None or not self._free:
                return NoNote()
            at = self._free.pop()
            self._notes[account_id] = Note(self._memory, account_id, at), at
        return self._notes[account_id][0]

    def release(self, account_id: AccountId) -> None:
        """Release an account that this process no longer drives.

        A remaining note is kept for the successor, because its e-mail may not have been settled.
        """
        if account_id in self._notes:
            if self._notes[account_id][0].stands:
                self._left[account_id] = None
            else:
                self._forget(account_id)

    async def believe(self, store: Store, account_id: AccountId) -> None:
        """Resolve the e-mails that the account's last worker left in doubt, if notes prove what happened to them."""
        if self._folders and await store.has_doubts(account_id):
            await clear_doubts(store, self._folders)

    def close(self) -> None:
        """Remove the file, unless it contains notes that other workers have yet to read."""
        if self._memory is None or self._place is None:
            return
        if not any(note.stands for note, _ in self._notes.values()):
            folder, name = self._place
            with suppress(OSError):
                (folder / name).unlink()
        self._memory.close()
        self._memory = None
        os.close(self._fd)

    def _forget(self, account_id: AccountId) -> None:
        self._left.pop(account_id, None)
        note, at = self._notes.pop(account_id)
        note.complete()
        self._free.append(at)

    def _make(self, folder: Path, place: int, boot: bytes, database: UUID, accounts: int) -> None:
        """Create the file. Lock the file before it has a header, because other processes ignore files without one."""
        size = HEADER.size + accounts * PAIR_BYTES
        name = f"{os.getpid()}-{token_hex(8)}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(name, flags, 0o600, dir_fd=place)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(fd).st_nlink:
                raise FileNotFoundError("the file was removed by a search for dead workers")
            os.posix_fallocate(fd, 0, size)  # writing to a page without disk space would kill this process
            memory = mmap.mmap(fd, size)
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=place)
            os.close(fd)
            raise
        memory[: HEADER.size] = header(boot=boot, database=database, accounts=accounts)
        self._place, self._fd, self._memory = (folder, name), fd, memory
        self._free = [HEADER.size + nth * PAIR_BYTES for nth in reversed(range(accounts))]


NOWHERE = Handover()


def folders(home: Path, region: str, kind: str = FOLDER) -> tuple[Path, ...]:
    """Return the folders for workers' notes in this home and region. Workers use the first suitable folder.

    Files in the home survive a container restart. Shared memory is used if the home is on a network or not writable.
    """
    mark = hashlib.sha256(f"{home.absolute()}\0{region}".encode()).hexdigest()[:16]
    name = f"fairpost-{os.geteuid()}-{mark}" if kind == FOLDER else f"fairpost-{os.geteuid()}-{mark}-{kind}"
    return home / kind / region, SHARED_MEMORY / name


async def clear_doubts(store: Store, folders: Sequence[Path]) -> int:
    """Read the notes that dead workers of this database left behind, and return the number of e-mails put back in the
    queue.

    Only e-mails that were provably never completed are put back. Files are removed once they are read, and so are files
    from another boot.
    """
    boot, database, cut = boot_id(), None, 0
    for folder in folders if boot is not None else ():
        with private_folder(folder) as place:
            for name in _names(place):
                with _left_behind(place, name) as content:
                    if content is None:
                        continue
                    database = database or await store.handover_key()
                    left = read(content)
                    if left is not None and left.boot == boot:
                        if left.database != database:
                            continue  # processes that use the other database will read this file
                        for each in left.unwritten:
                            cut += await put_back(store, each)
                    with suppress(OSError):
                        os.unlink(name, dir_fd=place)
    return cut


async def put_back(store: Store, left: Unwritten) -> bool:
    """Return the e-mail to the queue according to its retry schedule. The caller must have proof that this attempt was
    not completed and never will be.
    """
    emails = await store.load([left.email_id])
    if not emails:
        return False
    delay = retry_delay(emails[0].email_class, attempts=left.attempt, roll=chance.roll())
    state = await store.cut(
        left.account_id, left.epoch, left.email_id, attempt=left.attempt, due_at=clock.now() + delay
    )
    return state is not None


def _names(place: int | None) -> list[str]:
    return sorted(os.listdir(place))[:FILES_MAX] if place is not None else []


@contextmanager
def _left_behind(place: int | None, name: str) -> Iterator[bytes | None]:
    """Yield the content of a dead worker's file, which stays locked within this context.

    Yields None if the file's worker is alive or if the file belongs to another user.
    """
    content = None
    try:
        fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
    except OSError:
        yield None
        return
    try:
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            seen = os.fstat(fd)
            # If the file has no link left, another process has just read it.
            if stat.S_ISREG(seen.st_mode) and is_private(seen) and seen.st_nlink == 1:
                content = os.pread(fd, FILE_BYTES_MAX, 0)
        yield content
    finally:
        os.close(fd)


# ── the file's content, without I/O ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The content of a file that has not been verified yet."""

    boot: bytes
    database: UUID
    unwritten: tuple[Unwritten, ...]


def header(*, boot: bytes, database: UUID, accounts: int) -> bytes:
    return HEADER.pack(MAGIC, boot, database.bytes, accounts)


def read(content: bytes) -> Left | None:
    """Parse the content of a file. Return None if the file is not a complete notes file."""
    if len(content) < HEADER.size:
        return None
    magic, boot, database, accounts = HEADER.unpack_from(content)
    if magic != MAGIC or len(content) != HEADER.size + accounts * PAIR_BYTES:
        return None
    found = [_opened(content, at) for at in range(HEADER.size, len(content), RECORD_BYTES)]
    return Left(boot=boot, database=UUID(bytes=database), unwritten=tuple(each for each in found if each is not None))


def _sealed(account_id: AccountId, epoch: Epoch, email_id: EmailId, attempt: int) -> bytes:
    fields = FIELDS.pack(account_id, epoch, email_id, attempt)
    return fields + CHECKSUM.pack(crc32(fields, UNWRITTEN))


def _opened(content: bytes, at: int) -> Unwritten | None:
    fields_at, checksum_at = at + FIELDS_AT, at + CHECKSUM_AT
    checksum = crc32(content[fields_at:checksum_at], UNWRITTEN)
    if content[at] != UNWRITTEN or CHECKSUM.unpack_from(content, checksum_at)[0] != checksum:
        return None
    account_id, epoch, email_id, attempt = FIELDS.unpack_from(content, fields_at)
    return Unwritten(account_id=AccountId(account_id), epoch=Epoch(epoch), email_id=EmailId(email_id), attempt=attempt)
