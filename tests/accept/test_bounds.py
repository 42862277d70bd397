"""The HTTP model of an e-mail and the database have the same limits: the maximum is accepted, and one more is rejected.

The fields themselves are in test_fields.py and test_check.py. This file tests the parts of a field.
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from fairpost.api.shapes.emails import EmailIn
from fairpost.model import email_fields as bounds
from fairpost.store.store import Store

GOOD: Mapping[str, Any] = {"to": "a@b.example", "subject": "s", "text": "t"}
SHAPE = TypeAdapter(EmailIn)


def _file(name: str = "f", **more: Any) -> dict[str, Any]:
    return {"filename": name, "data": "", **more}


def _mailbox(address: str = "a@b.example", **more: Any) -> dict[str, Any]:
    return {"reply_to": {"address": address, **more}}


LONG = "a@" + ("b" * 61 + ".") * 4

# the largest value that is valid, and one that is too large
EDGES: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "display name": (
        _mailbox(name="n" * bounds.DISPLAY_NAME_CHARS_MAX),
        _mailbox(name="n" * (bounds.DISPLAY_NAME_CHARS_MAX + 1)),
    ),
    "address": (
        _mailbox(LONG.ljust(bounds.ADDRESS_BYTES_MAX, "c")),
        _mailbox(LONG.ljust(bounds.ADDRESS_BYTES_MAX + 1, "c")),
    ),
    "headers": ({"headers": {f"X-{n}": "v" for n in range(50)}}, {"headers": {f"X-{n}": "v" for n in range(51)}}),
    "header name": ({"headers": {"X" * 100: "v"}}, {"headers": {"X" * 101: "v"}}),
    "header value": (
        {"headers": {"X-A": "v" * bounds.HEADER_BYTES_MAX}},
        {"headers": {"X-A": "v" * (bounds.HEADER_BYTES_MAX + 1)}},
    ),
    "filename": (
        {"attachments": [_file("f" * bounds.FILENAME_CHARS_MAX)]},
        {"attachments": [_file("f" * (bounds.FILENAME_CHARS_MAX + 1))]},
    ),
    "media type": (
        {"attachments": [_file(content_type="a" * 100 + "/b")]},
        {"attachments": [_file(content_type="a" * 101 + "/b")]},
    ),
    "type": ({"type": "a" * 150}, {"type": "a" * 151}),
    "tags": ({"tags": {f"t{n}": "v" for n in range(20)}}, {"tags": {f"t{n}": "v" for n in range(21)}}),
    "tag name": ({"tags": {"t" * 50: "v"}}, {"tags": {"t" * 51: "v"}}),
    "tag value": ({"tags": {"t": "v" * bounds.TAG_CHARS_MAX}}, {"tags": {"t": "v" * (bounds.TAG_CHARS_MAX + 1)}}),
    "inline id": ({"attachments": [_file(inline_id="a" * 200)]}, {"attachments": [_file(inline_id="a" * 201)]}),
}


async def test_the_shape_and_the_database_draw_the_line_at_the_same_place(store: Store) -> None:
    for field, edges in EDGES.items():
        just_right, too_much = ({**GOOD, **edge} for edge in edges)
        SHAPE.validate_python(just_right)
        assert await _refusal(store, just_right) is None, field
        with pytest.raises(ValidationError):
            SHAPE.validate_python(too_much)
        assert await _refusal(store, too_much) is not None, field


async def _refusal(store: Store, email: dict[str, Any]) -> Any:
    return await store.value("SELECT fairpost.check_email($1::text::jsonb, now())", json.dumps(email))
