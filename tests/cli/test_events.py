"""`fairpost events`: the newest, those after a cursor, those of one e-mail, and following new ones."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import Cli, deliver, send

if TYPE_CHECKING:
    import psycopg


@pytest.fixture
def sent(cli: Cli, db: "psycopg.Connection[Any]", url: str) -> list[str]:
    db.execute("SELECT fairpost.add_account('sales', 'sales@post.test', 'default', '{}')")
    ids = [public(db, send(cli, "--type", "reset", "--tag", f"n={n}")) for n in range(2)]
    deliver(url)
    db.execute("SELECT fairpost.take_turn()")
    return ids


def public(db: "psycopg.Connection[Any]", id_: str) -> str:
    ((text,),) = db.execute("SELECT fairpost.public_id(%s)", (int(id_),)).fetchall()
    return str(text)


def told(cli: Cli, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cli.ok("events", "--json", *arguments).splitlines()]


def test_without_events_it_says_so(cli: Cli) -> None:
    assert cli.ok("events").strip() == "No events."
    assert told(cli) == []


def test_events_are_shown_with_what_they_are_about(cli: Cli, sent: list[str]) -> None:
    events = told(cli)
    assert sorted(event["type"] for event in events) == ["email.queued"] * 2 + ["email.sent"] * 2
    assert {event["data"]["email_id"] for event in events} == set(sent)
    assert {event["data"]["type"] for event in events} == {"reset"}
    assert {event["data"].get("account") for event in events} == {None, "sales"}
    assert len(cli.ok("events").splitlines()) == 4


def test_events_are_chosen_by_cursor_type_email_and_number(cli: Cli, sent: list[str]) -> None:
    everything = told(cli)
    assert told(cli, "--after", everything[0]["cursor"]) == everything[1:]
    assert told(cli, "--after", "0.0", "--limit", "1") == everything[:1]
    assert told(cli, "--limit", "1") == everything[-1:]
    assert {event["type"] for event in told(cli, "--type", "email.sent")} == {"email.sent"}
    assert [event["type"] for event in told(cli, "--email", sent[0])] == ["email.queued", "email.sent"]
    assert told(cli, "--since", "2020-01-01T00:00:00Z") == everything
    assert told(cli, "--since", "2100-01-01T00:00:00Z") == []
    assert told(cli, "--workspace", "other") == []


def test_a_wrong_cursor_or_type_is_an_error(cli: Cli, sent: list[str]) -> None:
    assert cli.error("events", "--after", "x")
    assert cli.error("events", "--type", "email.delivered", code=2)


def test_it_follows_what_happens(cli: Cli, sent: list[str], db: "psycopg.Connection[Any]", url: str) -> None:
    with cli.start("events", "--follow", "--json", "--after", told(cli)[-1]["cursor"]) as process:
        assert process.stdout is not None
        id_ = public(db, send(cli))
        deliver(url)
        db.execute("SELECT fairpost.take_turn()")
        events = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.terminate()
    assert [(event["type"], event["data"]["email_id"]) for event in events] == [
        ("email.queued", id_),
        ("email.sent", id_),
    ]
