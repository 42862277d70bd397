"""Sending through Gmail: the content of the draft, the report, and what happens to the draft afterwards."""

import email
import email.policy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairpost.model.email import Attachment, Bulk, Earlier, Outgoing, Recipient
from fairpost.model.ids import EmailId
from fairpost.model.report import Channel, Reached, Report, Step
from fairpost.transports.gmail.send import GmailTransport, what_to_type
from fairpost.transports.oauth.errors import Refused, Unreachable
from fairpost.transports.port import DraftingTransport, Evidence, Fate
from tests.compose.strategies import content_of
from tests.facts import missing
from tests.transports.gmail.google import GONE, Done, Fault, Google, Tokens, answer_of, error, google, http
from tests.transports.gmail.sending import ACCOUNT, ANN, EMAIL, no, transport_to, yes

BUSY = Fault(done=Done.NEVER, says=http(503, error(503, "backendError", "Backend Error")))


async def drafted(transport: GmailTransport, mail: Outgoing = EMAIL) -> Evidence:
    evidence = await transport.draft(ACCOUNT, mail)
    assert not isinstance(evidence, Report), evidence
    return evidence


async def sent(transport: GmailTransport, mail: Outgoing = EMAIL) -> Report:
    evidence = await drafted(transport, mail)
    return await transport.send_draft(ACCOUNT, mail, evidence, permission=yes)


def raw_draft(server: Google) -> Any:
    ((raw, _),) = server.drafts.values()
    return email.message_from_bytes(raw, policy=email.policy.default)


def test_it_is_a_drafting_transport() -> None:
    assert issubclass(GmailTransport, DraftingTransport)


# ── the draft ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_draft_has_our_mark_and_is_evidence() -> None:
    async with google() as server, transport_to(server) as transport:
        evidence = await drafted(transport)
        assert set(evidence) == {"draft", "thread", "addressed"}
        assert (evidence["draft"], evidence["thread"]) == ("r101", "t101")
        message = raw_draft(server)
        assert message["X-Fairpost-Id"] == "1234abcd"
        assert message["From"] == "Sales <sales@post.test>"
        assert message["To"] == "Ann <ann@there.test>"
        assert server.sent == []


async def test_campaign_mail_can_be_unsubscribed_from_by_mail_if_the_mailbox_is_read() -> None:
    mail = replace(EMAIL, bulk=Bulk(campaign="spring"), return_token="em_1-2")
    for is_read, ways in ((True, "<mailto:sales@post.test?subject=unsubscribe%20em_1-2>"), (False, None)):
        async with google() as server, transport_to(server, is_read=is_read) as transport:
            await drafted(transport, mail)
            assert raw_draft(server)["List-Unsubscribe"] == ways


BOB, CEM, DAN = (Recipient(kind=kind, address=f"{kind}@there.test") for kind in ("cc", "bcc", "to"))


@pytest.mark.parametrize(
    ("people", "envelope", "headers"),
    [
        ((ANN, DAN, BOB, CEM), None, ("Ann <ann@there.test>, to@there.test", "cc@there.test", "bcc@there.test")),
        ((ANN, DAN, BOB, CEM), ["to@there.test"], ("to@there.test", None, None)),
        ((ANN, DAN, BOB, CEM), ["cc@there.test", "bcc@there.test"], (None, "cc@there.test", "bcc@there.test")),
        ((CEM,), None, ("undisclosed-recipients:;", None, "bcc@there.test")),
        ((ANN,), ["other@there.test"], ("undisclosed-recipients:;", None, "other@there.test")),
        (
            (ANN, replace(ANN, kind="cc", address="ANN@there.test")),
            ["ann@there.test"],
            ("Ann <ann@there.test>", None, None),
        ),
    ],
    ids=["all", "one left", "copies left", "only hidden", "without a name", "named twice"],
)
async def test_the_draft_names_exactly_who_is_to_get_it(
    people: tuple[Recipient, ...], envelope: list[str] | None, headers: tuple[str | None, ...]
) -> None:
    addresses = tuple(envelope) if envelope else tuple(person.address for person in people)
    mail = replace(EMAIL, recipients=people, envelope=addresses)
    async with google() as server, transport_to(server) as transport:
        await drafted(transport, mail)
        message = raw_draft(server)
        assert (message["To"], message["Cc"], message["Bcc"]) == headers


