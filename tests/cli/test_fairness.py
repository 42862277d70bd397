"""`fairpost fairness`: what it shows of a queue, of what was served, and of nothing."""

from typing import Any

import psycopg
import pytest

from fairpost.transport.scripted import OK
from tests.cli.conftest import Cli, deliver, send

Db = psycopg.Connection[Any]


def add_account(cli: Cli) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test", "--provider", "none")


def test_nothing_is_said_in_a_line(cli: Cli) -> None:
    shown = cli.ok("fairness")
    assert "0 waiting; 0.0% of 1,000,000" in shown
    assert "Nothing waits, and nothing was sent in the last 24 h." in shown
    assert "No engine runs. Start one: fairpost work" in shown
    assert "Nothing of workspace acme waits" in cli.ok("fairness", "--workspace", "acme")


def test_who_waits_and_who_was_served(cli: Cli, url: str) -> None:
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
    assert "ann of acme" in shown
    assert "2 senders with mail waiting: Gini 0.25; one has 75.0% of it." in shown
    assert "█" in shown
    assert "database, a claim" in shown
    assert "by arrival" not in shown, "everybody is in the fair queue"
    inside = cli.ok("fairness", "--workspace", "tiny")
    assert "eve" in inside
    assert "acme" not in inside
    assert cli.json("fairness", "--workspace", "tiny")["waiting"]["emails"] == 1


def test_the_two_queues_stand_side_by_side(cli: Cli, url: str, db: Db) -> None:
    add_account(cli)
    send(cli)
    deliver(url, OK)
    send(cli)
    db.execute("SELECT fairpost.lay_fairness(0::smallint, true, '{0.1,0.5,1,2}', '{5,15,40,40}', false, 1000)")
    shown = cli.ok("fairness")
    assert "fair queue  0 % of the workspaces; the others are served by arrival" in shown
    assert "as lanes: high 40, normal 40, low 15, throttled 5" in shown
    assert "nobody is scored" in shown
    assert "of 100 claimed" in shown
    db.execute("SELECT fairpost.lay_fairness(50::smallint, false, '{0.1,0.5,1,2}', '{5,15,40,40}', true, 1000)")
    shown = cli.ok("fairness")
    assert "together" in shown
    assert "p99 by arrival" in shown


def test_throttled_senders_are_named_with_the_reason(cli: Cli, db: Db) -> None:
    db.execute(
        """SELECT fairpost.decide('acme', 'user', 'eve', 0, -1::smallint, NULL, clock_timestamp(), clock_timestamp() + interval '4 hours',
           true, false, NULL, 55::smallint, 0.9, ARRAY['12 % bounced'], clock_timestamp(), true)"""
    )
    shown = cli.ok("fairness")
    assert "1 sender throttled (1 stopped now), 0 only observed; 0 names held by hand." in shown
    assert "user eve" in shown
    assert "12 % bounced" in shown


@pytest.mark.parametrize("window", ["59m", "25h"])
def test_a_window_that_was_not_kept_says_why(cli: Cli, window: str) -> None:
    assert "A window has 1 to 24 hours" in cli.error("fairness", "--window", window)


def test_a_window_that_is_none_is_told_at_once(cli: Cli) -> None:
    assert "no span of time" in cli.error("fairness", "--window", "day", code=2)
