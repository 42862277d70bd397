"""Prospects from JSON: whatever the input, each line is a prospect or an error, and accepted ones can be stored."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.prospect import BadProspectLine, ProspectLine
from fairpost.prospects.csv_reader import UnreadableFile
from fairpost.prospects.json_reader import LINE_BYTES_MAX, read_json_lines, read_json_list

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
people = st.fixed_dictionaries(
    {},
    optional={
        "address": st.just("ann@example.com") | values,
        "id": values,
        "timezone": st.just("Europe/Berlin") | values,
        "fields": st.dictionaries(st.sampled_from(["a", "first_name", "b c", "email"]), values, max_size=4) | values,
    },
)


def require_storable(each: ProspectLine | BadProspectLine) -> None:
    """As PostgreSQL stores it."""
    texts: list[str] = []
    if isinstance(each, ProspectLine):
        texts = [each.address, each.timezone or "", each.external_id or "", *each.fields, *each.fields.values()]
        assert "@" in each.address
    for text in texts:
        assert "\0" not in text
        text.encode()


@given(st.lists(people | values, max_size=5))
def test_every_object_is_a_prospect_or_an_error(given_people: list[Any]) -> None:
    data = json.dumps(given_people).encode()
    try:
        found = list(read_json_list(io.BytesIO(data)))
    except UnreadableFile:
        assert any(word in data for word in (b"NaN", b"Infinity"))
        return
    assert [each.line for each in found] == list(range(1, len(given_people) + 1))
    for each in found:
        require_storable(each)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_a_word_of_python(data: bytes) -> None:
    found = list(read_json_lines(io.BytesIO(data)))
    assert len(found) == sum(bool(line.strip()) for line in data.split(b"\n"))
    for each in found:
        require_storable(each)


def test_a_line_that_never_ends_is_one_bad_line() -> None:
    data = b'{"address": "' + b"a" * (3 * LINE_BYTES_MAX) + b'"}\n{"address": "ann@example.com"}'
    bad, good = read_json_lines(io.BytesIO(data))
    assert isinstance(bad, BadProspectLine)
    assert isinstance(good, ProspectLine)
    assert (bad.line, good.line, good.address) == (1, 2, "ann@example.com")


@pytest.mark.parametrize("data", [b"", b"{}", b"1", b"[", b"\xff", b"[" * 100_000, b"[" + b"1," * 3_000_000 + b"1]"])
def test_input_that_is_not_a_list_is_refused_at_once(data: bytes) -> None:
    with pytest.raises(UnreadableFile):
        read_json_list(io.BytesIO(data))
