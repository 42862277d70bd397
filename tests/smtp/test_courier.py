"""How messages are sent: the commands and their order, reused and dropped connections, permission, logins."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from fairpost.model.message import Message
from fairpost.model.report import Reached, Report, Step
from fairpost.smtp.auth import Password, Token
from fairpost.smtp.courier import Courier, Reuse
from fairpost.smtp.server import Security, Server, Timeouts
from tests.smtp.scripted_server import CUT, STALL, Says, Script, deaf, scripted

MESSAGE = Message(
    sender="me@example.com",
    recipients=("ann@example.com", "bob@example.com"),
    message_id="<1@example.com>",
    data=b"Subject: hello\r\n\r\nhello\r\n",
)


def server_at(port: int, **given: object) -> Server:
    return replace(Server(host="127.0.0.1", port=port, security=Security.NONE), **given)  # type: ignore[arg-type]


async def send_all(
    script: Script,
    *messages: Message,
    reuse: Reuse | None = None,
    permission: Callable[[], bool] = lambda: True,
    login: Password | Token | None = None,
) -> list[Report]:
    async with scripted(script) as port:
        courier = Courier(server_at(port), login, reuse=reuse)
        try:
            return [await courier.send(message, permission=permission) for message in messages]
        finally:
            await courier.close()


def is_sent(report: Report) -> bool:
    return report.reached is Reached.REPLIED and report.reply is not None and report.reply.code == 250


async def test_a_message_arrives_as_it_was_with_its_dots() -> None:
    script = Script()
    data = b".\r\n..\r\n.hidden\r\nSubject: x\r\n\r\n.\r\n\r\n.end\r\n"
    [report] = await send_all(script, replace(MESSAGE, data=data))
    assert is_sent(report)
    assert script.taken == [data]
    assert report.message_id == "<1@example.com>"


async def test_sender_recipients_and_data_travel_in_one_group_where_the_server_allows_it() -> None:
    script = Script(features=("SIZE 1000", "8BITMIME"))
    await send_all(script, MESSAGE)
    assert script.commands == [
        "EHLO [127.0.0.1]",
        "MAIL FROM:<me@example.com> SIZE=25",
        "RCPT TO:<ann@example.com>",
        "RCPT TO:<bob@example.com>",
        "DATA",
        "QUIT",
    ]


@pytest.mark.parametrize("data", [b"a\nb\r\n", b"a\rb\r\n", b"no end", b"x\r\n.\n", b""])
async def test_a_message_that_a_server_could_read_as_two_never_leaves(data: bytes) -> None:
    script = Script()
    with pytest.raises(ValueError, match="CRLF"):
        await send_all(script, replace(MESSAGE, data=data))
    assert script.taken == []


@pytest.mark.parametrize("address", ["a b@example.com", "a>@example.com", "a\r\nRCPT TO:<x@example.com", "\x00@x"])
async def test_an_address_cannot_break_out_of_its_command(address: str) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        await send_all(Script(), replace(MESSAGE, recipients=(address,)))


# ── permission ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [10, 1_000_000])
async def test_without_permission_the_dot_is_not_written(size: int) -> None:
    script = Script()
    [report] = await send_all(script, replace(MESSAGE, data=b"x" * 70 + b"\r\n" * size), permission=lambda: False)
    assert report.reached is Reached.UNTOUCHED
    assert "lease" in (report.error or "")
    assert script.taken == []


async def test_permission_is_asked_once_and_only_when_the_server_waits_for_the_message() -> None:
    script = Script()
    heard: list[list[str]] = []

    def permission() -> bool:
        heard.append(list(script.commands))
        return True

    await send_all(script, MESSAGE, permission=permission)
    assert len(heard) == 1
    assert heard[0][-1] == "DATA"
    await send_all(Script(at="mail", misdeed=Says("550 5.7.1 no")), MESSAGE, permission=permission)
    assert len(heard) == 1


# ── no recipient is accepted ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_354_without_recipients_is_ended_with_a_lone_dot_and_the_connection_stays_usable() -> None:
    script = Script(takes_no_recipient=True)

    def permission() -> bool:
        raise AssertionError("there is nothing to permit")

    reports = await send_all(script, MESSAGE, MESSAGE, permission=permission)
    assert [report.reply and report.reply.code for report in reports] == [550, 550]
    assert all(report.step is Step.RCPT and len(report.recipients) == 2 for report in reports)
    assert script.taken == []
    assert script.connections == 1


async def test_the_connection_may_break_after_everyone_was_refused() -> None:
    script = Script(takes_no_recipient=True, at="dot", misdeed=CUT)
    [report] = await send_all(script, MESSAGE)
    assert report.reached is Reached.REPLIED
    assert report.reply is not None
    assert report.reply.code == 550


async def test_a_refused_sender_with_an_accepted_recipient_gets_no_dot_at_all() -> None:
    """A dot would send an empty message to a recipient that the server accepted against its own reply."""
    script = Script(at="mail", misdeed=Says("451 4.7.1 not now"))
    [report] = await send_all(script, MESSAGE)
    assert (report.reached, report.step, report.recipients) == (Reached.REPLIED, Step.MAIL, {})
    assert report.reply is not None
    assert report.reply.code == 451
    assert script.taken == []


async def test_after_a_refusal_the_next_message_begins_with_a_reset() -> None:
    script = Script(at="data", misdeed=Says("451 4.3.0 later"))
    first, second = await send_all(script, MESSAGE, replace(MESSAGE, message_id="<2@example.com>"))
    assert first.reply is not None
    assert first.reply.code == 451
    assert script.commands[5:7] == ["RSET", "MAIL FROM:<me@example.com>"]
    assert second.step is Step.DATA
    assert script.connections == 1


# ── what the server cannot accept ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("message", "features", "code"),
    [
        (replace(MESSAGE, recipients=("jörg@example.com",), needs_smtputf8=True), ("8BITMIME",), 553),
        (replace(MESSAGE, data="Subject: ü\r\n\r\n".encode()), ("SMTPUTF8",), 554),
        (replace(MESSAGE, data=b"x" * 999 + b"\r\n"), ("SIZE 1000",), 552),
    ],
    ids=["SMTPUTF8", "8BITMIME", "SIZE"],
)
async def test_a_message_the_server_cannot_accept_is_not_begun(
    message: Message, features: tuple[str, ...], code: int
) -> None:
    script = Script(features=features)
    unsendable, sent = await send_all(script, message, MESSAGE)
    assert unsendable.reached is Reached.UNSENDABLE
    assert unsendable.reply is not None
    assert unsendable.reply.code == code
    assert is_sent(sent)
    assert script.connections == 1


async def test_utf8_addresses_are_announced_and_written_raw() -> None:
    script = Script()
    data = "From: jörg@example.com\r\n\r\n".encode()
    message = replace(MESSAGE, sender="jörg@example.com", data=data, needs_smtputf8=True)
    [report] = await send_all(script, message)
    assert is_sent(report)
    assert script.commands[1] == "MAIL FROM:<jörg@example.com> BODY=8BITMIME SMTPUTF8"
    assert script.taken == [data]


# ── reused connections ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_connection_carries_a_limited_number_of_messages() -> None:
    script = Script()
    await send_all(script, *[MESSAGE] * 7, reuse=Reuse(messages_max=3))
    assert script.connections == 3
    assert len(script.taken) == 7


async def test_an_old_connection_is_replaced() -> None:
    script = Script()
    await send_all(script, *[MESSAGE] * 3, reuse=Reuse(age_s_max=0))
    assert script.connections == 3


async def test_a_rested_connection_says_goodbye_by_itself() -> None:
    script = Script()
    async with scripted(script) as port:
        courier = Courier(server_at(port), reuse=Reuse(idle_s_max=0.05))
        await courier.send(MESSAGE, permission=lambda: True)
        await script.until(lambda: "QUIT" in script.commands)
        assert is_sent(await courier.send(MESSAGE, permission=lambda: True))
        await courier.close()
    assert script.connections == 2


@pytest.mark.parametrize("misdeed", [CUT, Says("421 4.4.2 idle for too long")])
@pytest.mark.parametrize("pipelining", [True, False])
async def test_a_connection_that_died_in_its_sleep_costs_nothing(misdeed: str | Says, pipelining: bool) -> None:
    script = Script(at="mail", misdeed=misdeed, on_message=2, pipelining=pipelining)
    first, second = await send_all(script, MESSAGE, MESSAGE)
    assert is_sent(first)
    assert is_sent(second)
    assert len(script.taken) == 2
    assert script.connections == 2


@pytest.mark.parametrize("step", ["first rcpt", "data"])
async def test_but_a_cut_in_the_middle_is_reported(step: str) -> None:
    script = Script(at=step, misdeed=CUT, on_message=2)
    first, second = await send_all(script, MESSAGE, MESSAGE)
    assert is_sent(first)
    assert second.reached is Reached.BEFORE_DOT
    assert script.connections == 1


async def test_a_message_in_doubt_is_never_sent_again_by_itself() -> None:
    script = Script(at="dot", misdeed=CUT, on_message=2)
    _, second = await send_all(script, MESSAGE, MESSAGE)
    assert second.reached is Reached.AFTER_DOT
    assert len(script.taken) == 2


async def test_a_cancelled_send_leaves_no_connection_in_the_middle_of_a_message() -> None:
    script = Script(at="dot", misdeed=STALL)
    async with scripted(script) as port:
        courier = Courier(server_at(port))
        sending = asyncio.create_task(courier.send(MESSAGE, permission=lambda: True))
        await script.until(lambda: script.taken)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        script.at = ""
        assert is_sent(await courier.send(MESSAGE, permission=lambda: True))
        await courier.close()
    assert script.connections == 2


async def test_no_server_there_leaves_the_message_untouched() -> None:
    async with scripted(Script()) as port:
        pass
    courier = Courier(server_at(port))
    report = await courier.send(MESSAGE, permission=lambda: True)
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.CONNECT)
    await courier.close()


async def test_a_server_that_never_takes_the_connection_is_not_waited_for_long() -> None:
    """A listener with a full backlog: the TCP handshake itself hangs."""
    async with scripted(Script()) as port:
        pass
    with deaf("127.0.0.1", port):
        courier = Courier(server_at(port, timeouts=Timeouts(connect_s=0.05)))
        report = await courier.send(MESSAGE, permission=lambda: True)
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.CONNECT)
    await courier.close()


# ── old servers, logins ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_server_that_knows_no_ehlo_is_greeted_with_helo() -> None:
    script = Script(features=(), pipelining=False, knows_ehlo=False)
    [report] = await send_all(script, MESSAGE)
    assert is_sent(report)
    assert script.commands[:2] == ["EHLO [127.0.0.1]", "HELO [127.0.0.1]"]


@pytest.mark.parametrize(
    ("login", "offered", "said"),
    [
        (Password(user="ann", secret="pass"), "PLAIN LOGIN", ["AUTH PLAIN AGFubgBwYXNz"]),
        (Password(user="ann", secret="pass"), "LOGIN", ["AUTH LOGIN", "YW5u", "cGFzcw=="]),
        (Token(user="ann", secret="tok"), "PLAIN XOAUTH2", ["AUTH XOAUTH2 dXNlcj1hbm4BYXV0aD1CZWFyZXIgdG9rAQE="]),
    ],
    ids=["PLAIN", "LOGIN", "XOAUTH2"],
)
async def test_logs_in_with_the_best_way_offered(login: Password | Token, offered: str, said: list[str]) -> None:
    script = Script(features=(f"AUTH {offered}",))
    [report] = await send_all(script, MESSAGE, login=login)
    assert is_sent(report)
    assert script.commands[1 : 1 + len(said)] == said


async def test_a_refused_token_says_why() -> None:
    """The reason is in the challenge before the refusal, as with Google and Microsoft."""
    script = Script(features=("AUTH XOAUTH2",), at="auth", misdeed=Says("334 eyJzdGF0dXMiOiI0MDAifQ=="))
    [report] = await send_all(script, MESSAGE, login=Token(user="ann", secret="tok"))
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.AUTH)
    assert report.reply is not None
    assert (report.reply.code, report.reply.text) == (535, '5.7.8 no ({"status":"400"})')


async def test_no_way_to_log_in_is_said_in_words() -> None:
    [report] = await send_all(Script(features=("AUTH NTLM",)), MESSAGE, login=Password(user="ann", secret="pass"))
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.AUTH)
    assert "NTLM" in (report.error or "")


@pytest.mark.parametrize("login", [Password(user="ann", secret="hush"), Token(user="ann", secret="hush")])
def test_a_secret_is_not_printed(login: Password | Token) -> None:
    assert "hush" not in repr(login)
