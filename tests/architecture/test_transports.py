"""A kind of transport is a folder and a line: nothing else depends on which kinds there are."""

import pytest

from fairpost.transports.registry import KINDS
from tests.architecture.source import PACKAGE
from tests.architecture.test_imports import all_imports
from tests.architecture.touched import as_a_kind, sources

LINE = "transports/registry.py"

# Files that use the word for something other than the kind.
OTHERWISE = {
    "cli/emulate.py": "the command that plays Google, for development",
    "model/report.py": "a language of replies: Google's codes, which policy reads and `fairpost explain --channel` names",
    "transports/smtp/described.py": "the preset of limits for a mailbox at gmail.com",
}

# Files that may depend on a kind: those that create a server of it, which is only done for SMTP.
MAKERS = {
    "smtp": {"startup/environment.py", "startup/dev_account.py", "cli/up.py"},  # accounts that Fairpost adds
    "gmail": set[str](),
}


def is_of_development(path: str) -> bool:
    """Emulated and simulated providers are exempt."""
    return path.startswith("dev/")


def test_one_line_of_the_program_names_a_kind() -> None:
    depending = {path for path in as_a_kind(sources(), "gmail") if not is_of_development(path)}
    assert depending - set(OTHERWISE) == {LINE}
    assert set(OTHERWISE) <= depending, "remove this exception: it is no longer needed"


@pytest.mark.parametrize("kind", KINDS)
def test_a_kinds_folder_is_imported_by_itself_alone(kind: str) -> None:
    folder = PACKAGE / "transports" / kind
    knowing = {
        str(path.relative_to(PACKAGE))
        for path, imported in all_imports().items()
        if folder not in path.parents
        and any(
            name.startswith(f"fairpost.transports.{kind}.") or name == f"fairpost.transports.{kind}"
            for name in imported
        )
    }
    assert {path for path in knowing if not is_of_development(path)} == MAKERS[kind]


def test_every_folder_of_a_kind_has_its_line() -> None:
    folders = {path.parent.name for path in (PACKAGE / "transports").glob("*/kind.py")}
    assert folders == set(KINDS)