async def test_two_addresses_that_differ_beyond_ascii_are_two() -> None:
    people = tuple(Recipient(kind="bcc", address=f"{name}@there.test") for name in ("straße", "strasse"))
    mail = replace(EMAIL, recipients=people, envelope=tuple(person.address for person in people))
    async with google() as server, transport_to(server) as transport:
        await drafted(transport, mail)
        ((raw, _),) = server.drafts.values()
        assert "Bcc: straße@there.test, strasse@there.test\r\n" in raw.decode()


async def test_a_recipient_suppressed_after_drafting_does_not_get_it() -> None:
    both = replace(EMAIL, recipients=(ANN, BOB), envelope=(ANN.address, BOB.address))
    one = replace(both, envelope=(ANN.address,))
    async with google() as server, transport_to(server) as transport:
        evidence = await drafted(transport, both)
        report = await transport.send_draft(ACCOUNT, one, evidence, permission=yes)
        assert report.reply is not None
        assert report.reply.code == 200
        (sent_,) = server.sent
        names = {header["name"]: header["value"] for header in sent_["payload"]["headers"]}
        assert names["To"] == "Ann <ann@there.test>"
        assert "Cc" not in names


@pytest.mark.parametrize("is_sent", [True, False])
async def test_a_missing_draft_cannot_be_readdressed(is_sent: bool) -> None:
    both = replace(EMAIL, recipients=(ANN, BOB), envelope=(ANN.address, BOB.address))
    async with google() as server, transport_to(server) as transport:
        evidence = await drafted(transport, both)
        if is_sent:
            server.send_draft("r101")
        else:
            server.drafts.clear()
        report = await transport.send_draft(ACCOUNT, EMAIL, evidence, permission=yes)
        assert report.reached is (Reached.REPLIED if is_sent else Reached.AFTER_DOT)
        assert len(server.sent) == int(is_sent)


async def test_a_draft_that_cannot_be_readdressed_is_not_sent() -> None:
    both = replace(EMAIL, recipients=(ANN, BOB), envelope=(ANN.address, BOB.address))
    async with google() as server, transport_to(server) as transport:
        evidence = await drafted(transport, both)
        server.fail("r101", BUSY)
        report = await transport.send_draft(ACCOUNT, EMAIL, evidence, permission=yes)
        assert report.reply == (503, "backendError: Backend Error")
        assert (server.sent, server.drafts) == ([], {})


async def test_a_follower_goes_into_the_thread() -> None:
    follows = Earlier(message_id="<2@mail.gmail.com>", thread_id="t7", references=("<1@mail.gmail.com>",))
    async with google() as server, transport_to(server) as transport:
        evidence = await drafted(transport, replace(EMAIL, follows=follows))
        assert evidence["thread"] == "t7"
        message = raw_draft(server)
        assert message["In-Reply-To"] == "<2@mail.gmail.com>"
        assert message["References"] == "<1@mail.gmail.com> <2@mail.gmail.com>"


@pytest.mark.parametrize("said", [GONE, http(400, error(400, "invalidArgument", "Invalid thread_id value"))])
async def test_a_follower_goes_out_even_if_the_conversation_was_deleted(said: bytes) -> None:
    follows = Earlier(message_id="<2@mail.gmail.com>", thread_id="t7")
    async with google() as server, transport_to(server) as transport:
        server.fail("drafts", Fault(done=Done.NEVER, says=said))
        assert (await drafted(transport, replace(EMAIL, follows=follows)))["thread"] != "t7"
        assert raw_draft(server)["References"] == "<2@mail.gmail.com>"


