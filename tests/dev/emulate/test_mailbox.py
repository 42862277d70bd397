"""Drafts, messages, threads and labels over the API, as described in Gmail's documentation."""

import asyncio
import base64
from email import message_from_bytes
from typing import Any

import pytest

from fairpost.dev.emulate.mailbox import User
from tests.dev.emulate.conftest import ANN, NOON, Client, Connect, Emulate, Time, encoded, mail


def headers(shape: dict[str, Any]) -> dict[str, str]:
    return {header["name"]: header["value"] for header in shape["payload"]["headers"]}


async def test_a_draft_is_sent_under_a_new_id_in_the_same_thread_and_is_gone(ann: Client) -> None:
    draft = await ann.create()
    assert draft["message"]["labelIds"] == ["DRAFT"]
    assert (await ann.get(f"/threads/{draft['message']['threadId']}"))["messages"][0]["labelIds"] == ["DRAFT"]
    sent = await ann.send_draft(draft["id"])
    assert sent == {"id": sent["id"], "threadId": draft["message"]["threadId"], "labelIds": ["SENT"]}
    assert sent["id"] != draft["message"]["id"]
    not_found = (404, "notFound", "Requested entity was not found.")
    assert await ann.error("GET", f"/drafts/{draft['id']}") == not_found
    assert await ann.error("GET", f"/messages/{draft['message']['id']}") == not_found
    assert await ann.error("POST", "/drafts/send", json={"id": draft["id"]}) == not_found
    (message,) = (await ann.get(f"/threads/{sent['threadId']}", format="minimal"))["messages"]
    assert (message["id"], message["labelIds"]) == (sent["id"], ["SENT"])
    (record,) = ann.emulator.sent(ANN)
    assert (record.id, record.draft_id, record.recipients) == (sent["id"], draft["id"], ("cleo@there.test",))
    assert ann.emulator.drafts(ANN) == []


async def test_a_deleted_draft_takes_its_thread_with_it(ann: Client) -> None:
    draft = await ann.create()
    response = await ann.ask("DELETE", f"/drafts/{draft['id']}")
    assert (response.status_code, response.content) == (204, b"")
    assert (await ann.error("DELETE", f"/drafts/{draft['id']}"))[0] == 404
    assert (await ann.error("GET", f"/threads/{draft['message']['threadId']}"))[0] == 404
    assert ann.emulator.sent() == []


async def test_an_updated_draft_keeps_its_id_and_thread(ann: Client) -> None:
    draft = await ann.create()
    body = {"message": {"raw": encoded(mail(subject="Better"))}}
    updated = await ann.ok("PUT", f"/drafts/{draft['id']}", json=body)
    assert updated["id"] == draft["id"]
    assert updated["message"]["threadId"] == draft["message"]["threadId"]
    assert updated["message"]["id"] != draft["message"]["id"]
    await ann.send_draft(draft["id"])
    assert message_from_bytes(ann.emulator.sent()[0].raw)["Subject"] == "Better"
    assert (await ann.error("PUT", "/drafts/r-1", json=body))[0] == 404


async def test_a_draft_may_be_replaced_while_it_is_sent(ann: Client) -> None:
    draft = await ann.create()
    body = {"id": draft["id"], "message": {"raw": encoded(mail(subject="Last words"))}}
    await ann.ok("POST", "/drafts/send", json=body)
    (sent,) = ann.emulator.sent()
    assert message_from_bytes(sent.raw)["Subject"] == "Last words"
    assert (await ann.get("/messages"))["resultSizeEstimate"] == 1


async def test_a_draft_needs_no_recipient_until_it_is_sent(ann: Client) -> None:
    draft = await ann.create(mail(to=None))
    expected = (400, "invalidArgument", "Recipient address required")
    assert await ann.error("POST", "/drafts/send", json={"id": draft["id"]}) == expected
    assert (await ann.get(f"/drafts/{draft['id']}", format="minimal"))["id"] == draft["id"]
    assert ann.emulator.sent() == []


