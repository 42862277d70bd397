"""The client on real sockets: logins, TLS, reading without leaving traces, and servers that misbehave."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fairpost.imap.client import Connection, LoginRefused, Refused
from fairpost.imap.pipe import Broken
from fairpost.imap.responses import Garbage
from fairpost.model.report import Step
from fairpost.smtp.auth import Login, Password, Token
from fairpost.smtp.connecting import Unready
from fairpost.smtp.server import Security, Server, Timeouts
from tests.imap.scripted_server import Mailboxes, imap_server
from tests.peers.certificates import Certificates
from tests.smtp.test_tls import context_of

LOGIN = Password(user="ann", secret="secret")
MAIL = b"Message-ID: <1@x>\r\nSubject: Re: hello\r\n\r\nyes\r\n"


@asynccontextmanager
async def connected(given: Mailboxes, login: Login | None = LOGIN) -> AsyncIterator[Connection]:
    async with imap_server(given) as port:
        connection = await Connection.open(Server(host="127.0.0.1", port=port, security=Security.NONE), login)
        try:
            yield connection
        finally:
            connection.abort()


async def read_first(connection: Connection) -> None:
    await connection.examine("INBOX")
    await connection.uids(1)
    await connection.fetch(1, bytes_max=100)


async def test_a_mailbox_is_read_without_a_trace() -> None:
    given = Mailboxes(
        noise=b"* 3 EXPUNGE\r\n* 9 FETCH (FLAGS (\\Seen))\r\n* OK still here\r\n* XNEWS (a (b)) {2}\r\nhi\r\n"
    )
    first, second = given.inbox.add(MAIL), given.inbox.add(b"x" * 100_000)
    async with connected(given) as connection:
        folder = await connection.examine("INBOX")
        assert (folder.uid_validity, folder.uid_next) == (7, 3)
        assert await connection.uids(1, 10) == [first, second]
        assert await connection.uids(3) == []  # the server returns the newest anyway
        assert await connection.fetch(first, bytes_max=1_000_000) == MAIL
        assert await connection.fetch(second, bytes_max=1_000) == b"x" * 1_000
        assert await connection.fetch(99, bytes_max=1_000) is None
        await connection.logout()
    names = {each.split()[0] for each in given.commands}
    assert names == {"AUTHENTICATE", "CAPABILITY", "EXAMINE", "UID", "LOGOUT"}


async def test_the_sent_folder_is_found_by_its_use_and_not_by_its_name() -> None:
    given = Mailboxes()
    given.box("ann")["Gesendete Objekte"].add(MAIL)
    async with connected(given) as connection:
        assert await connection.sent_folder() == "Gesendete Objekte"
        await connection.examine("Gesendete Objekte")
        assert await connection.has_message("<1@x>")
        assert not await connection.has_message("<2@x>")


async def test_a_folder_with_a_name_that_is_not_ascii() -> None:
    given = Mailboxes()
    given.box("ann")["Entwürfe"].add(MAIL)
    async with connected(given) as connection:
        assert (await connection.examine("Entwürfe")).messages == 1
        with pytest.raises(Refused):
            await connection.examine("Fehlt")


async def test_news_end_the_wait() -> None:
    given = Mailboxes()
    async with connected(given) as connection:
        await connection.examine("INBOX")
        waiting = asyncio.create_task(connection.wait(60))
        await given.until(lambda: given.idling)
        given.inbox.add(MAIL)
        assert await waiting
        assert await connection.uids(1) == [1]


async def test_a_wait_without_news_ends_and_the_connection_continues() -> None:
    given = Mailboxes()
    async with connected(given) as connection:
        await connection.examine("INBOX")
        assert not await connection.wait(0.01)
        given.inbox.add(MAIL)
        assert await connection.check()


@pytest.mark.parametrize(
    "capabilities", ["AUTH=PLAIN SASL-IR", "AUTH=PLAIN", "", "AUTH=XOAUTH2", "AUTH=XOAUTH2 SASL-IR"]
)
@pytest.mark.parametrize("secret", ["secret", 'p"a\\ß ss'])
async def test_every_way_to_log_in(capabilities: str, secret: str) -> None:
    given = Mailboxes(capabilities=("IMAP4rev1", *capabilities.split()), passwords={"ann": secret})
    login = (Token if "XOAUTH2" in capabilities else Password)(user="ann", secret=secret)
    async with connected(given, login) as connection:
        await connection.examine("INBOX")


async def test_a_wrong_password_differs_from_a_server_that_is_busy() -> None:
    given = Mailboxes(passwords={"ann": "other"})
    with pytest.raises(LoginRefused):
        async with connected(given):
            pass
    given.refusal = "NO [UNAVAILABLE] try later"
    with pytest.raises(Unready) as later:
        async with connected(given):
            pass
    assert not isinstance(later.value, LoginRefused)


async def test_the_reason_for_a_refused_token_is_shown_without_the_token() -> None:
    given = Mailboxes(
        capabilities=("IMAP4rev1", "AUTH=XOAUTH2"),
        passwords={"ann": "other"},
        challenge=b'{"status":"invalid_token tokentokentoken"}',
    )
    with pytest.raises(LoginRefused) as refused:
        async with connected(given, Token(user="ann", secret="tokentokentoken")):
            pass
    assert "invalid_token" in str(refused.value)
    assert "tokentokentoken" not in str(refused.value)


async def test_a_password_does_not_go_out_unencrypted() -> None:
    given = Mailboxes()
    async with imap_server(given) as port:
        with pytest.raises(Unready) as unready:
            await Connection.open(Server(host="127.0.0.1", port=port, security=Security.STARTTLS), LOGIN)
        assert unready.value.step is Step.STARTTLS
    assert given.commands == []


@pytest.mark.parametrize("security", [Security.IMPLICIT, Security.STARTTLS])
async def test_tls_in_both_ways(security: Security, certificates: Certificates) -> None:
    given = Mailboxes(capabilities=("IMAP4rev1", "STARTTLS", "AUTH=PLAIN", "IDLE"), tls=context_of(certificates.good))
    given.inbox.add(b"y" * 300_000)
    async with imap_server(given, implicit=security is Security.IMPLICIT) as port:
        server = Server(host="localhost", port=port, security=security, ca_file=str(certificates.ca))
        connection = await Connection.open(server, LOGIN)
        assert (connection.tls or "").startswith("TLS")
        await connection.examine("INBOX")
        assert await connection.fetch(1, bytes_max=1_000_000) == b"y" * 300_000
        waiting = asyncio.create_task(connection.wait(60))
        await given.until(lambda: given.idling)
        given.inbox.add(MAIL)
        assert await waiting
        await connection.logout()


@pytest.mark.parametrize("security", [Security.IMPLICIT, Security.STARTTLS])
async def test_a_wrong_certificate_ends_it_before_the_password(security: Security, certificates: Certificates) -> None:
    given = Mailboxes(capabilities=("IMAP4rev1", "STARTTLS", "AUTH=PLAIN"), tls=context_of(certificates.wrong_host))
    async with imap_server(given, implicit=security is Security.IMPLICIT) as port:
        server = Server(host="localhost", port=port, security=security, ca_file=str(certificates.ca))
        with pytest.raises(Unready) as unready:
            await Connection.open(server, LOGIN)
        assert unready.value.step is Step.TLS
    assert not any("AUTH" in each for each in given.commands)


GREETINGS = {
    "bye": b"* BYE too many connections\r\n",
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "smtp": b"220 mail.example.com ESMTP\r\n",
    "endless line": b"* OK " + b"x" * 1_100_000,
}


@pytest.mark.parametrize("greeting", GREETINGS.values(), ids=GREETINGS)
async def test_a_server_that_does_not_greet(greeting: bytes) -> None:
    with pytest.raises(Unready) as unready:
        async with connected(Mailboxes(greeting=greeting)):
            pass
    assert unready.value.step is Step.GREETING


async def test_a_silent_server_is_given_up() -> None:
    async with imap_server(Mailboxes(greeting=b"")) as port:
        server = Server(host="127.0.0.1", port=port, security=Security.NONE, timeouts=Timeouts(greeting_s=0.05))
        with pytest.raises(Unready) as unready:
            await Connection.open(server, LOGIN)
        assert unready.value.step is Step.GREETING


MISDEEDS: dict[str, tuple[bytes | None, type[Exception]]] = {
    "cut": (None, Broken),
    "bye": (b"* BYE shutting down\r\n", Broken),
    "no": (b"%t NO not now\r\n", Refused),
    "bad": (b"%t BAD what?\r\n", Refused),
    "another tag": (b"x9 OK done\r\n", Garbage),
    "a huge literal": (b"* 1 FETCH (UID 1 BODY[]<0> {4000000000}\r\n", Garbage),
    "an unasked continuation": (b"+ more\r\n", Garbage),
    "an unfinished list": (b"* 1 FETCH (UID 1\r\n%t OK done\r\n", Garbage),
    "a flood": (b"* SEARCH " + b"1 " * 600_000, Garbage),
}


@pytest.mark.parametrize(("misdeed", "ends"), MISDEEDS.values(), ids=MISDEEDS)
@pytest.mark.parametrize("command", ["EXAMINE", "UID SEARCH", "UID FETCH"])
async def test_a_server_that_misbehaves(command: str, misdeed: bytes | None, ends: type[Exception]) -> None:
    given = Mailboxes(misdeeds={command: misdeed})
    given.inbox.add(MAIL)
    async with connected(given) as connection:
        with pytest.raises(ends):
            await read_first(connection)


@pytest.mark.parametrize("misdeed", [None, b"* BYE\r\n", b"+ idling\r\n* BYE\r\n", b"%t NO never\r\n"])
async def test_a_wait_that_the_server_ends(misdeed: bytes | None) -> None:
    given = Mailboxes(misdeeds={"IDLE": misdeed})
    async with connected(given) as connection:
        await connection.examine("INBOX")
        with pytest.raises((Broken, Refused)):
            await connection.wait(60)


async def test_a_body_of_another_message_is_not_taken() -> None:
    given = Mailboxes(misdeeds={"UID FETCH": b"* 1 FETCH (UID 2 BODY[]<0> {2}\r\nhi)\r\n%t OK done\r\n"})
    given.inbox.add(MAIL)
    async with connected(given) as connection:
        await connection.examine("INBOX")
        assert await connection.fetch(1, bytes_max=100) is None


async def test_numbers_no_message_can_have_are_left_out() -> None:
    huge = b"9" * 5_000
    given = Mailboxes(misdeeds={"UID SEARCH": b"* SEARCH 0 5 x 4294967296 " + huge + b" (7)\r\n%t OK done\r\n"})
    async with connected(given) as connection:
        await connection.examine("INBOX")
        assert await connection.uids(1) == [5]
