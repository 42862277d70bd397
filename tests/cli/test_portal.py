"""`fairpost portal`: the product's own e-mails, from files to the queue."""

import re
import shutil
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fairpost.portals.folder import BUILT_IN
from fairpost.portals.loading import load_portals
from tests.cli.conftest import Cli

Db = psycopg.Connection[Any]
BUILT_IN_PORTALS = cache(lambda: load_portals(BUILT_IN))


@pytest.fixture(autouse=True)
def built_in_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The built-in files do not change, so they are compiled once for all commands."""
    monkeypatch.setattr(
        "fairpost.portals.loading.load_portals",
        lambda *folders, **more: BUILT_IN_PORTALS() if folders == (BUILT_IN,) else load_portals(*folders, **more),
    )


def test_they_are_listed_and_shown(bare: Cli) -> None:
    listed = bare.json("portal", "list")
    assert {(each["portal"], each["type"]) for each in listed} >= {("hub", "welcome"), ("admin", "tfa")}
    assert len(listed) == 24
    assert "admin" in bare.ok("portal", "list")
    assert "482913" in bare.ok("portal", "preview", "admin", "tfa", "--field", "code=482913")
    assert "<html" in bare.ok("portal", "preview", "hub", "welcome", "--html").lower()
    assert bare.json("portal", "preview", "org", "invite")["subject"]


def test_a_code_is_queued_as_urgent_and_expires(cli: Cli, db: Db) -> None:
    to = ("--to", "ann@example.com", "--field", "code=482913", "--tag", "team=a", "--metadata", '{"visit": 7}')
    cli.ok("portal", "send", "admin", "tfa", *to)
    labels = db.execute("SELECT type, tags, metadata FROM fairpost.labels").fetchone()
    assert labels == ("admin_tfa", {"team": "a"}, {"visit": 7})
    row = db.execute("SELECT class::text, expires_at - created_at, addresses FROM fairpost.queue").fetchone()
    assert row is not None
    assert (row[0], row[2]) == ("urgent", ["ann@example.com"])
    assert abs(row[1] - timedelta(minutes=10)) < timedelta(seconds=5)


def test_errors_are_reported_and_nothing_is_queued(cli: Cli, db: Db, tmp_path: Path) -> None:
    assert "code" in cli.error("portal", "send", "admin", "tfa", "--to", "ann@example.com")
    assert "nowhere" in cli.error("portal", "preview", "nowhere", "tfa")
    assert "NAME=VALUE" in cli.error("portal", "preview", "admin", "tfa", "--field", "code", code=2)
    assert str(tmp_path / "none") in cli.error("portal", "check", tmp_path / "none")
    assert "nonsense" in cli.error("portal", "send", "admin", "tfa", "--to", "nonsense", "--field", "code=482913")
    assert db.execute("SELECT count(*) FROM fairpost.queue").fetchone() == (0,)


def test_an_operators_own_replace_the_built_in_ones(cli: Cli) -> None:
    own = Path(cli.environment["FAIRPOST_HOME"]) / "templates" / "admin" / "tfa"
    own.parent.mkdir(parents=True)
    shutil.copytree(BUILT_IN / "admin" / "tfa", own)
    (own / "subject.txt").write_text("Our own subject\n")
    assert cli.json("portal", "preview", "admin", "tfa")["subject"] == "Our own subject"
    assert "24 " in cli.ok("portal", "check").splitlines()[-1]
    (own / "text.txt").write_text("Your code is {{ cod }}\n")
    said = cli.error("portal", "check")
    assert "cod" in said
    assert "text.txt" in said


def test_a_workspace_has_its_own_words_until_it_is_reset(cli: Cli, db: Db, tmp_path: Path) -> None:
    words = {
        "subject": "{{ code }} for the shop\n",
        "text": "Shop: {{ code }}\n",
        "html": '<p class="text">Shop: {{ code }}</p>\n',
    }
    files: list[object] = []
    for part, text in words.items():
        (tmp_path / part).write_text(text)
        files += [f"--{part}-file", tmp_path / part]
    said = cli.ok("portal", "override", "hub", "tfa", "--workspace", "shop", *files)
    assert re.search("note: hub/tfa: .*first_name", said)
    assert re.search("shop .* hub/tfa", said)
    listed = cli.json("portal", "list", "--workspace", "shop")
    (own,) = [each for each in listed if each["override"]]
    assert (own["portal"], own["type"], own["override"]["workspace"]) == ("hub", "tfa", "shop")
    assert own["override"]["changed_by"]
    assert not any(each["override"] for each in cli.json("portal", "list"))
    assert "shop, 2" in cli.ok("portal", "list", "--workspace", "shop")
    assert cli.json("portal", "preview", "hub", "tfa", "--workspace", "shop")["subject"] == "482913 for the shop"
    assert "for the shop" not in cli.ok("portal", "preview", "hub", "tfa", "--workspace", "bakery")
    source = cli.json("portal", "preview", "hub", "tfa", "--source", "--workspace", "shop")
    assert source["html"] == words["html"].strip()
    to = ("--to", "ann@example.com", "--field", "code=111111")
    cli.ok("portal", "send", "hub", "tfa", *to, "--workspace", "shop")
    cli.ok("portal", "send", "hub", "tfa", *to, "--workspace", "bakery")
    built_in = cli.json("portal", "preview", "hub", "tfa")["subject"]
    subjects = [subject for (subject,) in db.execute("SELECT subject FROM fairpost.contents ORDER BY id")]
    assert subjects == ["111111 for the shop", built_in.replace("482913", "111111")]
    changed = cli.json("portal", "override", "hub", "tfa", "--workspace", "shop", "--subject", "Now {{ code }}")
    assert not changed["is_new"]
    kept = cli.json("portal", "preview", "hub", "tfa", "--workspace", "shop")
    assert kept["subject"] == "Now 482913"
    assert "Shop: 482913" in kept["text"], "omitted parts are not changed"
    cli.ok("portal", "reset", "hub", "tfa", "--workspace", "shop")
    assert "shop" in cli.error("portal", "reset", "hub", "tfa", "--workspace", "shop")
    assert cli.json("portal", "preview", "hub", "tfa", "--workspace", "shop")["subject"] == built_in


def test_words_that_are_wrong_are_refused_with_their_place(cli: Cli, db: Db, tmp_path: Path) -> None:
    (tmp_path / "html").write_text("<p>{{ code }}</p>\n<p>{{ kode }}</p>\n")
    said = cli.error("portal", "override", "hub", "tfa", "--html-file", tmp_path / "html")
    assert "html, line 2, column 7: kode " in said
    assert "../tfa" in cli.error("portal", "override", "hub", "../tfa", "--subject", "x")
    assert "/etc" in cli.error("portal", "reset", "/etc", "passwd")
    assert "--subject" in cli.error("portal", "override", "hub", "tfa", code=2)
    both = cli.error("portal", "override", "hub", "tfa", "--subject", "x", "--subject-file", "y", code=2)
    assert "--subject-file" in both
    cli.error("portal", "override", "hub", "tfa", "--text-file=-", "--html-file=-", code=2)
    missing = tmp_path / "none"
    assert str(missing) in cli.error("portal", "override", "hub", "tfa", "--text-file", missing)
    assert db.execute("SELECT count(*) FROM fairpost.portal_overrides").fetchone() == (0,)


def test_content_that_no_longer_fits_the_files_is_reported(cli: Cli) -> None:
    cli.ok("portal", "override", "hub", "tfa", "--workspace", "shop", "--subject", "Shop {{ code }} {{ place or 1 }}")
    own = Path(cli.environment["FAIRPOST_HOME"]) / "templates" / "hub" / "tfa"
    shutil.copytree(BUILT_IN / "hub" / "tfa", own)
    for name in ("meta.toml", "text.txt", "html.html"):
        (own / name).write_text((own / name).read_text().replace("place", "spot"))
    listed = cli.ok("portal", "list", "--workspace", "shop")
    assert re.search(r"hub/tfa: .*shop.* 5, .*place .*first_name, valid_for, spot, code", listed)
    assert "fairpost portal override hub tfa --workspace shop" in listed
    built_in = cli.json("portal", "preview", "hub", "tfa")["subject"]
    assert cli.json("portal", "preview", "hub", "tfa", "--workspace", "shop")["subject"] == built_in
