"""`fairpost conversation`: list, show, label and answer."""

import json
from typing import Any

import psycopg

from tests.cli.conftest import Cli

Db = psycopg.Connection[Any]
ANN = "ann@there.test"
SAID = {
    "kind": "reply",
    "mail": "x",
    "from_name": "Ann",
    "from_address": ANN,
    "to_addresses": ["sales@here.test"],
    "subject": "Re: Hello",
    "message_id": "<one@there.test>",
    "refs": ["<zero@here.test>"],
    "text": "Yes\x1b[31m, gladly.",
    "html": None,
    "is_cut": False,
}


def answered(cli: Cli, db: Db) -> None:
    """Stores an e-mail that an account has sent, and the reply to it."""
    cli.ok("account", "add", "sales", "--from", "sales@here.test", "--smtp", "smtp://127.0.0.1:1")
    id_ = cli.json("email", "send", "--to", ANN, "--subject", "Hello", "--text", "Hi Ann", "--account", "sales")["id"]
    db.execute("UPDATE fairpost.queue SET account_id = (SELECT id FROM fairpost.accounts) WHERE id = %s", (id_,))
    db.execute("SELECT fairpost.finish(%s, 'sent', NULL, clock_timestamp())", (id_,))
    db.execute(
        "SELECT fairpost.keep_reply(%s, 'default', %s, NULL, %s, clock_timestamp())", (id_, ANN, json.dumps(SAID))
    )


def test_a_conversation_is_listed_shown_labelled_and_answered(cli: Cli, db: Db) -> None:
    answered(cli, db)
    (line,) = cli.json("conversation", "list")
    assert (line["address"], line["replies"], line["last_kind"]) == (ANN, 1, "reply")
    shown = cli.json("conversation", "show", "Ann@There.test")
    assert [(each["kind"], each["text"]) for each in shown["messages"]] == [
        ("sent", "Hi Ann"),
        ("reply", SAID["text"]),
    ]
    assert "\x1b" not in cli.ok("conversation", "show", line["id"])
    assert cli.json("conversation", "label", ANN, "interested", "call")["labels"] == ["call", "interested"]
    assert cli.json("conversation", "label", ANN, "--remove", "call")["labels"] == ["interested"]
    assert [each["address"] for each in cli.json("conversation", "list", "--label", "interested")] == [ANN]
    assert cli.json("conversation", "list", "--label", "call") == []
    queued = cli.json("conversation", "answer", ANN, "--text", "Tuesday at ten?", "--key", "once")
    assert cli.json("conversation", "answer", ANN, "--text", "Tuesday at ten?", "--key", "once")["new"] is False
    email = cli.json("email", "show", queued["id"])
    assert (email["route"], email["subject"]) == ("@sales", "Re: Hello")
    assert email["headers"] == {
        "In-Reply-To": "<one@there.test>",
        "References": "<zero@here.test> <one@there.test>",
    }


def test_mistakes_change_nothing(cli: Cli, db: Db) -> None:
    answered(cli, db)
    assert "LABEL" in cli.error("conversation", "label", ANN, "Not A Label")
    assert "--text" in cli.error("conversation", "answer", ANN)
    for command in ("show", "label", "answer"):
        cli.error("conversation", command, "bob@there.test")
    assert cli.json("conversation", "list")[0]["labels"] == []
