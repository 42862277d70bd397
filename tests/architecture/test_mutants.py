"""The list of deliberate faults keeps up with the project."""

from tests.mutants import problems


def test_every_mutant_still_applies() -> None:
    found = problems()
    assert not found, "\n".join(found)
