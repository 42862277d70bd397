"""docs/http.md contains every error code and every path."""

from pathlib import Path

from fairpost.api.errors import CODES
from tests.api.served import document

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text()


def test_every_code_is_explained() -> None:
    rows = [f"| `{name}` | {code.status} | {code.meaning} |" for name, code in CODES.items()]
    assert [row for row in rows if row not in PAGE] == []


def _paths() -> list[str]:
    return sorted(f"{method.upper()} {path}" for path, methods in document()["paths"].items() for method in methods)


def test_every_path_is_listed() -> None:
    assert [path for path in _paths() if f"| `{path}` |" not in PAGE] == []


def test_no_path_is_listed_that_does_not_exist() -> None:
    listed = {line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `") and " /" in line.split("`")[1]}
    assert listed <= set(_paths())


def test_the_names_of_shapes_tell_nothing_of_our_modules() -> None:
    """Two parameters of the same name would be distinguished by their paths."""
    assert [name for name in document()["components"]["schemas"] if "fairpost" in name] == []


def test_every_path_says_all_that_it_answers() -> None:
    """All responses under /v1 have one format, and list the possible errors."""
    for path, methods in document()["paths"].items():
        for method, said in methods.items():
            assert said["summary"], f"{method} {path}"
            if path.startswith("/v1/"):
                assert {"401", "403", "422", "429", "503"} <= set(said["responses"]), f"{method} {path}"
