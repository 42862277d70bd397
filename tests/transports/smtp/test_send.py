"""The complete path, with nothing faked: accepted by PostgreSQL, claimed, composed, sent over a socket, stored by the
inbox."""

import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from fairpost.dev.inbox.mails import Mail, list_mails, open_mail
from fairpost.dev.inbox.server import InboxServer, ServerOptions
from fairpost.engine.runner import Runner
from fairpost.model.account import Limits
from fairpost.model.email import Content
from fairpost.model.ids import AccountId
from fairpost.model.report import Reached
from fairpost.model.return_path import return_path, token_in
from fairpost.observe.emails import ShownEmail, show_email
from fairpost.portals.loading import built_in_portals
from fairpost.portals.workspace import WorkspacePortals
from fairpost.quality.reading import Reading, read
from fairpost.smtp.server import Security, Server, Timeouts
from fairpost.store.store import Store
from fairpost.transports.composing import PreparedContents
from fairpost.transports.smtp.send import SmtpTransport

PORTALS = built_in_portals()
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20


@pytest.fixture
async def account(store: Store) -> AccountId:
    return await store.add_account("anna", address="anna@bücher.test", display_name="Änna & Co.", limits=Limits())


@pytest.fixture
async def inbox(store: Store) -> AsyncIterator[InboxServer]:
    server = InboxServer(store, ServerOptions(port=0))
    await server.start()
    yield server
    await server.stop()


async def send(
    store: Store, account: AccountId, inbox: InboxServer, *, bounce_domain: str | None = None, **email: Any
) -> tuple[ShownEmail, list[Mail]]:
    """Returns the e-mail's state, and the inbox's messages, newest first."""
    [row] = await store.enqueue_many([{"subject": "s", "text": "t", **email}])
    assert row["error"] is None
    timeouts = Timeouts(dot_s=0.2) if "dot-stall" in email.get("to", "") else Timeouts()
    await deliver(store, account, inbox, timeouts=timeouts, bounce_domain=bounce_domain)
    return await show_email(store, row["id"]), await list_mails(store)


async def deliver(
    store: Store,
    account: AccountId,
    inbox: InboxServer,
    *,
    timeouts: Timeouts | None = None,
    bounce_domain: str | None = None,
) -> None:
    timeouts = timeouts or Timeouts()
    server = Server(host="127.0.0.1", port=inbox.port, security=Security.NONE, timeouts=timeouts)
    transport = SmtpTransport(server, bounce_domain=bounce_domain)
    runner = await Runner.start(store, transport, account, owner="test")
    assert runner is not None
    await runner.run_until_idle()
    await runner.stop()
    await transport.close()


async def reading_of(store: Store, mail: Mail) -> Reading:
    _, raw = await open_mail(store, mail.id)
    return read(raw)


async def test_a_report_to_the_return_path_leads_back_to_the_e_mail(
    store: Store, account: AccountId, inbox: InboxServer
) -> None:
    sent, [mail] = await send(store, account, inbox, to="ann@there.test", bounce_domain="bounces.test")
    public_ids = await store.public_ids()
    assert mail.sender == return_path(public_ids.return_token(sent.id), domain="bounces.test")
    assert "anna@" in (await reading_of(store, mail)).header("from")
    token = token_in(mail.sender)
    assert token is not None
    assert public_ids.of_return_token(token) == sent.id
    damaged = [token[:-1], f"{token}0", token.replace("-", "-0"), token.partition("-")[0], f"em_{token}", ""]
    assert [public_ids.of_return_token(each) for each in damaged] == [None] * len(damaged)