@pytest.mark.parametrize("form", ["minimal", "metadata", "full", "raw"])
async def test_the_four_formats(ann: Client, form: str) -> None:
    raw = mail(subject="Größe", text="Hello\nthere", Message_ID="<1@example.com>")
    draft = await ann.create(raw)
    shape = (await ann.get(f"/drafts/{draft['id']}", format=form.upper()))["message"]
    assert shape["snippet"] == "Hello there"
    assert shape["sizeEstimate"] == len(raw)
    assert shape["internalDate"] == str(int(NOON.timestamp() * 1_000))
    assert ("raw" in shape, "payload" in shape) == (form == "raw", form in ("metadata", "full"))
    if form == "raw":
        assert base64.urlsafe_b64decode(shape["raw"]) == raw
    if form in ("metadata", "full"):
        assert headers(shape)["Subject"] == "Größe"
        assert shape["payload"]["mimeType"] == "text/plain"
    if form == "full":
        assert base64.urlsafe_b64decode(shape["payload"]["body"]["data"]) == b"Hello\nthere\n"


async def test_only_the_headers_that_are_asked_for(ann: Client) -> None:
    sent = await ann.send()
    query = {"format": "metadata", "metadataHeaders": ["message-id", "To"]}
    assert set(headers(await ann.get(f"/messages/{sent['id']}", **query))) == {"To", "Message-ID"}
    (message,) = (await ann.get(f"/threads/{sent['threadId']}", **query))["messages"]
    assert set(headers(message)) == {"To", "Message-ID"}


async def test_an_attachment_is_a_part_with_a_token(ann: Client) -> None:
    from email.message import EmailMessage

    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = ANN, "cleo@there.test", "Files"
    message.set_content("text")
    message.add_alternative("<p>html", subtype="html")
    message.add_attachment(b"\x00\x01" * 500, maintype="image", subtype="png", filename="lögo.png")
    sent = await ann.send(message.as_bytes())
    payload = (await ann.get(f"/messages/{sent['id']}"))["payload"]
    assert payload["mimeType"] == "multipart/mixed"
    assert [part["partId"] for part in payload["parts"][0]["parts"]] == ["0.0", "0.1"]
    attached = payload["parts"][1]
    assert (attached["filename"], attached["body"]["size"]) == ("lögo.png", 1_000)
    found = await ann.get(f"/messages/{sent['id']}/attachments/{attached['body']['attachmentId']}")
    assert base64.urlsafe_b64decode(found["data"]) == b"\x00\x01" * 500
    for token in ("nonsense", f"{sent['id']}.9", f"{sent['id']}.x.y"):
        assert (await ann.error("GET", f"/messages/{sent['id']}/attachments/{token}"))[0] == 400


@pytest.mark.parametrize(
    ("rule", "written", "kept"),
    [
        ("rewrite", "<1@example.com>", False),
        ("rewrite", None, False),
        ("foreign", "<1@example.com>", True),
        ("foreign", "<1@else.test>", False),
        ("keep", "<1@else.test>", True),
        ("keep", None, False),
    ],
)
async def test_gmail_writes_its_own_message_id(
    emulate: Emulate, connect: Connect, rule: str, written: str | None, kept: bool
) -> None:
    from fairpost.dev.emulate.mailbox import MessageIds

    client = await connect(await emulate(message_ids=MessageIds(rule)))
    raw = mail(**({"Message_ID": written} if written else {}))
    draft = await client.create(raw)
    assert headers((await client.get(f"/drafts/{draft['id']}"))["message"]).get("Message-ID") == written
    sent = await client.send_draft(draft["id"])
    found = headers(await client.get(f"/messages/{sent['id']}", format="metadata"))["Message-ID"]
    assert (found == written) is kept
    assert kept or (found.startswith("<CA") and found.endswith("@mail.gmail.com>"))
    (record,) = client.emulator.sent()
    assert (record.message_id, record.original_message_id) == (found, written or "")


