"""The database itself: the embedded one in its own home, and one that is managed elsewhere."""

import json
import os
import subprocess
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from fairpost import enqueue
from fairpost.cli import app
from fairpost.model.urls import as_login
from fairpost.store.migrations import known_migrations
from tests.cli.conftest import PROGRAM, Cli, missing, process_environment


def test_the_embedded_database_is_started_once_and_stopped_once(at_home: Cli, home: Path) -> None:
    assert at_home.json("db", "status")["running"] is False
    assert at_home.json("email", "list") == []  # any command starts and migrates it
    url = at_home.ok("db", "url").strip()
    assert at_home.json("db", "start") == {"started": False, "url": url}
    assert url in at_home.ok("db", "start")
    status = at_home.json("db", "status")
    assert (status["managed"], status["running"], status["pending"]) == ("embedded", True, [])
    assert (status["schema_version"], status["data_dir"]) == (
        known_migrations()[-1].version,
        str(home / "postgres" / "data"),
    )
    assert status["version"].startswith("18.")
    assert status["size_bytes"] > 1_000_000
    assert missing(at_home.ok("db", "status"), url, status["version"], f"{status['schema_version']:04}") == []
    for _ in range(2):  # a second time there is nothing to do
        at_home.ok("db", "stop")
        assert at_home.json("db", "status")["running"] is False
    assert "fairpost db start" in at_home.ok("db", "status")
    started = json.loads(at_home.run("db", "start", "--json"))
    assert started["started"]
    with psycopg.connect(started["url"]) as conn:  # it outlives the process that started it
        assert conn.execute("SELECT count(*) FROM fairpost.queue").fetchone() == (0,)


def test_an_application_gets_a_login_of_its_own_in_the_same_database(at_home: Cli) -> None:
    assert "fairpost db start" in at_home.error("db", "url", "--app")
    at_home.ok("db", "start")
    for _ in range(2):  # it already exists the second time
        url = at_home.ok("db", "url", "--app").strip()
    with psycopg.connect(url) as conn:
        conn.execute("CREATE TABLE orders (id integer)")
        enqueue(conn, to="ann@there.test", subject="Hello", text="Hi", workspace="any", from_="shop@here.test")
    (found,) = at_home.json("email", "list")
    assert found["workspace"] == "any"
    with psycopg.connect(at_home.ok("db", "url").strip()) as conn:
        place = conn.execute("SELECT relnamespace::regnamespace::text FROM pg_class WHERE relname = 'orders'")
        assert place.fetchall() == [("public",)]


def test_an_application_is_let_in_for_workspaces_and_shut_out_again(cli: Cli, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as root:
        root.execute("CREATE ROLE the_partner LOGIN")
        try:
            assert "the_partner" not in cli.ok("db", "logins")
            cli.ok("db", "grant", "the_partner", "--workspace", "acme", "--workspace", "beta")
            granted = {"login": "the_partner", "workspaces": ["acme", "beta"], "is_let_in": True}
            assert cli.json("db", "logins") == [granted]
            cli.ok("db", "grant", "the_partner")
            assert cli.json("db", "logins")[0]["workspaces"] == ["default"]
            cli.ok("db", "revoke", "the_partner")
            assert cli.json("db", "logins") == []
            entries = [(entry["action"], entry["who"][:4]) for entry in cli.json("audit")]
            assert entries == [("login.revoke", "cli "), ("login.grant", "cli "), ("login.grant", "cli ")]
            with (
                psycopg.connect(as_login(url, "the_partner")) as conn,
                pytest.raises(psycopg.errors.InsufficientPrivilege),
            ):
                conn.execute("SELECT fairpost.enqueue('{}')")
            assert [entry["action"] for entry in cli.json("audit")] == ["login.revoke", "login.grant", "login.grant"]
            assert (
                cli.wrong_errors(
                    [
                        (("db", "grant", "nobody_here"), ("nobody_here", "CREATE ROLE")),
                        (("db", "grant", "fairpost"), ("fairpost",)),
                        (("db", "grant", "the_partner", "--workspace", "a", "--all-workspaces"), ("--workspace",)),
                        (("db", "revoke", "the_partner"), ("fairpost db logins",)),
                        (("db", "url", "--app"), ("FAIRPOST_DATABASE_URL", "fairpost db grant")),
                    ]
                )
                == []
            )
        finally:
            root.execute("DROP OWNED BY the_partner; DROP ROLE the_partner")


def test_a_home_that_cannot_be_used_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    error = Cli({"FAIRPOST_HOME": str(tmp_path / "file")}).error("db", "start")
    assert missing(error, "FAIRPOST_HOME", tmp_path / "file") == []


def test_a_database_elsewhere_is_neither_started_nor_stopped(cli: Cli, url: str) -> None:
    for command in ("start", "stop"):
        assert missing(cli.ok("db", command), "FAIRPOST_DATABASE_URL", url) == []
    assert cli.ok("db", "url") == f"{url}\n"
    status = cli.json("db", "status")
    assert (status["managed"], status["running"], status["pending"]) == ("elsewhere", True, [])
    assert "elsewhere" in cli.ok("db", "status")


def test_migrating_lists_what_was_done_and_then_has_nothing_to_do(blank_url: str) -> None:
    blank = Cli({"FAIRPOST_DATABASE_URL": blank_url})
    status = blank.json("db", "status")
    assert (status["schema_version"], status["pending"][0]) == (None, "0001 core")
    assert "fairpost db migrate" in blank.ok("db", "status")
    assert "0001 core" in blank.ok("db", "migrate").splitlines()[0]
    assert blank.json("db", "migrate") == {"migrations": [], "functions": False, "missing": []}
    assert "0001 core" not in blank.ok("db", "migrate")
    assert "fairpost db migrate" not in blank.ok("db", "status")


def test_the_shell_is_psql_on_the_database(cli: Cli) -> None:
    assert cli.run("db", "shell", "-XAtc", "SELECT count(*) FROM fairpost.queue") == "0\n"


@pytest.mark.parametrize(
    ("url", "where", "password"),
    [
        ("postgresql://ann:s%40cret@h:5/d?x=1", "postgresql://ann@h:5/d?x=1", "s@cret"),
        ("postgresql://ann@h/d", "postgresql://ann@h/d", None),
        ("postgresql://fairpost@/d?host=%2Ftmp&port=1", "postgresql://fairpost@/d?host=%2Ftmp&port=1", None),
    ],
)
def test_the_shell_hands_no_password_over_where_others_can_read_it(
    url: str, where: str, password: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken_over: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setattr(os, "execve", lambda _, arguments, environment: taken_over.append((arguments, environment)))
    assert CliRunner().invoke(app, ["db", "shell", "-X"], env={"FAIRPOST_DATABASE_URL": url}).exit_code == 0
    (((_, *arguments), environment),) = taken_over
    assert (arguments, environment.get("PGPASSWORD")) == (["-X", where], password)


def test_a_reader_that_goes_away_is_no_error(cli: Cli) -> None:
    for _ in range(10):  # more than a single write
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
