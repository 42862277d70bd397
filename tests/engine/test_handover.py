"""What workers note about their handovers, and when notes are trusted."""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.engine.handover import (
    HEADER,
    PAIR_BYTES,
    RECORD_BYTES,
    Handover,
    Note,
    Unwritten,
    clear_doubts,
    folders,
    header,
    read,
)
from fairpost.model.account import Lease, Limits, Usage
from fairpost.model.ids import AccountId, EmailId, Epoch
from fairpost.model.verdict import Sent
from fairpost.store.store import Store
from fairpost.system import machine
from tests.simulation.world import broken_promises, draft
from tests.thorough import times

BOOT = bytes(range(16))
DATABASE = UUID(int=7)
ANNA = AccountId(3)


# ── the records ───────────────────────────────────────────────────────────────────────────────────────────


class Torn(bytearray):
    """The memory of a process that was killed during a store, of which only some bytes were written."""

    def __init__(self, accounts: int = 1) -> None:
        super().__init__(header(boot=BOOT, database=DATABASE, accounts=accounts) + bytes(accounts * PAIR_BYTES))
        self.moments = [bytes(self)]
        self._dice = random.Random(5)

    def __setitem__(self, at: Any, data: Any) -> None:
        for _ in range(4 if isinstance(at, slice) else 0):
            torn = bytearray(self)
            torn[at] = bytes(new if self._dice.random() < 0.5 else old for new, old in zip(data, torn[at], strict=True))
            self.moments.append(bytes(torn))
        super().__setitem__(at, data)
        self.moments.append(bytes(self))


def noted(content: bytes) -> set[Unwritten]:
    left = read(content)
    assert left is not None
    return set(left.unwritten)


def unwritten(email: int, attempt: int = 1, epoch: int = 5) -> Unwritten:
    return Unwritten(account_id=ANNA, epoch=Epoch(epoch), email_id=EmailId(email), attempt=attempt)


def begin(note: Note, each: Unwritten) -> None:
    note.begin(each.epoch, each.email_id, each.attempt)


steps = st.lists(st.one_of(st.none(), st.integers(1, 4).map(unwritten)), max_size=12)
"""None: the message is completed. Else: an e-mail is begun, the same one again at times."""


@settings(max_examples=times(40), deadline=None)
@given(steps)
def test_at_no_moment_a_completed_attempt_is_said_to_be_unwritten(story: list[Unwritten | None]) -> None:
    memory = Torn()
    note = Note(memory, ANNA, HEADER.size)
    may_stand: set[Unwritten] = set()
    for each in story:
        seen = len(memory.moments)
        if each is None:
            note.complete()  # from here on, the dot may be on its way
            during = may_stand
            may_stand = set()
        else:
            begin(note, each)
            may_stand = during = may_stand | {each}
            assert each in noted(memory.moments[-1])
        assert all(noted(moment) <= during for moment in memory.moments[seen:])
        assert noted(memory.moments[-1]) <= may_stand


def test_while_one_is_being_settled_and_the_next_begins_both_are_noted() -> None:
    memory = Torn()
    note = Note(memory, ANNA, HEADER.size)
    begin(note, unwritten(1))
    begin(note, unwritten(2))
    assert note.stands
    assert noted(bytes(memory)) == {unwritten(1), unwritten(2)}
    note.complete()
    assert noted(bytes(memory)) == set()
    begin(note, unwritten(3))
    assert noted(bytes(memory)) == {unwritten(3)}


def test_accounts_of_one_process_do_not_touch_each_others_notes() -> None:
    memory = Torn(accounts=2)
    anna, otto = Note(memory, ANNA, HEADER.size), Note(memory, AccountId(4), HEADER.size + PAIR_BYTES)
    begin(anna, unwritten(1))
    begin(otto, unwritten(2))
    otto.complete()
    assert noted(bytes(memory)) == {unwritten(1)}


@settings(max_examples=times(60), deadline=None)
@given(st.data())
def test_garbled_bytes_are_never_taken_for_a_note(data: st.DataObject) -> None:
    memory = Torn()
    note = Note(memory, ANNA, HEADER.size)
    begin(note, unwritten(1))
    note.complete()
    begin(note, unwritten(2, attempt=3))
    content = bytearray(memory)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(HEADER.size, len(content) - 1))] = data.draw(st.integers(0, 255))
    assert noted(bytes(content)) <= {unwritten(2, attempt=3)}