async def test_every_message_id_it_makes_is_another(ann: Client) -> None:
    for _ in range(20):
        await ann.send(mail(Message_ID="<same@example.com>"))
    assert len({sent.message_id for sent in ann.emulator.sent()}) == 20


@pytest.mark.parametrize(
    ("sender", "sent_by"),
    [
        (ANN, ANN),
        ("Ann A <Ann@Example.com>", "Ann A <Ann@Example.com>"),
        ("Sales <sales@example.com>", "Sales <sales@example.com>"),
        ("boss@example.com", "Ann <ann@example.com>"),
        ("ann@example.com, boss@example.com", "Ann <ann@example.com>"),
        ("nonsense", "Ann <ann@example.com>"),
    ],
)
async def test_a_sender_that_is_not_an_alias_becomes_the_user(
    emulate: Emulate, connect: Connect, sender: str, sent_by: str
) -> None:
    client = await connect(await emulate(User(address=ANN, name="Ann", aliases=("sales@example.com",))))
    await client.send(b"From: " + sender.encode() + b"\r\nTo: cleo@there.test\r\n\r\nHi")
    (sent,) = client.emulator.sent()
    message = message_from_bytes(sent.raw)
    assert message["From"] == sent_by
    assert message["Date"]
    assert message.get_payload() == "Hi"


async def test_all_kinds_of_recipients_are_recorded(ann: Client) -> None:
    raw = mail(to='"Doe, J" <a@x.test>, b@x.test', Cc="c@x.test", Bcc="d@x.test")
    await ann.send(raw)
    (sent,) = ann.emulator.sent()
    assert (sent.to, sent.cc, sent.bcc) == (("a@x.test", "b@x.test"), ("c@x.test",), ("d@x.test",))
    assert message_from_bytes(sent.raw)["Bcc"] == "d@x.test"  # the sender's own copy contains it


async def test_a_message_to_oneself_is_in_the_inbox_too(ann: Client) -> None:
    assert set((await ann.send(mail(to=ANN)))["labelIds"]) == {"SENT", "INBOX", "UNREAD"}


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("To: nonsense", "Invalid To header"),
        ("To: a@b@c", "Invalid To header"),
        ("To: a@x.test, , <>", "Invalid To header"),
        ("To: a@x.test\r\nCc: not an address", "Invalid Cc header"),
        ("To: a@x.test\r\nBcc: @x.test", "Invalid Bcc header"),
        ("Subject: to nobody", "Recipient address required"),
        ("To:", "Recipient address required"),
        ("To: undisclosed-recipients:;", "Recipient address required"),
    ],
)
async def test_recipients_that_will_not_do(ann: Client, head: str, message: str) -> None:
    raw = f"From: {ANN}\r\n{head}\r\n\r\nHi".encode()
    expected = (400, "invalidArgument", message)
    assert await ann.error("POST", "/messages/send", json={"raw": encoded(raw)}) == expected
    if message.startswith("Invalid"):
        assert await ann.error("POST", "/drafts", json={"message": {"raw": encoded(raw)}}) == expected
    assert ann.emulator.sent() == []


async def test_a_hundred_recipients_and_no_more(ann: Client) -> None:
    await ann.send(mail(to=", ".join(f"u{n}@x.test" for n in range(98)), Cc="c@x.test", Bcc="d@x.test"))
    too_many = mail(to=", ".join(f"u{n}@x.test" for n in range(101)))
    assert (await ann.error("POST", "/messages/send", json={"raw": encoded(too_many)}))[:2] == (400, "invalidArgument")
    assert len(ann.emulator.sent()) == 1


async def reply_to(client: Client, sent: dict[str, Any], **change: Any) -> bytes:
    original = headers(await client.get(f"/messages/{sent['id']}", format="metadata"))
    fields = {"subject": f"Re: {original['Subject']}", "In_Reply_To": original["Message-ID"], **change}
    return mail(**{key: value for key, value in fields.items() if value is not None})


