"""The development inbox over HTTP is for admins only, and nothing written by strangers is served as a page."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from email.message import EmailMessage
from typing import Any

import httpx2 as httpx
import pytest

from fairpost.api.pictures import PICTURES_BYTES_MAX
from fairpost.dev.inbox.mails import Arrived, add_mail
from fairpost.model.auth import Role
from tests.api.conftest import Api
from tests.api.served import document
from tests.api.signed_in import signed_in

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 20
SCRIPT = "<script>alert(1)</script>"
HOSTILE_NAMES = (
    "../../etc/passwd",
    'a"; filename="b.html',
    "a\r\nSet-Cookie: x=y",
    "C:\\windows\\evil.exe",
    ".bashrc",
    "Größe ✓ %41.png",
    "con",
    "x" * 400 + ".pdf",
    "\u202egnp.exe",
    "same.txt",
    "SAME.txt",
)
PATHS = (
    ("GET", "/v1/inbox"),
    ("GET", "/v1/inbox/1"),
    ("GET", "/v1/inbox/1/source"),
    ("GET", "/v1/inbox/1/attachments/0"),
    ("DELETE", "/v1/inbox/1"),
    ("DELETE", "/v1/inbox?all=true"),
)


async def put(api: Api, raw: bytes, *, to: tuple[str, ...] = ("bob@example.com",)) -> str:
    """Stores a message in the inbox, and returns its id."""
    arrived = Arrived(
        sender="app@example.com",
        recipients=to,
        helo="h.test",
        peer="127.0.0.1:9",
        tls="TLSv1.3",
        auth_user="app",
        raw=raw,
    )
    return str((await add_mail(api.store, arrived)).id)


def simple(subject: str = "Hello", text: str = "Hi there\n") -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "App <app@example.com>", "bob@example.com", subject
    mail["Message-ID"] = "<1@example.com>"
    mail.set_content(text)
    return mail.as_bytes()


def with_pictures(html: str, *pictures: tuple[str, str, bytes]) -> bytes:
    mail = EmailMessage()
    mail["Subject"] = "Pictures"
    mail.set_content(html, subtype="html")
    for cid, subtype, data in pictures:
        mail.add_related(data, maintype="image", subtype=subtype, cid=f"<{cid}>")
    return mail.as_bytes()


@pytest.fixture
async def admin(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with signed_in(api) as client:
        yield client


def assert_documented(answer: httpx.Response, method: str, path: str) -> None:
    """Checks that the document lists the response's status and type."""
    said = document()["paths"][path][method]["responses"][str(answer.status_code)]
    if "$ref" in said:
        said = document()["components"]["responses"][said["$ref"].rpartition("/")[2]]
    assert answer.headers["content-type"].partition(";")[0] in said["content"]


def assert_harmless(answer: httpx.Response) -> None:
    """Whatever a browser makes of it, nothing in it runs with our origin."""
    kind = answer.headers["content-type"].partition(";")[0]
    assert kind in ("application/json", "text/plain", "message/rfc822", "application/octet-stream", "image/png")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    if kind != "application/json":
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"


async def data_of(client: httpx.AsyncClient, path: str) -> Any:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    assert_harmless(answer)
    return answer.json()["data"]


async def test_it_is_for_admins_only(api: Api, client: httpx.AsyncClient) -> None:
    await put(api, simple())
    async with (
        httpx.AsyncClient(base_url=api.url) as signed_out,
        signed_in(api, "acme", Role.MANAGER) as manager,
    ):
        for method, path in PATHS:
            assert (await signed_out.request(method, path)).status_code == 401
            assert (await client.request(method, path)).status_code == 401  # a key with every scope
            refused = await manager.request(method, path)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
            assert "Hello" not in refused.text
    assert await api.store.value("SELECT count(*) FROM fairpost.inbox") == 1


