"""Whatever it receives, the emulator answers like Google or closes the connection; it never fails."""

import random
from typing import Any

import pytest

from fairpost.dev.emulate import mime
from fairpost.dev.emulate.bodies import NO_RAW
from fairpost.dev.emulate.mailbox import recipients
from tests.dev.emulate.conftest import Client, encoded, mail, raw_exchange, refused, token_of

ROUTES = [
    ("POST", "/drafts"),
    ("POST", "/drafts/send"),
    ("POST", "/messages/send"),
    ("PUT", "/drafts/r-1"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"7", b"null", b'"x"', b"\xff\xfe", b"{" * 50_000, b"[" * 100_000, b'{"a": 1e999}', b"\x00", b"{}x"],
)
async def test_a_body_that_is_no_object(ann: Client, method: str, path: str, body: bytes) -> None:
    response = await ann.ask(method, path, content=body, headers={"Content-Type": "application/json"})
    assert refused(response)[0] == 400


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/messages/send", {}, (400, "invalidArgument", NO_RAW)),
        ("/messages/send", {"raw": ""}, (400, "invalidArgument", NO_RAW)),
        ("/messages/send", {"raw": None}, (400, "invalidArgument", NO_RAW)),
        ("/messages/send", {"payload": {"headers": []}}, (400, "invalidArgument", NO_RAW)),
        ("/drafts", {}, (400, "invalidArgument", "Missing draft message")),
        ("/drafts", {"message": None}, (400, "invalidArgument", "Missing draft message")),
        ("/drafts", {"message": {}}, (400, "invalidArgument", NO_RAW)),
        ("/drafts/send", {}, (404, "notFound", "Requested entity was not found.")),
        ("/drafts/send", {"id": "r-1"}, (404, "notFound", "Requested entity was not found.")),
    ],
)
async def test_missing_values_are_named(ann: Client, path: str, body: Any, expected: tuple[int, str, str]) -> None:
    assert await ann.error("POST", path, json=body) == expected


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/messages/send", {"raw": "!"}, "Base64 decoding failed"),
        ("/messages/send", {"raw": "a"}, "Base64 decoding failed"),
        ("/messages/send", {"raw": "é" * 9}, "Base64 decoding failed"),
        ("/messages/send", {"raw": 7}, "Invalid value at 'raw'"),
        ("/messages/send", {"raw": ["x"]}, "Invalid value at 'raw'"),
        ("/messages/send", {"raw": encoded(mail()), "threadId": 7}, "Invalid value at 'threadId'"),
        ("/messages/send", {"raw": encoded(mail()), "threadId": "🦊"}, "Invalid thread_id value"),
        ("/messages/send", {"row": encoded(mail())}, 'Unknown name "row"'),
        ("/drafts", {"message": "x"}, "Invalid value at 'message'"),
        ("/drafts", {"message": []}, "Invalid value at 'message'"),
        ("/drafts", {"message": {"raw": "!"}}, "Invalid value at 'message.raw'"),
        ("/drafts", {"message": {"row": ""}}, 'Unknown name "row"'),
        ("/drafts", {"raw": encoded(mail())}, 'Unknown name "raw"'),
        ("/drafts/send", {"id": 7}, "Invalid value at 'id'"),
        ("/drafts/send", {"id": {"a": []}}, "Invalid value at 'id'"),
    ],
)
async def test_an_invalid_field_is_named(ann: Client, path: str, body: Any, words: str) -> None:
    status, _, message = await ann.error("POST", path, json=body)
    assert status == 400
    assert words in message
    assert ann.emulator.sent() == []


async def test_base64_of_every_kind_is_read(ann: Client) -> None:
    import base64

    raw = mail(subject="ÿþ~~??>>")
    for text in (
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode(),
        encoded(raw),
        base64.encodebytes(raw).decode(),
    ):
        await ann.ok("POST", "/messages/send", json={"raw": text})
    assert len(ann.emulator.sent()) == 4


@pytest.mark.parametrize(
    "path",
    [
        "/messages/x",
        "/messages/%00",
        "/messages/" + "f" * 5_000,
        "/drafts/none",
        "/threads/0",
        "/threads/%F0%9F%A6%8A",
        "/labels/none",
    ],
)
async def test_an_id_that_does_not_exist(ann: Client, path: str) -> None:
    assert (await ann.error("GET", path))[:2] == (404, "notFound")


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/messages", {"maxResults": "many"}),
        ("/messages", {"maxResults": "-1"}),
        ("/messages", {"maxResults": "٣"}),
        ("/messages", {"pageToken": "x"}),
        ("/drafts", {"pageToken": "9" * 30}),
        ("/messages/{id}", {"format": "pdf"}),
        ("/drafts/{draft}", {"format": ""}),
        ("/threads/{id}", {"format": "raw"}),
    ],
)
async def test_a_parameter_that_will_not_do(ann: Client, path: str, query: dict[str, str]) -> None:
    draft = await ann.create()
    path = path.format(id=draft["message"]["id"], draft=draft["id"])
    assert (await ann.error("GET", path, params=query))[0] == 400


@pytest.mark.parametrize("query", ['"', "::", "rfc822msgid:", "-", 'x:"', "a" * 9_000, "(from:a OR b)", "\x00"])
async def test_any_query_is_answered(ann: Client, query: str) -> None:
    await ann.send()
    assert (await ann.ask("GET", "/messages", params={"q": query})).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/"), ("GET", "/gmail/v1/users/me/nonsense"), ("PATCH", "/gmail/v1/users/me/drafts"), ("GET", "/token")],
)
async def test_an_address_that_is_none(ann: Client, method: str, path: str) -> None:
    response = await ann.http.request(method, path)
    assert response.status_code == 404
    assert response.headers["content-type"].startswith("text/html")


