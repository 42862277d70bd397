"""The Python side: values are converted to what the database stores, and values that JSON cannot represent are rejected
by field."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from fairpost import Attachment, Email, Enqueued, InvalidEmail, Rejected, enqueue, enqueue_many
from fairpost.accept import enqueue as module
from fairpost.accept.drivers import Row, SyncLink

HELLO: dict[str, Any] = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}
NOON = datetime(2100, 1, 31, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def connection(file_url: str) -> Iterator["psycopg.Connection[dict[str, Any]]"]:
    with psycopg.connect(file_url, row_factory=dict_row) as connection:
        yield connection


@pytest.fixture
def db(
    connection: "psycopg.Connection[dict[str, Any]]",
) -> Iterator["psycopg.Connection[dict[str, Any]]"]:
    yield connection
    connection.rollback()


def stored(db: "psycopg.Connection[dict[str, Any]]", email_id: int) -> dict[str, Any]:
    row = db.execute(
        "SELECT q.*, c.subject, c.text_body, c.html_body, c.reply_to, c.headers, l.type, l.tags, l.metadata "
        "FROM fairpost.queue q JOIN fairpost.contents c ON c.id = q.content_id "
        "LEFT JOIN fairpost.labels l ON l.email_id = q.id WHERE q.id = %s",
        [email_id],
    ).fetchone()
    assert row
    return row


def test_every_field_arrives(db: "psycopg.Connection[dict[str, Any]]") -> None:
    sent = enqueue(
        db,
        to=["Ann <ann@example.com>", ("Bob", "bob@example.com"), (None, "cid@example.com")],
        subject="Hello 🎉",
        text="Hi\nthere",
        html="<p>Hi",
        from_=("Ann, of Acme", "ann@acme.example"),
        cc=("Dan", "dan@example.com"),
        bcc="eve@example.com",
        reply_to="Desk <desk@acme.example>",
        headers=MappingProxyType({"X-Order": "7"}),
        attachments=[
            Attachment("a.txt", b"\x00\xff"),
            Attachment("b.png", b"png", content_type="image/png", inline_id="b"),
        ],
        fields={"name": "Ann", "items": [1, 2.5, None, {"deep": True}]},
        workspace="acme",
        user="u1",
        stream="news",
        email_class="urgent",
        pool="fast",
        due_at=NOON,
        expires_at=NOON + timedelta(hours=1),
        attempts_max=7,
        on_doubt="hold",
        idempotency_key="order 7",
        type="order_thanks",
        tags=MappingProxyType({"order": "7"}),
        metadata=MappingProxyType({"cart": [1, {"sku": None}]}),
    )
    row = stored(db, sent.id)
    expected: dict[str, Any] = {
        "recipients": [
            {"kind": "to", "name": "Ann", "address": "ann@example.com"},
            {"kind": "to", "name": "Bob", "address": "bob@example.com"},
            {"kind": "to", "address": "cid@example.com"},
            {"kind": "cc", "name": "Dan", "address": "dan@example.com"},
            {"kind": "bcc", "address": "eve@example.com"},
        ],
        "subject": "Hello 🎉",
        "text_body": "Hi\nthere",
        "html_body": "<p>Hi",
        "sender": {"name": "Ann, of Acme", "address": "ann@acme.example"},
        "reply_to": {"name": "Desk", "address": "desk@acme.example"},
        "headers": {"X-Order": "7"},
        "fields": {"name": "Ann", "items": [1, 2.5, None, {"deep": True}]},
        "workspace": "acme",
        "user_name": "u1",
        "stream": "news",
        "domain": "acme.example",
        "class": "urgent",
        "route": "fast",
        "due_at": NOON,
        "expires_at": NOON + timedelta(hours=1),
        "attempts_max": 7,
        "on_doubt": "hold",
        "idempotency_key": "order 7",
        "type": "order_thanks",
        "tags": {"order": "7"},
        "metadata": {"cart": [1, {"sku": None}]},
    }
    assert {name: row[name] for name in expected} == expected
    attachments = db.execute(
        "SELECT filename, content_type, inline_id, data FROM fairpost.attachments ORDER BY position"
    )
    assert [tuple(attachment.values()) for attachment in attachments] == [
        ("a.txt", "application/octet-stream", None, b"\x00\xff"),
        ("b.png", "image/png", "b", b"png"),
    ]


def test_content_put_once_is_shared(db: "psycopg.Connection[dict[str, Any]]") -> None:
    content = db.execute("""SELECT fairpost.put_content('{"subject": "News", "text": "Hi"}') AS id""").fetchone()
    assert content
    sent = enqueue_many(db, (Email(to=f"u{n}@example.com", content_id=content["id"]) for n in range(3)))
    for result in sent:
        assert isinstance(result, Enqueued)
        assert stored(db, result.id)["subject"] == "News"
    assert db.execute("SELECT count(*) FROM fairpost.contents").fetchone() == {"count": 1}


class Color(StrEnum):
    URGENT = "urgent"


class Recursive(dict[str, Any]):
    def __init__(self) -> None:
        super().__init__(me=self)


def nested(depth: int) -> dict[str, Any]:
    inside: dict[str, Any] = {}
    for _ in range(depth):
        inside = {"x": inside}
    return inside


# The caller's value, and the field named in the error.
UNSAYABLE: list[tuple[dict[str, Any], str, str]] = [
    ({"due_at": datetime(2100, 1, 1)}, "due_at", "datetime with a time zone"),
    ({"expires_at": datetime(2100, 1, 1)}, "expires_at", "datetime with a time zone"),
    ({"due_at": date(2100, 1, 1)}, "due_at", "date is not a JSON type"),
    ({"due_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))}, "due_at", "is not a valid time"),
    ({"to": ("ann@example.com", "bob@example.com")}, "to", "must be a list"),
    ({"to": [("ann@example.com", "bob@example.com")]}, "to", "must be a list"),
    ({"cc": ("a@example.com", "b@example.com", "c@example.com")}, "cc", "must be a list"),
    ({"bcc": {"a@example.com"}}, "bcc", "set is not a JSON type"),
    ({"from_": ()}, "from", "must be a list"),
    ({"to": b"ann@example.com"}, "to", "bytes is not a JSON type"),
    ({"fields": {"price": Decimal(1)}}, "fields", "Decimal is not a JSON type"),
    ({"fields": {"price": float("nan")}}, "fields", "cannot be written as JSON"),
    ({"fields": {"price": float("inf")}}, "fields", "cannot be written as JSON"),
    ({"fields": {("a", "b"): 1}}, "fields", "cannot be written as JSON"),
    ({"fields": Recursive()}, "fields", "cannot be written as JSON"),
    ({"fields": nested(100_000)}, "fields", "cannot be written as JSON"),
    ({"attachments": [Attachment("a.txt", "text")]}, "attachments", "bytes-like"),  # type: ignore[arg-type]
    ({"attachments": [{"filename": "a.txt", "data": b"x"}]}, "attachments", "bytes is not a JSON type"),
    ({"email_class": object()}, "class", "object is not a JSON type"),
]
WORDS = ("to", "cc", "bcc", "from_", "reply_to", "subject", "text", "html", "workspace", "user", "stream")
MORE_WORDS = ("pool", "account", "on_doubt", "idempotency_key", "due_at", "content_id")
for letter, word in (("\0", "NUL"), ("\ud83d", "surrogate"), ("\udc80", "surrogate")):
    UNSAYABLE += [({name: f"a{letter}b"}, name.rstrip("_"), word) for name in WORDS + MORE_WORDS]
    UNSAYABLE += [
        ({"headers": {"X-A": letter}}, "headers", word),
        ({"fields": {"deep": [{letter: 1}]}}, "fields", word),
        ({"attachments": [Attachment(letter, b"")]}, "attachments", word),
    ]


def test_a_value_that_json_cannot_represent_is_refused_by_name(db: "psycopg.Connection[dict[str, Any]]") -> None:
    results = enqueue_many(db, [{**HELLO, **given} for given, _, _ in UNSAYABLE])
    for (given, field, words), result in zip(UNSAYABLE, results, strict=True):
        assert isinstance(result, Rejected), given
        assert result.field == field, given
        with pytest.raises(InvalidEmail, match=words):
            enqueue(db, **{**HELLO, **given})
    assert db.execute("SELECT pg_current_xact_id_if_assigned() AS xid").fetchone() == {"xid": None}


# Text cannot contain NUL, a name may contain an @, a time may have its own zone …
SAYABLE: list[dict[str, Any]] = [
    {"text": r"\u0000 \\u0000 \\\u0000"},
    {"subject": "\\u0000"},
    {"fields": {"\\": "u0000", "😀": "\ufffe"}},
    {"to": ("Ann @ Acme", "ann@acme.example")},
    {"to": ("ann@acme.example", "ann@acme.example")},
    {"due_at": datetime(1970, 1, 1, tzinfo=UTC)},
    {"due_at": datetime(1980, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=53, seconds=28)))},
    {"due_at": "2100-01-31T12:00:00+02:00"},
    {"email_class": Color.URGENT},
    {"cc": [], "attachments": (), "headers": {}, "fields": {}},
    {"from": "ann@acme.example", "class": "bulk"},
    {"fields": {1: True, None: [(1, 2)]}},
]


def test_everything_else_is_carried(db: "psycopg.Connection[dict[str, Any]]") -> None:
    for given, result in zip(SAYABLE, enqueue_many(db, [{**HELLO, **g} for g in SAYABLE]), strict=True):
        assert isinstance(result, Enqueued), given


@pytest.mark.parametrize("thing", [None, 5, "an e-mail", [], object(), "\0"])
def test_input_that_is_not_an_email_is_refused(db: "psycopg.Connection[dict[str, Any]]", thing: Any) -> None:
    first, refused, last = enqueue_many(db, [HELLO, thing, HELLO])
    assert isinstance(refused, Rejected)
    assert refused.field == ""
    assert isinstance(first, Enqueued)
    assert isinstance(last, Enqueued)


def test_an_unknown_keyword_is_a_mistake_of_the_program(db: "psycopg.Connection[dict[str, Any]]") -> None:
    with pytest.raises(TypeError, match="sbject"):
        enqueue(db, to="ann@example.com", sbject="Hello")  # type: ignore[call-overload]


def test_an_unknown_name_in_a_mapping_is_a_refused_email(db: "psycopg.Connection[dict[str, Any]]") -> None:
    (refused,) = enqueue_many(db, [{**HELLO, "sbject": "x"}])
    assert isinstance(refused, Rejected)
    assert refused.field == "sbject"


class Recorder:
    """Stands in for a database that accepts everything, and records the calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[list[Any]] = []
        self.chars: list[int] = []
        monkeypatch.setattr(module, "link_to", lambda conn: SyncLink(self.call))

    def call(self, emails: str) -> Sequence[Row]:
        self.calls.append(json.loads(emails))
        self.chars.append(len(emails))
        return [(email.get("idempotency_key"), True, None, None) for email in self.calls[-1]]


