"""What a machine knows to be committed: written by workers, compared by engines, and forgotten with its accounts."""

import os
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from fairpost.engine.steps import RING, Steps
from fairpost.model.ids import AccountId, EmailId

ANNA, BERT = AccountId(1), AccountId(2)
LIFE = uuid4()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "steps"


def opened(folder: Path, life: UUID = LIFE) -> Steps:
    return Steps([folder], life)


def known(folder: Path, life: UUID = LIFE) -> dict[AccountId, tuple[int, list[EmailId]]]:
    return {each.account_id: (each.step, each.since(0)) for each in opened(folder, life).known()}


def test_one_process_reads_what_another_writes(folder: Path) -> None:
    one, other = opened(folder), opened(folder)
    one.of(ANNA).acknowledge(7, EmailId(70))
    other.of(BERT).acknowledge(3)
    one.of(ANNA).acknowledge(8)
    assert known(folder) == {ANNA: (8, [70]), BERT: (3, [])}


def test_the_last_steps_are_remembered_and_the_newest_counts(folder: Path) -> None:
    steps = opened(folder).of(ANNA)
    for step in range(1, 3 * RING):
        steps.acknowledge(step, EmailId(step * 10))
    (found,) = opened(folder).known()
    assert found.step == 3 * RING - 1
    assert found.since(3 * RING - 4) == [(3 * RING - n) * 10 for n in (3, 2, 1)]
    assert len(found.since(0)) == RING


def test_each_life_of_a_database_has_a_memory_of_its_own(folder: Path) -> None:
    steps = opened(folder)
    steps.of(ANNA).acknowledge(5)
    old = steps.of(ANNA)
    other = uuid4()
    assert steps.follow(other)
    assert not steps.follow(other)
    assert steps.known() == []
    old.acknowledge(6)
    steps.of(BERT).acknowledge(1)
    assert known(folder, other) == {BERT: (1, [])}
    assert known(folder) == {ANNA: (6, [])}


def test_a_removed_account_is_forgotten_and_its_room_used_again(folder: Path) -> None:
    steps = opened(folder)
    steps.of(ANNA).acknowledge(5)
    steps.of(BERT).acknowledge(6)
    size = (folder / f"{LIFE}.steps").stat().st_size
    steps.forget([ANNA])
    assert set(known(folder)) == {BERT}
    steps.of(AccountId(3)).acknowledge(1)
    assert set(known(folder)) == {BERT, 3}
    assert (folder / f"{LIFE}.steps").stat().st_size == size


def test_a_damaged_record_is_no_record(folder: Path) -> None:
    steps = opened(folder).of(ANNA)
    steps.acknowledge(5)
    steps.acknowledge(6)
    file = folder / f"{LIFE}.steps"
    content = bytearray(file.read_bytes())
    content[24 + 6 * 24] ^= 1
    file.write_bytes(content)
    assert known(folder) == {ANNA: (5, [])}


def test_where_nothing_can_be_written_nothing_is_remembered_and_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for steps in (Steps(), Steps([tmp_path / "file"], LIFE), Steps([tmp_path], None)):
        steps.of(ANNA).acknowledge(5)
        assert steps.known() == []
        assert not steps.remembers
        steps.forget([ANNA])
        steps.close()


def test_the_file_is_for_its_owner_alone(folder: Path) -> None:
    opened(folder).of(ANNA)
    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert os.stat(folder / f"{LIFE}.steps").st_mode & 0o777 == 0o600
