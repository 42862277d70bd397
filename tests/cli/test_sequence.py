"""`fairpost sequence`: several templates, with delays in the user's notation."""

import re
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli, missing

Db = psycopg.Connection[Any]

STEPS = ("--step", "welcome", "--step", "reminder after 3d", "--step", "last.call  AFTER 1w 12h")


@pytest.fixture(autouse=True)
def templates(cli: Cli) -> None:
    cli.ok("template", "set", "welcome", "--subject", 'Hello {{ first_name or "there" }}', "--text", "Hi {{ company }}")
    cli.ok("template", "set", "reminder", "--subject", "Did you see it?", "--text", "Hi {{ first_name }}")
    cli.ok("template", "set", "last.call", "--subject", "Last call", "--text", "{% if city %}{{ city }}{% endif %}")


def steps(cli: Cli, name: str = "spring") -> list[tuple[str, int]]:
    return [(step["template"], step["delay_s"]) for step in cli.json("sequence", "show", name)["steps"]]


def launch(db: Db) -> None:
    db.execute(
        """INSERT INTO fairpost.campaigns (workspace, name, state, sequence_id, lists, route, created_at, launched_at)
           SELECT s.workspace, 'sale', 'running', s.id, '{}', 'default', now(), now() FROM fairpost.sequences s"""
    )


def test_steps_follow_each_other_after_a_delay(cli: Cli) -> None:
    _, first, second, third = cli.ok("sequence", "set", "spring", *STEPS).splitlines()
    assert missing(first, "1. welcome") == []
    assert missing(second, "2. reminder", "3d") == []
    assert missing(third, "3. last.call", "7d 12h") == []
    assert steps(cli) == [("welcome", 0), ("reminder", 259_200), ("last.call", 648_000)]


def test_setting_it_again_replaces_all_steps(cli: Cli) -> None:
    cli.ok("sequence", "set", "spring", *STEPS)
    assert missing(cli.ok("sequence", "set", "spring", "--step", "reminder"), "spring", "1. reminder") == []
    assert steps(cli) == [("reminder", 0)]


def test_it_is_shown_with_the_fields_of_all_its_templates(cli: Cli) -> None:
    cli.ok("sequence", "set", "spring", *STEPS)
    shown = cli.json("sequence", "show", "spring")
    assert (shown["required"], shown["optional"]) == (["company", "first_name"], ["city"])
    assert missing(cli.ok("sequence", "show", "spring"), "company, first_name", "city", "3d", "7d 12h") == []


def test_they_are_listed(cli: Cli) -> None:
    assert "fairpost sequence set NAME --step TEMPLATE" in cli.ok("sequence", "list")
    cli.ok("sequence", "set", "spring", *STEPS)
    assert re.search("welcome → reminder .*3d → last.call .*7d 12h", cli.ok("sequence", "list"))
    (listed,) = cli.json("sequence", "list")
    assert (listed["name"], len(listed["steps"]), listed["campaigns"]) == ("spring", 3, [])


BAD_STEPS = [
    (["welcome", "reminder"], ["step 2:", "reminder after 3d"]),
    (["welcome after 3d"], ["step 1:", "after 3d"]),
    (["welcome", "reminder after 3 days"], ["step 2:", "3d, 12h, 30m", "3 days"]),
    (["welcome", "reminder after -3d"], ["step 2:", "3d, 12h, 30m", "-3d"]),
    (["welcome", "reminder after 2000d"], ["step 2:", "366d", "2000d"]),
    (["welcome", "reminder after"], ["step 2:"]),
    (["welcome", "reminder 3d"], ["step 2:"]),
    (["welcome", "  "], ["step 2:"]),
    (["sale:1"], ["step 1:", "1..100"]),
    (["welcome", "nothing after 3d"], ["nothing", "default"]),
    (["welcome"] + ["reminder after 1d"] * 100, ["100", "101"]),
    (["welcome after 1d", "reminder"], ["step 1:", "step 2:"]),
]


def test_bad_steps_are_all_named_and_nothing_is_changed(cli: Cli) -> None:
    cli.ok("sequence", "set", "spring", *STEPS)
    before = steps(cli)
    wrong = []
    for given, facts in BAD_STEPS:
        arguments = [word for step in given for word in ("--step", step)]
        for name in ("spring", "other"):
            if lacks := missing(cli.error("sequence", "set", name, *arguments), *facts):
                wrong.append((given, lacks))
    assert wrong == []
    assert [each["name"] for each in cli.json("sequence", "list")] == ["spring"]
    assert steps(cli) == before


def test_an_invalid_field_is_named(cli: Cli) -> None:
    assert "1..100" in cli.error("sequence", "set", "spring:1", "--step", "welcome", code=2)
    assert "--step" in cli.error("sequence", "set", "spring", code=2)
    for command in ("show", "remove"):
        assert missing(cli.error("sequence", command, "spring"), "spring", "default", "fairpost sequence list") == []


def test_one_that_was_launched_keeps_its_steps(cli: Cli, db: Db) -> None:
    cli.ok("sequence", "set", "spring", *STEPS)
    launch(db)
    assert "sale" in cli.error("sequence", "set", "spring", "--step", "reminder")
    assert len(steps(cli)) == 3
    cli.ok("sequence", "set", "spring", *STEPS)  # setting the same steps changes nothing
    assert "sale" in cli.ok("sequence", "show", "spring")
    assert missing(cli.error("sequence", "remove", "spring"), "spring", "sale") == []
    assert len(steps(cli)) == 3


def test_one_can_be_removed(cli: Cli) -> None:
    cli.ok("sequence", "set", "spring", *STEPS)
    assert "spring" in cli.ok("sequence", "remove", "spring")
    assert cli.json("sequence", "list") == []
    assert len(cli.json("template", "list")) == 3


def test_workspaces_do_not_see_each_other(cli: Cli) -> None:
    other = ("--workspace", "other")
    cli.ok("sequence", "set", "spring", *STEPS)
    assert cli.json("sequence", "list", *other) == []
    assert missing(cli.error("sequence", "set", "spring", "--step", "welcome", *other), "welcome", "other") == []
    cli.ok("template", "set", "mine", "--subject", "s", "--text", "t", *other)
    cli.ok("sequence", "set", "spring", "--step", "mine", *other)
    assert len(steps(cli)) == 3
    cli.ok("sequence", "remove", "spring", *other)
    assert len(steps(cli)) == 3
