"""Staging: every e-mail goes to one address, and whatever the outcome, no recipient is considered dead."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from fairpost.dev.inbox.mails import Mail, list_mails, open_mail
from fairpost.dev.inbox.server import InboxServer, ServerOptions
from fairpost.engine.runner import Runner
from fairpost.model.account import Limits
from fairpost.model.email import Content, Outgoing, Recipient
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.model.states import DoubtPolicy, EmailClass
from fairpost.model.verdict import Failed, Retry
from fairpost.observe.emails import ShownEmail, show_email
from fairpost.policy.soft_bounces import soft_bounced
from fairpost.policy.verdicts import judge
from fairpost.quality.reading import Reading, read
from fairpost.smtp.server import Security, Server
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.transports.port import ClosableTransport
from fairpost.transports.redirect import HEADER, Redirected, redirected
from fairpost.transports.scripted.send import OK, ScriptedTransport
from fairpost.transports.smtp.send import SmtpTransport

TEAM = "team@staging.test"
EVERYBODY = {"to": ["Ann <ann@there.test>", "bob@there.test"], "cc": "cid@there.test", "bcc": "dan@there.test"}


@pytest.fixture
async def account(store: Store) -> AccountId:
    return await store.add_account("anna", address="anna@post.test", limits=Limits())


@pytest.fixture
async def inbox(store: Store) -> AsyncIterator[InboxServer]:
    server = InboxServer(store, ServerOptions(port=0))
    await server.start()
    yield server
    await server.stop()


async def deliver(
    store: Store, account: AccountId, transport: ClosableTransport, *emails: dict[str, Any], to: str = TEAM
) -> list[ShownEmail]:
    rows = await store.enqueue_many([{"subject": "s", "text": "t", **email} for email in emails])
    assert [row["error"] for row in rows] == [None] * len(emails)
    runner = await Runner.start(store, Redirected(transport, to), account, owner="test")
    assert runner is not None
    await runner.run_until_idle()
    await runner.stop()
    await transport.close()
    return [await show_email(store, row["id"]) for row in rows]


def over(inbox: InboxServer) -> SmtpTransport:
    return SmtpTransport(Server(host="127.0.0.1", port=inbox.port, security=Security.NONE))


async def reading_of(store: Store, mail: Mail) -> Reading:
    _, raw = await open_mail(store, mail.id)
    return read(raw)


async def test_an_e_mail_goes_to_one_address_alone_and_names_who_was_meant(
    store: Store, account: AccountId, inbox: InboxServer
) -> None:
    [shown] = await deliver(store, account, over(inbox), {**EVERYBODY, "subject": "Prices"})
    assert shown.state == "sent"
    [mail] = await list_mails(store)
    assert mail.recipients == (TEAM,)
    reading = await reading_of(store, mail)
    assert reading.header("Subject") == "Prices"
    assert reading.header(HEADER) == "to ann@there.test, to bob@there.test, cc cid@there.test, bcc dan@there.test"
    to, cc = reading.header("To"), reading.header("Cc")
    assert "Ann (ann at there.test)" in to
    assert "bob at there.test" in to
    assert "cid at there.test" in cc
    assert "@there.test" not in to + cc, "a reply to all would reach them"
    assert (to + cc).count(TEAM) == 3


async def test_e_mails_that_share_a_content_each_name_their_own_recipients(
    store: Store, account: AccountId, inbox: InboxServer
) -> None:
    [row] = await store.enqueue_many([{"to": "first@there.test", "subject": "s", "text": "t"}])
    content = str(await store.value("SELECT content_id FROM fairpost.queue WHERE id = $1", row["id"]))
    others = [{"to": f"{name}@there.test", "content_id": content} for name in ("ann", "bob")]
    rows = await store.enqueue_many(others)
    assert [r["error"] for r in rows] == [None, None]
    await deliver(store, account, over(inbox))
    named = [(await reading_of(store, mail)).header(HEADER) for mail in await list_mails(store)]
    assert sorted(named) == ["to ann@there.test", "to bob@there.test", "to first@there.test"]


@pytest.mark.parametrize(
    ("tag", "state"), [("rcpt-reject", "failed"), ("rcpt-tempfail", "scheduled"), ("dot-reject", "failed")]
)
async def test_a_refused_redirect_address_suppresses_no_recipient(
    store: Store, account: AccountId, inbox: InboxServer, tag: str, state: str
) -> None:
    [shown] = await deliver(store, account, over(inbox), EVERYBODY, to=f"team+{tag}@staging.test")
    assert shown.state == state
    assert await store.value("SELECT count(*) FROM fairpost.suppressions") == 0
    assert await store.value("SELECT day_bounces FROM fairpost.leases") == 0
    [attempt] = shown.log
    assert attempt.reply is not None
    if tag == "rcpt-reject":
        assert f"team+{tag}@staging.test" in attempt.reply


@pytest.mark.parametrize("code", [550, 551, 553, 554])
@pytest.mark.parametrize("text", ["no such user", "5.1.1 no such user", "5.2.1 disabled", "5.1.10 null mx"])
@pytest.mark.parametrize("step", [None, Step.RCPT, Step.DOT])
async def test_no_words_of_a_server_make_a_recipient_bounce(code: int, text: str, step: Step | None) -> None:
    refused = Reply(code, text)
    report = Report(reached=Reached.REPLIED, step=step, reply=refused, recipients={TEAM: refused})
    booked = await report_of(report)
    assert booked.reply is not None
    assert booked.reached is Reached.UNSENDABLE
    assert booked.recipients == {}
    assert str(code) in booked.reply.text
    assert text in booked.reply.text


@pytest.mark.parametrize(
    "report",
    [
        OK,
        Report(reached=Reached.UNTOUCHED, step=Step.AUTH, reply=Reply(535, "5.7.8 wrong password")),
        Report(reached=Reached.UNTOUCHED, step=Step.AUTH, reply=Reply(550, "who are you?")),
        Report(reached=Reached.REPLIED, step=Step.DOT, reply=Reply(554, "5.7.1 we do not want this")),
        Report(reached=Reached.REPLIED, step=Step.RCPT, reply=Reply(552, "5.2.2 mailbox full")),
        Report(reached=Reached.AFTER_DOT, error="connection lost"),
    ],
)
async def test_refusals_not_about_the_address_are_reported_unchanged(report: Report) -> None:
    assert await report_of(report) == report


async def test_a_full_redirect_mailbox_does_not_count_for_the_recipients() -> None:
    full = Reply(452, "4.2.2 mailbox full")
    report = Report(reached=Reached.REPLIED, step=Step.RCPT, reply=full, recipients={TEAM: full})
    booked = await report_of(report)
    assert soft_bounced(email(), Failed(), booked) == ()
    assert isinstance(judge(email(), booked, attempts=1, now=clock.now(), roll=0), Retry)


async def test_all_recipients_share_the_reply_of_the_one_address() -> None:
    booked = await report_of(replace(OK, recipients={TEAM: Reply(250, "ok")}))
    assert booked.recipients == {"ann@there.test": Reply(250, "ok"), "bob@there.test": Reply(250, "ok")}


async def report_of(report: Report) -> Report:
    return await Redirected(ScriptedTransport([report]), TEAM).send(ACCOUNT, email(), permission=lambda: True)


ACCOUNT: Any = type("Named", (), {"name": "anna"})


def email(**headers: str) -> Outgoing:
    people = tuple(Recipient(kind="to", address=f"{name}@there.test") for name in ("ann", "bob"))
    return Outgoing(
        id=EmailId(7),
        workspace="w",
        email_class=EmailClass.URGENT,
        on_doubt=DoubtPolicy.HOLD,
        attempts=0,
        attempts_max=3,
        sender=None,
        recipients=people,
        envelope=tuple(person.address for person in people),
        fields={},
        content=Content(id=3, subject="s", text="t", html=None, reply_to=None, headers=headers),
    )


def test_a_header_of_that_name_is_ours() -> None:
    sent = redirected(email(**{HEADER.lower(): "nobody", "X-Other": "kept"}), TEAM)
    assert sent.content.headers == {"X-Other": "kept", HEADER: "to ann@there.test, to bob@there.test"}
    assert sent.content.id == -7


def test_mail_with_only_hidden_recipients_names_none_of_them() -> None:
    hidden = replace(email(), recipients=(Recipient(kind="bcc", address="ann@there.test"),))
    assert redirected(hidden, TEAM).recipients == ()
