"""The key's file: private, created once, and the same for all concurrent creators."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairpost.model.errors import VaultError
from fairpost.vault import files
from fairpost.vault.files import create_key_file, keep_as, read_key_file
from fairpost.vault.keyring import Keyring
from fairpost.vault.keys import new_key, write_key

RACERS = 8
RACER = """
import sys, time
from pathlib import Path
from fairpost.vault.files import create_key_file
home = Path(sys.argv[1])
print("here", flush=True)
while not (home / "go").exists():
    pass
print(create_key_file(home / "secret.key").id)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "secret.key"


def put(path: Path, text: str, mode: int = 0o600) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def test_there_is_no_key_before_it_is_needed(path: Path) -> None:
    assert read_key_file(path) is None
    assert not path.parent.exists()


def test_a_key_is_made_once_and_for_its_owner_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        made = create_key_file(path)
    finally:
        os.umask(before)
    assert create_key_file(path) == read_key_file(path) == made
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    assert list(path.parent.iterdir()) == [path]


def test_processes_that_make_it_at_once_agree_on_one_key(tmp_path: Path) -> None:
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(RACERS)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "here\n"
    (tmp_path / "go").touch()
    ids = {racer.communicate(timeout=150)[0].strip() for racer in racers}
    key = read_key_file(tmp_path / "secret.key")
    assert key is not None
    assert ids == {key.id}
    assert {file.name for file in tmp_path.iterdir()} == {"go", "secret.key"}


def test_one_who_comes_second_takes_the_key_that_is_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between looking for the file and creating it, another process has created it."""
    put(path, write_key(first := new_key()))
    looks = iter([lambda _: None])
    monkeypatch.setattr(files, "read_key_file", lambda path: next(looks, read_key_file)(path))
    assert create_key_file(path) == first


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o601])
def test_a_file_that_others_can_read_is_refused(path: Path, mode: int) -> None:
    put(path, write_key(new_key()), mode)
    with pytest.raises(VaultError) as error:
        create_key_file(path)
    assert str(error.value).endswith(f"chmod 600 {path}")


@pytest.mark.parametrize("text", ["", "hunter2hunter2", "x" * 5000, "\0\xff"])
def test_a_file_without_a_key_is_refused_and_not_shown(path: Path, text: str) -> None:
    put(path, text)
    with pytest.raises(VaultError) as error:
        read_key_file(path)
    assert str(path) in str(error.value)
    assert "hunter2" not in str(error.value)


def test_a_link_a_folder_and_a_pipe_are_refused(path: Path) -> None:
    put(path.with_name("elsewhere"), write_key(new_key()))
    path.symlink_to(path.with_name("elsewhere"))
    with pytest.raises(VaultError, match=str(path)):
        read_key_file(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(VaultError, match=str(path)):
        read_key_file(path)
    path.rmdir()
    os.mkfifo(path, 0o600)
    with pytest.raises(VaultError, match=str(path)):
        read_key_file(path)


def test_a_home_that_cannot_be_made_is_reported_as_such(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(VaultError, match="Set FAIRPOST_HOME"):
        create_key_file(tmp_path / "file" / "home" / "secret.key")
    with pytest.raises(VaultError, match="Set FAIRPOST_HOME"), Keyring(tmp_path / "file" / "home").rotating():
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files for others")
def test_files_created_by_root_in_a_users_home_belong_to_that_user(path: Path) -> None:
    path.parent.mkdir()
    os.chown(path.parent, 12_345, 12_346)
    create_key_file(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (12_345, 12_346)


def test_keeping_a_file_under_a_second_name_may_be_repeated(path: Path) -> None:
    create_key_file(path)
    for _ in range(2):
        keep_as(path, path.with_name("secret.key.old"))
    assert {file.name for file in path.parent.iterdir()} == {"secret.key", "secret.key.old"}


def test_the_key_lies_outside_the_data_of_postgresql(tmp_path: Path) -> None:
    from fairpost.store.folder import ServerFolder

    assert not Keyring(tmp_path).file.is_relative_to(ServerFolder(tmp_path).path)


def test_the_embedded_postgresql_does_not_get_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    from fairpost.store import embedded

    monkeypatch.setenv("FAIRPOST_SECRET_KEY", "hunter2")
    assert "hunter2" not in embedded.server_environment().values()