async def test_an_unsendable_message_is_reported_without_asking_the_server() -> None:
    bad = replace(EMAIL, envelope=("ann@\u0301x.test",))
    file = Attachment(filename="a", content_type="application/pdf", data=b"x" * 27_000_000)
    big = replace(EMAIL, content=replace(content_of(attachments=(file,)), id=2))
    async with google() as server, transport_to(server) as transport:
        for mail, code in ((bad, 400), (big, 413)):
            report = await transport.draft(ACCOUNT, mail)
            assert isinstance(report, Report)
            assert (report.reached, report.channel) == (Reached.UNSENDABLE, Channel.GOOGLE)
            assert report.reply is not None
            assert report.reply.code == code
        assert server.requests == []


# ── the report ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_sent_with_the_ids_that_google_gave() -> None:
    async with google() as server, transport_to(server) as transport:
        report = await sent(transport)
        assert (report.reached, report.channel) == (Reached.REPLIED, Channel.GOOGLE)
        assert report.reply == (200, "sent: message sr101")
        assert report.message_id == "<CAr101@mail.gmail.com>"
        assert report.thread_id == "t101"
        assert report.error is None
        assert len(server.sent) == 1


async def test_sent_stays_sent_when_its_message_id_cannot_be_read() -> None:
    async with google() as server, transport_to(server) as transport:
        server.fail("sr101", *[BUSY] * 9)
        report = await sent(transport)
        assert report.reply is not None
        assert (report.reached, report.reply.code, report.message_id) == (Reached.REPLIED, 200, None)
        assert missing(report.error, "Message-ID", "503 backendError: Backend Error") == []
        assert report.thread_id == "t101"


async def test_without_permission_nothing_is_sent_and_the_draft_stays() -> None:
    async with google() as server, transport_to(server) as transport:
        evidence = await drafted(transport)
        report = await transport.send_draft(ACCOUNT, EMAIL, evidence, permission=no)
        assert (report.reached, report.reply) == (Reached.UNTOUCHED, None)
        assert "lease" in (report.error or "")
        assert (len(server.sent), len(server.drafts)) == (0, 1)
        await transport.discard(ACCOUNT, evidence)
        assert server.drafts == {}


async def test_for_callers_without_an_intent_the_draft_does_not_stay() -> None:
    async with google() as server, transport_to(server) as transport:
        report = await transport.send(ACCOUNT, EMAIL, permission=no)
        assert report.reached is Reached.UNTOUCHED
        assert server.drafts == {}
        report = await transport.send(ACCOUNT, EMAIL, permission=yes)
        assert report.reply is not None
        assert report.reply.code == 200
        server.fail("drafts", Fault(done=Done.NEVER, says=GONE))
        assert (await transport.send(ACCOUNT, EMAIL, permission=yes)).reply == (
            404,
            "notFound: Requested entity was not found.",
        )


@pytest.mark.parametrize("where", ["drafts", "send"])
@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (400, "invalidArgument", "Invalid To header"),
        (400, "failedPrecondition", "Mail service not enabled"),
        (403, "dailyLimitExceeded", "Daily Limit Exceeded"),
        (429, "rateLimitExceeded", "User-rate limit exceeded.  Retry after 2999-01-01T00:00:00Z"),
    ],
)
async def test_googles_refusal_is_reported_in_its_words_and_the_draft_deleted(
    where: str, status: int, reason: str, message: str
) -> None:
    async with google() as server, transport_to(server) as transport:
        server.fail(where, Fault(done=Done.NEVER, says=http(status, error(status, reason, message))))
        report = await transport.send(ACCOUNT, EMAIL, permission=yes)
        assert (report.reached, report.channel) == (Reached.REPLIED, Channel.GOOGLE)
        assert report.reply == (status, f"{reason}: {message}")
        assert (report.retry_at is not None) == ("Retry after" in message)
        assert (len(server.sent), server.drafts) == (0, {})


async def test_too_large_for_google_is_unsendable() -> None:
    async with google() as server, transport_to(server) as transport:
        server.fail("drafts", Fault(done=Done.NEVER, says=answer_of(413, b"<title>413. That is an error.</title>")))
        report = await transport.draft(ACCOUNT, EMAIL)
        assert isinstance(report, Report)
        assert report.reached is Reached.UNSENDABLE
        assert report.reply == (413, "http413: 413. That is an error.")