async def test_mails_are_listed_page_by_page_and_what_is_new_by_its_id(api: Api, admin: httpx.AsyncClient) -> None:
    ids = [await put(api, simple(f"Mail {n}")) for n in range(5)]
    first = await data_of(admin, "/v1/inbox?limit=3")
    second = await data_of(admin, f"/v1/inbox?limit=3&cursor={first['next']}")
    assert [each["id"] for each in (*first["items"], *second["items"])] == ids[::-1]
    assert second["next"] is None
    newer = await data_of(admin, f"/v1/inbox?after={ids[2]}")
    assert [each["id"] for each in newer["items"]] == [ids[4], ids[3]]
    assert (await data_of(admin, f"/v1/inbox?after={ids[4]}"))["items"] == []
    item = first["items"][0]
    assert item.pop("received_at").endswith("Z")
    assert item == {
        "id": ids[4],
        "from": "App <app@example.com>",
        "sender": "app@example.com",
        "recipients": ["bob@example.com"],
        "subject": "Mail 4",
        "message_id": "<1@example.com>",
        "size": len(simple("Mail 4")),
        "attachments": 0,
        "helo": "h.test",
        "peer": "127.0.0.1:9",
        "tls": "TLSv1.3",
        "auth_user": "app",
    }


async def test_mails_are_found_by_words_and_by_address(api: Api, admin: httpx.AsyncClient) -> None:
    one = await put(api, simple("Grüße an alle", "100% off_today\n"))
    two = await put(api, simple("Other"), to=("Eve@Example.com", "bob@example.com"))
    for query, expected in {
        "q=GRÜSSE": [one],
        "q=alle off": [one],
        "q=alle other": [],
        "q=100%25": [one],
        "q=o_t": [],
        "q=' OR 1=1 --": [],
        "to=eve@example.com": [two],
        "q=other&to=eve@example.com": [two],
        "to=e": [],
        "q=": [two, one],
    }.items():
        assert [each["id"] for each in (await data_of(admin, f"/v1/inbox?{query}"))["items"]] == expected, query
    for wrong in ("q=" + "a " * 51, "q=%00", "q=" + "a" * 501, "after=-1", f"after={2**63}", "limit=0", "limit=201"):
        assert (await admin.get(f"/v1/inbox?{wrong}")).status_code == 422, wrong
    assert (await admin.get("/v1/inbox?cursor=x")).status_code == 400


async def test_a_mail_is_shown_with_everything(api: Api, admin: httpx.AsyncClient) -> None:
    mail = EmailMessage()
    mail["Received"], mail["From"], mail["Subject"] = "from a", "Ann <ann@example.com>", "Über {{ name }}"
    mail["Received"] = "from b"
    mail.set_content("See http://example.com/a\n")
    mail.add_alternative('<a href="https://evil.example">https://example.com</a>', subtype="html")
    mail.add_attachment(b"a,b\n", maintype="text", subtype="csv", filename="data.csv")
    answer = await admin.get(f"/v1/inbox/{await put(api, mail.as_bytes())}")
    assert_documented(answer, "get", "/v1/inbox/{mail_id}")
    shown = answer.json()["data"]
    assert [each["value"] for each in shown["headers"] if each["name"] == "Received"] == ["from a", "from b"]
    assert {"name": "Subject", "value": "Über {{ name }}"} in shown["headers"]
    assert (shown["subject"], shown["text"]) == ("Über {{ name }}", "See http://example.com/a\n")
    assert shown["html"] == '<a href="https://evil.example">https://example.com</a>\n'
    assert shown["attachments"] == [
        {"index": 0, "filename": "data.csv", "content_type": "text/csv", "bytes": 4, "inline_id": None}
    ]
    assert shown["links"] == [
        {"url": "https://evil.example", "text": "https://example.com", "part": "html"},
        {"url": "http://example.com/a", "text": "http://example.com/a", "part": "text"},
    ]
    assert not shown["is_cut"]
    bad = [each["what"] for each in shown["checks"] if each["level"] == "bad"]
    assert bad == ["date", "message-id", "links", "links", "template marks"]