async def test_requests_that_are_no_http(ann: Client) -> None:
    for octets in (b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"HELO there\r\n", b"\x00" * 100_000):
        answer = await raw_exchange(ann.emulator, octets)
        assert b" 500 " not in answer[:20]
    await ann.get("/profile")


async def test_headers_that_are_huge(ann: Client) -> None:
    head = f"GET /gmail/v1/users/me/profile HTTP/1.1\r\nHost: x\r\nAuthorization: {token_of(ann)}\r\n".encode()
    answer = await raw_exchange(ann.emulator, head + b"X: " + b"y" * 200_000 + b"\r\n\r\n")
    assert answer[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 431")
    await ann.get("/profile")


async def test_a_client_that_hangs_up_in_the_middle_has_sent_nothing(ann: Client) -> None:
    import asyncio

    head = f"POST /gmail/v1/users/me/messages/send HTTP/1.1\r\nHost: x\r\nAuthorization: {token_of(ann)}\r\n"
    _, writer = await asyncio.open_connection("127.0.0.1", ann.emulator.port)
    writer.write(f'{head}Content-Length: 5000\r\n\r\n{{"raw": "'.encode())
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    await asyncio.sleep(0.1)
    assert ann.emulator.sent() == []
    await ann.get("/profile")


async def test_any_bytes_may_be_a_message(ann: Client) -> None:
    """Valid recipients first, so that it is sent; then noise in every place that the API shows."""
    dice = random.Random(7)
    alphabet = [
        b"\r\n",
        b"\n",
        b":",
        b"=?utf-8?b?",
        b"?=",
        b"\xff",
        b"\x00",
        b"boundary=x",
        b"--x",
        b" ",
        b"\t",
        b"<",
        b"@",
    ]
    alphabet += [
        b"Content-Type: multipart/mixed; ",
        b"Content-Transfer-Encoding: base64\r\n",
        b"Subject: ",
        b"charset=?",
    ]
    for _ in range(150):
        noise = b"".join(dice.choice(alphabet) for _ in range(dice.randrange(60)))
        response = await ann.ask(
            "POST", "/drafts", json={"message": {"raw": encoded(b"To: cleo@there.test\r\n" + noise)}}
        )
        assert response.status_code in (200, 400)
        if response.status_code == 200:
            for form in ("full", "metadata", "minimal", "raw"):
                await ann.get(f"/drafts/{response.json()['id']}", format=form)
        ann.emulator.quota.clear()


NOISE = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b":",
        b";",
        b",",
        b"<",
        b">",
        b"@",
        b'"',
        b"(",
        b"\xff",
        b"\x00",
        b"=?utf-8?b?",
    ),
    *(b"=?x?q?", b"?=", b"boundary=x", b"--x\r\n", b"--x--", b"Content-Type: multipart/mixed; ", b"charset=", b"a@b.c"),
    *(b"Content-Type: message/rfc822\r\n\r\n", b"Content-Transfer-Encoding: ", b"base64\r\n", b"x-uuencode\r\n"),
    *(b"filename*0*=utf-8''%FF", b"filename*=utf-99'x'%", b"Content-Disposition: attachment; ", b"To: ", b"From: "),
)


def test_reading_any_bytes() -> None:
    dice = random.Random(11)
    for _ in range(3_000):
        raw = b"".join(dice.choice(NOISE) for _ in range(dice.randrange(40)))
        mime.shown(mime.headers_of(raw))
        mime.payload(raw, message_id="1")
        mime.snippet(raw)
        mime.bare_subject(mime.headers_of(raw))
        mime.attachment(raw, "0.1")
        recipients(raw)
        if raw[:1] not in b" \t\r\n":
            assert mime.values(mime.headers_of(mime.replaced(raw, "From", "me@x")), "From") == ["me@x"], raw


@pytest.mark.parametrize(
    "part", [b"Content-Type: message/rfc822\n\n", b"Content-Type: multipart/x; boundary=x\n\n--x\n"]
)
def test_parts_in_parts_in_parts(part: bytes) -> None:
    for depth in (100, 1_500):
        mime.payload(part * depth, message_id="1")
        mime.snippet(part * depth)


@pytest.mark.parametrize(
    ("raw", "headers"),
    [
        (b"", []),
        (b"\r\n\r\nA: 1", []),
        (b"A: 1\r\n  2\r\nB:3\r\n\r\nC: 4", [("A", "1  2"), ("B", "3")]),
        (b"A: 1\nno field\nB: 2\n\nx", [("A", "1"), ("B", "2")]),
        (b"A: \xff\r\n", [("A", "ÿ")]),
        (b" folded: from the start\r\nA: 1", [("A", "1")]),
    ],
)
def test_reading_headers(raw: bytes, headers: list[tuple[str, str]]) -> None:
    assert mime.headers_of(raw) == headers


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"A: 1\r\nFrom: x\r\n y\r\nB: 2\r\n\r\nfrom: z", b"A: 1\r\nFrom: me\r\nB: 2\r\n\r\nfrom: z"),
        (b"A: 1\nFROM:x\n\nbody", b"A: 1\nFrom: me\n\nbody"),
        (b"A: 1\r\n\r\nbody", b"From: me\r\nA: 1\r\n\r\nbody"),
        (b"from: 1\r\nfrom: 2\r\n\r\n", b"From: me\r\n\r\n"),
        (b"\r\nbody", b"From: me\r\n\r\nbody"),
        (b"A: 1", b"From: me\r\nA: 1\r\n"),
    ],
)
def test_replacing_a_header_leaves_the_rest_as_it_was(raw: bytes, expected: bytes) -> None:
    assert mime.replaced(raw, "From", "me") == expected
