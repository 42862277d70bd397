"""`fairpost pause` and `resume`, and how loudly `fairpost status` says so."""

from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli, deliver, send

Db = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def sales(request: pytest.FixtureRequest) -> None:
    if "cli" in request.fixturenames:
        cli: Cli = request.getfixturevalue("cli")
        cli.ok("account", "add", "sales", "--from", "sales@post.test")


def state(cli: Cli, id_: str) -> str:
    shown: str = cli.json("email", "show", id_)["state"]
    return shown


@pytest.mark.parametrize("whom", [("--all",), ("--workspace", "acme")], ids=" ".join)
def test_what_is_paused_waits_until_resumed(cli: Cli, url: str, whom: tuple[str, ...]) -> None:
    id_ = send(cli, "--workspace", "acme")
    said = cli.ok("pause", *whom, "--reason", "wrong prices")
    assert said.startswith("paused: ")
    assert said.endswith(f"next: fairpost resume {' '.join(whom)}\n")
    deliver(url)
    assert state(cli, id_) == "ready"
    assert cli.ok("resume", *whom).startswith("resumed: ")
    deliver(url)
    assert state(cli, id_) == "sent"


def test_a_paused_workspace_keeps_nobody_else_back(cli: Cli, url: str) -> None:
    id_ = send(cli, "--workspace", "other")
    cli.ok("pause", "--workspace", "acme", "--reason", "wrong prices")
    deliver(url)
    assert state(cli, id_) == "sent"


def test_pausing_twice_and_resuming_twice_says_so(cli: Cli) -> None:
    assert cli.json("pause", "--all", "--reason", "a")["was_paused"] is False
    assert cli.json("pause", "--all", "--reason", "b")["was_paused"] is True
    assert cli.ok("pause", "--all", "--reason", "c").startswith("already paused: everything")
    assert cli.json("resume", "--all")["resumed"] is True
    assert cli.json("resume", "--all")["resumed"] is False
    assert cli.ok("resume", "--all") == "was not paused: everything\n"
    assert cli.json("pause", "--workspace", "acme", "--reason", "a")["was_paused"] is False
    assert cli.json("pause", "--workspace", "acme", "--reason", "a")["was_paused"] is True
    assert cli.ok("resume", "--workspace", "acme") == "resumed: workspace acme\n"
    assert cli.ok("resume", "--workspace", "acme") == "was not paused: workspace acme\n"


def test_a_pause_may_end_by_itself(cli: Cli) -> None:
    paused = cli.json("pause", "--all", "--reason", "night", "--until", "2099-01-31T09:00:00+01:00")
    assert paused["until"] == "2099-01-31T08:00:00Z"
    assert "until 2099-01-31T08:00:00Z (night)" in cli.ok(
        "pause", "--all", "--reason", "night", "--until", "2099-01-31T08:00:00Z"
    )


def test_a_pause_until_a_moment_that_has_passed_is_refused(cli: Cli) -> None:
    error = cli.error("pause", "--all", "--reason", "r", "--until", "2001-01-31T09:00:00Z")
    assert error == "error: --until must lie in the future, got 2001-01-31T09:00:00+00:00\n"
    assert cli.json("status")["pause"] is None


@pytest.mark.parametrize(
    "arguments", [("pause", "--reason", "r"), ("pause", "--all"), ("resume",), ("resume", "--all", "--workspace", "a")]
)
def test_whom_and_why_must_be_said(bare: Cli, arguments: tuple[str, ...]) -> None:
    bare.error(*arguments, code=2)


def test_status_says_first_of_all_that_everything_is_paused(cli: Cli) -> None:
    send(cli)
    cli.ok("pause", "--all", "--reason", "wrong prices.")
    first, then, *_ = cli.ok("status").splitlines()
    assert first.startswith("PAUSED. Everything is paused since ")
    assert first.endswith(", until resumed: wrong prices.")
    assert " by " in first
    assert then == "next: fairpost resume --all"
    status = cli.json("status")
    assert status["reasons"][0]["cause"] == "paused"
    assert status["pause"]["reason"] == "wrong prices."
    cli.ok("resume", "--all")
    assert "paused" not in [reason["cause"] for reason in cli.json("status")["reasons"]]


def test_status_shouts_while_everything_is_redirected(cli: Cli) -> None:
    staging = Cli({**cli.environment, "FAIRPOST_REDIRECT_ALL": "team@example.com"})
    assert staging.ok("status").startswith(
        "REDIRECTED. Every e-mail goes to team@example.com, and none to its recipients"
    )
    assert staging.json("status")["redirect_all"] == "team@example.com"
    assert cli.json("status")["redirect_all"] is None


def test_who_paused_is_kept_with_the_events(cli: Cli, db: Db) -> None:
    cli.ok("pause", "--all", "--reason", "wrong prices")
    [(reason, by)] = db.execute("SELECT detail ->> 'reason', detail ->> 'by' FROM fairpost.events").fetchall()
    assert reason == "wrong prices"
    assert " on " in by