async def test_a_reply_joins_its_thread(ann: Client) -> None:
    first = await ann.send()
    reply = await ann.send(await reply_to(ann, first), threadId=first["threadId"])
    assert reply["threadId"] == first["threadId"]
    draft = await ann.create(await reply_to(ann, reply, subject="RE: re: Hello"), threadId=first["threadId"])
    third = await ann.send_draft(draft["id"])
    thread = await ann.get(f"/threads/{first['threadId']}", format="minimal")
    assert [m["id"] for m in thread["messages"]] == [first["id"], reply["id"], third["id"]]
    (listed,) = (await ann.get("/threads"))["threads"]
    assert listed["id"] == first["threadId"]


@pytest.mark.parametrize("change", [{"subject": "Something else"}, {"In_Reply_To": None}, {"In_Reply_To": "<else@x>"}])
async def test_a_message_that_does_not_belong_to_a_thread_starts_its_own(ann: Client, change: dict[str, Any]) -> None:
    first = await ann.send()
    reply = await ann.send(await reply_to(ann, first, **change), threadId=first["threadId"])
    assert reply["threadId"] == reply["id"] != first["threadId"]


async def test_without_a_thread_id_a_reply_starts_a_new_thread(ann: Client) -> None:
    first = await ann.send()
    assert (await ann.send(await reply_to(ann, first)))["threadId"] != first["threadId"]


async def test_threads_can_go_by_the_id_alone(emulate: Emulate, connect: Connect) -> None:
    client = await connect(await emulate(threads_are_checked=False))
    first = await client.send()
    assert (await client.send(threadId=first["threadId"]))["threadId"] == first["threadId"]


async def test_a_thread_that_does_not_exist(ann: Client, connect: Connect) -> None:
    bob = await connect(ann.emulator, "bob@example.com")
    others = (await bob.send(mail(sender="bob@example.com")))["threadId"]
    for thread_id, expected in (
        (others, (404, "notFound")),
        ("1", (404, "notFound")),
        ("no-id", (400, "invalidArgument")),
    ):
        body = {"raw": encoded(mail()), "threadId": thread_id}
        assert (await ann.error("POST", "/messages/send", json=body))[:2] == expected
        assert (await ann.error("POST", "/drafts", json={"message": body}))[:2] == expected
    assert ann.emulator.sent(ANN) == []
    assert (await ann.error("GET", f"/threads/{others}"))[0] == 404


async def test_mail_from_outside_joins_the_thread_it_refers_to(ann: Client) -> None:
    first = await ann.send()
    message_id = ann.emulator.sent()[0].message_id
    reply = ann.emulator.deliver(ANN, mail(sender="cleo@there.test", to=ANN, References=message_id))
    assert reply.thread_id == first["threadId"]
    stranger = ann.emulator.deliver(ANN, mail(sender="cleo@there.test", to=ANN))
    assert stranger.thread_id == stranger.id
    inbox = await ann.get("/messages", labelIds=["INBOX", "UNREAD"])
    assert [m["id"] for m in inbox["messages"]] == [stranger.id, reply.id]


async def test_a_search_for_a_message_id_lags(emulate: Emulate, connect: Connect, time: Time) -> None:
    client = await connect(await emulate(index_lag_s=30))
    sent = await client.send()
    message_id = client.emulator.sent()[0].message_id
    query = {"q": f"rfc822msgid:{message_id}"}
    assert await client.get("/messages", **query) == {"resultSizeEstimate": 0}
    assert (await client.get("/messages"))["messages"][0]["id"] == sent["id"]  # a list is not a search
    assert (await client.get(f"/messages/{sent['id']}"))["id"] == sent["id"]
    time.pass_by(29)
    assert await client.get("/messages", **query) == {"resultSizeEstimate": 0}
    time.pass_by(1)
    found = {"messages": [{"id": sent["id"], "threadId": sent["threadId"]}], "resultSizeEstimate": 1}
    assert await client.get("/messages", **query) == found
    assert await client.get("/messages", q=f"rfc822msgid:{message_id.strip('<>')}") == found