def test_many_emails_are_read_and_sent_a_chunk_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    ahead = []

    def emails() -> Iterator[dict[str, Any]]:
        for n in range(2500):
            ahead.append(n - sum(map(len, recorder.calls)))
            yield {**HELLO, "idempotency_key": n}

    results = enqueue_many(psycopg.connect, emails())  # type: ignore[call-overload]
    assert [len(call) for call in recorder.calls] == [1000, 1000, 500]
    assert max(ahead) == 1000
    assert results == [Enqueued(n, True) for n in range(2500)]


def test_a_chunk_has_a_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    sizes = [3, 3, 3, 12, 1, 7, 0, 1]
    enqueue_many(None, [{"text": "x" * size * 1_000_000} for size in sizes])  # type: ignore[call-overload]
    assert [[len(email["text"]) // 1_000_000 for email in call] for call in recorder.calls] == [
        [3, 3],
        [3],
        [12],
        [1],
        [7, 0],
        [1],
    ]


def test_results_keep_their_places_when_whole_chunks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    emails = [{"subject": "\0"}] * 1001 + [{"idempotency_key": 7}] + [{"subject": "\0"}] * 999
    results = enqueue_many(None, emails)  # type: ignore[call-overload]
    assert [place for place, result in enumerate(results) if result == Enqueued(7, True)] == [1001]
    assert len(results) == 2001
    assert recorder.calls == [[{"idempotency_key": 7}]]


def test_no_emails_are_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    assert enqueue_many(None, []) == []  # type: ignore[call-overload]
    assert recorder.calls == []
