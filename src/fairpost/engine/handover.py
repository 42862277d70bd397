"""Notes of what each worker is handing over, for whoever comes after a worker that was killed.

A worker that dies between `begin` and `settle` leaves an e-mail of which the database cannot say whether it was sent. The
worker could: it knows whether it had written the final dot. So it notes e-mail, attempt and epoch in a file mapped into
its memory before `begin` is committed, and takes the note back right before the dot. A note that stands therefore means:
this attempt was not completed. Everything else (no note, a torn one, another attempt) means nothing, and the e-mail stays
in doubt.

A note is believed only when the kernel proves that its writer is dead. The worker locks its file after it was forked and
holds the lock for its whole life; a worker that is merely frozen, slow or without its lease still holds it. Whoever gets
the lock knows that no dot will follow. The boot must be the same, too: after a crash of the machine, the disk may have an
older page than memory had. And the database must be the same, because another one has the same numbers.

Why the order of stores is enough, without a wait for the disk: SIGKILL stops a process between two instructions. What it
stored before is in the page cache, which outlives it; what comes later in the program was never stored, on x86 and ARM
alike, because processors show a store only once the instructions before it are certain. On ARM another core may see stores
in another order for a moment, but not across a lock: giving up the dead process's lock and taking it are a release and an
acquire. So a reader sees a prefix of the writer's stores. Copying a record into the map is no single store, so it is
framed: the mark is cleared first and set last, each as one byte, and a checksum covers the record and its mark.

Two records an account: while one e-mail is being settled, the next one is begun in the same commit.
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

FOLDER = "handover"  # in Fairpost's home, by region
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own in it, and nobody else's
FILES_MAX = 20_000  # looked at in one go
ACCOUNTS_MAX = 10_000  # in one file

MAGIC = b"fairpost handover 1\n".ljust(24, b"\0")
HEADER = Struct("<24s16s16sI4x")  # which ends at a cache line: magic, boot, database, accounts
FIELDS = Struct("<QQQI")  # account, epoch, e-mail, attempt
CHECKSUM = Struct("<I")
FIELDS_AT = 8  # in a record, whose first byte is its mark
CHECKSUM_AT = FIELDS_AT + FIELDS.size
END_AT = CHECKSUM_AT + CHECKSUM.size
RECORD_BYTES = 64  # a cache line
PAIR_BYTES = 2 * RECORD_BYTES
FILE_BYTES_MAX = HEADER.size + ACCOUNTS_MAX * PAIR_BYTES

BLANK = 0
UNWRITTEN = ord("u")  # the dot of this attempt was not written
WRITTEN = ord("w")  # it is being written, or was
NO_CHECKSUM = bytes(CHECKSUM.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten:
    """An attempt that was not completed."""

    account_id: AccountId
    epoch: Epoch
    email_id: EmailId
    attempt: int


Memory = mmap.mmap | bytearray
"""Of a file, which outlives the process; or of a test."""


class Note:
    """What is noted of one account, by the worker that drives it."""

    def __init__(self, memory: Memory, account_id: AccountId, at: int) -> None:
        self._memory = memory
        self._account_id = account_id
        self._at = (at, at + RECORD_BYTES)
        self._emails: list[EmailId | None] = [None, None]
        self._last = 1
        self.stands = False

    def begin(self, epoch: Epoch, email_id: EmailId, attempt: int) -> None:
        """Before its begin is committed. The note of the e-mail before it stands on: that one may not be settled yet."""
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
        """Right before the first byte that could complete the message. What was begun before it is settled by now, so both
        notes go."""
        memory = self._memory
        for at in self._at:
            memory[at] = WRITTEN
            memory[at + CHECKSUM_AT : at + END_AT] = NO_CHECKSUM
        self.stands = False


class NoNote(Note):
    """Where nothing can be noted: what is cut off is in doubt."""

    def __init__(self) -> None:
        self.stands = False

    def begin(self, epoch: Epoch, email_id: EmailId, attempt: int) -> None:
        pass

    def complete(self) -> None:
        pass


class Handover:
    """A worker process's own file, if it has one. Opened after the fork: a lock is shared with whoever inherits it."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._folders = tuple(folders)
        self._place: tuple[Path, str] | None = None
        self._fd = -1
        self._memory: mmap.mmap | None = None
        self._free: list[int] = []
        self._notes: dict[AccountId, tuple[Note, int]] = {}
        self._left: dict[AccountId, None] = {}  # of accounts that nobody drives here now, and whose notes stand

    @classmethod
    def open(cls, folders: Sequence[Path], *, database: UUID, accounts_max: int) -> Self:
        """In the first folder that will do. In none, nothing is noted."""
        handover = cls(folders)
        boot = boot_id()
        for folder in folders if boot is not None else ():
            with private_folder(folder, make=True) as place, suppress(OSError):
                if place is not None and boot is not None:
                    handover._make(folder, place, boot, database, min(accounts_max, ACCOUNTS_MAX))
                    break
        return handover

    def note(self, account_id: AccountId) -> Note:
        """Until the account is released. Where there is no room, what others left standing longest goes."""
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
        """Nobody drives the account here any more. A note that stands is kept for whoever comes after us: what it is
        about may have been settled or not."""
        if account_id in self._notes:
            if self._notes[account_id][0].stands:
                self._left[account_id] = None
            else:
                self._forget(account_id)

    async def believe(self, store: Store, account_id: AccountId) -> None:
        """Clears up what the account's last worker left in doubt, where that can be known."""
        if self._folders and await store.has_doubts(account_id):
            await clear_doubts(store, self._folders)

    def close(self) -> None:
        """The file goes, unless something in it is for others to read."""
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
        """Locked before it has a header: without one, nobody believes it."""
        size = HEADER.size + accounts * PAIR_BYTES
        name = f"{os.getpid()}-{token_hex(8)}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(name, flags, 0o600, dir_fd=place)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(fd).st_nlink:
                raise FileNotFoundError("whoever looked for dead workers has taken it away")
            os.posix_fallocate(fd, 0, size)  # a store into what the disk has no room for would kill us
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
    """Where the workers of this home and region leave their notes: the first that will do. Files in the home outlive a container
    that is started again; shared memory is for homes on a network, or that cannot be written to."""
    mark = hashlib.sha256(f"{home.absolute()}\0{region}".encode()).hexdigest()[:16]
    name = f"fairpost-{os.geteuid()}-{mark}" if kind == FOLDER else f"fairpost-{os.geteuid()}-{mark}-{kind}"
    return home / kind / region, SHARED_MEMORY / name


