"""docs/http.md has every code there is."""

from pathlib import Path

import pytest

from fairpost.api.errors import CODES

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text()


@pytest.mark.parametrize("code", CODES)
def test_a_code_is_explained(code: str) -> None:
    assert f"| `{code}` | {CODES[code].status} | {CODES[code].meaning} |" in PAGE
