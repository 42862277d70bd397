"""The list of planted faults is up to date."""

from tests.mutants import problems


def test_every_mutant_still_applies() -> None:
    found = problems()
    assert not found, "\n".join(found)
