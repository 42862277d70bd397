"""Every fault at every step, requested by an option and by a tag, as seen by the client."""

import asyncio
import smtplib

import pytest

from fairpost.dev.inbox.faults import REPLIES, Kind, Step, parse
from tests.dev.inbox.conftest import Certificate, Connect, Serve, converse

STEPS = list(Step)
TAGGED = [Step.MAIL, Step.RCPT, Step.DATA, Step.DOT]


def addresses(step: Step, fault: str) -> dict[str, str]:
    """The tag is in the address that is known at that step."""
    who = "sender" if step is Step.MAIL else "to"
    return {who: f"ann+{step}-{fault}@example.com"}


def until(step: Step) -> list[Step]:
    return STEPS[: STEPS.index(step) + 1]


@pytest.mark.parametrize("kind", [Kind.REJECT, Kind.TEMPFAIL])
@pytest.mark.parametrize("step", STEPS)
async def test_a_step_is_refused_for_everyone(serve: Serve, connect: Connect, step: Step, kind: Kind) -> None:
    running = await serve(faults=(parse(f"{step}={kind}"),))
    replies = await converse(await connect(running))
    assert list(replies) == until(step)
    assert replies[step] == " ".join(REPLIES[step, kind])
    assert await running.mails() == []


@pytest.mark.parametrize("kind", [Kind.REJECT, Kind.TEMPFAIL])
@pytest.mark.parametrize("step", TAGGED)
async def test_a_step_is_refused_by_a_tag(serve: Serve, connect: Connect, step: Step, kind: Kind) -> None:
    running = await serve()
    wire = await connect(running)
    replies = await converse(wire, **addresses(step, kind))
    assert list(replies) == until(step)
    assert replies[step] == " ".join(REPLIES[step, kind])
    await wire.say("RSET")
    assert (await wire.mail(b"Subject: next\r\n\r\n")).startswith("250 ")
    assert [mail.subject for mail in await running.mails()] == ["next"]


@pytest.mark.parametrize("step", STEPS)
async def test_a_step_is_cut_for_everyone(serve: Serve, connect: Connect, step: Step) -> None:
    running = await serve(faults=(parse(f"{step}=cut"),))
    replies = await converse(await connect(running))
    assert list(replies) == until(step)
    assert replies[step] == ""
    assert await running.mails() == []


@pytest.mark.parametrize("step", TAGGED)
async def test_a_step_is_cut_by_a_tag(serve: Serve, connect: Connect, step: Step) -> None:
    running = await serve()
    replies = await converse(await connect(running), **addresses(step, "cut"))
    assert list(replies) == until(step)
    assert replies[step] == ""
    assert await running.mails() == []


@pytest.mark.parametrize("tagged", [False, True])
async def test_cut_after_stores_the_mail_and_says_nothing(serve: Serve, connect: Connect, tagged: bool) -> None:
    running = await serve(faults=() if tagged else (parse("dot=cut-after"),))
    replies = await converse(await connect(running), **(addresses(Step.DOT, "cut-after") if tagged else {}))
    assert replies[Step.DOT] == ""
    assert [mail.subject for mail in await running.mails()] == ["Hello"]


@pytest.mark.parametrize("step", STEPS)
async def test_a_step_is_delayed_for_everyone_and_continues(serve: Serve, connect: Connect, step: Step) -> None:
    running = await serve(faults=(parse(f"{step}=delay:500ms"),))
    replies = await converse(await connect(running))
    assert list(replies) == STEPS
    assert running.slept == [0.5]
    assert len(await running.mails()) == 1


@pytest.mark.parametrize("step", TAGGED)
async def test_a_step_is_delayed_by_a_tag_and_continues(serve: Serve, connect: Connect, step: Step) -> None:
    running = await serve()
    replies = await converse(await connect(running), **addresses(step, "delay-5s"))
    assert list(replies) == STEPS
    assert running.slept == [5]
    assert len(await running.mails()) == 1


@pytest.mark.parametrize(("step", "tagged"), [*((step, False) for step in STEPS), *((step, True) for step in TAGGED)])
async def test_a_step_stalls_until_the_server_stops(serve: Serve, connect: Connect, step: Step, tagged: bool) -> None:
    running = await serve(faults=() if tagged else (parse(f"{step}=stall"),))
    wire = await connect(running)
    talk = asyncio.create_task(converse(wire, **(addresses(step, "stall") if tagged else {})))
    done, _ = await asyncio.wait([talk], timeout=0.3)
    assert not done
    await running.server.stop()
    replies = await talk
    assert list(replies) == until(step)
    assert replies[step] == ""
    assert await running.mails() == []