async def test_an_e_mail_arrives_as_it_was_written(store: Store, account: AccountId, inbox: InboxServer) -> None:
    attachments = [
        {"filename": "Übersicht.png", "content_type": "image/png", "data": base64.b64encode(PNG).decode()},
        {
            "filename": "logo.png",
            "content_type": "image/png",
            "inline_id": "logo",
            "data": base64.b64encode(PNG).decode(),
        },
    ]
    sent, [mail] = await send(
        store,
        account,
        inbox,
        to="Zoë <zoe@exämple.test>",
        bcc="hidden@example.test",
        subject="Grüße 🎈 " + "lang " * 40,
        text=".\n.. Zeile mit Umläuten\n",
        html='<p>Hallo <img src="cid:logo"></p>',
        headers={
            "List-Unsubscribe": "<https://example.test/u/1>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        },
        attachments=attachments,
    )
    assert sent.state == "sent"
    assert mail.recipients == ("zoe@xn--exmple-cua.test", "hidden@example.test")
    assert mail.sender == "anna@xn--bcher-kva.test"
    reading = await reading_of(store, mail)
    assert reading.header("Subject").rstrip() == ("Grüße 🎈 " + "lang " * 40).rstrip()
    assert reading.header("From") == "Änna & Co. <anna@xn--bcher-kva.test>"
    assert reading.text is not None
    assert reading.text.splitlines() == [".", ".. Zeile mit Umläuten"]
    assert reading.html is not None
    assert 'src="cid:logo"' in reading.html
    assert {(a.filename, a.inline_id, a.data) for a in reading.attachments} == {
        ("Übersicht.png", None, PNG),
        ("logo.png", "logo", PNG),
    }
    assert reading.header("List-Unsubscribe-Post") == "List-Unsubscribe=One-Click"
    assert not reading.header("Bcc")
    _, raw = await open_mail(store, mail.id)
    assert b"hidden@" not in raw


async def test_hidden_recipients_alone_get_a_to_and_a_text_file_is_readable(
    store: Store, account: AccountId, inbox: InboxServer
) -> None:
    data = b"name;town\nZoe;Paris\n"
    file = {"filename": "list.csv", "content_type": "text/csv", "data": base64.b64encode(data).decode()}
    html = '<html><head><meta charset="iso-8859-1"></head><body>Gr\u00fc\u00dfe</body></html>'
    _, [mail] = await send(store, account, inbox, bcc="hidden@example.test", html=html, attachments=[file])
    _, raw = await open_mail(store, mail.id)
    reading = read(raw)
    assert reading.header("To") == "undisclosed-recipients:;"
    assert b"Zoe;Paris" in raw
    assert [each.data for each in reading.attachments] == [data]
    assert reading.html is not None
    assert 'charset="utf-8"' in reading.html


@pytest.mark.parametrize("portal", ["hub", "org", "agency", "admin"])
async def test_a_product_email_has_the_name_of_its_portal_and_says_that_a_program_wrote_it(
    store: Store, account: AccountId, inbox: InboxServer, portal: str
) -> None:
    templates = [each for each in PORTALS.list() if each.portal.key == portal]
    for template in templates:
        await WorkspacePortals(store, PORTALS).send("shop", portal, template.type, template.sample, to="a@there.test")
    await deliver(store, account, inbox)
    mails = [await reading_of(store, mail) for mail in await list_mails(store)]
    assert len(mails) == len(templates)
    for mail in mails:
        assert mail.header("From") == f"{templates[0].portal.sender_name} <anna@xn--bcher-kva.test>"
        assert mail.header("Auto-Submitted") == "auto-generated"
        assert not mail.header("Subject").endswith("?")
        assert mail.html is not None
        assert "display: none" not in mail.html  # filters distrust hidden text


@pytest.mark.parametrize(
    ("tag", "state", "kept"),
    [
        ("rcpt-reject", "bounced", 0),
        ("rcpt-tempfail", "scheduled", 0),
        ("data-reject", "failed", 0),
        ("dot-tempfail", "scheduled", 0),
        ("data-cut", "scheduled", 0),
        ("dot-cut", "in_doubt", 0),
        ("dot-cut-after", "in_doubt", 1),
        ("dot-stall", "in_doubt", 0),
    ],
)
async def test_a_fault_asked_for_in_the_address_comes_back_as_the_right_state(
    store: Store, account: AccountId, inbox: InboxServer, tag: str, state: str, kept: int
) -> None:
    shown, mails = await send(store, account, inbox, to=f"ann+{tag}@example.test", on_doubt="hold")
    assert shown.state == state
    assert len(mails) == kept


async def test_the_message_id_is_kept_with_the_e_mail(store: Store, account: AccountId, inbox: InboxServer) -> None:
    _, [mail] = await send(store, account, inbox, to="ann@example.test")
    assert await store.value("SELECT message_id FROM fairpost.emails") == mail.message_id


async def test_one_of_two_in_another_script_bounces_by_the_name_we_know(
    store: Store, account: AccountId, inbox: InboxServer
) -> None:
    shown, [mail] = await send(store, account, inbox, to=["ann@example.test", "bob+rcpt-reject@exämple.test"])
    assert shown.state == "sent"
    assert mail.recipients == ("ann@example.test",)
    assert await store.value("SELECT array_agg(address) FROM fairpost.suppressions") == [
        "bob+rcpt-reject@xn--exmple-cua.test"
    ]


async def test_an_address_that_cannot_be_written_fails_with_the_reason(
    store: Store, account: AccountId, inbox: InboxServer
) -> None:
    shown, mails = await send(store, account, inbox, to="ann@\u0301x.test")  # a label that begins with an accent
    assert shown.state == "failed"
    assert mails == []


async def test_a_message_composed_ahead_is_sent_only_for_the_same_e_mail(
    store: Store, account: AccountId, inbox: InboxServer
) -> None:
    rows = await store.enqueue_many(
        [{"to": ["ann@example.test", "bob@example.test"], "subject": subject, "text": "t"} for subject in "AB"]
    )
    first, second = await store.load([row["id"] for row in rows])
    transport = SmtpTransport(Server(host="127.0.0.1", port=inbox.port, security=Security.NONE))
    by = await store.account(account)
    for ahead, sent in ((first, first), (first, second), (second, replace(second, envelope=("bob@example.test",)))):
        transport.compose_ahead(by, ahead)
        assert (await transport.send(by, sent, permission=lambda: True)).reached is Reached.REPLIED
    await transport.close()
    arrived = [(mail.subject, mail.recipients) for mail in reversed(await list_mails(store))]
    assert arrived == [("A", first.envelope), ("B", second.envelope), ("B", ("bob@example.test",))]


def test_prepared_contents_stay_within_their_bytes() -> None:
    def content(number: int, size: int) -> Content:
        return Content(id=number, subject="s", text="x" * size, html=None, reply_to=None, headers={})

    contents = PreparedContents(bytes_max=10_000)
    first = contents.of(content(1, 100))
    assert contents.of(content(1, 100)) is first
    second = contents.of(content(2, 6_000))
    assert contents.of(content(1, 100)) is first
    third = contents.of(content(3, 6_000))
    assert contents.of(content(1, 100)) is first  # the most recently used stays; the second, unused since, was dropped
    assert contents.of(content(3, 6_000)) is third
    assert contents.of(content(2, 6_000)) is not second
    fourth = contents.of(content(4, 50_000))
    assert contents.of(content(4, 50_000)) is fourth, "one that is too large is cached alone"
    assert contents.of(content(1, 100)) is not first
    assert contents.of(content(3, 6_000)) is not third
