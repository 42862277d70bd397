import os
import subprocess
import sys
from pathlib import Path

from tests.peers import fetch


def run_fetch(home: Path, *, path: Path) -> list[str]:
    """Runs it as a separate program, with only the programs in `path`."""
    done = subprocess.run(
        [sys.executable, fetch.__file__, str(home)],
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def assert_each_is_missing(lines: list[str], reason: str) -> None:
    assert [line.partition(":")[0] for line in lines] == list(fetch.PEERS)
    for line in lines:
        assert reason in line or fetch.find(line.partition(":")[0], home=Path("/nonexistent")) is not None, line


def test_without_apt_it_says_so_and_continues(tmp_path: Path) -> None:
    assert_each_is_missing(run_fetch(tmp_path / "home", path=tmp_path), "apt-get")


def test_offline_it_says_so_and_continues(tmp_path: Path) -> None:
    for tool in fetch.TOOLS:
        (tmp_path / tool).write_text("#!/bin/sh\necho 'W: noise' >&2\necho 'E: no network today' >&2\nexit 100\n")
        (tmp_path / tool).chmod(0o755)
    home = tmp_path / "home"
    assert_each_is_missing(run_fetch(home, path=tmp_path), "E: no network today")
    assert not home.exists() or os.listdir(home) == []


def test_a_half_unpacked_peer_is_not_found(tmp_path: Path) -> None:
    for programs in fetch.PEERS["exim"].programs:
        program = tmp_path / "exim" / programs[0]
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch()
    before = fetch.find("exim", home=tmp_path)
    (tmp_path / "exim" / fetch.STAMP).touch()
    after = fetch.find("exim", home=tmp_path)
    assert after is not None
    assert after.is_system or (before is None and after.root == tmp_path / "exim")