async def test_helo_is_refused_as_ehlo_is(serve: Serve, connect: Connect) -> None:
    wire = await connect(await serve(faults=(parse("ehlo=reject"),)))
    await wire.reply()
    assert (await wire.say("HELO client.test")).startswith("550 5.7.1 ")
    assert (await wire.say("MAIL FROM:<a@b.test>")).startswith("503 ")


@pytest.mark.parametrize("text", ["connect=reject", "connect=tempfail", "ehlo=tempfail", "rcpt=tempfail:421 4.3.2 Bye"])
async def test_a_server_that_says_goodbye_goes(serve: Serve, connect: Connect, text: str) -> None:
    wire = await connect(await serve(faults=(parse(text),)))
    await converse(wire)
    assert await wire.reply() == ""


async def test_a_percentage_strikes_when_the_dice_say_so(serve: Serve, connect: Connect) -> None:
    running = await serve(faults=(parse("dot=tempfail%10"),), rolls=[0.5, 0.05, 0.1])
    wire = await (await connect(running)).greet()
    replies = [await wire.mail(b"Subject: %d\r\n\r\n" % number) for number in range(3)]
    assert [reply[:3] for reply in replies] == ["250", "451", "250"]
    assert [mail.subject for mail in await running.mails()] == ["2", "0"]


async def test_a_percentage_in_a_tag_rolls_the_same_dice(serve: Serve, connect: Connect) -> None:
    running = await serve(rolls=[0.7, 0.2])
    wire = await (await connect(running)).greet()
    assert (await wire.mail(b"a\r\n", to="ann+dot-cut-after%50@example.com")).startswith("250 ")
    assert await wire.mail(b"b\r\n", to="ann+dot-cut-after%50@example.com") == ""
    assert len(await running.mails()) == 2


async def test_options_come_before_tags_and_delays_add_up(serve: Serve, connect: Connect) -> None:
    running = await serve(faults=(parse("rcpt=delay:1s"), parse("rcpt=delay:2s")))
    replies = await converse(await connect(running), to="ann+rcpt-delay-3s+rcpt-reject-552@example.com")
    assert replies[Step.RCPT].startswith("552 5.1.1 ")
    assert running.slept == [1, 2, 3]


async def test_one_refused_recipient_does_not_hurt_the_others(serve: Serve, connect: Connect) -> None:
    running = await serve()
    wire = await (await connect(running)).greet()
    await wire.say("MAIL FROM:<a@b.test>")
    assert (await wire.say("RCPT TO:<ann+rcpt-reject+dot-cut@example.com>")).startswith("550 ")
    assert (await wire.say("RCPT TO:<bob@example.com>")).startswith("250 ")
    await wire.say("DATA")
    assert (await wire.say("Subject: a\r\n.")).startswith("250 ")
    assert (await running.mails())[0].recipients == ("bob@example.com",)


@pytest.mark.parametrize("address", ["ann+data-delay-soon@example.com", "ann+connect-cut@example.com"])
async def test_a_tag_that_can_never_strike_is_reported(serve: Serve, connect: Connect, address: str) -> None:
    wire = await (await connect(await serve())).greet()
    await wire.say("MAIL FROM:<a@b.test>")
    assert (await wire.say(f"RCPT TO:<{address}>")).startswith("553 5.1.3 ")


async def test_after_data_was_refused_a_new_mail_may_begin_at_once(serve: Serve, connect: Connect) -> None:
    running = await serve()
    wire = await connect(running)
    assert (await converse(wire, to="ann+data-reject@example.com"))[Step.DATA].startswith("554 ")
    assert (await wire.mail(b"Subject: next\r\n\r\n")).startswith("250 ")


@pytest.mark.parametrize("text", ["dot=cut", "rcpt=cut", "connect=cut"])
async def test_cuts_work_under_tls_as_well(serve: Serve, connect: Connect, certificate: Certificate, text: str) -> None:
    running = await serve(faults=(parse(text),), tls=certificate.server(), implicit_tls=True)
    replies = await converse(await connect(running, tls=certificate.client()))
    assert next(reversed(replies.values())) == ""
    assert await running.mails() == []


@pytest.mark.parametrize("text", ["dot=cut", "dot=cut-after", "rcpt=cut"])
async def test_cuts_work_under_starttls_as_well(serve: Serve, certificate: Certificate, text: str) -> None:
    running = await serve(faults=(parse(text),), tls=certificate.server())

    def send() -> None:
        client = smtplib.SMTP("127.0.0.1", running.server.port, timeout=120)
        client.starttls(context=certificate.client())
        client.sendmail("a@b.test", "c@d.test", "Subject: a\r\n\r\n")

    with pytest.raises((smtplib.SMTPServerDisconnected, OSError)):
        await asyncio.to_thread(send)
    assert len(await running.mails()) == (text == "dot=cut-after")
