"""Holds and suppressions: senders that send nothing for a while, and addresses that get no mail."""

from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import Cli, deliver, missing, send

if TYPE_CHECKING:
    import psycopg


@pytest.fixture
def sales(db: "psycopg.Connection[Any]") -> None:
    db.execute("SELECT fairpost.add_account('sales', 'sales@post.test', 'default', '{}')")


def state(cli: Cli, id_: str) -> str:
    shown: str = cli.json("email", "show", id_)["state"]
    return shown


@pytest.mark.usefixtures("sales")
def test_held_mail_waits_until_released(cli: Cli, url: str) -> None:
    id_ = send(cli, "--workspace", "acme", "--user", "ann", "--stream", "spring", "--from", "x@here.test")
    states = {}
    for name in ((), ("--user", "ann"), ("--stream", "spring"), ("--domain", "Here.test")):
        cli.ok("hold", "--workspace", "acme", *name, "--reason", "too many bounces")
        deliver(url)
        states[name] = state(cli, id_)
        cli.ok("release", "--workspace", "acme", *name)
    assert set(states.values()) == {"ready"}, states
    deliver(url)
    assert state(cli, id_) == "sent"


@pytest.mark.usefixtures("sales")
def test_others_are_not_held(cli: Cli, url: str) -> None:
    id_ = send(cli, "--workspace", "acme", "--user", "bob")
    cli.ok("hold", "--workspace", "acme", "--user", "ann", "--reason", "spam")
    cli.ok("hold", "--workspace", "other", "--reason", "spam")
    deliver(url)
    assert state(cli, id_) == "sent"


def test_a_hold_ends_after_a_span_or_at_a_moment(cli: Cli) -> None:
    cli.ok("hold", "--workspace", "acme", "--for", "1h30m", "--reason", "spam")
    cli.ok("hold", "--workspace", "other", "--until", "2099-01-31T09:00:00+01:00", "--reason", "spam")
    holds = {hold["workspace"]: hold for hold in cli.json("status")["holds"]}
    assert holds["other"]["until"] == "2099-01-31T08:00:00Z"
    assert holds["acme"]["until"] is not None
    assert holds["acme"]["reason"] == "spam"


@pytest.mark.parametrize(
    "options",
    [
        ("--for", "1h", "--until", "2099-01-31T09:00:00Z"),
        ("--user", "a", "--stream", "b"),
        ("--for", "soon"),
        ("--for", ""),
        ("--for", "0s"),
        ("--for", "9999999d"),
        ("--until", "2099-01-31"),
    ],
)
def test_a_hold_that_makes_no_sense_is_a_usage_error(bare: Cli, options: tuple[str, ...]) -> None:
    bare.error("hold", "--workspace", "acme", "--reason", "spam", *options, code=2)


def test_a_hold_until_a_moment_that_has_passed_is_refused(cli: Cli) -> None:
    error = cli.error("hold", "--workspace", "acme", "--reason", "spam", "--until", "2001-01-31T09:00:00Z")
    assert missing(error, "--until", "2001-01-31 09:00:00") == []
    assert cli.json("status")["holds"] == []


def test_a_hold_needs_a_reason(bare: Cli) -> None:
    assert "--reason" in bare.error("hold", "--workspace", "acme", code=2)


def test_releasing_a_name_that_is_not_held_is_an_error(cli: Cli) -> None:
    cli.ok("hold", "--workspace", "acme", "--user", "ann", "--reason", "spam")
    assert missing(cli.error("release", "--workspace", "acme"), "workspace acme", "fairpost status") == []
    assert [hold["key"] for hold in cli.json("status")["holds"]] == ["ann"]


@pytest.mark.usefixtures("sales")
def test_a_suppressed_address_gets_nothing_until_it_is_taken_off_the_list(cli: Cli, url: str) -> None:
    id_ = send(cli)
    cli.ok("suppress", "ANN@there.test", "--reason", "asked us to stop")
    cli.ok("suppress", "ann@there.test", "--reason", "again")
    (listed,) = cli.json("suppress", "list")
    assert (listed["address"], listed["reason"]) == ("ann@there.test", "asked us to stop")
    deliver(url)
    assert state(cli, id_) == "suppressed"
    cli.ok("suppress", "remove", "ann@there.test")
    assert cli.json("suppress", "list") == []
    id_ = send(cli)
    deliver(url)
    assert state(cli, id_) == "sent"


def test_suppressions_are_listed_for_a_workspace_with_those_of_everyone(cli: Cli) -> None:
    cli.ok("suppress", "--reason", "r", "a@x.test", "--workspace", "acme")
    cli.ok("suppress", "add", "b@x.test", "--reason", "r", "--everywhere")
    cli.ok("suppress", "c@x.test", "--reason", "r")
    assert [row["address"] for row in cli.json("suppress", "list")] == ["a@x.test", "b@x.test", "c@x.test"]
    assert [row["workspace"] for row in cli.json("suppress", "list", "--workspace", "acme")] == ["acme", "*"]
    assert [row["address"] for row in cli.json("suppress", "list", "--after", "a@x.test", "--limit", 1)] == ["b@x.test"]
    assert missing(cli.ok("suppress", "list"), "a@x.test", "b@x.test", "c@x.test") == []


def test_an_empty_list_says_so(cli: Cli) -> None:
    assert len(cli.ok("suppress", "list").splitlines()) == 1
    assert cli.json("suppress", "list") == []


def test_a_wrong_address_is_one_clear_line(cli: Cli) -> None:
    assert cli.wrong_errors([(("suppress", "nobody", "--reason", "r"), ("ADDRESS", "nobody"))]) == []


def test_taking_an_address_off_a_list_it_is_not_on_is_an_error(cli: Cli) -> None:
    cli.ok("suppress", "ann@there.test", "--reason", "r", "--everywhere")
    error = cli.error("suppress", "remove", "ann@there.test")
    assert missing(error, "ann@there.test", "workspace default", "fairpost suppress show ann@there.test") == []
    cli.ok("suppress", "remove", "ann@there.test", "--everywhere")
