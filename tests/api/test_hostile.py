"""Malicious clients over raw sockets: each gets a response in the usual format or a closed connection, and no other
client is affected."""

import gzip
import json
import os
import resource
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from fastapi import FastAPI

from fairpost.api import middleware, protocol
from fairpost.model.account import Limits
from fairpost.model.workspace import Scope
from fairpost.settings import read_settings
from fairpost.store import workspaces
from fairpost.store.store import Store
from tests.api.conftest import LENT
from tests.api.served import Served, document, every_operation, served
from tests.conftest import Databases
from tests.thorough import times

pytestmark = pytest.mark.attack

HELLO = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}
ATTACKERS = times(40)
RSS_GROWTH_MAX = 100 << 20
ANSWER_S_MAX = 60  # only guards against waiting forever


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        return str(json.loads(self.body)["error"]["code"])


@dataclass(slots=True)
class Target:
    it: Served
    key: str

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.it.port), timeout=ANSWER_S_MAX)

    def tell(self, *pieces: bytes) -> list[Answer]:
        """Sends all of it, and reads until the server closes the connection or stops sending."""
        with self.connected() as conn:
            for piece in pieces:
                try:
                    conn.sendall(piece)
                except OSError:
                    break  # it has read enough
            return answers_in(received(conn))

    def head(self, start: str, *lines: str, is_last: bool = True) -> bytes:
        closing = ["Connection: close"] if is_last else []
        return "\r\n".join([start, "Host: x", f"Authorization: Bearer {self.key}", *lines, *closing, "", ""]).encode(
            "latin-1"
        )

    def post(self, path: str, body: bytes, *lines: str, media_type: str = "application/json") -> list[Answer]:
        head = self.head(f"POST {path} HTTP/1.1", f"Content-Type: {media_type}", f"Content-Length: {len(body)}", *lines)
        return self.tell(head, body)

    def queued(self) -> int:
        return int(self.it.run(lambda store: store.value("SELECT count(*) FROM fairpost.queue")))

    def is_well(self) -> None:
        with httpx.Client(
            base_url=self.it.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=ANSWER_S_MAX
        ) as client:
            assert client.get("/v1/workspace").status_code == 200


def received(conn: socket.socket) -> bytes:
    found = b""
    try:
        while piece := conn.recv(65_536):
            found += piece
    except (TimeoutError, ConnectionResetError):
        pass
    return found


def answers_in(text: bytes) -> list[Answer]:
    """Returns all responses on one connection. Every body is JSON in our format."""
    found = []
    while text:
        head, _, rest = text.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", 0))
        answer = Answer(int(first.split()[1]), headers, rest[:length])
        if answer.body:
            assert headers["content-type"].startswith("application/json"), answer
            body = json.loads(answer.body)
            assert body["success"] is (answer.status < 400), answer
            assert set(body) == ({"success", "data"} if body["success"] else {"success", "error"}), answer
        found.append(answer)
        text = rest[length:]
    return found


def _with_a_fault(app: FastAPI) -> None:
    @app.get("/fault")
    async def fault() -> None:
        raise LookupError("a word for the log alone")


