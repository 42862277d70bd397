"""docs/logs.md contains every event, as in the table of events."""

from pathlib import Path

from fairpost.reasons.events import table

PAGE = (Path(__file__).parents[2] / "docs" / "logs.md").read_text("utf-8")


def test_the_table_is_that_of_the_events() -> None:
    assert PAGE.rstrip().endswith(table().rstrip()), "print it: python -m fairpost.reasons.events"
