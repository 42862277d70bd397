"""A person's data as JSON, piece by piece."""

import json
from collections.abc import AsyncIterator
from itertools import combinations
from typing import Any

import pytest

from fairpost.store.privacy import SECTIONS, as_json


@pytest.mark.parametrize("each", [1, 3])
async def test_every_section_is_there_whatever_was_found(each: int) -> None:
    for count in range(len(SECTIONS) + 1):
        for found in combinations(SECTIONS, count):
            written = json.loads("{" + "".join([text async for text in as_json(_pieces(found, each))]) + "}")
            assert written == {name: [{"n": n} for n in range(each)] if name in found else [] for name in SECTIONS}
            assert list(written) == list(SECTIONS)


async def _pieces(sections: tuple[str, ...], each: int) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    for section in sections:
        for n in range(each):
            yield section, {"n": n}