@given(st.binary(max_size=4 * RECORD_BYTES))
@settings(max_examples=times(60), deadline=None)
def test_an_incomplete_file_of_notes_is_ignored(content: bytes) -> None:
    assert read(content) is None
    head = header(boot=BOOT, database=DATABASE, accounts=1)
    whole = read((head + content)[: HEADER.size + PAIR_BYTES])
    assert whole is None or whole.unwritten == ()


# ── the file, and when it is trusted ──────────────────────────────────────────────────────────────────────


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url) as store:
        yield store


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    shutil.rmtree(folders(tmp_path, "main")[1], ignore_errors=True)


class Dead:
    """A worker that has begun an e-mail, its notes, and what a successor does with them."""

    def __init__(self, store: Store, home: Path) -> None:
        self.store = store
        self.folders = folders(home, "main")

    async def begins(self, **more: Any) -> Unwritten:
        account = await self.store.add_account("anna", address="a@post.test", limits=Limits())
        await self.store.enqueue_many([draft(on_doubt="hold", **more)])
        self.lease = await self.take(account)
        (id_,) = (await self.store.claim(self.lease, limit=1)).ids
        begun = await self.store.begin(self.lease, id_, usage=Usage())
        assert begun.attempt is not None
        return Unwritten(account_id=account, epoch=self.lease.epoch, email_id=id_, attempt=begun.attempt)

    async def take(self, account: AccountId) -> Lease:
        lease = await self.store.take_lease(account, owner="one", seconds=600)
        assert lease is not None
        return lease

    async def notes(self, *notes: Unwritten, database: UUID | None = None) -> Handover:
        """Acts as a live worker."""
        key = database or await self.store.handover_key()
        handover = Handover.open(self.folders, database=key, accounts_max=4)
        for each in notes:
            begin(handover.note(each.account_id), each)
        return handover

    async def leaves(self, *notes: Unwritten, database: UUID | None = None) -> None:
        """Acts as a worker that ended without settling them."""
        (await self.notes(*notes, database=database)).close()

    async def clear(self) -> int:
        return await clear_doubts(self.store, self.folders)

    def files(self) -> list[str]:
        return [name for folder in self.folders if folder.is_dir() for name in os.listdir(folder)]

    def file(self) -> Path:
        return self.folders[0] / self.files()[0]

    async def state(self) -> tuple[str, int]:
        sql = "SELECT state::text, attempts FROM fairpost.queue UNION ALL SELECT state::text, attempts FROM fairpost.emails"
        ((state, attempts),) = await self.store.fetch(sql)
        return state, attempts

    async def outcomes(self) -> list[str]:
        return [row["outcome"] for row in await self.store.fetch("SELECT outcome FROM fairpost.attempts ORDER BY n")]


@pytest.fixture
def dead(store: Store, home: Path) -> Dead:
    return Dead(store, home)


async def test_an_email_that_a_dead_worker_never_completed_waits_again_with_the_attempt_logged(dead: Dead) -> None:
    begun = await dead.begins()
    await dead.leaves(begun)
    assert await dead.clear() == 1
    assert (await dead.state(), await dead.outcomes(), dead.files()) == (("waiting", 1), ["cut"], [])
    assert await dead.store.value("SELECT due_at > clock_timestamp() FROM fairpost.queue")
    assert await broken_promises(dead.store) == {}


async def test_proof_that_it_was_sent_stops_the_second_send_anyway(dead: Dead) -> None:
    begun = await dead.begins()
    await dead.leaves(begun)
    assert await dead.clear() == 1
    assert await dead.store.settle(dead.lease, begun.email_id, Sent()) == "evidence"
    assert (await dead.state(), await dead.outcomes()) == (("sent", 1), ["sent"])
    assert await broken_promises(dead.store) == {}


async def test_its_lease_need_not_run_out(dead: Dead) -> None:
    begun = await dead.begins()
    await dead.leaves(begun)
    await dead.clear()
    assert (await dead.take(begun.account_id)).epoch > begun.epoch


async def test_an_email_that_kills_its_worker_every_time_ends(dead: Dead) -> None:
    begun = await dead.begins(attempts_max=1)
    await dead.leaves(begun)
    assert await dead.clear() == 1
    assert (await dead.state(), await dead.outcomes()) == (("failed", 1), ["cut"])