@pytest.mark.parametrize("when", [0, 1])
async def test_a_refused_token_is_about_the_account(when: int) -> None:
    tokens = Tokens(*["token"] * when, Refused("invalid_grant", "no token", "new key"))
    async with google() as server, transport_to(server, tokens) as transport:
        report = await transport.send(ACCOUNT, EMAIL, permission=yes)
        assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.AUTH)
        assert report.reply == (401, "invalid_grant: no token")
        assert server.sent == []


def test_advice_names_the_account_and_the_options_of_gmail() -> None:
    import fairpost.transports.oauth.google as tokens

    for advice in (
        tokens.NEW_KEY,
        tokens.CONNECT_AGAIN,
        "Connect it again: fairpost account set NAME --oauth … --refresh-token-file FILE",
    ):
        said = what_to_type(advice, "sales")
        assert "fairpost account set sales --gmail" in said
        assert "--oauth" not in said


async def test_a_token_server_that_is_away_leaves_everything_untouched() -> None:
    async with (
        google() as server,
        transport_to(server, Tokens(Unreachable("The token server is away."))) as transport,
    ):
        report = await transport.send(ACCOUNT, EMAIL, permission=yes)
        assert (report.reached, report.step, report.reply) == (Reached.UNTOUCHED, Step.CONNECT, None)
        assert report.error == "The token server is away."


async def test_an_unreachable_server_leaves_everything_untouched() -> None:
    async with google() as server, transport_to(server) as transport:
        evidence = await drafted(transport)
    async with transport_to(server) as transport:
        report = await transport.draft(ACCOUNT, EMAIL)
        assert isinstance(report, Report)
        assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.CONNECT)
        report = await transport.send_draft(ACCOUNT, EMAIL, evidence, permission=yes)
        assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.CONNECT)


# ── in doubt ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_after_a_time_out_a_draft_that_is_gone_was_sent() -> None:
    async with google() as server, transport_to(server) as transport:
        server.fail("send", Fault(stalls=True))
        report = await sent(transport)
        assert report.reply == (200, "sent: message sr101")
        assert (report.message_id, report.thread_id) == ("<CAr101@mail.gmail.com>", "t101")
        assert len(server.sent) == 1


async def test_after_a_time_out_a_draft_that_is_there_is_sent_again() -> None:
    async with google() as server, transport_to(server) as transport:
        server.fail("send", Fault(done=Done.NEVER, stalls=True), Fault(done=Done.NEVER, cut_at=0))
        report = await sent(transport)
        assert report.reply == (200, "sent: message sr101")
        assert len(server.sent) == 1
        assert server.paths().count("POST /gmail/v1/users/me/drafts/send") == 3


async def test_a_request_still_under_way_and_a_second_one_send_it_once() -> None:
    async with google() as server, transport_to(server) as transport:
        server.fail(
            "send", Fault(done=Done.LATE, late_by=1, stalls=True)
        )  # it happens between the first query and the second
        report = await sent(transport)
        assert report.reply == (200, "sent: message sr101")
        assert len(server.sent) == 1


async def test_an_unanswered_send_stays_in_doubt_with_its_draft() -> None:
    async with google() as server, transport_to(server) as transport:
        server.fail("send", *[Fault(done=Done.NEVER, stalls=True)] * 3)
        evidence = await drafted(transport)
        report = await transport.send_draft(ACCOUNT, EMAIL, evidence, permission=yes)
        assert report.reached is Reached.AFTER_DOT
        assert "draft" in (report.error or "")
        assert list(server.drafts) == ["r101"]
        assert (await transport.ask(ACCOUNT, EMAIL, evidence)).fate is Fate.UNSENT
        later = await transport.send_draft(ACCOUNT, EMAIL, evidence, permission=yes)
        assert later.reply == (200, "sent: message sr101")


async def test_after_an_unanswered_request_no_refusal_proves_anything() -> None:
    limited = http(429, error(429, "rateLimitExceeded", "Slow down"))
    async with google() as server, transport_to(server) as transport:
        server.fail("send", Fault(done=Done.LATE, late_by=9, stalls=True), Fault(done=Done.NEVER, says=limited))
        report = await sent(transport)
        assert report.reached is Reached.AFTER_DOT
        assert "429 rateLimitExceeded: Slow down" in (report.error or "")
        assert list(server.drafts) == ["r101"]


