"""The database itself: the embedded one in a home of its own, and one that is managed elsewhere."""

import subprocess
from pathlib import Path

import psycopg
import pytest

from fairpost.cli.db import _without_secret
from fairpost.postgres.migrations import known_migrations
from tests.cli.conftest import PROGRAM, Cli, process_environment


def test_the_embedded_database_is_started_once_and_stopped_once(at_home: Cli, home: Path) -> None:
    assert at_home.json("db", "status")["running"] is False
    started = at_home.run("db", "start")
    assert started.startswith("started: postgresql://")
    url = started.removeprefix("started: ").strip()
    with psycopg.connect(url) as conn:
        assert conn.execute("SELECT count(*) FROM fairpost.queue").fetchone() == (0,)
    assert at_home.ok("db", "start") == f"already running: {url}\n"
    assert at_home.json("db", "start") == {"started": False, "url": url}
    assert at_home.ok("db", "url") == f"{url}\n"
    status = at_home.json("db", "status")
    assert (status["managed"], status["running"], status["pending"]) == ("embedded", True, [])
    assert (status["schema_version"], status["data_dir"]) == (
        known_migrations()[-1].version,
        str(home / "postgres" / "data"),
    )
    assert status["version"].startswith("18.")
    assert status["size_bytes"] > 1_000_000
    assert "up to date" in at_home.ok("db", "status")
    assert at_home.ok("db", "stop") == "stopped\n"
    assert at_home.ok("db", "stop") == "was not running\n"
    assert "no; start it: fairpost db start" in at_home.ok("db", "status")


def test_any_command_starts_and_migrates_the_embedded_database(at_home: Cli) -> None:
    assert at_home.json("email", "list") == []
    assert at_home.json("db", "status")["pending"] == []


def test_a_home_that_cannot_be_used_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    error = Cli({"FAIRPOST_HOME": str(tmp_path / "file")}).error("db", "start")
    assert error.startswith("error: FAIRPOST_HOME must be a directory")


def test_a_database_elsewhere_is_neither_started_nor_stopped(cli: Cli, url: str) -> None:
    assert cli.ok("db", "start").startswith("The database is managed elsewhere")
    assert cli.ok("db", "stop").startswith("The database is managed elsewhere")
    assert cli.ok("db", "url") == f"{url}\n"
    status = cli.json("db", "status")
    assert (status["managed"], status["running"], status["pending"]) == ("elsewhere", True, [])
    assert "managed elsewhere" in cli.ok("db", "status")


def test_migrating_lists_what_was_done_and_then_has_nothing_to_do(blank_url: str) -> None:
    blank = Cli({"FAIRPOST_DATABASE_URL": blank_url})
    status = blank.json("db", "status")
    assert (status["schema_version"], status["pending"][0]) == (None, "0001 core")
    assert "Run: fairpost db migrate" in blank.ok("db", "status")
    assert blank.ok("db", "migrate").splitlines()[0] == "applied 0001 core"
    assert blank.json("db", "migrate") == {"migrations": [], "functions": False}
    assert blank.ok("db", "migrate") == "nothing to do: the schema is up to date\n"
    assert "up to date" in blank.ok("db", "status")


def test_the_shell_is_psql_on_the_database(cli: Cli) -> None:
    assert cli.run("db", "shell", "-XAtc", "SELECT count(*) FROM fairpost.queue") == "0\n"


@pytest.mark.parametrize(
    ("url", "where", "environment"),
    [
        ("postgresql://ann:s%40cret@h:5/d?x=1", "postgresql://ann@h:5/d?x=1", {"PGPASSWORD": "s@cret"}),
        ("postgresql://ann@h/d", "postgresql://ann@h/d", {}),
        ("postgresql://fairpost@/d?host=%2Ftmp&port=1", "postgresql://fairpost@/d?host=%2Ftmp&port=1", {}),
    ],
)
def test_the_shell_hands_no_password_over_where_others_can_read_it(
    url: str, where: str, environment: dict[str, str]
) -> None:
    assert _without_secret(url) == (where, environment)


def test_a_reader_that_goes_away_is_no_error(cli: Cli) -> None:
    for _ in range(30):
        cli.ok("email", "send", "--to", "a@b.test", "--subject", "s" * 900, "--text", "t")
    listing = subprocess.Popen(
        [*PROGRAM, "email", "list", "--json"],
        env=process_environment(cli.environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert listing.stdout is not None
    assert listing.stderr is not None
    listing.stdout.close()
    assert b"Traceback" not in listing.stderr.read()
    listing.stderr.close()
    listing.wait()