async def test_a_worker_that_lives_is_not_believed_dead_whatever_became_of_its_lease(dead: Dead) -> None:
    begun = await dead.begins()
    living = await dead.notes(begun)
    assert await dead.store.drop_lease(dead.lease)
    assert await dead.clear() == 0
    assert await dead.state() == ("in_doubt", 1)
    living.close()
    assert await dead.clear() == 1, "now it is gone"
    assert await dead.state() == ("waiting", 1)


async def test_a_message_that_may_be_complete_stays_in_doubt(dead: Dead) -> None:
    begun = await dead.begins()
    worker = await dead.notes(begun)
    worker.note(begun.account_id).complete()
    begin(worker.note(begun.account_id), replace(begun, email_id=EmailId(999)))
    worker.close()
    await dead.store.drop_lease(dead.lease)
    assert await dead.clear() == 0
    assert (await dead.state(), dead.files()) == (("in_doubt", 1), [])


@pytest.mark.parametrize(
    "other",
    [
        {"attempt": 2},
        {"epoch": Epoch(9)},
        {"epoch": Epoch(0)},
        {"account_id": AccountId(99)},
        {"email_id": EmailId(99)},
    ],
)
async def test_a_note_of_another_attempt_says_nothing(dead: Dead, other: dict[str, Any]) -> None:
    begun = await dead.begins()
    await dead.store.drop_lease(dead.lease)
    await dead.leaves(replace(begun, **other))
    assert await dead.clear() == 0
    assert (await dead.state(), dead.files()) == (("in_doubt", 1), [])


async def test_an_email_that_its_provider_knows_is_left_to_the_provider(dead: Dead) -> None:
    begun = await dead.begins()
    await dead.store.drop_lease(dead.lease)
    await dead.store.value("""UPDATE fairpost.queue SET evidence = '{"draft": "d", "unknown": "gone"}'""")
    await dead.leaves(begun)
    assert await dead.clear() == 0
    assert await dead.state() == ("in_doubt", 1)


