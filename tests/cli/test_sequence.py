"""`fairpost sequence`: templates in a row, with delays as people write them."""

from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli

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
    assert cli.ok("sequence", "set", "spring", *STEPS) == (
        "wrote sequence spring: 3 steps\n"
        "  1. welcome\n"
        "  2. reminder, 3d after step 1\n"
        "  3. last.call, 7d 12h after step 2\n"
    )
    assert steps(cli) == [("welcome", 0), ("reminder", 259_200), ("last.call", 648_000)]


def test_setting_it_again_replaces_all_steps(cli: Cli) -> None:
    cli.ok("sequence", "set", "spring", *STEPS)
    assert cli.ok("sequence", "set", "spring", "--step", "reminder") == "set sequence spring: 1 step\n  1. reminder\n"
    assert steps(cli) == [("reminder", 0)]


def test_it_is_shown_with_the_fields_of_all_its_templates(cli: Cli) -> None:
    cli.ok("sequence", "set", "spring", *STEPS)
    shown = cli.json("sequence", "show", "spring")
    assert (shown["required"], shown["optional"]) == (["company", "first_name"], ["city"])
    said = cli.ok("sequence", "show", "spring")
    assert "everybody must have  company, first_name\n" in said
    assert "when the campaign starts" in said
    assert "7d 12h after step 2" in said


def test_they_are_listed(cli: Cli) -> None:
    assert "fairpost sequence set NAME --step TEMPLATE" in cli.ok("sequence", "list")
    cli.ok("sequence", "set", "spring", *STEPS)
    assert "welcome → reminder after 3d → last.call after 7d 12h" in cli.ok("sequence", "list")
    (listed,) = cli.json("sequence", "list")
    assert (listed["name"], len(listed["steps"]), listed["campaigns"]) == ("spring", 3, [])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["welcome", "reminder"], 'step 2: must say how long after the step before it goes out, like "reminder after 3d"'),
        (["welcome after 3d"], 'step 1: goes out first, when the campaign starts: leave out "after 3d"'),
        (["welcome", "reminder after 3 days"], "step 2: the delay must be a time like 3d, 12h, 30m"),
        (["welcome", "reminder after -3d"], "step 2: the delay must be a time like"),
        (["welcome", "reminder after 2000d"], "step 2: the delay must be at most 366d"),
        (["welcome", "reminder after"], "step 2: must be a template and a delay"),
        (["welcome", "reminder 3d"], "step 2: must be a template and a delay"),
        (["welcome", "  "], "step 2: must be a template and a delay"),
        (["sale:1"], "step 1: the template must be 1..100 letters"),
        (["welcome", "nothing after 3d"], "There is no template nothing in workspace default"),
        (["welcome"] + ["reminder after 1d"] * 100, "at most 100 steps, got 101"),
    ],
)  # fmt: skip
def test_bad_steps_are_refused_and_nothing_is_changed(cli: Cli, given: list[str], said: str) -> None:
    cli.ok("sequence", "set", "spring", *STEPS)
    before = steps(cli)
    arguments = [word for step in given for word in ("--step", step)]
    assert said in cli.error("sequence", "set", "spring", *arguments)
    assert said in cli.error("sequence", "set", "other", *arguments)
    assert [each["name"] for each in cli.json("sequence", "list")] == ["spring"]
    assert steps(cli) == before


def test_all_bad_steps_are_named_at_once(cli: Cli) -> None:
    said = cli.error("sequence", "set", "spring", "--step", "welcome after 1d", "--step", "reminder")
    assert "step 1:" in said
    assert "step 2:" in said


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["set", "spring:1", "--step", "welcome"], 2, "must be 1..100 letters"),
        (["set", "spring"], 2, "Missing option '--step'"),
        (["show", "spring"], 1, "There is no sequence spring in workspace default. See: fairpost sequence list"),
        (["remove", "spring"], 1, "There is no sequence spring"),
    ],
)
def test_what_is_wrong_is_said(cli: Cli, arguments: list[str], code: int, said: str) -> None:
    assert said in cli.error("sequence", *arguments, code=code)


def test_one_that_was_launched_keeps_its_steps(cli: Cli, db: Db) -> None:
    cli.ok("sequence", "set", "spring", *STEPS)
    launch(db)
    said = cli.error("sequence", "set", "spring", "--step", "reminder")
    assert "was launched with campaign sale, and keeps its steps" in said
    assert len(steps(cli)) == 3
    cli.ok("sequence", "set", "spring", *STEPS)  # the same is no change
    shown = cli.ok("sequence", "show", "spring")
    assert "sale (launched)" in shown
    assert "stay as they are" in shown
    assert "Sequence spring belongs to sale. Nothing was changed." in cli.error("sequence", "remove", "spring")


def test_one_can_be_removed(cli: Cli) -> None:
    cli.ok("sequence", "set", "spring", *STEPS)
    assert cli.ok("sequence", "remove", "spring") == "removed sequence spring; its templates stay\n"
    assert cli.json("sequence", "list") == []
    assert len(cli.json("template", "list")) == 3


def test_workspaces_do_not_see_each_other(cli: Cli) -> None:
    other = ("--workspace", "other")
    cli.ok("sequence", "set", "spring", *STEPS)
    assert cli.json("sequence", "list", *other) == []
    said = cli.error("sequence", "set", "spring", "--step", "welcome", *other)
    assert "There is no template welcome in workspace other" in said
    cli.ok("template", "set", "mine", "--subject", "s", "--text", "t", *other)
    cli.ok("sequence", "set", "spring", "--step", "mine", *other)
    assert len(steps(cli)) == 3
    cli.ok("sequence", "remove", "spring", *other)
    assert len(steps(cli)) == 3
