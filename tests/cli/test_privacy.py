"""`fairpost privacy` and `fairpost db retain`: what is stored about one person, and for how long."""

import json
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fairpost.model.report import Reached, Reply, Report
from tests.cli.conftest import Cli, deliver, send

Db = psycopg.Connection[Any]
SENT = Report(reached=Reached.REPLIED, reply=Reply(250, "ok"))


@pytest.fixture
def people(cli: Cli, url: str) -> Cli:
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    send(cli)
    deliver(url, SENT)
    send(cli, "--to", "bob@there.test")
    return cli


def test_erasing_says_what_was_erased_and_a_second_time_finds_nothing(people: Cli) -> None:
    people.ok("privacy", "erase", "ann@there.test", "--dry-run")
    planned = people.json("privacy", "erase", "ANN@there.test", "--dry-run")
    assert (planned["dry_run"], planned["emails"], planned["taken_out"]) == (True, 1, 1)
    done = people.json("privacy", "erase", "ANN@there.test", "--yes")
    assert {**done, "dry_run": True} == planned
    again = people.json("privacy", "erase", "ann@there.test", "--yes")
    assert (again["emails"], again["taken_out"], again["in_hand"]) == (0, 0, [])
    assert "ann@there.test" not in people.ok("email", "list")


def test_erasing_requires_confirmation(people: Cli) -> None:
    people.error("privacy", "erase", "ann@there.test", code=1)
    assert people.json("privacy", "erase", "ann@there.test", "--dry-run")["emails"] == 1
    error = people.error("privacy", "erase", "a@b.test", "--workspace", "w", "--all-workspaces", code=2)
    assert "--workspace" in error
    assert "--all-workspaces" in error
    assert "ADDRESS" in people.error("privacy", "erase", "ann", "--yes")
    assert people.json("privacy", "erase", "ann@there.test", "--dry-run")["emails"] == 1


def test_an_erased_person_is_on_the_list_by_a_hash(cli: Cli, url: str) -> None:
    cli.ok("privacy", "erase", "ann@there.test", "--yes")
    assert cli.json("suppress", "list") == []
    assert re.search(r"\b1\b", cli.ok("suppress", "list")), "counted, but not named"
    assert len(cli.json("suppress", "show", "Ann@There.test")["suppressed"]) == 1
    cli.ok("suppress", "ann@there.test", "--reason", "r")
    assert cli.json("suppress", "list") == []
    id_ = cli.json("email", "send", "--to", "ann@there.test", "--subject", "s", "--text", "t")["id"]
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    deliver(url)
    assert cli.json("email", "show", id_)["state"] == "suppressed"
    cli.ok("suppress", "remove", "ann@there.test")
    assert cli.json("suppress", "show", "Ann@There.test")["suppressed"] == []
    assert not re.search(r"\d", cli.ok("suppress", "list"))


def test_a_list_that_is_imported_does_not_bring_an_erased_address_back(people: Cli, tmp_path: Path) -> None:
    people.ok("privacy", "erase", "ann@there.test", "--yes")
    (tmp_path / "list.csv").write_text("ann@there.test\ncid@there.test\n")
    imported = people.json("suppress", "import", tmp_path / "list.csv")
    assert (imported["added"], imported["known"]) == (1, 1)
    assert [row["address"] for row in people.json("suppress", "list")] == ["cid@there.test"]


def test_an_export_has_everything_of_one_person_and_nothing_of_others(people: Cli, tmp_path: Path) -> None:
    people.ok("suppress", "ann@there.test", "--reason", "unwanted")
    (tmp_path / "people.csv").write_text("email,first_name\nann@there.test,Ann\nbob@there.test,Bob\n")
    people.ok("prospects", "import", "spring", tmp_path / "people.csv")
    found = json.loads(people.ok("privacy", "export", "Ann@There.test"))
    assert found["address"].lower() == "ann@there.test"
    assert [p["fields"]["first_name"] for p in found["prospects"]] == ["Ann"]
    assert found["prospects"][0]["lists"] == ["spring"]
    assert [s["reason"] for s in found["suppressions"]] == ["unwanted"]
    waiting, sent = found["emails"]
    assert (sent["state"], sent["subject"], sent["text"]) == ("sent", "Hello", "Hi")
    assert [attempt["outcome"] for attempt in sent["attempts"]] == ["sent"]
    assert [r["address"] for r in waiting["recipients"]] == ["ann@there.test"]
    assert "bob@there.test" not in json.dumps(found)


def test_an_export_goes_into_a_file_whole(people: Cli, tmp_path: Path) -> None:
    file = tmp_path / "ann.json"
    assert " 2 " in people.ok("privacy", "export", "ann@there.test", "--all-workspaces", "--output", file)
    assert len(json.loads(file.read_text())["emails"]) == 2
    assert "--force" in people.error("privacy", "export", "ann@there.test", "--output", file)
    people.ok("privacy", "export", "nobody@there.test", "--output", file, "--force")
    assert json.loads(file.read_text()) == {
        "address": "nobody@there.test",
        **{
            name: []
            for name in (
                *("prospects", "suppressions", "soft_bounces", "returned", "replies", "inbox_mails", "events"),
                "emails",
            )
        },
    }


def test_retain_says_what_goes_and_why_the_rest_stays(cli: Cli, db: Db) -> None:
    assert "--days" in cli.error("db", "retain")
    assert cli.json("db", "retain", "--days", 30)["dropped"] == []
    db.execute("SELECT fairpost.make_partitions('2020-01-15Z')")
    id_ = send(cli)
    db.execute("UPDATE fairpost.queue SET id = fairpost.first_id_at('2020-02-02Z') WHERE id = %s", (id_,))
    planned = cli.json("db", "retain", "--days", 30, "--dry-run")
    assert [month["month"] for month in planned["dropped"]] == ["2020-01-01T00:00:00Z", "2020-03-01T00:00:00Z"]
    assert [month["month"] for month in planned["kept"]][:1] == ["2020-02-01T00:00:00Z"]
    assert "2020-01" in cli.ok("db", "retain", "--days", 30, "--dry-run")
    set_days = Cli({**cli.environment, "FAIRPOST_RETENTION_DAYS": "30"})
    said = set_days.ok("db", "retain")
    assert [month for month in ("2020-01", "2020-02", "2020-03") if month in said] == ["2020-01", "2020-02", "2020-03"]
    entries = [(each["action"], each["subject"]) for each in cli.json("audit")]
    assert entries == [("history.drop", "2020-03"), ("history.drop", "2020-01")]
    again = cli.json("db", "retain", "--days", 30)
    assert again["dropped"] == []
    assert [month["month"] for month in again["kept"]][:1] == ["2020-02-01T00:00:00Z"]


def test_retain_gives_way_to_who_reads_for_long(cli: Cli, db: Db, url: str) -> None:
    db.execute("SELECT fairpost.make_partitions('2020-01-15Z')")
    with psycopg.connect(url) as reader:
        reader.execute("SELECT count(*) FROM fairpost.emails")
        assert "fairpost db retain" in cli.error("db", "retain", "--days", 30)
    assert len(cli.json("db", "retain", "--days", 30)["dropped"]) == 3