async def clear_doubts(store: Store, folders: Sequence[Path]) -> int:
    """Reads what dead workers of this database left behind, and puts back what they provably never completed: how many
    e-mails. What has been read is removed, and so is what is of another boot."""
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
                            continue  # whoever works on that one reads it
                        for each in left.unwritten:
                            cut += await put_back(store, each)
                    with suppress(OSError):
                        os.unlink(name, dir_fd=place)
    return cut


async def put_back(store: Store, left: Unwritten) -> bool:
    """On its retry plan. The caller has proof that this attempt was not completed, and will not be."""
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
    """What a dead worker's file says, locked while this lasts. None: its worker lives, or it is no file of ours."""
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
            if stat.S_ISREG(seen.st_mode) and is_private(seen) and seen.st_nlink == 1:  # else another has just read it
                content = os.pread(fd, FILE_BYTES_MAX, 0)
        yield content
    finally:
        os.close(fd)


# ── the file's content, without I/O ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a file says, believed by nobody yet."""

    boot: bytes
    database: UUID
    unwritten: tuple[Unwritten, ...]


def header(*, boot: bytes, database: UUID, accounts: int) -> bytes:
    return HEADER.pack(MAGIC, boot, database.bytes, accounts)


def read(content: bytes) -> Left | None:
    """None: it is no whole file of notes."""
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
