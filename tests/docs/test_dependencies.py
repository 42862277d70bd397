"""docs/decisions/dependencies.md lists every package of pyproject.toml and where it is installed, and no other."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "decisions" / "dependencies.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def listed(heading: str) -> list[str]:
    section = re.split(r"^## ", PAGE.partition(f"\n## {heading}\n")[2], flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| ([\w,. -]+?) \| \S.* \|$", section, re.MULTILINE)
    return [name for row in rows for name in row.split(", ") if name != "package"]


def declared(requirements: Iterable[str]) -> list[str]:
    names = (re.split(r"[<>=\[]", requirement)[0] for requirement in requirements)
    return [name for name in names if name != "fairpost"]


def test_every_package_has_its_reason_where_it_is_installed() -> None:
    project = PROJECT["project"]
    assert listed("fairpost") == declared(project["dependencies"])
    for extra, requirements in project["optional-dependencies"].items():
        assert listed(f"fairpost[{extra}]") == declared(requirements)


def test_every_tool_has_its_reason() -> None:
    tools = [each for group in PROJECT["dependency-groups"].values() for each in declared(group)]
    assert sorted(listed("Working on Fairpost")) == sorted(tools)
