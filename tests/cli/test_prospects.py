"""`fairpost prospects`: from a CSV file to a list and back, as text and as JSON."""

import re
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
    counts = ("added", "changed", "same", "duplicates", "bad")
    for expected in ([2, 0, 0, 0, 0], [0, 0, 2, 0, 0]):
        imported = cli.json("prospects", "import", "spring", str(leads))
        assert [imported[name] for name in counts] == expected
    assert re.findall(r"\d+", cli.ok("prospects", "import", "spring", str(leads))) == ["0", "0", "2", "0", "0"]
    ann, bob = cli.json("prospects", "list", "--list", "spring")
    assert (ann["address"], ann["fields"], ann["timezone"], ann["external_id"]) == (
        "ann@example.com",
        {"first_name": "Ann", "city": "Bonn"},
        "Europe/Berlin",
        "a1",
    )
    assert (bob["address"], bob["fields"]) == ("bob@example.com", {"city": "New\nYork", "name": "Bob"})
    assert [each["address"] for each in cli.json("prospects", "list", "--search", "BONN")] == ["ann@example.com"]
    assert re.search("first_name.*Ann", cli.ok("prospects", "show", "ANN@example.com"))
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
    assert "line 3: 'nonsense' " in cli.error("prospects", "import", "spring", str(leads))
    assert cli.json("prospects", "list") == []
    imported = cli.json("prospects", "import", "spring", str(leads), "--skip-bad")
    assert (imported["added"], imported["bad"]) == (1, 1)


def test_an_invalid_field_is_named(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("email\n")
    assert "LIST " in cli.error("prospects", "import", "not a list", file)
    assert "/nowhere.csv" in cli.error("prospects", "import", "spring", "/nowhere.csv")
    assert "nobody@example.com" in cli.error("prospects", "show", "nobody@example.com")
    assert "NAME=FIELD" in cli.error("prospects", "columns", file, "--column", "=y")


def test_one_can_be_paused_resumed_and_removed(cli: Cli, leads: Path) -> None:
    cli.ok("prospects", "import", "spring", str(leads))
    cli.ok("prospects", "pause", "ann@example.com")
    assert cli.json("prospects", "show", "ann@example.com")["is_paused"]
    cli.ok("prospects", "resume", "ann@example.com")
    assert not cli.json("prospects", "show", "ann@example.com")["is_paused"]
    cli.ok("prospects", "remove", "ann@example.com")
    assert [each["address"] for each in cli.json("prospects", "list")] == ["bob@example.com"]
