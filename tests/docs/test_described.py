"""Tables that are generated from descriptions are up to date in the docs."""

from pathlib import Path

import pytest

from fairpost.model.reference import TABLES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("table", "page"), [("limits", "limits.md"), ("emails", "enqueue.md")])
def test_a_page_has_its_table(table: str, page: str) -> None:
    assert TABLES[table]() in (DOCS / page).read_text("utf-8"), f"print it: python -m fairpost.model.reference {table}"
