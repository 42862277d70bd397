"""The files in deploy/, parsed for the tests: commands, variables, durations."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from fairpost.engine import orchestrator, process
from tests.docs.test_commands import COMMANDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = ROOT / "docs" / "deployment.md"

# How long the orchestrator waits for its workers; after that, they notice that it is gone, and have this long to update
# the database.
ENGINE_ENDS_WITHIN_S = orchestrator.END_S_MAX + process.END_S_MAX

_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def example_environment() -> dict[str, str]:
    lines = (DEPLOY / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def filled_in(text: str, environment: Mapping[str, str]) -> str:
    """Fills in `${NAME}`, `${NAME:-default}` and `${NAME:?what to do}` like compose."""

    def value(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        given = environment.get(name)
        assert given or kind != "?", f"{name} is not set: {rest}"
        return given or (rest if kind == "-" else "")

    return _VARIABLE.sub(value, text)


def asked_for(text: str) -> set[str]:
    return {name for name, _, _ in _VARIABLE.findall(text)}


def seconds(span: str) -> float:
    amount, unit = re.fullmatch(r"(\d+)(s|m|min)", span).groups()  # type: ignore[union-attr]
    return float(amount) * (1 if unit == "s" else 60)


def check_command(arguments: Sequence[str]) -> None:
    """Checks that the command exists and accepts its arguments, without running it. `arguments` does not include
    `fairpost` itself."""
    words = ["fairpost", *arguments]
    name = next((name for name in COMMANDS if words[: len(name.split())] == name.split()), None)
    assert name is not None, f"there is no command {' '.join(words)}"
    COMMANDS[name].make_context(name, words[len(name.split()) :])
