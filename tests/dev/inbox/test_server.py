"""The capture server on a real socket and a real database: it stores exactly what it received, and only then replies
250."""

import asyncio
import re
import smtplib
import socket
from email.message import EmailMessage
from typing import Any

import asyncpg
import pytest

from fairpost.dev.inbox import mails
from fairpost.dev.inbox.server import CONNECTIONS_MAX, RECIPIENTS_MAX, InboxServer, ServerOptions, is_loopback
from fairpost.model.errors import FairpostError
from fairpost.store.store import Store
from tests.dev.inbox.conftest import Certificate, Connect, Running, Serve, Wire


async def with_smtplib(running: Running, work: Any) -> Any:
    """A blocking client, in a separate thread."""

    def run() -> Any:
        with smtplib.SMTP("127.0.0.1", running.server.port, timeout=120) as client:
            return work(client)

    return await asyncio.to_thread(run)


@pytest.mark.parametrize(
    ("on_the_wire", "kept"),
    [
        (b"Subject: a\r\n\r\nhello\r\n", b"Subject: a\r\n\r\nhello\r\n"),
        (b"", b""),
        (b"\r\n", b"\r\n"),
        (b"..\r\n..a\r\n...\r\n", b".\r\n.a\r\n..\r\n"),
        (b".a\r\n", b"a\r\n"),
        (bytes(set(range(256)) - {0x2E}).replace(b"\r", b"") + b"\r\n", None),
        (b"a\nb\rc\n.\nd\r\r\n", None),
        (b"x" * 998 + b"\r\n", None),
        (b"x" * 1_000_000 + b"\r\n", None),
        ("Subject: Grüße ✓\r\n\r\nÄ\r\n".encode(), None),
    ],
    ids=["plain", "empty", "line", "stuffed", "dot", "octets", "bare", "long", "very long", "utf-8"],
)
async def test_the_message_is_kept_byte_for_byte(
    serve: Serve, connect: Connect, on_the_wire: bytes, kept: bytes | None
) -> None:
    running = await serve()
    wire = await (await connect(running)).greet()
    assert (await wire.mail(on_the_wire)).startswith("250 ")
    assert await running.raw() == [on_the_wire if kept is None else kept]


async def test_how_the_mail_came_is_kept_with_it(serve: Serve, connect: Connect) -> None:
    running = await serve()
    wire = await (await connect(running)).greet()
    await wire.mail(b"Subject: Hello\r\n\r\n", sender="app@example.com", to="ann+news@example.com")
    (mail,) = await running.mails()
    assert running.kept == [mail]
    assert (mail.sender, mail.recipients) == ("app@example.com", ("ann+news@example.com",))
    assert (mail.helo, mail.tls, mail.auth_user) == ("client.test", None, None)
    assert mail.peer == "127.0.0.1:{}".format(wire.writer.get_extra_info("sockname")[1])


async def test_the_null_sender_is_an_empty_one(serve: Serve, connect: Connect) -> None:
    running = await serve()
    wire = await (await connect(running)).greet()
    assert (await wire.mail(b"a\r\n", sender="")).startswith("250 ")
    assert (await running.mails())[0].sender == ""


async def test_advertised_extensions_work(serve: Serve, connect: Connect) -> None:
    running = await serve(message_bytes_max=1_000_000)
    wire = await connect(running)
    await wire.reply()
    advertised = set(re.findall(r"^250[- ](.*)$", (await wire.say("EHLO x")).replace("\r", ""), re.MULTILINE))
    assert {"SIZE 1000000", "8BITMIME", "SMTPUTF8", "PIPELINING", "AUTH LOGIN PLAIN"} <= advertised
    assert "STARTTLS" not in advertised
    assert (await wire.say("STARTTLS")).startswith("454 ")


async def test_addresses_beyond_ascii_are_kept(serve: Serve) -> None:
    running = await serve()
    mail = EmailMessage()
    mail["Subject"] = "Grüße"
    mail["From"], mail["To"] = "jürgen@exämple.test", "用户@例子.test"
    mail.set_content("Ä", cte="8bit")
    await with_smtplib(running, lambda client: client.send_message(mail))
    (kept,) = await running.mails()
    assert (kept.sender, kept.recipients) == ("jürgen@exämple.test", ("用户@例子.test",))
    assert kept.from_header == "jürgen@exämple.test"


