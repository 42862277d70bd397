"""`fairpost fairness`: its output for a queue, for served mail, and for an empty database."""

from typing import Any

import psycopg

from fairpost.transports.scripted.send import OK
from tests.cli.conftest import Cli, deliver, missing, send

Db = psycopg.Connection[Any]


def add_account(cli: Cli) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test", "--provider", "none")


def test_nothing_is_said_in_a_line(cli: Cli) -> None:
    report = cli.json("fairness")
    assert (report["queue"]["queued"], report["waiting"]["emails"], report["served"]["emails"]) == (0, 0, 0)
    assert report["engines"] == []
    assert missing(cli.ok("fairness"), "0.0% of 1,000,000", "24 h", "fairpost work") == []
    assert "acme" in cli.ok("fairness", "--workspace", "acme")


def test_waiting_and_served_senders_are_listed(cli: Cli, url: str) -> None:
    add_account(cli)
    for workspace, user in (("acme", "ann"), ("acme", "ann"), ("acme", "bob"), ("tiny", "eve")):
        send(cli, "--workspace", workspace, "--user", user)
    deliver(url, OK, OK, OK, OK)
    for _ in range(3):
        send(cli, "--workspace", "acme", "--user", "ann")
    send(cli, "--workspace", "tiny", "--user", "eve")
    report = cli.json("fairness")
    assert report["waiting"]["emails"] == report["queue"]["queued"] == 4
    assert report["waiting"]["tiers"]["normal"] == {"emails": 4, "senders": 2}
    assert report["waiting"]["users"]["largest_share"] == 0.75
    assert report["served"]["sent"] == sum(report["served"]["hours"]) == 4
    assert report["served"]["workspaces"] == {
        "senders": 2,
        "emails": 4,
        "gini": 0.25,
        "jain": 0.8,
        "largest_share": 0.75,
    }
    assert report["served_by"]["fifo"]["emails"] == 0
    assert report["waits"]["fair"]["normal"]["count"] == 4
    assert {"send", "claim", "commit"} == set(report["durations"])
    assert report["sent_total"] == {"sales": 4}
    assert "histograms" not in report

    shown = cli.ok("fairness")
    assert missing(shown, "ann", "acme", "2 senders", "0.25", "75.0%", "█") == []
    assert report["mode"]["fair_percent"] == 100, "every workspace is in the fair queue"
    inside = cli.ok("fairness", "--workspace", "tiny")
    assert "eve" in inside
    assert "acme" not in inside
    assert cli.json("fairness", "--workspace", "tiny")["waiting"]["emails"] == 1


def test_the_two_queues_stand_side_by_side(cli: Cli, url: str, db: Db) -> None:
    add_account(cli)
    send(cli)
    deliver(url, OK)
    send(cli)
    single = cli.ok("fairness")
    db.execute("SELECT fairpost.lay_fairness(0::smallint, true, '{0.1,0.5,1,2}', '{5,15,40,40}', false, 1000)")
    alone = cli.ok("fairness")
    assert missing(alone, "0%", "lanes", "high 40, normal 40, low 15, throttled 5", "FAIRPOST_ABUSE_DETECTION") == []
    mode = cli.json("fairness")["mode"]
    assert (mode["fair_percent"], mode["priority"], mode["is_scoring"]) == (0, "lanes", False)
    db.execute("SELECT fairpost.lay_fairness(50::smallint, false, '{0.1,0.5,1,2}', '{5,15,40,40}', true, 1000)")
    assert cli.json("fairness")["mode"]["fair_percent"] == 50
    both = cli.ok("fairness")
    assert both.count("p99") == single.count("p99") + 1, "the waits of each queue"
    assert alone.count("p99") == both.count("p99"), "also for the account that served another sender before"


def test_throttled_senders_are_named_with_the_reason(cli: Cli, db: Db) -> None:
    db.execute(
        """SELECT fairpost.decide('acme', 'user', 'eve', 0, -1::smallint, NULL, clock_timestamp(), clock_timestamp() + interval '4 hours',
           true, false, NULL, 55::smallint, 0.9, '[{"code": "sender.too_many_bounces", "params": {"bounced": 3, "total": 9}}]', clock_timestamp(), true)"""
    )
    throttling = cli.json("fairness")["throttling"]
    assert [throttling[name] for name in ("throttled", "stopped", "observed", "held")] == [1, 1, 0, 0]
    assert missing(cli.ok("fairness"), "user eve", "3 of 9 e-mails bounced") == []


def test_a_window_that_was_not_kept_says_why(cli: Cli) -> None:
    assert cli.wrong_errors((("fairness", "--window", window), ("1 to 24",)) for window in ("59m", "25h")) == []


def test_a_window_that_is_none_is_reported_at_once(bare: Cli) -> None:
    assert missing(bare.error("fairness", "--window", "day", code=2), "'day'", "1h30m") == []
