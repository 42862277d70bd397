"""Large messages: raw uploads, the limits of both endpoints, and bodies that differ from their description."""

from typing import Any

import httpx2
import pytest

from fairpost.dev.emulate.bodies import JSON_BYTES_MAX, NO_RAW, UPLOAD_BYTES_MAX
from tests.dev.emulate.conftest import ANN, Client, as_json, encoded, mail, refused

RFC822 = {"Content-Type": "message/rfc822"}


async def upload(client: Client, path: str, body: bytes, *, kind: str = "media", **more: Any) -> httpx2.Response:
    method, headers = more.pop("method", "POST"), more.pop("headers", RFC822)
    return await client.http.request(
        method, f"/upload/gmail/v1/users/me{path}", params={"uploadType": kind}, content=body, headers=headers
    )


def multipart(about: bytes, message: bytes, *, encoding: str = "", end: bytes = b"--", boundary: str = "b1") -> bytes:
    more = f"Content-Transfer-Encoding: {encoding}\r\n" if encoding else ""
    return (
        f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n".encode()
        + about
        + f"\r\n--{boundary}\r\nContent-Type: message/rfc822\r\n{more}\r\n".encode()
        + message
        + f"\r\n--{boundary}".encode()
        + end
    )


RELATED = {"Content-Type": 'multipart/related; boundary="b1"'}


async def test_a_draft_can_be_uploaded_replaced_and_sent(ann: Client) -> None:
    draft = (await upload(ann, "/drafts", mail(subject="One"))).json()
    replaced = await upload(ann, f"/drafts/{draft['id']}", mail(subject="Two"), method="PUT")
    assert replaced.json()["id"] == draft["id"]
    await ann.send_draft(draft["id"])
    assert b"Subject: Two" in ann.emulator.sent()[0].raw


async def test_a_message_can_be_uploaded_and_sent_at_once(ann: Client) -> None:
    raw = mail(text="\r\n--b1\r\nnot a boundary of anything")
    sent = (await upload(ann, "/messages/send", raw)).json()
    assert sent["labelIds"] == ["SENT"]
    assert ann.emulator.sent()[0].raw.endswith(raw.partition(b"\n\n")[2])


@pytest.mark.parametrize("end", [b"--", b"--\r\n"])
async def test_a_multipart_upload_names_its_thread(ann: Client, end: bytes) -> None:
    first = await ann.send()
    message_id = ann.emulator.sent()[0].message_id
    raw = mail(subject="Re: Hello", In_Reply_To=message_id)
    body = multipart(as_json({"threadId": first["threadId"]}), raw, end=end)
    sent = (await upload(ann, "/messages/send", body, kind="multipart", headers=RELATED)).json()
    assert sent["threadId"] == first["threadId"]
    body = multipart(as_json({"message": {"threadId": first["threadId"]}}), encoded(raw).encode(), encoding="base64")
    draft = (await upload(ann, "/drafts", body, kind="multipart", headers=RELATED)).json()
    assert draft["message"]["threadId"] == first["threadId"]


@pytest.mark.parametrize(
    ("kind", "headers", "body"),
    [
        ("media", {"Content-Type": "text/plain"}, b"x"),
        ("media", {"Content-Type": ""}, b"x"),
        ("multipart", RFC822, b"x"),
        ("multipart", RELATED, b"x"),
        ("multipart", RELATED, b"--b1\r\n\r\n{}\r\n--b1--"),
        ("multipart", RELATED, multipart(b"{}", b"x", end=b"")),
        ("multipart", RELATED, multipart(b"{", b"x")),
        ("multipart", RELATED, multipart(b"{}", b"\xff", encoding="base64")),
        ("multipart", RELATED, multipart(b"{}", b"x").replace(b"message/rfc822", b"image/png")),
        ("multipart", {"Content-Type": "multipart/related"}, multipart(b"{}", b"x")),
        ("resumable", RFC822, b"x"),
        ("", RFC822, b"x"),
        ("media", RFC822, b""),
    ],
)
async def test_an_upload_that_cannot_be_read_is_refused(
    ann: Client, kind: str, headers: dict[str, str], body: bytes
) -> None:
    for path in ("/drafts", "/messages/send"):
        response = await upload(ann, path, body, kind=kind, headers=headers)
        assert refused(response)[0] == 400
    assert ann.emulator.sent() == []
    assert ann.emulator.drafts(ANN) == []


async def test_an_upload_without_a_message_says_what_is_missing(ann: Client) -> None:
    assert refused(await upload(ann, "/messages/send", b"")) == (400, "invalidArgument", NO_RAW)


async def test_json_up_to_its_limit_and_an_upload_beyond_it(ann: Client) -> None:
    raw = mail(text="")
    overhead = len(as_json({"raw": ""}))
    fitting = raw + b"x" * ((JSON_BYTES_MAX - overhead) * 3 // 4 - len(raw) - 8)
    assert (await ann.send(fitting))["labelIds"] == ["SENT"]
    message = f"Request payload size exceeds the limit: {JSON_BYTES_MAX} bytes."
    body = {"raw": encoded(fitting + b"x" * 100)}
    assert await ann.error("POST", "/messages/send", json=body) == (400, "badRequest", message)
    large = raw + b"x" * (UPLOAD_BYTES_MAX - len(raw))
    assert (await upload(ann, "/messages/send", large)).status_code == 200
    too_large = await upload(ann, "/messages/send", large + b"x" * 100_000)
    assert refused(too_large)[:2] == (413, "uploadTooLarge")
    assert [len(sent.raw) >= len(fitting) for sent in ann.emulator.sent()] == [True, True]