async def test_bytes_that_are_no_text_do_no_harm_in_an_address(serve: Serve, connect: Connect) -> None:
    running = await serve()
    wire = await (await connect(running)).greet()
    await wire.say("MAIL FROM:<a@b.test> SMTPUTF8")
    wire.send(b"RCPT TO:<a\xff@b.test>\r\n")
    assert (await wire.reply()).startswith("250 ")
    await wire.say("DATA")
    assert (await wire.say("Subject: a\r\n.")).startswith("250 ")
    assert (await running.mails())[0].recipients == ("aÿ@b.test",)


@pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN"])
async def test_any_password_is_right(
    serve: Serve, mechanism: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    running = await serve()

    def work(client: smtplib.SMTP) -> None:
        client.ehlo()
        client.user, client.password = "ann", "whatever"
        client.auth(mechanism, getattr(client, f"auth_{mechanism.lower()}"))
        client.sendmail("a@b.test", "c@d.test", "Subject: a\r\n\r\n")

    await with_smtplib(running, work)
    assert (await running.mails())[0].auth_user == "ann"
    assert capfd.readouterr().err == ""
    assert "deprecated" not in caplog.text


async def test_an_authenticated_client_may_name_the_author(serve: Serve, connect: Connect) -> None:
    wire = await (await connect(await serve())).greet()
    assert (await wire.say("MAIL FROM:<a@b.test> BODY=8BITMIME AUTH=<> SIZE=10")).startswith("250 ")


async def test_pipelined_commands_are_answered_in_order(serve: Serve, connect: Connect) -> None:
    running = await serve()
    wire = await (await connect(running)).greet()
    wire.send(b"MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nRCPT TO:<c+rcpt-reject@d.test>\r\nDATA\r\n")
    assert [(await wire.reply())[:3] for _ in range(4)] == ["250", "250", "550", "354"]
    wire.send(b"Subject: one\r\n.\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<e@f.test>\r\nDATA\r\n")
    assert [(await wire.reply())[:3] for _ in range(4)] == ["250", "250", "250", "354"]
    wire.send(b"Subject: two\r\n.\r\nQUIT\r\n")
    assert [(await wire.reply())[:3] for _ in range(3)] == ["250", "221", ""]
    assert [(mail.subject, mail.recipients) for mail in await running.mails()] == [
        ("two", ("e@f.test",)),
        ("one", ("c@d.test",)),
    ]


async def test_a_mail_that_is_too_big_is_refused_before_and_after(serve: Serve, connect: Connect) -> None:
    running = await serve(message_bytes_max=10_000)
    wire = await (await connect(running)).greet()
    assert (await wire.say("MAIL FROM:<a@b.test> SIZE=10001")).startswith("552 ")
    assert (await wire.mail(b"x" * 998 + b"\r\n" + b"y" * 9_500 + b"\r\n")).startswith("552 ")
    assert (await wire.mail(b"fits\r\n")).startswith("250 ")
    assert await running.raw() == [b"fits\r\n"]


async def test_a_line_without_end_is_refused(serve: Serve, connect: Connect) -> None:
    running = await serve()
    wire = await (await connect(running)).greet()
    assert (await wire.mail(b"x" * 2_000_000 + b"\r\n")).startswith("500 ")
    assert await running.raw() == []


async def test_too_many_recipients_are_refused_for_now(serve: Serve, connect: Connect) -> None:
    wire = await (await connect(await serve())).greet()
    wire.send(b"MAIL FROM:<a@b.test>\r\n" + b"RCPT TO:<c@d.test>\r\n" * (RECIPIENTS_MAX + 1))
    replies = [(await wire.reply())[:3] for _ in range(RECIPIENTS_MAX + 2)]
    assert replies == ["250"] * (RECIPIENTS_MAX + 1) + ["452"]


async def test_too_many_connections_are_refused_for_now(serve: Serve, connect: Connect) -> None:
    running = await serve()
    wires = [await connect(running) for _ in range(CONNECTIONS_MAX + 1)]
    assert [(await wire.reply())[:3] for wire in wires] == ["220"] * CONNECTIONS_MAX + ["421"]
    assert await wires[-1].reply() == ""


@pytest.mark.parametrize(
    "line", [b"RCPT TO:<>", b"RCPT TO:<", b"RCPT TO:<@>", b'RCPT TO:"', b"\xff\xfe", b"HELP", b"VRFY \xff"]
)
async def test_a_command_that_makes_no_sense_is_answered(serve: Serve, connect: Connect, line: bytes) -> None:
    running = await serve()
    wire = await (await connect(running)).greet()
    await wire.say("MAIL FROM:<a@b.test>")
    wire.send(line + b"\r\n")
    assert re.match("[25]\\d\\d[ -]", await wire.reply())
    assert (await wire.say("RSET")).startswith("250 ")
    assert (await wire.mail(b"a\r\n")).startswith("250 ")


async def test_250_comes_after_the_commit_and_not_before(serve: Serve, connect: Connect, conn: Any, url: str) -> None:
    running = await serve()
    wire = await (await connect(running)).greet()
    async with conn.transaction():
        await conn.execute("LOCK TABLE fairpost.inbox IN ACCESS EXCLUSIVE MODE")
        answer = asyncio.create_task(wire.mail(b"Subject: a\r\n\r\n"))
        await waiting_for_the_lock(url)
        assert not answer.done()
        assert running.kept == []
    assert (await answer).startswith("250 2.0.0 ")
    assert (await answer).endswith(" 1")  # its number in the inbox
    assert await conn.fetchval("SELECT count(*) FROM fairpost.inbox") == 1


async def test_a_connection_to_the_database_that_dies_is_451(
    serve: Serve, connect: Connect, conn: Any, url: str
) -> None:
    running = await serve()
    wire = await (await connect(running)).greet()
    async with conn.transaction():
        await conn.execute("LOCK TABLE fairpost.inbox IN ACCESS EXCLUSIVE MODE")
        answer = asyncio.create_task(wire.mail(b"Subject: a\r\n\r\n"))
        await conn.execute("SELECT pg_terminate_backend($1)", await waiting_for_the_lock(url))
        assert (await answer).startswith("451 4.3.0 ")
    assert await running.mails() == []
    assert len(running.troubles) == 1
    assert (await wire.mail(b"Subject: b\r\n\r\n")).startswith("250 ")
    assert [mail.subject for mail in await running.mails()] == ["b"]


async def test_an_insert_that_fails_is_451(serve: Serve, connect: Connect, conn: Any) -> None:
    running = await serve()
    wire = await (await connect(running)).greet()
    await conn.execute("ALTER TABLE fairpost.inbox RENAME TO elsewhere")
    assert (await wire.mail(b"Subject: a\r\n\r\n")).startswith("451 ")
    await conn.execute("ALTER TABLE fairpost.elsewhere RENAME TO inbox")
    assert (await wire.mail(b"Subject: b\r\n\r\n")).startswith("250 ")
    assert [mail.subject for mail in await running.mails()] == ["b"]
    assert "does not exist" in running.troubles[0]


async def waiting_for_the_lock(url: str) -> int:
    """Returns the database process that waits to insert."""
    observer = await asyncpg.connect(url)
    sql = (
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INSERT INTO fairpost.inbox%'"
    )
    while not (pid := await observer.fetchval(sql)):  # noqa: ASYNC110 - the database has no event for it
        await asyncio.sleep(0.01)
    await observer.close()
    return int(pid)


async def test_the_oldest_go_when_there_are_too_many(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mails, "PRUNE_EVERY_MAILS", 4)
    running = await serve(keep_mails=2)
    wire = await (await connect(running)).greet()
    for number in range(5):
        assert (await wire.mail(b"Subject: %d\r\n\r\n" % number)).startswith("250 ")
    assert [mail.subject for mail in await running.mails()] == ["4", "3", "2"]


async def test_pruning_that_fails_does_not_unsay_that_the_mail_is_kept(
    serve: Serve, connect: Connect, conn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mails, "PRUNE_EVERY_MAILS", 1)
    await conn.execute("CREATE TABLE holder (mail bigint REFERENCES fairpost.inbox)")
    running = await serve(keep_mails=1)
    wire = await (await connect(running)).greet()
    assert (await wire.mail(b"Subject: a\r\n\r\n")).startswith("250 ")
    await conn.execute("INSERT INTO holder SELECT id FROM fairpost.inbox")
    assert (await wire.mail(b"Subject: b\r\n\r\n")).startswith("250 ")
    assert len(await running.mails()) == 2
    assert "holder" in running.troubles[0]  # PostgreSQL's own words


async def test_many_at_once_are_all_kept(serve: Serve, connect: Connect) -> None:
    running = await serve()

    async def one(number: int) -> str:
        wire: Wire = await (await connect(running)).greet()
        return await wire.mail(b"Subject: %d\r\n\r\n" % number)

    replies = await asyncio.gather(*(one(number) for number in range(50)))
    assert all(reply.startswith("250 ") for reply in replies)
    assert {mail.subject for mail in await running.mails()} == {str(number) for number in range(50)}


async def test_starttls_resets_the_connection(serve: Serve, connect: Connect, certificate: Certificate) -> None:
    running = await serve(tls=certificate.server())

    def work(client: smtplib.SMTP) -> None:
        client.starttls(context=certificate.client())
        client.login("ann", "secret")
        client.sendmail("a@b.test", "c@d.test", "Subject: one\r\n\r\n")
        client.sendmail("a@b.test", "c@d.test", "Subject: two\r\n\r\n")

    await with_smtplib(running, work)
    (two, one) = await running.mails()
    assert (one.subject, two.subject, one.tls, one.auth_user) == ("one", "two", "TLSv1.3", "ann")


async def test_implicit_tls_speaks_tls_at_once(serve: Serve, connect: Connect, certificate: Certificate) -> None:
    running = await serve(tls=certificate.server(), implicit_tls=True)
    wire = await (await connect(running, tls=certificate.client())).greet()
    assert "STARTTLS" not in await wire.say("EHLO again")
    assert (await wire.mail(b"Subject: a\r\n\r\n")).startswith("250 ")
    assert (await running.mails())[0].tls == "TLSv1.3"


async def test_stopping_ends_open_connections_and_frees_the_port(
    serve: Serve, connect: Connect, certificate: Certificate
) -> None:
    running = await serve(tls=certificate.server())
    wire = await (await connect(running)).greet()
    half_way = await (await connect(running)).greet()
    await half_way.say("MAIL FROM:<a@b.test>")
    await half_way.say("RCPT TO:<a@b.test>")
    await half_way.say("DATA")
    port = running.server.port
    await running.server.stop()
    assert await wire.reply() == await half_way.reply() == ""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))


async def test_a_client_that_goes_away_does_no_harm(serve: Serve, connect: Connect) -> None:
    running = await serve()
    for rude in (b"", b"MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\nhalf a ma"):
        wire = await (await connect(running)).greet()
        wire.send(rude)
        wire.writer.transport.abort()
    polite = await (await connect(running)).greet()
    assert (await polite.mail(b"Subject: a\r\n\r\n")).startswith("250 ")
    assert len(await running.mails()) == 1


async def test_an_address_for_everyone_is_not_listened_on_unasked(store: Store) -> None:
    with pytest.raises(FairpostError, match=r"0\.0\.0\.0"):
        await InboxServer(store, ServerOptions(host="0.0.0.0", port=0)).start()


async def test_a_port_that_is_taken_is_one_clear_line(store: Store, serve: Serve) -> None:
    running = await serve()
    with pytest.raises(FairpostError, match=rf"127\.0\.0\.1.*{running.server.port}.*--port 1026"):
        await InboxServer(store, ServerOptions(port=running.server.port)).start()


def test_loopback_addresses() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.com", "")))