async def test_notes_of_another_boot_say_nothing_and_go(
    dead: Dead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = await dead.begins()
    await dead.leaves(begun)
    await dead.store.drop_lease(dead.lease)
    another = tmp_path / "boot_id"
    another.write_text("00000000-0000-4000-8000-000000000000\n")
    monkeypatch.setattr(machine, "BOOT_ID", another)
    assert await dead.clear() == 0
    assert (await dead.state(), dead.files()) == (("in_doubt", 1), [])


async def test_notes_about_another_database_are_left_alone(dead: Dead) -> None:
    begun = await dead.begins()
    await dead.leaves(begun, database=DATABASE)
    await dead.store.drop_lease(dead.lease)
    assert await dead.clear() == 0
    assert (await dead.state(), len(dead.files())) == (("in_doubt", 1), 1)


@pytest.mark.parametrize("change", ["readable", "another's", "linked", "truncated", "grown", "garbled"])
async def test_a_file_that_is_not_as_a_worker_leaves_it_says_nothing(dead: Dead, change: str) -> None:
    begun = await dead.begins()
    await dead.leaves(begun)
    await dead.store.drop_lease(dead.lease)
    file = dead.file()
    match change:
        case "readable":
            file.chmod(0o644)
        case "another's" if os.geteuid() == 0:
            os.chown(file, 65534, 65534)
        case "another's":
            pytest.skip("only root gives a file away")
        case "linked":
            os.link(file, file.parent.parent / "another")
        case "truncated":
            os.truncate(file, HEADER.size + PAIR_BYTES)
        case "grown":
            os.truncate(file, file.stat().st_size + 1)
        case "garbled":
            file.write_bytes(bytes(file.stat().st_size))
    assert await dead.clear() == 0
    assert await dead.state() == ("in_doubt", 1)


async def test_anything_but_a_regular_file_is_ignored(dead: Dead) -> None:
    begun = await dead.begins()
    await dead.leaves(begun)
    folder = dead.file().parent
    os.mkfifo(folder / "0-pipe", 0o600)
    (folder / "0-folder").mkdir()
    (folder / "0-link").symlink_to(dead.file())
    try:
        assert await dead.clear() == 1
    finally:
        (folder / "0-folder").rmdir()


@pytest.mark.parametrize("change", ["open to others", "a link", "on a network", "unknown"])
async def test_a_folder_that_is_not_private_or_not_of_this_machine_is_not_used(
    dead: Dead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    first = dead.folders[0]
    dead.folders = (first,)
    first.parent.mkdir(parents=True)
    match change:
        case "open to others":
            first.mkdir()
            first.chmod(0o750)
        case "a link":
            (tmp_path / "elsewhere").mkdir(mode=0o700)
            first.symlink_to(tmp_path / "elsewhere")
        case "on a network" | "unknown":
            first.mkdir(mode=0o700)
            device = first.stat().st_dev
            number = f"{os.major(device)}:{os.minor(device)}" if change == "on a network" else "0:0"
            mounts = tmp_path / "mountinfo"
            mounts.write_text(f"36 35 {number} / /home rw,noatime master:1 - nfs4 server:/home rw\n")
            monkeypatch.setattr(machine, "MOUNTS", mounts)
    begun = await dead.begins()
    await dead.leaves(begun)
    assert list(first.iterdir()) == []
    assert await dead.clear() == 0
    assert await dead.state() == ("sending", 1)


async def test_a_home_on_a_network_keeps_its_notes_in_shared_memory(dead: Dead) -> None:
    dead.folders[0].parent.mkdir(parents=True)
    dead.folders[0].touch()  # cannot be a folder
    begun = await dead.begins()
    await dead.leaves(begun)
    assert len(list(dead.folders[1].iterdir())) == 1
    assert await dead.clear() == 1


async def test_one_that_ends_properly_leaves_no_file(dead: Dead) -> None:
    begun = await dead.begins()
    worker = await dead.notes(begun)
    worker.note(begun.account_id).complete()
    worker.release(begun.account_id)
    assert len(dead.files()) == 1
    worker.close()
    assert dead.files() == []


async def test_accounts_come_and_go_in_a_process_with_room_for_few(dead: Dead) -> None:
    """The oldest note makes room; one in progress never does."""
    key = await dead.store.handover_key()
    worker = Handover.open(dead.folders, database=key, accounts_max=2)
    kept = replace(unwritten(1), account_id=AccountId(1))
    begin(worker.note(AccountId(1)), kept)
    for n in range(2, 6):
        begin(worker.note(AccountId(n)), unwritten(n))
        worker.release(AccountId(n))
    assert not worker.note(AccountId(6)).stands
    begin(worker.note(AccountId(7)), unwritten(7))  # there is no room, so nothing is noted
    assert noted(dead.file().read_bytes()) == {kept}
    worker.close()


FORKS = """
import os, sys, time
from pathlib import Path
from uuid import UUID
from fairpost.engine.handover import Handover
worker = Handover.open([Path(sys.argv[1])], database=UUID(sys.argv[2]), accounts_max=1)
worker.note(int(sys.argv[3])).begin(int(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]))
child = os.fork() if sys.argv[7] == "fork" else os.getpid()
if child:
    print(child, flush=True)
time.sleep(600)
"""


def started(command: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("ending", ["killed", "frozen", "fork"])
async def test_only_the_end_of_every_process_that_has_the_lock_is_proof(dead: Dead, ending: str) -> None:
    begun = await dead.begins()
    numbers = [begun.account_id, begun.epoch, begun.email_id, begun.attempt]
    key = await dead.store.handover_key()
    command = [sys.executable, "-c", FORKS, str(dead.folders[0]), str(key), *map(str, numbers), ending]
    with started(command) as worker:
        assert worker.stdout is not None
        child = int(worker.stdout.readline())
        await dead.store.drop_lease(dead.lease)
        assert await dead.clear() == 0
        if ending == "frozen":
            worker.send_signal(signal.SIGSTOP)
            assert await dead.clear() == 0
        worker.kill()
        worker.wait()
        if ending == "fork":
            assert await dead.clear() == 0, "another process shares the lock, and its state is unknown"
            os.kill(child, signal.SIGKILL)
            while machine_has(child):
                pass
    assert await dead.clear() == 1
    assert await dead.state() == ("waiting", 1)


def machine_has(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


async def test_many_readers_at_once_put_it_back_once(dead: Dead) -> None:
    begun = await dead.begins()
    await dead.leaves(begun)
    assert sum(await asyncio.gather(*(dead.clear() for _ in range(5)))) == 1
    assert await dead.outcomes() == ["cut"]