@pytest.fixture(scope="module")
def service(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """One service for all of these tests, so that harm done by one test is noticed by the next."""

    async def made(store: Store) -> str:
        await workspaces.add_workspace(store, "acme", loans=LENT)
        scopes = tuple(Scope)
        _, key = await workspaces.add_key(
            store, "acme", region="main", name="", scopes=scopes, by="a test", per_minute=100_000
        )
        return key

    with databases.new() as url:
        home = tmp_path_factory.mktemp("home")
        settings = read_settings({"FAIRPOST_HOME": str(home), "FAIRPOST_DATABASE_URL": url})
        with served(settings, prepare=_with_a_fault) as it:
            yield Target(it, it.run(made))


@pytest.fixture
def target(service: Target) -> Iterator[Target]:
    service.it.log.clear()
    yield service
    service.is_well()
    assert [each for each in service.it.log if "a word for the log alone" not in str(each.params["error"])] == []


def test_a_fault_of_ours_is_answered_and_written_down_once(target: Target) -> None:
    (answer,) = target.tell(target.head("GET /fault HTTP/1.1", "X-Request-Id: asked-for-1"))
    assert (answer.status, answer.code) == (500, "internal")
    assert answer.headers["x-request-id"] == "asked-for-1"
    assert "a word" not in answer.body.decode()
    (event,) = target.it.log
    assert (event.code, event.params["request_id"]) == ("request.failed", "asked-for-1")
    assert str(event.params["error"]).count("Traceback") == 1


def test_heads_that_are_too_large_or_no_http(target: Target) -> None:
    bombs = {
        "many headers": target.head("GET /v1/workspace HTTP/1.1", *(f"X-{n}: {'x' * 100}" for n in range(2_000))),
        "a long header": target.head("GET /v1/workspace HTTP/1.1", f"X-A: {'x' * 200_000}"),
        "a long path": target.head(f"GET /v1/{'x' * 200_000} HTTP/1.1"),
        "a long query": target.head(f"GET /v1/emails?cursor={'x' * 200_000} HTTP/1.1"),
        "not http": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 300,
        "no method": b"HELO there\r\n\r\n",
        "no version": b"GET /api\r\n\r\n",
        "another version": b"GET /api HTTP/9.9\r\n\r\n",
        "bytes in the path": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        "a NUL in a header": target.head("GET /v1/workspace HTTP/1.1", "X-A: a\0b"),
        "a folded header": target.head("GET /v1/workspace HTTP/1.1", "X-A: a", " b"),
        "a space before the colon": target.head("GET /v1/workspace HTTP/1.1", "X-A : a"),
        "two lengths": target.head("POST /v1/emails HTTP/1.1", "Content-Length: 2", "Content-Length: 3") + b"{}",
        "a length below zero": target.head("POST /v1/emails HTTP/1.1", "Content-Length: -1") + b"{}",
        "a length that is no number": target.head("POST /v1/emails HTTP/1.1", "Content-Length: 0x2") + b"{}",
        "a length of 5,000 digits": target.head("POST /v1/emails HTTP/1.1", f"Content-Length: {'9' * 5_000}"),
        "a length and chunks": target.head(
            "POST /v1/emails HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked"
        )
        + b"0\r\n\r\n",
        "an unknown encoding": target.head("POST /v1/emails HTTP/1.1", "Transfer-Encoding: cow") + b"{}",
        "chunks that are none": target.head("POST /v1/emails HTTP/1.1", "Transfer-Encoding: chunked") + b"zz\r\n{}\r\n",
    }
    for name, bomb in bombs.items():
        answers = target.tell(bomb)
        assert [a.status for a in answers] in ([400], [431], [413], [404], [422], []), (name, answers)
        assert len(answers) == 1 or "bytes" in name or "long" in name or "many" in name, name


def test_a_head_that_drips_is_cut_off(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_S_MAX", 0.5)
    for start in (
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    ):  # the first on its connection, and a later one
        with target.connected() as conn:
            conn.sendall(start + b"GET /v1/workspace HTTP/1.1\r\nX-Drip: ")
            is_cut = threading.Event()

            def drip(conn: socket.socket = conn, is_cut: threading.Event = is_cut) -> None:
                while not is_cut.wait(0.05):
                    try:
                        conn.sendall(b"x")
                    except OSError:
                        return

            dripping = threading.Thread(target=drip)
            dripping.start()
            answers = answers_in(received(conn))
            is_cut.set()
            dripping.join()
        assert answers[-1].status == 408
        assert answers[-1].code == "too_slow"


def test_a_body_that_dawdles_is_cut_off(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "CHUNK_S_MAX", 0.5)
    with target.connected() as conn:
        conn.sendall(
            target.head(
                "POST /v1/emails HTTP/1.1", "Content-Type: application/json", "Content-Length: 100", is_last=False
            )
            + b"{"
        )
        (answer,) = answers_in(received(conn))
    assert (answer.status, answer.code) == (408, "too_slow")


def test_an_unread_body_does_not_hold_the_connection(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """The response is sent before the body arrives; a client that then sends a byte now and then could stay forever."""
    monkeypatch.setattr(protocol, "REST_S_MAX", 0.5)
    with target.connected() as conn:
        conn.sendall(b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        answer = b""
        while not answer.endswith(b"}}"):
            answer += conn.recv(65_536)
        assert b" 404 " in answer
        conn.sendall(b"{")
        assert received(conn) == b""
        with pytest.raises(OSError):  # noqa: PT012 - the first may still go into the buffers
            for _ in range(100):
                conn.sendall(b"x" * 65_536)


def test_lengths_that_lie(target: Target) -> None:
    before = target.queued()
    body = json.dumps(HELLO).encode()
    short = target.head(
        "POST /v1/emails HTTP/1.1", "Content-Type: application/json", f"Content-Length: {len(body) - 5}"
    )
    assert next(a.status for a in target.tell(short, body)) == 400
    with target.connected() as conn:  # announces more than it sends, then closes
        conn.sendall(
            target.head("POST /v1/emails HTTP/1.1", "Content-Type: application/json", "Content-Length: 900") + body
        )
        conn.shutdown(socket.SHUT_WR)
        received(conn)
    assert target.queued() == before


def test_more_than_a_path_takes_is_refused_also_in_chunks(target: Target) -> None:
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    head = target.head("POST /v1/keys HTTP/1.1", "Content-Type: application/json", "Transfer-Encoding: chunked")
    answers = target.tell(head, *[piece] * 40, b"0\r\n\r\n")
    assert [a.status for a in answers] in ([413], [])  # the connection may be closed before the response is read
    (declared,) = target.tell(target.head("POST /v1/keys HTTP/1.1", "Content-Length: 99999999"))
    assert (declared.status, declared.code) == (413, "too_large")


def test_a_stranger_learns_nothing_of_tenants(target: Target) -> None:
    """Covers everything that is open without a key, under other figures' names."""
    target.it.run(
        lambda store: store.add_account("acme/payroll7", address="x@acme.example", pool="acme/x", limits=Limits())
    )
    target.it.app.openapi_schema = document()  # prepared in advance, because building it takes seconds
    with httpx.Client(base_url=target.it.url, timeout=ANSWER_S_MAX) as stranger:
        assert stranger.get("/metrics").status_code == 404
        opened = [path for path, how in document()["paths"].items() if "get" in how and "{" not in path]
        told = {path: stranger.get(path) for path in (*opened, "/metrics", "/stats", "/debug/vars", "/openapi.json")}
    assert [path for path, answer in told.items() if "payroll7" in answer.text] == []


def test_a_body_is_refused_by_its_length_before_it_is_read(target: Target) -> None:
    for path, media_type, length in (
        ("/v1/auth/sign-in", "application/json", 65_537),
        ("/v1/lists/spring/prospects", "application/json", 4_194_305),
        ("/v1/lists/spring/prospects", "application/json; charset=utf-8", 60_000_000),
        ("/v1/lists/spring/prospects", "text/csv", 67_108_865),
        ("/v1/emails", "application/json", 41_943_041),
    ):
        head = target.head(f"POST {path} HTTP/1.1", f"Content-Type: {media_type}", f"Content-Length: {length}")
        (answer,) = target.tell(head)  # no byte of the body is sent
        assert (answer.status, answer.code) == (413, "too_large"), path


def test_chunks_are_refused_as_soon_as_they_are_too_many(target: Target) -> None:
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    for path, most in (("/v1/auth/sign-in", 65_536), ("/v1/lists/spring/prospects", 4_194_304)):
        with target.connected() as conn:  # the end never arrives
            head = target.head(f"POST {path} HTTP/1.1", "Content-Type: application/json", "Transfer-Encoding: chunked")
            conn.sendall(head + piece * (most // 0x10000) + b"1\r\nx\r\n")
            (answer,) = answers_in(received(conn))
        assert (answer.status, answer.code) == (413, "too_large"), path


def test_little_more_is_read_of_a_body_that_was_answered_early(target: Target) -> None:
    """A stranger without a key gets the response before the body, and so does not send a hundred megabytes."""
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    taken = 0
    with target.connected() as conn:
        conn.sendall(b"POST /v1/emails HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert b" 401 " in conn.recv(65_536)
        with pytest.raises(OSError):  # noqa: PT012 - the first may still go into the buffers
            while taken < 1_600:
                conn.sendall(piece)
                taken += 1
    assert taken < 1_000


@pytest.mark.slow
@pytest.mark.thorough
def test_json_that_is_made_to_hurt(target: Target) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    n = times(50_000)
    before = rss()
    for path in ("/v1/emails", "/v1/keys"):
        for body in (
            deep,
            b'{"fields": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
            b'{"a": ' + b"9" * 10 * n + b"}",
            b'{"a": 1e999999, "b": NaN, "c": Infinity}',
            b'{"to": "a@b.example", "to": "c@d.example", "subject": 1}',
            b"\xff\xfe\x00",
            b'"\xed\xa0\x80"',
            b"",
            b"null",
            b"[]",
            b'"x"',
        ):
            answers = target.post(path, body)
            assert [a.status for a in answers] in ([400], [422], [413]), (path, body[:40], answers)
    for body in (
        json.dumps({f"k{i}": i for i in range(4 * n)}).encode(),
        json.dumps({**HELLO, "headers": {f"k{i}": i for i in range(n)}}).encode(),
        json.dumps({**HELLO, "to": [1] * n}).encode(),
        json.dumps({**HELLO, "attachments": [{}] * n}).encode(),
    ):
        (answer,) = target.post("/v1/emails", body)
        assert answer.status == 422
        assert len(answer.body) < 20_000
    assert rss() - before < 4 * RSS_GROWTH_MAX


def test_halves_of_characters_and_nuls_have_no_place_anywhere(target: Target) -> None:
    before = target.queued()
    for bad in ("\\ud800", "\\u0000", "a\\udfffb", "\\u0000\\ud800"):
        for body in (
            f'{{"to": "a@b.example", "subject": "{bad}", "text": "x"}}',
            f'{{"to": "{bad}@b.example", "subject": "x", "text": "x"}}',
            f'{{"to": "a@b.example", "subject": "x", "text": "x", "fields": {{"a": "{bad}"}}}}',
            f'{{"to": "a@b.example", "subject": "x", "text": "x", "fields": {{"{bad}": [["{bad}"]]}}}}',
            f'{{"to": "a@b.example", "subject": "x", "text": "x", "headers": {{"{bad}": "x"}}}}',
            f'{{"to": "a@b.example", "subject": "x", "text": "x", "{bad}": "x"}}',
            f'{{"to": "a@b.example", "subject": "x", "text": "x", "attachments": [{{"filename": "x", "data": "{bad}"}}]}}',
        ):
            (answer,) = target.post("/v1/emails", body.encode())
            assert answer.status in (400, 422), (body, answer)
            (line,) = target.post("/v1/emails/bulk", body.encode(), media_type="application/x-ndjson")
            assert line.status == 200
            assert json.loads(line.body)["data"]["accepted"] == 0, body
        (answer,) = target.post("/v1/keys", f'{{"name": "{bad}", "scopes": ["read"]}}'.encode())
        assert answer.status in (400, 422)
    for path in (
        "/v1/keys/%00",
        "/v1/keys/%ed%a0%80",
        "/v1/keys/%ff",
        "/v1/emails/%00",
        "/v1/domains/%00",
        "/%00",
        "/%ed%a0%80",
    ):
        (answer,) = target.tell(target.head(f"DELETE {path} HTTP/1.1"))
        assert answer.status in (404, 405, 422), (path, answer)
    for query in (
        "cursor=%00",
        "cursor=%ff%fe",
        "cursor=bg",
        "cursor=%ed%a0%80",
        "state=%00",
        "limit=%00",
        "limit=1e9",
        "limit=٣",
        "=&&=",
        "%00=%00",
    ):
        (answer,) = target.tell(
            target.head(f"GET /v1/emails?{query} HTTP/1.1").decode("latin-1").encode("utf-8", "replace")
            if query.isascii()
            else target.head("GET /v1/emails?limit=%D9%A3 HTTP/1.1")
        )
        assert answer.status in (200, 400, 422), (query, answer)
    assert target.queued() == before


def test_bodies_that_are_packed_are_not_taken(target: Target) -> None:
    packed = gzip.compress(json.dumps(HELLO).encode())
    for encoding in ("gzip", "deflate", "br", "gzip, gzip", "x"):
        (answer,) = target.post("/v1/emails", packed, f"Content-Encoding: {encoding}")
        assert (answer.status, answer.code) == (415, "unsupported_media_type")
    (answer,) = target.post("/v1/emails", json.dumps(HELLO).encode(), "Content-Encoding: identity")
    assert answer.status == 201


def test_keys_of_idempotency_are_plain(target: Target) -> None:
    body = json.dumps(HELLO).encode()
    for key, allowed in (
        ("a\x01b", {400}),
        ("a\x7fb", {400, 422}),
        ("a\tb", {422}),
        ("\xff\xfe", {201, 422}),
        ("x" * 501, {422}),
        ("", {422, 201}),
    ):
        for path in ("/v1/emails", "/v1/emails/bulk"):
            media_type = "application/json" if path == "/v1/emails" else "application/x-ndjson"
            answers = target.post(path, body, f"Idempotency-Key: {key}", media_type=media_type)
            assert len(answers) == 1
            assert answers[0].status in allowed | ({200, 400} if "bulk" in path else set()), (key, path, answers)


def test_other_ways_of_speaking_http(target: Target) -> None:
    upgrade = (
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    with target.connected() as conn:
        conn.sendall(target.head("GET /v1/workspace HTTP/1.1", *upgrade, is_last=False))
        answer = b""
        while b"\r\n" not in answer:
            answer += conn.recv(65_536)
        assert answer.split()[1] in (b"200", b"400")
    expected = {
        "GET /v1/workspace HTTP/1.0": [200],
        "HEAD /v1/workspace HTTP/1.1": [405],
        "OPTIONS /v1/workspace HTTP/1.1": [405],
        "OPTIONS * HTTP/1.1": [404],
        "TRACE /v1/workspace HTTP/1.1": [405],
        "CONNECT example.com:443 HTTP/1.1": [400],
        "PROPFIND /v1/emails HTTP/1.1": [405],
        "GET http://127.0.0.1/v1/workspace HTTP/1.1": [200],
        "GET http://evil.example/api/nothing HTTP/1.1": [404],
        "GET //v1/workspace HTTP/1.1": [404],
        "GET /v1/../api/workspace HTTP/1.1": [404],
        "GET /v1/%2e%2e/api/workspace HTTP/1.1": [404],
        "DELETE /v1/keys/%2e%2e HTTP/1.1": [404],
        "DELETE /v1/keys/%2e%2e%2fkeys HTTP/1.1": [404],
        "DELETE /v1/keys/..%5c..%5cetc HTTP/1.1": [404],
    }
    found = {start: [a.status for a in target.tell(target.head(start))] for start in expected}
    assert found == expected


def test_requests_one_after_another_without_waiting(target: Target) -> None:
    ask = target.head("GET /v1/workspace HTTP/1.1", is_last=False)
    answers = target.tell(ask * 50 + target.head("GET /v1/nothing HTTP/1.1"))
    assert [a.status for a in answers] == [200] * 50 + [404]


def test_every_list_in_a_body_has_a_limit() -> None:
    """Without this limit, a million wrong values would cause a million errors."""
    without = [
        f"{operation}: {place}"
        for operation in every_operation()
        if operation.media_type == "application/json"
        for place, schema in _lists(operation.body, "")
        if "maxItems" not in schema
    ]
    assert without == []


def _lists(schema: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, list):
        for each in schema:
            yield from _lists(each, place)
    elif isinstance(schema, dict):
        if schema.get("type") == "array":
            yield place, schema
        for name, each in schema.items():
            yield from _lists(each, f"{place}.{name}")


def rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.slow
@pytest.mark.thorough
def test_many_attackers_at_once_cost_little(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_S_MAX", 2.0)
    monkeypatch.setattr(middleware, "CHUNK_S_MAX", 2.0)
    target.is_well()
    before = rss()
    attacks: list[Any] = [
        [b"GET / HTTP/1.1\r\nX: " + b"x" * 60_000],
        [target.head("POST /v1/emails HTTP/1.1", "Content-Length: 40000000"), b"[" * 1_000_000],
        [
            target.head(
                "POST /v1/emails/bulk HTTP/1.1", "Content-Type: application/x-ndjson", "Content-Length: 60000000"
            ),
            b'{"to": 1}\n' * 100_000,
        ],
        [target.head("POST /v1/keys HTTP/1.1", "Transfer-Encoding: chunked"), *[b"1\r\nx\r\n"] * 1_000],
        [
            target.head("POST /v1/keys HTTP/1.1", "Transfer-Encoding: chunked"),
            b"0\r\n",
            *[b"X-Trailer: " + b"x" * 60_000 + b"\r\n"] * 20,
        ],
    ]
    with ThreadPoolExecutor(ATTACKERS) as pool:
        under_way = [pool.submit(target.tell, *attacks[n % len(attacks)]) for n in range(ATTACKERS)]
        target.is_well()
        growth = rss() - before
        for each in under_way:
            each.result()
    assert max(growth, rss() - before) < RSS_GROWTH_MAX, f"{growth >> 20} MB, {os.getpid()}"
