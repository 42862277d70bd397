"""docs/commands.md is generated, and every command that is mentioned anywhere exists."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from fairpost.cli import app
from fairpost.cli.reference import regenerated

ROOT_FOLDER = Path(__file__).parents[2]
PAGE = (ROOT_FOLDER / "docs" / "commands.md").read_text()
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


def test_the_page_is_the_one_that_the_commands_generate() -> None:
    assert regenerated(PAGE) == PAGE, "run: python -m fairpost.cli.reference docs/commands.md"


def test_the_options_before_any_command_are_named() -> None:
    assert [name for name in options(ROOT) if f"`fairpost {name}`" not in PAGE] == []


def what_is_wrong(example: str) -> str | None:
    """Returns why a command line in the docs is wrong. It must name a command and options that exist."""
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


MENTIONED_IN = ("README.md", "CONTRIBUTING.md", "Makefile", "deploy", "docs", "examples", "src")
MENTIONED = re.compile(r"(?<![\w./-])fairpost((?: [a-z][a-z-]+)+)([^\n\"'`;&|)(]*?)(?=[\n\"'`;&|)(]|, fairpost|$)")
NOT_COMMANDS = {
    "csrf token",
    "deploy",
    "fold",
    "handover",
    "import",
    "in your application",
    "inbox read",
    "key id",
    "route",
    "unsubscribe",
}


def mentions() -> Iterator[tuple[str, str, str]]:
    """Yields each place, with the command words and the rest of the command line."""
    for place in MENTIONED_IN:
        path = ROOT_FOLDER / place
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if (
                file.suffix in {".css", ".html", ".js", ".md", ".py", ".service", ".sql", ".toml", ".yaml", ""}
                and file.is_file()
            ):
                text = file.read_text("utf-8")
                for found in MENTIONED.finditer(text):
                    yield (
                        f"{file.relative_to(ROOT_FOLDER)}:{text.count(chr(10), 0, found.start()) + 1}",
                        found[1],
                        found[2],
                    )


def what_is_dead(words: list[str], rest: str) -> str | None:
    """Returns the part of a command line that does not exist."""
    group: Any = ROOT
    for word in words:
        children = getattr(group, "commands", None)
        if not children:
            break
        if word not in children:
            return None if group.name == "suppress" else word
        group = children[word]
    if getattr(group, "commands", None):
        return None
    unknown = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", rest)) - options(group) - {"--help"}
    return ", ".join(sorted(unknown)) or None


def test_every_command_that_is_mentioned_exists() -> None:
    dead = [
        f"{place}: fairpost{words}: no {wrong}"
        for place, words, rest in mentions()
        if not NOT_COMMANDS & {words.strip(), words.split()[0]} and (wrong := what_is_dead(words.split(), rest))
    ]
    assert dead == []
