"""`fairpost campaign`: from people and content to e-mails that are sent automatically."""

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.transports.scripted.send import OK
from tests.cli.conftest import Case, Cli, deliver, missing

Db = psycopg.Connection[Any]

GONE = Report(reached=Reached.REPLIED, step=Step.RCPT, reply=Reply(554, "5.6.0 we do not take this"))


@pytest.fixture
def people(cli: Cli, tmp_path: Path) -> Path:
    file = tmp_path / "people.csv"
    file.write_text("email,first_name\nann@example.com,Ann\nbob@example.com,Bob\ncyd@example.com,\n")
    cli.ok("prospects", "import", "customers", file)
    cli.ok("account", "add", "sales", "--from", "sales@example.com", "--provider", "none")
    return file


@pytest.fixture
def campaign(cli: Cli, people: Path, tmp_path: Path) -> Path:
    file = tmp_path / "spring.toml"
    file.write_text(
        """name = "spring"
list = "customers"
gap = "none"

[[step]]
subject = "Hello {{ first_name or 'there' }}"
text = "Dear {{ first_name or 'customer' }}, spring is here."
html = "<p>Dear {{ first_name or 'customer' }}</p>"

[[step]]
delay = "3d"
subject = "Again"
text = "Still spring."
"""
    )
    cli.ok("campaign", "apply", file)
    return file


def test_a_file_is_applied_launched_and_watched(cli: Cli, campaign: Path, url: str) -> None:
    assert cli.json("campaign", "show", "spring")["launched_at"] is None
    launched = cli.json("campaign", "launch", "spring")
    assert len(launched.pop("warnings")) == 1
    assert launched == {
        "scheduled": 6,
        "skipped": 0,
        "left_out": 0,
        "errors": [],
        "inherited_subjects": [],
        "leaving_thread": [2],
        "warning_codes": ["campaign.no_unsubscribe_link"],
        "is_done": True,
    }
    assert cli.json("campaign", "launch", "spring")["scheduled"] == 0  # launching twice has the same effect as once
    deliver(url, OK, GONE, OK)
    shown = cli.json("campaign", "show", "spring")
    assert shown["state"] == "running"
    assert shown["steps"][0]["emails"] == {"sent": 2, "failed": 1}
    assert shown["steps"][1]["emails"] == {"scheduled": 2, "cancelled": 1}
    (failed,) = [
        json.loads(line)
        for line in cli.ok("campaign", "recipients", "spring", "--state", "failed", "--json").splitlines()
    ]
    assert (failed["step"], failed["reason_code"]) == (1, "email.format_refused")
    assert "we do not take this" in cli.ok("campaign", "recipients", "spring")
    assert cli.json("campaign", "retry", "spring") == {"retried": 1}
    for written in ("to_follow", "to follow"):  # the second is how earlier versions wrote it
        line = cli.ok("campaign", "recipients", "spring", "--state", written, "--json")
        assert json.loads(line)["state"] == "to_follow"
    deliver(url, OK)
    again = cli.json("campaign", "show", "spring")
    assert [step["emails"] for step in again["steps"]] == [{"sent": 3}, {"scheduled": 3}]
    assert cli.ok("campaign", "recipients", "spring", "--json") == ""
    assert missing(cli.ok("campaign", "show", "spring"), "spring", "running", "customers", "3 prospects") == []
    assert cli.json("campaign", "list")[0]["name"] == "spring"


def changes(cli: Cli, file: Path) -> list[Any]:
    """Returns the changes that applying the file makes."""
    changes: list[Any] = cli.json("campaign", "apply", file)["changes"]
    return changes


def test_applying_again_changes_nothing_and_a_change_is_shown(cli: Cli, campaign: Path) -> None:
    assert changes(cli, campaign) == []
    campaign.write_text(campaign.read_text().replace("Still spring.", "Summer is coming."))
    assert missing(cli.ok("campaign", "apply", campaign, "--dry-run"), "Still spring.", "Summer is coming.") == []
    would = cli.json("campaign", "apply", campaign, "--dry-run")
    assert (len(would["changes"]), would["applied"]) == (1, False)
    cli.ok("campaign", "apply", campaign)
    assert changes(cli, campaign) == []
    assert "Summer is coming." in cli.ok("campaign", "preview", "spring", "--step", 2)


def test_an_exported_file_can_be_applied(cli: Cli, campaign: Path, tmp_path: Path) -> None:
    cli.ok(
        "schedule", "set", "--timezone", "Europe/Berlin", "--days", "mon-fri", "--hours", "09:00-17:00", "--quota", 50
    )
    exported = tmp_path / "exported.toml"
    exported.write_text(cli.ok("campaign", "export", "spring"))
    assert changes(cli, exported) == []
    cli.ok("campaign", "launch", "spring")
    exported.write_text(cli.ok("campaign", "export", "spring"))
    assert changes(cli, exported) == []


