"""`fairpost portal`: the product's own e-mails, from files to the queue."""

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from fairpost.templates.portals import BUILT_IN
from tests.cli.conftest import Cli

Db = psycopg.Connection[Any]


def test_they_are_listed_and_shown(bare: Cli) -> None:
    listed = bare.json("portal", "list")
    assert {(each["portal"], each["type"]) for each in listed} >= {("hub", "welcome"), ("admin", "tfa")}
    assert len(listed) == 24
    assert "admin" in bare.ok("portal", "list")
    assert "482913" in bare.ok("portal", "preview", "admin", "tfa", "--field", "code=482913")
    assert "<html" in bare.ok("portal", "preview", "hub", "welcome", "--html").lower()
    assert bare.json("portal", "preview", "org", "invite")["subject"]


def test_a_code_is_queued_as_urgent_and_expires(cli: Cli, db: Db) -> None:
    cli.ok("portal", "send", "admin", "tfa", "--to", "ann@example.com", "--field", "code=482913")
    row = db.execute("SELECT class::text, expires_at - created_at, addresses FROM fairpost.queue").fetchone()
    assert row is not None
    assert (row[0], row[2]) == ("urgent", ["ann@example.com"])
    assert abs(row[1] - timedelta(minutes=10)) < timedelta(seconds=5)


def test_what_is_wrong_is_said_and_nothing_is_queued(cli: Cli, db: Db, tmp_path: Path) -> None:
    assert "code" in cli.error("portal", "send", "admin", "tfa", "--to", "ann@example.com")
    assert "nowhere" in cli.error("portal", "preview", "nowhere", "tfa")
    assert "NAME=VALUE" in cli.error("portal", "preview", "admin", "tfa", "--field", "code", code=2)
    assert "There is no folder" in cli.error("portal", "check", tmp_path / "none")
    assert "is not an e-mail address" in cli.error(
        "portal", "send", "admin", "tfa", "--to", "nonsense", "--field", "code=482913"
    )
    assert db.execute("SELECT count(*) FROM fairpost.queue").fetchone() == (0,)


def test_an_operators_own_replace_the_built_in_ones(cli: Cli) -> None:
    own = Path(cli.environment["FAIRPOST_HOME"]) / "templates" / "admin" / "tfa"
    own.parent.mkdir(parents=True)
    shutil.copytree(BUILT_IN / "admin" / "tfa", own)
    (own / "subject.txt").write_text("Our own subject\n")
    assert cli.json("portal", "preview", "admin", "tfa")["subject"] == "Our own subject"
    assert "24 e-mails are in order" in cli.ok("portal", "check").splitlines()[-1]
    (own / "text.txt").write_text("Your code is {{ cod }}\n")
    said = cli.error("portal", "check")
    assert "cod" in said
    assert "text.txt" in said