async def test_text_from_strangers_is_never_served_as_a_page(api: Api, admin: httpx.AsyncClient) -> None:
    raw = (
        f"Subject: {SCRIPT}\r\nFrom: {SCRIPT}\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n"
        f"--x\r\nContent-Type: text/html\r\n\r\n{SCRIPT}\r\n"
        f"--x\r\nContent-Type: text/html\r\nContent-Disposition: attachment; filename=a.html\r\n\r\n{SCRIPT}\r\n"
        f"--x\r\nContent-Type: image/svg+xml\r\nContent-ID: <s>\r\n\r\n<svg onload=alert(1)>\r\n--x--\r\n"
    ).encode()
    id_ = await put(api, raw)
    for path in (
        "",
        f"/{id_}",
        f"/{id_}/source",
        f"/{id_}/source?download=true",
        f"/{id_}/attachments/0",
        f"/{id_}/attachments/1",
    ):
        answer = await admin.get(f"/v1/inbox{path}", headers={"Accept": "text/html"})
        assert answer.status_code == 200
        assert_harmless(answer)
    for index in (0, 1):
        answer = await admin.get(f"/v1/inbox/{id_}/attachments/{index}")
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment; ")
    assert (await data_of(admin, f"/v1/inbox/{id_}"))["html"] == SCRIPT


async def test_the_source_is_the_message_byte_for_byte(api: Api, admin: httpx.AsyncClient) -> None:
    raw = b"Subject: \xff\xfe\r\n\r\n\x00\x80 any bytes\n.\r\n"
    id_ = await put(api, raw)
    shown = await admin.get(f"/v1/inbox/{id_}/source")
    assert (shown.content, shown.headers["content-type"]) == (raw, "text/plain; charset=utf-8")
    assert shown.headers["content-disposition"].startswith("inline; ")
    saved = await admin.get(f"/v1/inbox/{id_}/source?download=1")
    assert (saved.content, saved.headers["content-type"]) == (raw, "message/rfc822")
    assert (
        saved.headers["content-disposition"]
        == f"attachment; filename=\"mail-{id_}.eml\"; filename*=UTF-8''mail-{id_}.eml"
    )
    for answer in (shown, saved):
        assert_documented(answer, "get", "/v1/inbox/{mail_id}/source")


async def test_attachments_are_downloads_with_safe_names(api: Api, admin: httpx.AsyncClient) -> None:
    mail = EmailMessage()
    mail.set_content("Hi\n")
    for name in HOSTILE_NAMES:
        mail.add_attachment(name.encode(), maintype="text", subtype="html", filename=name.replace("\r\n", "%0D%0A"))
    mail.add_attachment(PNG, maintype="image", subtype="png", filename="a.png")
    id_ = await put(api, mail.as_bytes())
    listed = (await data_of(admin, f"/v1/inbox/{id_}"))["attachments"]
    assert len({each["filename"].casefold() for each in listed}) == len(HOSTILE_NAMES) + 1
    for each in listed:
        answer = await admin.get(f"/v1/inbox/{id_}/attachments/{each['index']}")
        assert_documented(answer, "get", "/v1/inbox/{mail_id}/attachments/{index}")
        assert_harmless(answer)
        disposition = answer.headers["content-disposition"]
        assert disposition.startswith('attachment; filename="')
        plain, _, encoded = disposition.removeprefix('attachment; filename="').partition("\"; filename*=UTF-8''")
        assert disposition.isascii()
        assert disposition.isprintable()
        assert not set('"\\/%<>|') & set(plain)
        assert not plain.startswith(".")
        assert not set('"\\/<>; ') & set(encoded)
        assert "set-cookie" not in answer.headers
        assert len(answer.content) == each["bytes"]
    picture = await admin.get(f"/v1/inbox/{id_}/attachments/{len(HOSTILE_NAMES)}")
    assert (picture.content, picture.headers["content-type"]) == (PNG, "image/png")
    for index in (len(listed), 1_000):
        missing = await admin.get(f"/v1/inbox/{id_}/attachments/{index}")
        assert missing.json()["error"]["code"] == "not_found"
        assert f"attachment {index} " in missing.json()["error"]["message"]
    for wrong in ("-1", "1001", "x", "1e3"):
        assert (await admin.get(f"/v1/inbox/{id_}/attachments/{wrong}")).status_code == 422