async def test_the_message_id_that_the_client_wrote_is_not_found(ann: Client) -> None:
    await ann.send(mail(Message_ID="<mine@example.com>"))
    assert await ann.get("/messages", q="rfc822msgid:<mine@example.com>") == {"resultSizeEstimate": 0}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("in:sent", 2),
        ("in:drafts", 1),
        ("in:anywhere", 3),
        ("-in:sent", 1),
        ("label:SENT", 2),
        ("to:dora", 1),
        ("subject:hello", 2),
        ('subject:"hello world"', 1),
        ("world", 1),
        ("to:dora subject:hello", 0),
        ("is:unread", 0),
        ("before:2020/01/01", 0),
        ("from:ann", 3),
        ("   ", 3),
    ],
)
async def test_searching(ann: Client, query: str, found: int) -> None:
    await ann.send(mail(subject="Hello World"))
    await ann.send(mail(to="dora@there.test", subject="Bye"))
    await ann.create(mail(subject="Hello again"))
    assert (await ann.get("/messages", q=query))["resultSizeEstimate"] == found


@pytest.mark.parametrize("kind", ["messages", "drafts", "threads"])
async def test_lists_come_in_pages_the_newest_first(ann: Client, kind: str) -> None:
    made = [await ann.create() for _ in range(7)]
    ids = {
        "messages": [m["message"]["id"] for m in made],
        "drafts": [m["id"] for m in made],
        "threads": [m["message"]["threadId"] for m in made],
    }[kind]
    seen, query = list[str](), dict[str, Any](maxResults=3)
    for size in (3, 3, 1):
        page = await ann.get(f"/{kind}", **query)
        assert len(page[kind]) == size
        seen += [item["id"] for item in page[kind]]
        query["pageToken"] = page.get("nextPageToken")
    assert seen == ids[::-1]
    assert query["pageToken"] is None


async def test_a_page_continues_although_its_end_is_gone(ann: Client) -> None:
    made = [await ann.create() for _ in range(5)]
    page = await ann.get("/messages", maxResults=2)
    await ann.ask("DELETE", f"/drafts/{made[3]['id']}")
    rest = await ann.get("/messages", maxResults=9, pageToken=page["nextPageToken"])
    assert [m["id"] for m in rest["messages"]] == [m["message"]["id"] for m in made[2::-1]]


async def test_profile_labels_and_aliases(emulate: Emulate, connect: Connect) -> None:
    client = await connect(await emulate(User(address=ANN, name="Ann", aliases=("sales@example.com",))))
    await client.send()
    await client.create()
    profile = await client.get("/profile")
    assert profile == {"emailAddress": ANN, "messagesTotal": 2, "threadsTotal": 2, "historyId": profile["historyId"]}
    assert {"id": "SENT", "name": "SENT", "type": "system"} in (await client.get("/labels"))["labels"]
    assert (await client.get("/labels/DRAFT"))["messagesTotal"] == 1
    assert (await client.error("GET", "/labels/Label_1"))[0] == 404
    primary, alias = (await client.get("/settings/sendAs"))["sendAs"]
    assert (primary["sendAsEmail"], primary["isPrimary"], primary["isDefault"]) == (ANN, True, True)
    assert (alias["sendAsEmail"], alias["verificationStatus"]) == ("sales@example.com", "accepted")


async def test_hundreds_of_calls_at_once_send_each_message_once(emulate: Emulate, connect: Connect) -> None:
    client = await connect(await emulate(units_per_minute=10**9))

    async def one(number: int) -> None:
        draft = await client.create(mail(subject=f"n{number}"))
        twice = [client.ask("POST", "/drafts/send", json={"id": draft["id"]}) for _ in range(2)]
        assert sorted(r.status_code for r in await asyncio.gather(*twice)) == [200, 404]

    await asyncio.gather(*(one(number) for number in range(150)))
    subjects = [message_from_bytes(sent.raw)["Subject"] for sent in client.emulator.sent()]
    assert sorted(subjects) == sorted(f"n{number}" for number in range(150))
    assert len({sent.id for sent in client.emulator.sent()}) == 150
