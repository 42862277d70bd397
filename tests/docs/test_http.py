"""docs/http.md has every code and every path there is."""

from pathlib import Path

import pytest

from fairpost.api.errors import CODES
from tests.api.served import document

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text()


@pytest.mark.parametrize("code", CODES)
def test_a_code_is_explained(code: str) -> None:
    assert f"| `{code}` | {CODES[code].status} | {CODES[code].meaning} |" in PAGE


def _paths() -> list[str]:
    return sorted(f"{method.upper()} {path}" for path, methods in document()["paths"].items() for method in methods)


@pytest.mark.parametrize("path", _paths())
def test_a_path_is_listed(path: str) -> None:
    assert f"| `{path}` |" in PAGE


def test_no_path_is_listed_that_is_not_there() -> None:
    listed = {line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `") and " /" in line.split("`")[1]}
    assert listed <= set(_paths())


def test_the_names_of_shapes_tell_nothing_of_our_modules() -> None:
    """Two of one name would be told apart by theirs."""
    assert [name for name in document()["components"]["schemas"] if "fairpost" in name] == []


def test_every_path_says_all_that_it_answers() -> None:
    """Everything under /api answers in one shape, and names what may go wrong."""
    for path, methods in document()["paths"].items():
        for method, said in methods.items():
            assert said["summary"], f"{method} {path}"
            if path.startswith("/api/"):
                assert {"401", "403", "422", "429", "503"} <= set(said["responses"]), f"{method} {path}"