async def test_after_an_unanswered_request_a_lost_lease_is_no_proof_either() -> None:
    async with google() as server, transport_to(server) as transport:
        server.fail("send", Fault(done=Done.LATE, late_by=9, cut_at=0))
        evidence = await drafted(transport)
        answers = iter([True, False])
        report = await transport.send_draft(ACCOUNT, EMAIL, evidence, permission=lambda: next(answers))
        assert report.reached is Reached.AFTER_DOT
        assert list(server.drafts) == ["r101"]


async def test_a_google_that_always_fails_gets_its_draft_back_and_the_e_mail_comes_again() -> None:
    async with google() as server, transport_to(server) as transport:
        server.fail("send", *[BUSY] * 3)
        report = await sent(transport)
        assert report.reached is Reached.REPLIED
        assert report.reply == (503, "backendError: Backend Error")
        assert (server.drafts, server.sent) == ({}, [])


async def test_a_draft_that_cannot_be_taken_back_leaves_a_doubt() -> None:
    async with google() as server, transport_to(server) as transport:
        server.fail("send", *[BUSY] * 3)
        server.fail("r101", None, None, None, BUSY)
        report = await sent(transport)
        assert report.reached is Reached.AFTER_DOT
        assert list(server.drafts) == ["r101"]


async def test_a_gateway_that_lost_patience_does_not_say_that_nothing_is_under_way() -> None:
    async with google() as server, transport_to(server) as transport:
        server.fail("send", *[Fault(done=Done.NEVER, says=http(504, error(504, "backendError", "Deadline")))] * 3)
        report = await sent(transport)
        assert report.reached is Reached.AFTER_DOT
        assert list(server.drafts) == ["r101"]


async def test_a_long_wait_is_not_spent_here() -> None:
    busy = http(503, error(503, "backendError", "Backend Error"), Retry_After="600")
    async with google() as server, transport_to(server) as transport:
        server.fail("send", Fault(done=Done.NEVER, says=busy))
        report = await sent(transport)
        assert report.reply == (503, "backendError: Backend Error")
        assert report.retry_at is not None
        assert report.retry_at > datetime.now(UTC) + timedelta(seconds=500)
        assert server.paths().count("POST /gmail/v1/users/me/drafts/send") == 1


async def test_a_refusal_proves_nothing_when_the_draft_has_gone_in_the_meantime() -> None:
    limited = http(429, error(429, "rateLimitExceeded", "Slow down"))
    async with google() as server, transport_to(server) as transport:
        evidence = await drafted(transport)
        server.send_draft("r101")  # by the account's previous worker, which got no answer
        server.fail("send", Fault(done=Done.NEVER, says=limited))
        report = await transport.send_draft(ACCOUNT, EMAIL, evidence, permission=yes)
        assert report.reply == (200, "sent: message sr101")


async def test_an_email_whose_fate_cannot_be_queried_is_in_doubt() -> None:
    async with google() as server, transport_to(server) as transport:
        server.fail("send", Fault(stalls=True))
        server.fail("r101", *[BUSY] * 9)
        report = await sent(transport)
        assert report.reached is Reached.AFTER_DOT
        assert missing(report.error, "draft", "503 backendError: Backend Error") == []


async def test_a_draft_deleted_by_the_user_leaves_the_email_in_doubt() -> None:
    async with google() as server, transport_to(server) as transport:
        evidence = await drafted(transport)
        server.drafts.clear()
        report = await transport.send_draft(ACCOUNT, EMAIL, evidence, permission=yes)
        assert report.reached is Reached.AFTER_DOT
        assert missing(report.error, "404 notFound: Requested entity was not found.", "draft", "thread") == []


