"""Error bodies of APIs as replies."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.report import Channel, Reply
from fairpost.policy.api_errors import ApiError, read_error


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"error": {"code": "TooManyRequests", "message": "Slow", "innerError": {"code": "ApplicationThrottled"}}},
            ApiError(Reply(0, "ApplicationThrottled: Slow"), Channel.GRAPH),
        ),
        (
            {"error": {"code": "ErrorAccessDenied", "message": "No", "innerError": {"code": "Strange"}}},
            ApiError(Reply(0, "ErrorAccessDenied: No"), Channel.GRAPH),
        ),
        ({"code": "Odd", "message": "bare"}, ApiError(Reply(0, "Odd: bare"), Channel.GRAPH)),
        (
            {"error": {"code": 403, "message": "m", "errors": [{"reason": "domainPolicy"}]}},
            ApiError(Reply(403, "domainPolicy: m"), Channel.GOOGLE),
        ),
        (
            {"error": {"code": 400, "message": "m", "errors": [], "status": "INVALID_ARGUMENT"}},
            ApiError(Reply(400, "INVALID_ARGUMENT: m"), Channel.GOOGLE),
        ),
        ({"error": "invalid_grant"}, ApiError(Reply(0, "invalid_grant: "), Channel.GOOGLE)),
        (
            {"error": "invalid_grant", "error_description": "AADSTS50173: x"},
            ApiError(Reply(0, "invalid_grant: AADSTS50173: x"), Channel.GRAPH),
        ),
        ({"hello": 1}, None),
        ({"error": []}, None),
        ({"error": None}, None),
    ],
)
def test_a_body_becomes_a_reply(body: dict[str, Any], expected: ApiError | None) -> None:
    assert read_error(json.dumps(body)) == expected


def test_a_status_that_is_known_apart_counts_more_than_one_in_the_body() -> None:
    error = read_error('{"error": {"code": 400, "message": "m"}}', status=429)
    assert error is not None
    assert error.reply.code == 429


@pytest.mark.parametrize("text", ["", "550 no", "{", '{"a":' * 50_000, "[1]", "null"])
def test_other_text_is_no_body(text: str) -> None:
    assert read_error(text) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "code", "message", "errors", "status", "innerError"]), inner)
    ),
)


@given(JSON)
def test_no_body_is_too_strange(body: Any) -> None:
    read_error(json.dumps(body))
