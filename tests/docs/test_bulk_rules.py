"""The table of rules for bulk senders names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/deliverability.md").read_text()
TABLE = TEXT.partition("## The rules for bulk senders")[2]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.splitlines() if line.startswith("| ")][
    1:
]
RECEIVERS = {"all", "Gmail", "Yahoo", "Microsoft"}


def test_the_table_covers_every_receiver() -> None:
    assert len(ROWS) >= 15
    assert {name for row in ROWS for name in row[1].split(", ")} == RECEIVERS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_rule_is_shown_by_tests_that_exist(row: list[str]) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", row[3])
    assert named
    for file, function in named:
        source = (ROOT / file).read_text()
        assert re.search(
            rf"^(async )?def {function}\(" if function else r"^(async )?def test_", source, re.MULTILINE
        ), file
