"""docs/commands.md has every command with every option, and its examples name only what exists."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from fairpost.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
ROOT: Any = typer.main.get_command(app)


def commands(group: Any = ROOT, path: tuple[str, ...] = ("fairpost",)) -> dict[str, Any]:
    children = getattr(group, "commands", None)
    if not children:
        return {" ".join(path): group}
    return {name: found for key, child in children.items() for name, found in commands(child, (*path, key)).items()}


def options(command: Any) -> set[str]:
    declared = [name for param in command.params for name in (*param.opts, *param.secondary_opts)]
    return {name for name in declared if name.startswith("--")} - {"--help"}


COMMANDS = commands()
SECTIONS = dict(re.findall(r"^### `(.+?)`\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
EXAMPLES = [
    line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]


def test_the_page_has_exactly_the_commands_there_are() -> None:
    assert set(SECTIONS) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_explained_with_its_options_and_an_example(name: str) -> None:
    section = SECTIONS.get(name, "")
    missing = {option for option in options(COMMANDS[name]) if f"`{option}`" not in section}
    assert not missing, f"docs/commands.md does not explain {', '.join(sorted(missing))} of {name}"
    invented = set(re.findall(r"`(--[\w-]+)`", section)) - options(COMMANDS[name])
    assert not invented, f"{name} has no {', '.join(sorted(invented))}"
    assert "```sh\n" in section


@pytest.mark.parametrize("name", options(ROOT))
def test_the_options_before_any_command_are_named(name: str) -> None:
    assert f"`fairpost {name}`" in PAGE


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_uses_only_what_exists(example: str) -> None:
    words = shlex.split(example.partition("$(")[2].partition(")")[0] or example)
    assert words[0] == "fairpost"
    known = [name for name in COMMANDS if words[: len(name.split())] == name.split()]
    if not known and words[1] == "suppress":
        known = ["fairpost suppress add"]  # `add` may be left out
    (name,) = known
    used = {word for word in words if word.startswith("--")}
    assert used <= options(COMMANDS[name])
