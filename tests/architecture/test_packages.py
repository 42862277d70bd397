"""Which packages each part may import, so that an installation without an extra has everything that it runs.

tests/install tries real installations. This shows faster what would be missing there, and why.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from fairpost.__main__ import FOR_DEVELOPMENT
from fairpost.cli.commands import COMMANDS
from fairpost.extras import PACKAGES, Extra
from tests.architecture.source import PACKAGE, SRC, trees
from tests.architecture.test_imports import all_imports, room_of

BARE = {"__init__", "__main__", "accept", "extras", "model"}  # what `pip install fairpost` can run
DRIVERS = {"psycopg", "psycopg2", "sqlalchemy"}  # the application brings the one that it uses

OF_SERVER, OF_LOCAL = ({name.partition(".")[0] for name in PACKAGES[extra]} for extra in Extra)
NAMES = {
    "argon2-cffi": "argon2",
    "dnspython": "dns",
    "google-auth": "google.auth",
}  # packages whose import name differs from their name


def is_for_development(room: str) -> bool:
    return room.startswith("dev") or room == "api.inbox"


def foreign(imported: Iterable[str]) -> set[str]:
    return {name.partition(".")[0] for name in imported} - sys.stdlib_module_names - {"fairpost", "__future__"}


def imported_at_once(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Returns what the file imports at its top level, except for type checkers."""
    for node in body:
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module)):
                yield module
            case ast.If(test=test, body=then, orelse=other):
                yield from imported_at_once([*([] if "TYPE_CHECKING" in ast.unparse(test) else then), *other])
            case ast.Try(body=then, handlers=handlers):
                yield from imported_at_once([*then, *(each for handler in handlers for each in handler.body)])
            case ast.ClassDef(body=then) | ast.With(body=then):
                yield from imported_at_once(then)


def test_the_enqueueing_package_only_imports_the_standard_library() -> None:
    wrong = []
    for path in (path for path in all_imports() if room_of(path) in BARE):
        at_once = set(imported_at_once(trees()[path].body))
        rooms = {name.split(".")[1] for name in at_once if name.startswith("fairpost.")}
        lacking = (rooms - BARE) | foreign(at_once) | (foreign(all_imports()[path]) - DRIVERS)
        wrong += [f"{path.relative_to(SRC)} imports {name}" for name in sorted(lacking)]
    assert wrong == []


def test_every_package_that_a_server_imports_is_of_its_extra() -> None:
    wrong = []
    for path, imported in all_imports().items():
        if room_of(path) not in BARE:
            known = OF_SERVER | OF_LOCAL if is_for_development(room_of(path)) else OF_SERVER
            wrong += [f"{path.relative_to(SRC)} imports {name}" for name in sorted(foreign(imported) - known)]
    assert wrong == []


def test_only_commands_for_development_know_what_is_for_development() -> None:
    """Also returns the files that only these import."""
    theirs = {PACKAGE / "cli" / f"{COMMANDS[name][0].partition(':')[0]}.py" for name in FOR_DEVELOPMENT}
    knowing = {
        path
        for path, imported in all_imports().items()
        if any(name.startswith("fairpost.dev.") for name in imported) and not is_for_development(room_of(path))
    }
    wrong = [path for path in knowing - theirs if not importers(path) or importers(path) - theirs]
    assert [str(path.relative_to(SRC)) for path in wrong] == []


def importers(path: Path) -> set[Path]:
    name = ".".join(path.relative_to(SRC).with_suffix("").parts)
    return {other for other, imported in all_imports().items() if name in imported}


def test_the_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((SRC.parent / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {
        extra: {re.split(r"[<>=\[]", requirement)[0] for requirement in requirements} - {"fairpost"}
        for extra, requirements in project["optional-dependencies"].items()
    }
    assert project["dependencies"] == []
    assert {
        extra: {NAMES.get(name, name.replace("-", "_")) for name in names} for extra, names in declared.items()
    } == {extra: set(packages) for extra, packages in PACKAGES.items()}
