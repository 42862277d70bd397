"""docs/conditions.md contains every code of the catalogue, with its sentence."""

from pathlib import Path

from fairpost.reasons.reference import tables

PAGE = (Path(__file__).parents[2] / "docs" / "conditions.md").read_text("utf-8")


def test_the_tables_are_those_of_the_catalogue() -> None:
    assert PAGE.rstrip().endswith(tables().rstrip()), "print them: python -m fairpost.reasons.reference"