async def test_a_message_is_known_by_its_public_id_and_by_the_number_of_before() -> None:
    """The draft may come from an engine that was not restarted yet."""
    public = replace(EMAIL, public_id="em_079kt5312d80w")
    async with google() as server, transport_to(server) as transport:
        evidence = await drafted(transport, public)
        assert raw_draft(server)["X-Fairpost-Id"] == "em_079kt5312d80w"
        await transport.send_draft(ACCOUNT, public, evidence, permission=yes)
        assert (await transport.ask(ACCOUNT, public, evidence)).fate is Fate.SENT
    async with google() as server, transport_to(server) as transport:
        evidence = await drafted(transport, EMAIL)
        await transport.send_draft(ACCOUNT, EMAIL, evidence, permission=yes)
        assert (await transport.ask(ACCOUNT, public, evidence)).fate is Fate.SENT
        other = replace(public, id=EmailId(EMAIL.id + 1))
        assert (await transport.ask(ACCOUNT, other, evidence)).fate is not Fate.SENT


async def test_a_sent_message_of_another_e_mail_in_the_thread_proves_nothing() -> None:
    follows = Earlier(message_id="<1@mail.gmail.com>", thread_id="t7")
    first, second = EMAIL, replace(EMAIL, id=EmailId(EMAIL.id + 1), follows=follows)
    async with google() as server, transport_to(server) as transport:
        await sent(transport, replace(first, follows=follows))
        evidence = await drafted(transport, second)
        server.drafts.clear()
        assert (await transport.ask(ACCOUNT, second, evidence)).fate is Fate.UNKNOWN
        assert (await transport.ask(ACCOUNT, first, evidence)).fate is Fate.SENT


async def test_a_foreign_mark_proves_nothing() -> None:
    forged = replace(
        EMAIL, id=EmailId(EMAIL.id + 1), content=replace(content_of(headers={"X-Fairpost-Id": "1234abcd"}), id=3)
    )
    async with google() as server, transport_to(server) as transport:
        report = await sent(transport, forged)
        asked = await transport.ask(ACCOUNT, EMAIL, {"draft": "r999", "thread": report.thread_id or ""})
        assert asked.fate is Fate.UNKNOWN


@pytest.mark.parametrize("where", ["r101", "t101"])
async def test_an_unanswerable_question_gives_unknown(where: str) -> None:
    async with google() as server, transport_to(server) as transport:
        evidence = await drafted(transport)
        server.send_draft("r101")
        server.fail(where, *[BUSY] * 9)
        answer = await transport.ask(ACCOUNT, EMAIL, evidence)
        assert answer.fate is Fate.UNKNOWN
        assert answer.report.reached is Reached.UNTOUCHED  # it may be asked again
        assert answer.report.error is not None
        assert "503 backendError: Backend Error" in answer.report.error
        assert server.paths().count(f"GET /gmail/v1/users/me/{'drafts' if where == 'r101' else 'threads'}/{where}") == 3


async def test_a_question_that_failed_once_is_asked_again() -> None:
    async with google() as server, transport_to(server) as transport:
        evidence = await drafted(transport)
        server.send_draft("r101")
        server.fail("r101", Fault(cut_at=10))
        server.fail("t101", BUSY, Fault(says=GONE))  # the thread is updated late
        answer = await transport.ask(ACCOUNT, EMAIL, evidence)
        assert answer.fate is Fate.SENT
        assert answer.report.message_id == "<CAr101@mail.gmail.com>"


async def test_damaged_evidence_is_no_error() -> None:
    async with google() as server, transport_to(server) as transport:
        for evidence in ({}, {"draft": ""}, {"thread": "t1"}, {"x": "y"}):
            assert (await transport.ask(ACCOUNT, EMAIL, evidence)).fate is Fate.UNKNOWN
            report = await transport.send_draft(ACCOUNT, EMAIL, evidence, permission=yes)
            assert report.reached is Reached.AFTER_DOT
            await transport.discard(ACCOUNT, evidence)
        assert server.requests == []
        assert (await transport.ask(ACCOUNT, EMAIL, {"draft": "../x?y#z"})).fate is Fate.UNKNOWN


async def test_discarding_never_fails() -> None:
    async with google() as server:
        pass
    async with transport_to(server) as transport:
        await transport.discard(ACCOUNT, {"draft": "r1"})
