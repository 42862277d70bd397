"""`fairpost suppress`: one address, the list, and the effects. Files are in test_suppress_files."""

from datetime import datetime
from typing import Any

import psycopg

from tests.cli.conftest import Cli, deliver, missing, send

Db = psycopg.Connection[Any]


def soft_bounce(db: Db, address: str, count: int, workspace: str = "default") -> None:
    db.execute(
        "INSERT INTO fairpost.soft_bounces VALUES (%s, fairpost.normalize_address(%s), %s, '2030-01-01Z', '2030-01-02Z')",
        (workspace, address, count),
    )


def test_the_kind_is_kept_and_manual_unless_named(cli: Cli) -> None:
    cli.ok("suppress", "a@x.test", "--reason", "r")
    cli.ok("suppress", "b@x.test", "--reason", "r", "--kind", "complaint")
    assert [(row["address"], row["kind"]) for row in cli.json("suppress", "list")] == [
        ("a@x.test", "manual"),
        ("b@x.test", "complaint"),
    ]
    assert "complaint" in cli.ok("suppress", "list")


def test_an_unknown_kind_is_a_usage_error(bare: Cli) -> None:
    assert "complaint" in bare.error("suppress", "a@x.test", "--reason", "r", "--kind", "spam", code=2)


def test_an_address_of_another_script_is_suppressed_however_it_is_written(cli: Cli, url: str) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    cli.ok("suppress", "Ann@MÜLLER.example", "--reason", "r")
    id_ = cli.json("email", "send", "--to", "ann@xn--mller-kva.example", "--subject", "s", "--text", "t")["id"]
    deliver(url)
    assert cli.json("email", "show", id_)["state"] == "suppressed"
    cli.ok("suppress", "ann@xn--mller-kva.example", "--reason", "r")
    assert len(cli.json("suppress", "list")) == 1
    cli.ok("suppress", "remove", "ann@müller.example")
    assert cli.json("suppress", "list") == []


def test_the_list_is_narrowed_down(cli: Cli) -> None:
    cli.ok("suppress", "a@x.test", "--reason", "550 no such user", "--kind", "hard_bounce")
    cli.ok("suppress", "b@müller.example", "--reason", "r")
    cli.ok("suppress", "c@y.test", "--reason", "Asked us to stop")
    cli.ok("suppress", "d@y.test", "--reason", "asked us to stop", "--workspace", "acme")
    expected = {
        ("--kind", "hard_bounce"): ["a@x.test"],
        ("--search", "MÜLLER"): ["b@xn--mller-kva.example"],
        ("--search", "asked"): ["c@y.test", "d@y.test"],
        ("--search", "y.test", "--workspace", "acme"): ["d@y.test"],
        ("--search", "%"): [],
        ("--limit", "2"): ["a@x.test", "b@xn--mller-kva.example"],
        ("--after", "B@müller.example"): ["c@y.test", "d@y.test"],
    }
    found = {options: [row["address"] for row in cli.json("suppress", "list", *options)] for options in expected}
    assert found == expected
    for options, addresses in expected.items():
        assert missing(cli.ok("suppress", "list", *options), *addresses) == []


def test_show_says_why_since_when_and_where(cli: Cli, db: Db) -> None:
    cli.ok("suppress", "ann@x.test", "--reason", "unwanted", "--kind", "unsubscribe")
    cli.ok("suppress", "ann@x.test", "--reason", "spam trap", "--everywhere")
    soft_bounce(db, "Ann@x.test", 3, "acme")
    shown = cli.json("suppress", "show", "ANN@X.test")
    assert [(s["workspace"], s["kind"], s["reason"]) for s in shown["suppressed"]] == [
        ("*", "manual", "spam trap"),
        ("default", "unsubscribe", "unwanted"),
    ]
    assert datetime.fromisoformat(shown["suppressed"][0]["created_at"]).tzinfo is not None
    assert shown["soft_bounces"] == [
        {"workspace": "acme", "count": 3, "first_at": "2030-01-01T00:00:00Z", "last_at": "2030-01-02T00:00:00Z"}
    ]
    everywhere, here, soft = cli.ok("suppress", "show", "ann@x.test").splitlines()
    assert missing(everywhere, shown["suppressed"][0]["created_at"], "manual", "spam trap") == []
    assert missing(here, "default", "unsubscribe", "unwanted") == []
    assert missing(soft, "acme", "3", "5", "2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z") == []


def test_show_of_a_good_address_says_so(cli: Cli) -> None:
    assert "ann@x.test" in cli.ok("suppress", "show", "ann@x.test")
    shown = cli.json("suppress", "show", "ann@x.test")
    assert (shown["suppressed"], shown["soft_bounces"]) == ([], [])
    assert missing(cli.error("suppress", "show", "nobody"), "ADDRESS", "nobody") == []


def test_text_from_strangers_cannot_control_the_terminal(cli: Cli) -> None:
    cli.ok("suppress", "ann@x.test", "--reason", "\x1b[2Jgone")
    assert "\x1b" not in cli.ok("suppress", "show", "ann@x.test") + cli.ok("suppress", "list")


def test_after_how_many_soft_bounces_is_shown_and_set(cli: Cli) -> None:
    assert cli.json("suppress", "soft-bounces") == {"soft_bounces_max": 5}
    assert " 3 " in cli.ok("suppress", "soft-bounces", "--max", 3)
    assert cli.json("suppress", "soft-bounces") == {"soft_bounces_max": 3}
    cli.ok("suppress", "soft-bounces", "--max", 0)
    assert cli.json("suppress", "soft-bounces") == {"soft_bounces_max": 0}
    cli.error("suppress", "soft-bounces", "--max", -1, code=2)


def test_removing_a_suppression_forgets_the_soft_bounces(cli: Cli, db: Db) -> None:
    cli.ok("suppress", "ann@x.test", "--reason", "r", "--kind", "soft_bounces")
    soft_bounce(db, "ann@x.test", 5)
    cli.ok("suppress", "remove", "ann@x.test")
    assert cli.json("suppress", "show", "ann@x.test")["soft_bounces"] == []


def test_a_bounce_is_listed_as_one(cli: Cli, url: str) -> None:
    from fairpost.model.report import Reached, Reply, Report

    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    send(cli)
    deliver(url, Report(reached=Reached.REPLIED, reply=Reply(550, "5.1.1 no such user")))
    (row,) = cli.json("suppress", "list")
    assert row["kind"] == "hard_bounce"
    assert "5.1.1" in row["reason"]
