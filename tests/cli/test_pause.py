"""`fairpost pause` and `resume`, and how prominently `fairpost status` shows it."""

from typing import Any

import psycopg
import pytest

from fairpost.cli.session import who
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
def test_paused_mail_waits_until_resumed(cli: Cli, url: str, whom: tuple[str, ...]) -> None:
    id_ = send(cli, "--workspace", "acme")
    assert f"fairpost resume {' '.join(whom)}\n" in cli.ok("pause", *whom, "--reason", "wrong prices")
    deliver(url)
    assert state(cli, id_) == "ready"
    cli.ok("resume", *whom)
    deliver(url)
    assert state(cli, id_) == "sent"


def test_a_paused_workspace_does_not_affect_others(cli: Cli, url: str) -> None:
    id_ = send(cli, "--workspace", "other")
    cli.ok("pause", "--workspace", "acme", "--reason", "wrong prices")
    deliver(url)
    assert state(cli, id_) == "sent"


@pytest.mark.parametrize("whom", [("--all",), ("--workspace", "acme")], ids=" ".join)
def test_pausing_twice_and_resuming_twice_says_so(cli: Cli, whom: tuple[str, ...]) -> None:
    for was_paused in (False, True):
        assert cli.json("pause", *whom, "--reason", "a")["was_paused"] is was_paused
    for resumed in (True, False):
        assert cli.json("resume", *whom)["resumed"] is resumed
    nothing_to_do = cli.ok("resume", *whom)
    first = cli.ok("pause", *whom, "--reason", "a")
    assert first != cli.ok("pause", *whom, "--reason", "a")
    assert nothing_to_do != cli.ok("resume", *whom)


def test_a_pause_may_end_by_itself(cli: Cli) -> None:
    paused = cli.json("pause", "--all", "--reason", "night", "--until", "2099-01-31T09:00:00+01:00")
    assert paused["until"] == "2099-01-31T08:00:00Z"
    said = cli.ok("pause", "--all", "--reason", "night", "--until", "2099-01-31T08:00:00Z")
    assert "2099-01-31T08:00:00Z" in said
    assert "night" in said


def test_a_pause_until_a_moment_that_has_passed_is_refused(cli: Cli) -> None:
    error = cli.error("pause", "--all", "--reason", "r", "--until", "2001-01-31T09:00:00Z")
    assert "--until" in error
    assert "2001-01-31 09:00:00" in error
    assert cli.json("status")["pause"] is None


@pytest.mark.parametrize(
    "arguments", [("pause", "--reason", "r"), ("pause", "--all"), ("resume",), ("resume", "--all", "--workspace", "a")]
)
def test_the_sender_and_the_reason_are_required(bare: Cli, arguments: tuple[str, ...]) -> None:
    bare.error(*arguments, code=2)


def test_status_says_first_of_all_that_everything_is_paused(cli: Cli) -> None:
    send(cli)
    cli.ok("pause", "--all", "--reason", "wrong prices.")
    status = cli.json("status")
    assert status["reasons"][0]["code"] == "everything.paused"
    assert status["pause"]["reason"] == "wrong prices."
    first, then, *_ = cli.ok("status").splitlines()
    assert first.startswith("PAUSED")
    assert first.endswith("wrong prices.")
    assert who() in first
    assert then.endswith("fairpost resume --all")
    cli.ok("resume", "--all")
    assert "everything.paused" not in [reason["code"] for reason in cli.json("status")["reasons"]]


def test_status_shouts_while_everything_is_redirected(cli: Cli) -> None:
    staging = Cli({**cli.environment, "FAIRPOST_REDIRECT_ALL": "team@example.com"})
    first = staging.ok("status").splitlines()[0]
    assert first.startswith("REDIRECTED")
    assert "team@example.com" in first
    assert staging.json("status")["redirect_all"] == "team@example.com"
    assert cli.json("status")["redirect_all"] is None


def test_the_person_who_paused_is_stored_with_the_events(cli: Cli, db: Db) -> None:
    cli.ok("pause", "--all", "--reason", "wrong prices")
    [(reason, by)] = db.execute("SELECT detail -> 'params' ->> 'note', detail ->> 'by' FROM fairpost.events").fetchall()
    assert reason == "wrong prices"
    assert " on " in by
