"""docs/gmail.md: its examples work as written, and its figures match the code."""

import re
from pathlib import Path

from fairpost.transports.gmail.client import JSON_BYTES_MAX, MESSAGE_BYTES_MAX
from fairpost.transports.gmail.evidence import MARK, WAITS_S
from tests.docs.test_commands import what_is_wrong

PAGE = (Path(__file__).parents[2] / "docs" / "gmail.md").read_text("utf-8")
EXAMPLES = [
    line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]


def test_every_example_can_be_typed_as_it_is() -> None:
    assert [wrong for example in EXAMPLES if (wrong := what_is_wrong(example))] == []


def test_the_figures_are_those_of_the_code() -> None:
    assert MESSAGE_BYTES_MAX == 35 * 1024 * 1024
    assert "35 MB including encoded attachments" in PAGE
    assert JSON_BYTES_MAX == 3_500_000
    assert "larger than 3.5 MB" in PAGE
    assert WAITS_S == (1.0, 4.0)
    assert "at most three times in total, after one and four seconds" in PAGE
    assert f"`{MARK}`" in PAGE


def test_links_lead_to_pages_and_headings_that_exist() -> None:
    for page, heading in re.findall(r"\]\((?!https?:)([\w.-]*)(?:#([\w-]+))?\)", PAGE):
        text = (Path(__file__).parents[2] / "docs" / page).read_text("utf-8") if page else PAGE
        headings = {re.sub(r"[^\w -]", "", line).strip().lower().replace(" ", "-") for line in text.splitlines()}
        assert not heading or heading in {each.lstrip("-") for each in headings}