def test_after_a_launch_only_the_schedule_can_change(cli: Cli, campaign: Path) -> None:
    cli.ok("campaign", "apply", campaign, "--launch")
    before = campaign.read_text()
    campaign.write_text(before.replace("Still spring.", "Summer is coming."))
    assert "step 2 text" in cli.error("campaign", "apply", campaign)
    campaign.write_text(before.replace("[[step]]", "[schedule]\nquota = 7\n\n[[step]]", 1))
    assert "+ schedule quota: 7" in cli.ok("campaign", "apply", campaign)
    assert cli.json("schedule", "show")["quota"] is not None


def test_a_missing_field_is_found_before_launch(cli: Cli, people: Path) -> None:
    cli.ok("template", "set", "hello", "--subject", "Hi {{ first_name }}", "--text", "Hello")
    cli.ok("campaign", "new", "spring", "--list", "customers", "--template", "hello")
    said = cli.error("campaign", "launch", "spring")
    assert missing(said, "cyd@example.com", "first_name", "--skip-incomplete") == []
    assert missing(said, "ann@example.com", "bob@example.com") == ["ann@example.com", "bob@example.com"]
    assert cli.json("campaign", "show", "spring")["state"] == "draft"
    result = cli.json("campaign", "launch", "spring", "--skip-incomplete")
    assert (result["scheduled"], result["left_out"]) == (2, 1)


def test_it_can_be_paused_resumed_and_cancelled(cli: Cli, campaign: Path, url: str) -> None:
    assert missing(cli.error("campaign", "pause", "spring"), "spring", "draft") == []
    cli.ok("campaign", "launch", "spring")
    cli.ok("campaign", "pause", "spring", "--reason", "wrong price")
    cli.ok("campaign", "pause", "spring")  # a second time changes nothing
    paused = cli.json("campaign", "show", "spring")
    assert (paused["state"], paused["reason"]) == ("paused", "wrong price")
    assert "wrong price" in cli.ok("campaign", "show", "spring")
    deliver(url, OK, OK, OK)
    assert cli.json("campaign", "show", "spring")["steps"][0]["emails"] == {"ready": 3}
    for _ in range(2):  # a second time changes nothing
        cli.ok("campaign", "resume", "spring")
    deliver(url, OK, OK, OK)
    assert cli.json("campaign", "show", "spring")["steps"][0]["emails"] == {"sent": 3}
    assert missing(cli.ok("campaign", "stop", "spring", "ann@example.com"), "ann@example.com", "1 e-mail") == []
    cli.ok("campaign", "cancel", "spring")
    errors = ((("campaign", command, "spring"), ("spring", "cancelled")) for command in ("resume", "remove"))
    assert cli.wrong_errors(errors) == []
    assert cli.json("campaign", "show", "spring")["state"] == "cancelled"


def test_an_e_mail_can_be_looked_at_and_tried(cli: Cli, campaign: Path, url: str, db: Db) -> None:
    said = cli.ok("campaign", "preview", "spring", "--to", "ann@example.com")
    assert missing(said, "To: ann@example.com", "Subject: Hello Ann", "Dear Ann, spring is here.") == []
    assert cli.ok("campaign", "preview", "spring", "--html").startswith("<p>Dear Ann</p>")
    raw = cli.ok("campaign", "preview", "spring", "--to", "cyd@example.com", "--raw")
    assert "Subject: Hello there" in raw
    assert "MIME-Version: 1.0" in raw
    previewed = cli.json("campaign", "preview", "spring")
    assert previewed["subject"] == "Hello Ann"
    assert "unsubscribe.missing" in [each["code"] for each in previewed["checks"] if each["level"] == "bad"]
    assert "unsubscribe" in said
    assert "step 9" in cli.error("campaign", "preview", "spring", "--step", 9)
    cli.ok("campaign", "send-test", "spring", "me@example.com", "--to", "bob@example.com")
    (row,) = db.execute("SELECT addresses, campaign_id, class::text FROM fairpost.queue").fetchall()
    assert row == (["me@example.com"], None, "urgent")
    assert "nonsense" in cli.error("campaign", "send-test", "spring", "nonsense")


def test_new_members_are_scheduled_later(cli: Cli, campaign: Path, tmp_path: Path) -> None:
    assert missing(cli.error("campaign", "schedule", "spring"), "spring", "draft") == []
    cli.ok("campaign", "launch", "spring")
    more = tmp_path / "more.csv"
    more.write_text("email\ndan@example.com\n")
    cli.ok("prospects", "import", "customers", more)
    result = cli.json("campaign", "schedule", "spring")
    assert (result["scheduled"], result["skipped"]) == (2, 6)


