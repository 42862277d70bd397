"""`fairpost prospects`: from a CSV file to a list and back, in words and as JSON."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli

Db = psycopg.Connection[Any]

LEADS = """E-Mail;Vorname;City;Time Zone;ID
ann@example.com;Ann;Bonn;Europe/Berlin;a1
"Bob <bob@example.com>";;"New
York";;
"""


@pytest.fixture
def leads(tmp_path: Path) -> Path:
    file = tmp_path / "leads.csv"
    file.write_text(LEADS, "utf-8-sig")
    return file


def test_a_file_is_shown_taken_in_and_found_again(cli: Cli, leads: Path) -> None:
    header = cli.json("prospects", "columns", str(leads))
    assert header["delimiter"] == ";"
    assert header["columns"] == {
        "E-Mail": "email",
        "Vorname": "first_name",
        "City": "city",
        "Time Zone": "timezone",
        "ID": "external_id",
    }
    assert cli.ok("prospects", "import", "spring", str(leads)) == "added 2, changed 0, known 0, duplicates 0, bad 0\n"
    assert cli.ok("prospects", "import", "spring", str(leads)) == "added 0, changed 0, known 2, duplicates 0, bad 0\n"
    ann, bob = cli.json("prospects", "list", "--list", "spring")
    assert (ann["address"], ann["fields"], ann["timezone"], ann["external_id"]) == (
        "ann@example.com",
        {"first_name": "Ann", "city": "Bonn"},
        "Europe/Berlin",
        "a1",
    )
    assert (bob["address"], bob["fields"]) == ("bob@example.com", {"city": "New\nYork", "name": "Bob"})
    assert [each["address"] for each in cli.json("prospects", "list", "--search", "BONN")] == ["ann@example.com"]
    assert "first_name: Ann" in cli.ok("prospects", "show", "ANN@example.com")
    assert cli.json("prospects", "lists")[0] | {"created_at": None} == {
        "name": "spring",
        "prospects": 2,
        "created_at": None,
    }


def test_a_column_can_be_named_or_left_out(cli: Cli, leads: Path) -> None:
    cli.ok("prospects", "import", "spring", str(leads), "--column", "City=town", "--column", "Vorname=")
    assert cli.json("prospects", "show", "ann@example.com")["fields"] == {"town": "Bonn"}


def test_bad_lines_are_named_and_nothing_is_taken(cli: Cli, leads: Path) -> None:
    leads.write_text("email\nann@example.com\nnonsense\n")
    words = cli.error("prospects", "import", "spring", str(leads))
    assert "line 3: 'nonsense' is no e-mail address" in words
    assert "nothing was changed" in words
    assert cli.json("prospects", "list") == []
    assert "added 1" in cli.run("prospects", "import", "spring", str(leads), "--skip-bad")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["import", "not a list", "x.csv"], "LIST must be letters"),
        (["import", "spring", "/nowhere.csv"], "cannot be read"),
        (["show", "nobody@example.com"], "is no prospect of workspace default"),
        (["columns", "x.csv", "--column", "=y"], "--column must be NAME=FIELD"),
    ],
)
def test_what_is_wrong_is_said(cli: Cli, tmp_path: Path, arguments: list[str], words: str) -> None:
    file = tmp_path / "x.csv"
    file.write_text("email\n")
    given = [str(file) if each == "x.csv" else each for each in arguments]
    assert words in cli.error("prospects", *given)


def test_one_can_be_paused_resumed_and_removed(cli: Cli, leads: Path) -> None:
    cli.ok("prospects", "import", "spring", str(leads))
    cli.ok("prospects", "pause", "ann@example.com")
    assert cli.json("prospects", "show", "ann@example.com")["is_paused"]
    cli.ok("prospects", "resume", "ann@example.com")
    assert not cli.json("prospects", "show", "ann@example.com")["is_paused"]
    cli.ok("prospects", "remove", "ann@example.com")
    assert [each["address"] for each in cli.json("prospects", "list")] == ["bob@example.com"]
