"""Parsing Google's answers, and answers that are not Google's."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.transports.gmail.answers import (
    Answered,
    Draft,
    Mail,
    NoAnswer,
    Refusal,
    address_of,
    aliases_of,
    content_of,
    draft_of,
    mail_of,
    mails_of,
    refusal_of,
)

NOW = datetime(2030, 1, 31, 9, 0, tzinfo=UTC)


def refused(status: int, body: bytes | dict[str, Any], **headers: str) -> Refusal:
    octets = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return refusal_of(Answered(status=status, headers=named, body=octets), now=NOW)


def googles(status: int, reason: str | None, message: str, name: str = "X") -> dict[str, Any]:
    errors = [{"domain": "global", "reason": reason, "message": message}] if reason else []
    return {"error": {"code": status, "message": message, "status": name, "errors": errors}}


def test_a_refusal_has_googles_reason_and_message() -> None:
    found = refused(400, googles(400, "invalidArgument", "Invalid To header"))
    assert found.reply == (400, "invalidArgument: Invalid To header")
    assert found.is_googles
    assert found.is_settled


def test_without_a_reason_the_status_is_taken() -> None:
    assert refused(429, googles(429, None, "Quota", "RESOURCE_EXHAUSTED")).reply.text == "RESOURCE_EXHAUSTED: Quota"


@pytest.mark.parametrize(
    ("headers", "message", "after"),
    [
        ({}, "User-rate limit exceeded.  Retry after 2030-01-31T09:18:23.688Z", timedelta(seconds=1103.688)),
        ({}, "User-rate limit exceeded.  Retry after 2030-01-31T10:00:00+01:00 (Mail sending)", None),
        ({}, "Retry after 2030-01-31T09:00:01.123456789Z", timedelta(seconds=1.123456)),
        ({"retry_after": "90"}, "Quota", timedelta(seconds=90)),
        ({"retry_after": "Thu, 31 Jan 2030 09:01:00 GMT"}, "Quota", timedelta(minutes=1)),
        ({"retry_after": "30"}, "Retry after 2030-01-31T09:01:00Z", timedelta(minutes=1)),
        ({"retry_after": "99999999"}, "Quota", timedelta(days=1)),
        ({"retry_after": "soon"}, "Retry after lunch", None),
        ({"retry_after": "-5"}, "Retry after 2030-99-99T09:01:00Z", None),
        ({"retry_after": "Thu, 31 Jan 99999 09:01:00 GMT"}, "", None),
        ({"retry_after": "0"}, "", None),
    ],
)
def test_when_to_come_again_is_in_the_header_or_in_the_message(
    headers: dict[str, str], message: str, after: timedelta | None
) -> None:
    found = refused(429, googles(429, "rateLimitExceeded", message), **headers)
    assert found.retry_at == (NOW + after if after else None)


def test_a_page_in_googles_place_proves_nothing() -> None:
    found = refused(403, b"<html><TITLE>Blocked by\r\nproxy</title>")
    assert found.reply == (403, "http403: Blocked by  proxy")
    assert not found.is_googles
    assert not found.is_settled


@pytest.mark.parametrize(("status", "settled"), [(400, True), (401, True), (403, True), (413, True), (429, True)])
@pytest.mark.parametrize("others", [404, 408, 409, 500, 502, 503, 504, 302])
def test_only_googles_own_no_settles_that_nothing_was_done(status: int, settled: bool, others: int) -> None:
    assert refused(status, googles(status, "x", "y")).is_settled is settled
    assert not refused(others, googles(others, "x", "y")).is_settled


def test_shown_text_is_one_bounded_line() -> None:
    found = refused(400, googles(400, "a\r\nb", "x\u0000\ud800\u2028y" + "z" * 5_000))
    assert found.reply.text.isprintable()
    assert len(found.reply.text) < 1_100
    found.reply.text.encode()


def test_a_success_that_cannot_be_read_is_no_answer() -> None:
    for body in (b'{"id": "1', b"[]", b"<html>", b'"x"', b"\xff\xfe"):
        found = content_of(Answered(status=200, body=body), now=NOW)
        assert isinstance(found, NoAnswer)
        assert found.has_left
    assert content_of(Answered(status=204), now=NOW) == {}


def test_a_message_is_sent_by_its_label() -> None:
    sent = mail_of({"id": "a", "threadId": "t", "labelIds": ["UNREAD", "SENT"]})
    assert sent == Mail(id="a", thread_id="t", is_sent=True)
    assert mail_of({"id": "a", "labelIds": "SENT"}) == Mail(id="a", thread_id=None, is_sent=False)


def test_headers_are_found_however_they_are_written() -> None:
    payload = {"headers": [{"name": "Message-Id", "value": "<1@x>"}, {"name": "X"}, "?", {"name": 3, "value": 4}]}
    mail = mail_of({"id": "a", "payload": payload})
    assert isinstance(mail, Mail)
    assert mail.values("Message-ID") == ["<1@x>"]
    assert mail.values("X-None") == []


def test_only_verified_aliases_count() -> None:
    listed = [
        {"sendAsEmail": "a@x.test", "isPrimary": True},
        {"sendAsEmail": "b@x.test", "verificationStatus": "accepted"},
        {"sendAsEmail": "c@x.test", "verificationStatus": "pending"},
    ]
    assert aliases_of({"sendAs": listed}) == ("a@x.test", "b@x.test")


NAMES = [
    *("error", "errors", "message", "messages", "reason", "status", "id", "threadId", "labelIds"),
    *("payload", "headers", "name", "value", "sendAs", "sendAsEmail", "emailAddress"),
]
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["SENT", "accepted"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(anything, st.integers(100, 999), st.text(max_size=30))
def test_any_json_is_read_without_an_error(value: Any, status: int, header: str) -> None:
    body = json.dumps(value).encode()
    answered = Answered(status=status, headers={"retry-after": header}, body=body)
    refusal = refusal_of(answered, now=NOW)
    assert refusal.reply.text.isprintable()
    content = content_of(answered, now=NOW)
    if isinstance(content, dict):
        assert isinstance(draft_of(content), Draft | NoAnswer)
        assert isinstance(mail_of(content), Mail | NoAnswer)
        assert isinstance(address_of(content), str | NoAnswer)
        mails_of(content)
        aliases_of(content)


@given(st.binary(max_size=200), st.integers(100, 999))
def test_any_bytes_are_read_without_an_error(body: bytes, status: int) -> None:
    content_of(Answered(status=status, body=body), now=NOW)


def test_json_that_is_too_deep_is_no_answer() -> None:
    assert isinstance(content_of(Answered(status=200, body=b"[" * 100_000), now=NOW), NoAnswer)