def test_errors_are_reported(cli: Cli, people: Path) -> None:
    cases: tuple[Case, ...] = (
        (("show", "nothing"), ("campaign nothing", "workspace default")),
        (("new", "a:b", "--list", "customers", "--template", "t"), ("CAMPAIGN", "._-")),
        (("new", "x", "--list", "customers", "--template", "t"), ("template t",)),
        (("new", "x", "--list", "nowhere", "--sequence", "s"), ("list nowhere",)),
        (("new", "x", "--list", "customers", "--sequence", "s"), ("sequence s",)),
    )
    assert cli.wrong_errors((("campaign", *arguments), facts) for arguments, facts in cases) == []


def test_options_that_do_not_fit_are_refused(bare: Cli) -> None:
    cases: tuple[Case, ...] = (
        (("new", "x", "--list", "l"), ("--template", "--sequence")),
        (("new", "x", "--list", "l", "--template", "t", "--gap", "9-1"), ("--gap", "9-1")),
        (("retry", "x", "--state", "sent"), ("--state", "failed", "bounced", "cancelled", "suppressed")),
        (("who", "x", "--state", "eaten"), ("--state", "in_doubt", "eaten")),
    )
    assert bare.wrong_errors(((("campaign", *arguments), facts) for arguments, facts in cases), code=2) == []


def test_a_campaign_without_accounts_or_recipients_is_refused(cli: Cli, people: Path, tmp_path: Path) -> None:
    cli.ok("template", "set", "hello", "--subject", "Hi", "--text", "Hello")
    cli.ok("campaign", "new", "spring", "--list", "customers", "--template", "hello", "--pool", "other")
    assert "Pool other" in cli.error("campaign", "launch", "spring")
    for address in ("ann", "bob", "cyd"):
        cli.ok("prospects", "remove", f"{address}@example.com")
    cli.ok("campaign", "new", "spring", "--list", "customers", "--template", "hello")
    assert "customers" in cli.error("campaign", "launch", "spring")
    assert cli.json("campaign", "show", "spring")["state"] == "draft"


def test_a_workspace_sees_only_its_own(cli: Cli, campaign: Path) -> None:
    error = cli.error("campaign", "show", "spring", "--workspace", "other")
    assert missing(error, "campaign spring", "workspace other") == []
    assert cli.json("campaign", "list", "--workspace", "other") == []
    assert len(cli.json("campaign", "list", "--all")) == 1


def test_when_it_will_be_done(cli: Cli, campaign: Path, url: str) -> None:
    before = cli.json("forecast", "spring")
    assert (before["emails"], before["per_account"], before["state"]) == (6, {"sales": 6}, "draft")
    assert before["finished_after_s"] == pytest.approx(3 * 86_400, abs=600)
    assert missing(cli.ok("forecast", "spring"), "6 e-mails", "1 account") == []
    cli.ok("campaign", "launch", "spring")
    deliver(url, OK, OK, OK)
    after = cli.json("forecast", "spring")
    assert (after["emails"], after["sent"], after["foreseen_at_launch"]["emails"]) == (3, 3, 6)
    assert missing(cli.ok("forecast", "spring"), "spring", "running", "3 sent", "of 6") == []
    for address in ("ann", "bob", "cyd"):
        cli.ok("campaign", "stop", "spring", f"{address}@example.com")
    assert "e-mails through" not in cli.ok("forecast", "spring")  # nothing is left to send, so there is no forecast
    assert "campaign nothing" in cli.error("forecast", "nothing")
    cli.error("forecast", "spring", "--recipients", 5, code=2)


def test_forecast_and_reality_are_told_beside_each_other(cli: Cli, campaign: Path, url: str, db: Db) -> None:
    assert cli.json("campaign", "progress", "spring")["counted_at"] is None
    cli.ok("campaign", "launch", "spring")
    assert "fairpost work" in cli.ok("campaign", "progress", "spring")  # counting needs an engine
    deliver(url, OK, GONE, OK)
    db.execute("SELECT fairpost.count_campaigns(60)")
    db.commit()
    said = cli.ok("campaign", "progress", "spring")
    assert missing(said, "2 of 6", "failed 2", "sales") == []
    facts = cli.json("campaign", "progress", "spring")
    assert (facts["sent"], facts["missed"], facts["waiting"]) == (2, 2, 2)
    assert facts["forecast"]["points"][-1] == [facts["forecast"]["ends_at"], 6]
    assert [point["sent"] for point in facts["points"]] == [0, 2]
    assert facts["accounts"][0]["account"] == "sales"
    assert facts["revised_forecast"] is None  # no engine has counted yet
