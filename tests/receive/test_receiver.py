"""The bounce address: accepts reports about our own e-mails over SMTP and LMTP, replies 250 once they are committed,
and relays nothing."""

import asyncio
import smtplib
from collections.abc import AsyncIterator

import pytest

from fairpost.model.ids import EmailId
from fairpost.receive.server import MESSAGE_BYTES_MAX, Receiver, ReceiverOptions
from fairpost.system import clock
from tests.returns.mails import complaint, report
from tests.settle.test_returned import ANN, DEAD, NOW, Post
from tests.settle.test_returned import post as post

COMPLAINTS = "complaints@bounce.example"


@pytest.fixture
async def receivers(post: Post) -> AsyncIterator[tuple[Receiver, Receiver]]:
    options = (
        ReceiverOptions(port=0, also=frozenset({COMPLAINTS})),
        ReceiverOptions(port=0, is_lmtp=True, also=frozenset({COMPLAINTS})),
    )
    started = [Receiver(post.store, each, lambda said: None) for each in options]
    with clock.stopped_at(NOW):
        for each in started:
            await each.start()
        yield started[0], started[1]
        for each in started:
            await each.stop()


def deliver(receiver: Receiver, to: list[str], raw: bytes, *, is_lmtp: bool = False) -> dict[str, int]:
    """Returns the reply to each recipient, 250 if the mail was accepted."""
    make = smtplib.LMTP if is_lmtp else smtplib.SMTP
    with make("127.0.0.1", receiver.port, timeout=60) as client:
        try:
            refused = client.sendmail("", to, raw)
        except smtplib.SMTPRecipientsRefused as error:
            refused = error.recipients
        except (smtplib.SMTPDataError, smtplib.SMTPSenderRefused) as error:
            return dict.fromkeys(to, error.smtp_code)
    return {each: refused[each][0] if each in refused else 250 for each in to}


async def by_lmtp(receiver: Receiver, to: list[str], raw: bytes) -> list[str]:
    """Returns the codes after the dot: smtplib only reads the first of them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", receiver.port)
    commands = ["LHLO here", "MAIL FROM:<>", *(f"RCPT TO:<{each}>" for each in to), "DATA"]
    await reader.readline()
    for command in commands:
        writer.write(f"{command}\r\n".encode())
        while (await reader.readline())[3:4] == b"-":
            pass
    writer.write(raw.replace(b"\n", b"\r\n") + b".\r\n")
    codes = [(await reader.readline())[:3].decode() for _ in to]
    writer.close()
    return codes


async def path(post: Post, id_: EmailId) -> str:
    return await post.path(id_)


async def test_a_report_to_the_return_path_is_applied_before_it_is_answered(
    post: Post, receivers: tuple[Receiver, Receiver]
) -> None:
    for receiver, is_lmtp in zip(receivers, (False, True), strict=True):
        id_ = await post.sent()
        to = await path(post, id_)
        raw = report("5.1.1", DEAD, recipient="elsewhere@other.example", message_id="<none@other.example>")
        assert await asyncio.to_thread(deliver, receiver, [to], raw, is_lmtp=is_lmtp) == {to: 250}
        assert await post.state(id_) == "bounced"
        await post.store.value("DELETE FROM fairpost.suppressions")


async def test_other_addresses_and_broken_seals_are_refused(post: Post, receivers: tuple[Receiver, Receiver]) -> None:
    id_ = await post.sent()
    good = await path(post, id_)
    bad = [good.replace("bounces+", ""), good.replace("@", "0@"), "ann@people.example", "bounces+@bounce.example"]
    told = await asyncio.to_thread(deliver, receivers[0], bad, report("5.1.1", DEAD))
    assert told == dict.fromkeys(bad, 550)
    assert await post.state(id_) == "sent"


async def test_a_named_address_takes_complaints_and_lmtp_answers_for_each_recipient(
    post: Post, receivers: tuple[Receiver, Receiver]
) -> None:
    id_ = await post.sent()
    to = [COMPLAINTS, await path(post, id_)]
    raw = complaint(message_id=await post.message_id(id_))
    assert await by_lmtp(receivers[1], to, raw) == ["250", "250"]
    assert await post.suppressed() == {f"w1 {ANN}": "complaint"}


async def test_a_mail_that_is_not_committed_gets_451_and_another_try(
    post: Post, receivers: tuple[Receiver, Receiver]
) -> None:
    id_ = await post.sent()
    to = await path(post, id_)
    await post.store.value("ALTER TABLE fairpost.returned RENAME TO returned_away")
    told = await asyncio.to_thread(deliver, receivers[0], [to], report("5.1.1", DEAD))
    await post.store.value("ALTER TABLE fairpost.returned_away RENAME TO returned")
    assert told == {to: 451}
    assert await asyncio.to_thread(deliver, receivers[0], [to], report("5.1.1", DEAD)) == {to: 250}
    assert await post.state(id_) == "bounced"


async def test_a_mail_that_is_too_big_is_refused_and_the_next_one_taken(
    post: Post, receivers: tuple[Receiver, Receiver]
) -> None:
    id_ = await post.sent()
    to = await path(post, id_)
    big = report("5.1.1", DEAD) + b"x" * 70 + b"\r\n" * (MESSAGE_BYTES_MAX // 2)
    assert await asyncio.to_thread(deliver, receivers[0], [to], big) == {to: 552}
    assert await asyncio.to_thread(deliver, receivers[0], [to], report("5.1.1", DEAD)) == {to: 250}
