"""What the matrix of PostgreSQL versions finds, and how it reports it. No server is started."""

from pathlib import Path

import pytest

from fairpost.store.binaries import installed_in
from fairpost.store.embedded import EmbeddedServer
from tests import matrix
from tests.matrix import Outcome, table
from tests.peers import postgresql


def programs(folder: Path, version: str) -> Path:
    bin_folder = folder / version / "bin"
    bin_folder.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        program = bin_folder / name
        program.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
        program.chmod(0o755)
    return bin_folder


def test_the_newest_release_of_each_supported_version_is_taken(tmp_path: Path) -> None:
    given = [programs(tmp_path, version) for version in ("14.24", "14.9", "13.20", "16.1")]
    (tmp_path / "empty").mkdir()
    found = postgresql.found([*given, tmp_path / "empty"])
    assert {major: each.version for major, each in found.items()} == {14: "14.24", 16: "16.1"}


def test_a_server_is_of_the_programs_that_are_given(tmp_path: Path) -> None:
    given = installed_in(programs(tmp_path, "14.9"), bundled=False)
    assert EmbeddedServer(tmp_path / "home", binaries=given).status().version == "14.9"


def test_a_version_that_cannot_be_had_is_named_and_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert matrix.main(["--bin", str(tmp_path / "empty"), "--only", "14"]) == 1
    assert capsys.readouterr().out.splitlines()[1].startswith("14 ")


def test_failures_are_in_the_table_and_an_empty_run_is_not_a_success() -> None:
    bad = Outcome(version="16.1", passed=7, failed=1, skipped=2, failures=("tests.x::test_y",))
    assert not bad.is_good
    assert not Outcome(version="16.1").is_good
    assert Outcome(version="16.1", passed=1).is_good
    lines = table([bad]).splitlines()
    assert lines[1].split() == ["16.1", "7", "1", "2", "0"]
    assert "tests.x::test_y" in lines[2]