async def test_pictures_that_came_with_it_are_in_its_html(api: Api, admin: httpx.AsyncClient) -> None:
    html = (
        '<img src="cid:a@x"><IMG SRC=CID:a@x><img src="cid:svg"><img src="cid:none"><p>see cid:a@x</p>'
        "<p style=\"background:url(&quot;cid:a%40x&quot;)\"><p style='background:url(cid:a@x)'>"
    )
    id_ = await put(api, with_pictures(html, ("a@x", "png", PNG), ("svg", "svg+xml", b"<svg/>")))
    uri = f"data:image/png;base64,{b64encode(PNG).decode()}"
    assert (await data_of(admin, f"/v1/inbox/{id_}"))["html"] == (
        f'<img src="{uri}"><IMG SRC={uri}><img src="cid:svg"><img src="cid:none"><p>see cid:a@x</p>'
        f"<p style=\"background:url(&quot;{uri}&quot;)\"><p style='background:url({uri})'>\n"
    )


async def test_pictures_beyond_the_limit_are_left_out(api: Api, admin: httpx.AsyncClient) -> None:
    large = b"x" * (PICTURES_BYTES_MAX // 2 + 1)
    id_ = await put(
        api,
        with_pictures('<img src="cid:a"><img src="cid:a"><img src="cid:b">', ("a", "png", large), ("b", "gif", b"y")),
    )
    html = (await data_of(admin, f"/v1/inbox/{id_}"))["html"]
    assert html.count("data:image/png") == 1
    assert html.count("cid:a") == 1
    assert html.endswith('<img src="data:image/gif;base64,eQ==">\n')


async def test_hostile_mails_are_shown(api: Api, admin: httpx.AsyncClient) -> None:
    for raw in (
        b"",
        b"\x00" * 100,
        b"Content-Type: text/html\r\n\r\n<a &#" + b"9" * 5_000,
        b"Content-Type: text/html\r\n\r\n<p>&#" + b"9" * 5_000,  # a number that Python refuses to parse
        b"Content-Type: text/html\r\n\r\n" + b"<a href=" * 50_000,
        b"".join(b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(3000)),
        b"Subject: =?utf-7?q?+2AA-?=\r\nContent-Type: text/html; charset=utf-7\r\n\r\n+2AA-",
    ):
        id_ = await put(api, raw)
        shown = await data_of(admin, f"/v1/inbox/{id_}")
        assert shown["checks"]
        assert (await admin.get(f"/v1/inbox/{id_}/source")).content == raw


async def test_a_mail_is_deleted_once_and_written_down(api: Api, admin: httpx.AsyncClient) -> None:
    one, two = await put(api, simple()), await put(api, simple())
    without = {name: value for name, value in admin.headers.items() if name.lower() != "x-csrf-token"}
    async with httpx.AsyncClient(base_url=api.url, cookies=admin.cookies, headers=without) as foreign:
        assert (await foreign.delete(f"/v1/inbox/{one}")).json()["error"]["code"] == "csrf"
    assert (await admin.delete(f"/v1/inbox/{one}")).json() == {"success": True, "data": {"removed": True}}
    again = await admin.delete(f"/v1/inbox/{one}")
    for gone in (again, await admin.get(f"/v1/inbox/{one}")):
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "not_found")
        assert str(one) in gone.json()["error"]["message"]
    assert [each["id"] for each in (await data_of(admin, "/v1/inbox"))["items"]] == [two]
    entries = (await data_of(admin, "/v1/admin/audit"))["items"]
    found = [(each["who"], each["subject"]) for each in entries if each["action"] == "inbox.delete"]
    assert found == [("admin admin@example.com", f"mail {one}")]


async def test_all_are_deleted_only_when_it_is_said(api: Api, admin: httpx.AsyncClient) -> None:
    for _ in range(3):
        await put(api, simple())
    for query in ("", "?all=false", "?all=", "?everything=true"):
        assert (await admin.delete(f"/v1/inbox{query}")).status_code == 422, query
    assert await api.store.value("SELECT count(*) FROM fairpost.inbox") == 3
    assert (await admin.delete("/v1/inbox?all=true")).json()["data"] == {"removed": 3}
    assert (await admin.delete("/v1/inbox?all=true")).json()["data"] == {"removed": 0}
    row = await api.store.row("SELECT subject, detail FROM fairpost.audit WHERE action = 'inbox.delete'")
    assert (row["subject"], json.loads(row["detail"])) == ("the inbox", {"mails": 3})
