"""docs/commands.md has every command with every option, and its examples name only what exists."""

import re
import shlex
from pathlib import Path
from typing import Any

import typer

from fairpost.cli import app
from fairpost.model.account import LIMITS

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
LIMITS_PAGE = {each.option for each in LIMITS}  # limits.md explains those, and a test of its own compares them
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


def test_every_command_is_explained_with_its_options_and_an_example() -> None:
    wrong = []
    for name, command in COMMANDS.items():
        section = SECTIONS.get(name, "")
        known = options(command)
        explained = known - LIMITS_PAGE if "limits.md#every-limit" in section else known
        wrong += [f"{name}: {option} is not explained" for option in sorted(explained) if f"`{option}`" not in section]
        wrong += [f"{name} has no {option}" for option in re.findall(r"`(--[\w-]+)`", section) if option not in known]
        wrong += [] if "```sh\n" in section else [f"{name} has no example"]
    assert wrong == []


def test_the_options_before_any_command_are_named() -> None:
    assert [name for name in options(ROOT) if f"`fairpost {name}`" not in PAGE] == []


def what_is_wrong(example: str) -> str | None:
    """Of a command line in the docs: it must name a command and options that exist."""
    words = shlex.split(example.partition("$(")[2].partition(")")[0] or example)
    known = [name for name in COMMANDS if words[: len(name.split())] == name.split()]
    if not known and words[:2] == ["fairpost", "suppress"]:
        known = ["fairpost suppress add"]  # `add` may be left out
    if len(known) != 1:
        return f"no such command: {example}"
    unknown = {word for word in words if word.startswith("--")} - options(COMMANDS[known[0]])
    return f"no such option {', '.join(sorted(unknown))}: {example}" if unknown else None


def test_every_example_uses_only_what_exists() -> None:
    assert [wrong for example in EXAMPLES if (wrong := what_is_wrong(example))] == []
