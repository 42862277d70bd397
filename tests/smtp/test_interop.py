"""Real mail servers on real sockets. If one is not available, its tests are skipped."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import replace

import pytest

from fairpost.model.message import Message
from fairpost.model.report import Reached, Report, Step
from fairpost.smtp.auth import Password
from fairpost.smtp.courier import Courier
from fairpost.smtp.server import Security, Server
from tests.peers import servers
from tests.peers.certificates import Certificates
from tests.peers.servers import Login, Name, smtp_sink, why_not

Start = Callable[..., AbstractContextManager[servers.Server]]

REAL: tuple[Name, ...] = ("postfix", "exim", "opensmtpd")
MESSAGE = Message(
    sender="ada@sender.test",
    recipients=("bob@example.test",),
    message_id="<1@sender.test>",
    data=b"Subject: hello\r\nMessage-ID: <1@sender.test>\r\n\r\nA line\r\n.and one with a dot\r\n..\r\n",
)
TO_TWO = replace(MESSAGE, recipients=("bob@example.test", "cleo@example.test"))
LOGIN = Password(user="robin", secret="correct horse")


def peer(name: Name, *, tls: bool = False) -> Start:
    if reason := why_not(name, tls=tls):
        pytest.skip(reason)
    start: Start = getattr(servers, name)
    return start


@asynccontextmanager
async def courier_to(server: Server, login: Password | None = None) -> AsyncIterator[Courier]:
    courier = Courier(server, login)
    try:
        yield courier
    finally:
        await courier.close()


async def send(courier: Courier, message: Message = MESSAGE) -> Report:
    return await courier.send(message, permission=lambda: True)


def is_sent(report: Report) -> bool:
    return report.reached is Reached.REPLIED and report.reply is not None and report.reply.code == 250


def plain(server: servers.Server) -> Server:
    return Server(host=server.host, port=server.port, security=Security.NONE)


@pytest.mark.parametrize("name", REAL)
async def test_messages_arrive_over_one_connection_as_they_were(name: Name) -> None:
    with peer(name)() as server:
        async with courier_to(plain(server)) as courier:
            assert is_sent(await send(courier))
            assert is_sent(await send(courier, TO_TWO))
        mails = await asyncio.to_thread(server.wait_for, 3)
    for mail in mails:
        assert mail.sender == "ada@sender.test"
        assert mail.message.get_payload().replace("\r\n", "\n") == "A line\n.and one with a dot\n..\n"  # type: ignore[union-attr]
    assert sorted(r for mail in mails for r in mail.recipients) == ["bob@example.test"] * 2 + ["cleo@example.test"]


@pytest.mark.parametrize("name", REAL)
async def test_a_large_message_arrives_whole(name: Name) -> None:
    body = b".0123456789 and so on, line by line, as long as it takes\r\n" * 50_000
    with peer(name)() as server:
        async with courier_to(plain(server)) as courier:
            assert is_sent(await send(courier, replace(MESSAGE, data=b"Subject: large\r\n\r\n" + body)))
        [mail] = await asyncio.to_thread(server.wait_for, 1)
    assert mail.content.replace(b"\r\n", b"\n").endswith(b"\n\n" + body.replace(b"\r\n", b"\n"))


@pytest.mark.parametrize("security", [Security.STARTTLS, Security.IMPLICIT, Security.OFFERED])
@pytest.mark.parametrize("name", REAL)
async def test_logs_in_under_tls(name: Name, security: Security, certificates: Certificates) -> None:
    start = peer(name, tls=True)
    with start(tls=certificates.good, login=Login(LOGIN.user, LOGIN.secret)) as server:
        port = server.tls_port if security is Security.IMPLICIT else server.port
        assert port is not None
        there = Server(host="localhost", port=port, security=security, ca_file=str(certificates.ca))
        async with courier_to(there, LOGIN) as courier:
            assert is_sent(await send(courier))
            assert is_sent(await send(courier))
        assert len(await asyncio.to_thread(server.wait_for, 2)) == 2
        async with courier_to(there, replace(LOGIN, secret="wrong")) as courier:
            refused = await send(courier)
    assert (refused.reached, refused.step) == (Reached.UNTOUCHED, Step.AUTH)
    assert refused.reply is not None
    assert refused.reply.code == 535


@pytest.mark.parametrize("security", [Security.STARTTLS, Security.IMPLICIT])
@pytest.mark.parametrize("kind", ["expired", "wrong_host", "self_signed"])
@pytest.mark.parametrize("name", REAL)
async def test_a_bad_certificate_is_refused(
    name: Name, kind: str, security: Security, certificates: Certificates
) -> None:
    start = peer(name, tls=True)
    with start(tls=getattr(certificates, kind)) as server:
        port = server.tls_port if security is Security.IMPLICIT else server.port
        assert port is not None
        there = Server(host="localhost", port=port, security=security, ca_file=str(certificates.ca))
        async with courier_to(there) as courier:
            report = await send(courier)
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.TLS)
    assert "certificate was rejected" in (report.error or "")


async def test_postfix_refuses_one_of_two() -> None:
    settings = {"smtpd_recipient_restrictions": "check_recipient_access inline:{cleo@example.test=REJECT}, permit"}
    with peer("postfix")(settings=settings) as server:
        async with courier_to(plain(server)) as courier:
            report = await send(courier, TO_TWO)
            alone = await send(courier, replace(TO_TWO, recipients=("cleo@example.test",)))
            assert is_sent(await send(courier))
        mails = await asyncio.to_thread(server.wait_for, 2)
    assert is_sent(report)
    assert {address: reply.code for address, reply in report.recipients.items()} == {
        "bob@example.test": 250,
        "cleo@example.test": 554,
    }
    assert alone.reply is not None
    assert (alone.reached, alone.step, alone.reply.code) == (Reached.REPLIED, Step.RCPT, 554)
    assert len(mails) == 2


async def test_postfix_says_how_large_a_message_may_be() -> None:
    with peer("postfix")(settings={"message_size_limit": "3000"}) as server:  # with the parameters of the envelope
        async with courier_to(plain(server)) as courier:
            report = await send(courier, replace(MESSAGE, data=MESSAGE.data + (b"x" * 998 + b"\r\n") * 3))
            assert is_sent(await send(courier))
    assert report.reached is Reached.UNSENDABLE
    assert report.reply is not None
    assert report.reply.code == 552


async def test_postfix_relays_what_we_send_to_the_next_server() -> None:
    peer("smtp_sink")
    start = peer("postfix")
    with smtp_sink(dump=True) as sink, start(relay_to=(sink.host, sink.port)) as relay:
        async with courier_to(plain(relay)) as courier:
            assert is_sent(await send(courier, TO_TWO))
        mails = await asyncio.to_thread(sink.wait_for, 1)
    assert sorted(address for mail in mails for address in mail.recipients) == list(TO_TWO.recipients)
    assert b"\n.and one with a dot\n..\n" in mails[0].content.replace(b"\r\n", b"\n")


# ── smtp-sink fails on request ───────────────────────────────────────────────────────────────────────────────────────

SINK = [
    (["-q", "CONNECT"], Reached.UNTOUCHED, Step.GREETING, None),
    (["-q", "EHLO"], Reached.UNTOUCHED, Step.HELLO, None),
    (["-q", "MAIL"], Reached.BEFORE_DOT, Step.MAIL, None),
    (["-q", "RCPT"], Reached.BEFORE_DOT, Step.RCPT, None),
    (["-q", "DATA"], Reached.BEFORE_DOT, Step.DATA, None),
    (["-q", "."], Reached.AFTER_DOT, Step.DOT, None),
    (["-f", "MAIL"], Reached.REPLIED, Step.MAIL, 500),
    (["-r", "MAIL"], Reached.REPLIED, Step.MAIL, 450),
    (["-f", "RCPT"], Reached.REPLIED, Step.RCPT, 500),
    (["-r", "RCPT"], Reached.REPLIED, Step.RCPT, 450),
    (["-f", "DATA"], Reached.REPLIED, Step.DATA, 500),
    (["-r", "DATA"], Reached.REPLIED, Step.DATA, 450),
    (["-f", "."], Reached.REPLIED, Step.DOT, 500),
    (["-r", "."], Reached.REPLIED, Step.DOT, 450),
]


@pytest.mark.parametrize("pipelining", [[], ["-p"]], ids=["pipelined", "one by one"])
@pytest.mark.parametrize(("flags", "reached", "step", "code"), SINK, ids=lambda value: str(value))
async def test_smtp_sink_fails_on_command(
    flags: list[str], reached: Reached, step: Step, code: int | None, pipelining: list[str]
) -> None:
    peer("smtp_sink")
    with smtp_sink(flags=[*flags, *pipelining]) as server:
        async with courier_to(plain(server)) as courier:
            report = await send(courier, TO_TWO)
    assert (report.reached, report.step, report.reply and report.reply.code) == (reached, step, code)


async def test_smtp_sink_gets_a_thousand_over_eight_connections() -> None:
    peer("smtp_sink")
    with smtp_sink(dump=True) as server:

        async def carry(first: int) -> None:
            async with courier_to(plain(server)) as courier:
                for n in range(first, first + 125):
                    data = b"Subject: %d\r\n\r\n.dot\r\n" % n
                    assert is_sent(await send(courier, replace(MESSAGE, data=data)))

        await asyncio.gather(*(carry(125 * i) for i in range(8)))
        mails = await asyncio.to_thread(server.wait_for, 1000)
    assert sorted(int(mail.message["Subject"]) for mail in mails) == list(range(1000))
