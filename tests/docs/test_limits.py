"""docs/limits.md has every limit of an account, as it is described."""

from pathlib import Path

from fairpost.model.reference import limits_table

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text("utf-8")


def test_the_table_of_limits_is_that_of_their_descriptions() -> None:
    assert limits_table() in PAGE, "print it: python -m fairpost.model.reference"
