"""Whatever the network does, and whatever Google had done by then: an e-mail is sent at most once, and never reported
as sent or unsent incorrectly."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.model.report import Reached, Report
from fairpost.transports.gmail.send import GmailTransport
from fairpost.transports.port import Evidence, Fate
from tests.thorough import times
from tests.transports.gmail.google import GONE, Done, Fault, Google, answer_of, error, google, http
from tests.transports.gmail.sending import ACCOUNT, EMAIL, transport_to, yes

ANSWER = http(200, {"id": "sr101", "threadId": "t101", "labelIds": ["SENT"]})
FAILING = http(503, error(503, "backendError", "Backend Error"))


async def check(server: Google, transport: GmailTransport, evidence: Evidence, report: Report) -> None:
    """The report is true now, and stays true once everything in progress has happened, and when the runner continues."""
    said_sent = report.reached is Reached.REPLIED and report.reply is not None and report.reply.code == 200
    if said_sent:
        assert len(server.sent) == 1, report
    server.finish()
    assert len(server.sent) <= 1, report
    if report.reached is not Reached.AFTER_DOT:
        assert len(server.sent) == int(said_sent), report
        return
    server.faults.clear()
    answer = await transport.ask(ACCOUNT, EMAIL, evidence)
    assert (answer.fate is Fate.SENT) == (len(server.sent) == 1)
    if answer.fate is Fate.UNSENT:
        again = await transport.send_draft(ACCOUNT, EMAIL, evidence, permission=yes)
        assert again.reply is not None
        assert again.reply.code == 200
        assert len(server.sent) == 1


async def send(server: Google, transport: GmailTransport) -> tuple[Evidence, Report]:
    evidence = await transport.draft(ACCOUNT, EMAIL)
    assert not isinstance(evidence, Report)
    return evidence, await transport.send_draft(ACCOUNT, EMAIL, evidence, permission=yes)


def forget(server: Google) -> None:
    server.sent.clear()
    server.drafts.clear()
    server.pending.clear()
    server.number = 100


@pytest.mark.parametrize("done", [*Done])
async def test_cut_at_every_byte_of_the_answer(done: Done) -> None:
    async with google() as server, transport_to(server) as transport:
        for cut_at in range(len(ANSWER) + 1):
            forget(server)
            says = None if done is Done.NOW else ANSWER
            server.fail("send", Fault(done=done, cut_at=cut_at, says=says) if cut_at < len(ANSWER) else None)
            evidence, report = await send(server, transport)
            assert report.reply is not None
            assert report.reply.code == 200
            await check(server, transport, evidence, report)


@pytest.mark.parametrize("late_by", range(8))
@pytest.mark.parametrize("often", [1, 2, 3])
async def test_a_request_that_google_does_late(late_by: int, often: int) -> None:
    async with google() as server, transport_to(server, silence_s=0.03) as transport:
        server.fail("send", *[Fault(done=Done.LATE, late_by=late_by, is_underway=True, stalls=True)] * often)
        evidence, report = await send(server, transport)
        await check(server, transport, evidence, report)


@pytest.mark.parametrize("late_by", range(8))
async def test_a_google_that_says_it_failed_and_does_it_late(late_by: int) -> None:
    async with google() as server, transport_to(server) as transport:
        server.fail("send", *[Fault(done=Done.LATE, late_by=late_by, says=FAILING)] * 3)
        evidence, report = await send(server, transport)
        await check(server, transport, evidence, report)


@pytest.mark.parametrize("late_by", range(8))
async def test_a_gateway_that_loses_patience_three_times(late_by: int) -> None:
    gateway = http(504, error(504, "backendError", "Deadline"))
    async with google() as server, transport_to(server) as transport:
        server.fail("send", *[Fault(done=Done.LATE, late_by=late_by, is_underway=True, says=gateway)] * 3)
        evidence, report = await send(server, transport)
        await check(server, transport, evidence, report)


async def test_cut_before_the_request_was_complete() -> None:
    async with google() as server, transport_to(server) as transport:
        server.fail("send", *[Fault(cuts_request=True)] * 3)
        evidence, report = await send(server, transport)
        assert server.sent == []
        await check(server, transport, evidence, report)


# A positive answer without the action, or a negative one after it, would be Google's own mistake, so Google's own
# format is never used for those.
unanswered = st.builds(
    Fault,
    done=st.sampled_from([*Done]),
    late_by=st.integers(0, 6),
    is_underway=st.booleans(),
    cut_at=st.sampled_from([0, 1, 12, 40, 60]),
)
answered = st.builds(
    Fault,
    done=st.sampled_from([*Done]),
    late_by=st.integers(0, 6),
    is_underway=st.booleans(),
    says=st.sampled_from(
        [
            http(504, error(504, "backendError", "Deadline")),
            answer_of(502, b"<title>Bad Gateway</title>"),
            answer_of(403, b"<title>Proxy</title>"),
            answer_of(200, b"{"),
            b"garbage",
        ]
    ),
)
failed = st.builds(Fault, done=st.sampled_from([*Done]), late_by=st.integers(0, 6), says=st.just(FAILING))
refused = st.builds(
    Fault,
    done=st.just(Done.NEVER),
    says=st.sampled_from(
        [
            http(429, error(429, "rateLimitExceeded", "Slow down")),
            http(401, error(401, "authError", "Invalid Credentials")),
            http(400, error(400, "invalidArgument", "Invalid To header")),
        ]
    ),
)
asked = st.builds(
    Fault,
    done=st.just(Done.NOW),
    cut_at=st.none() | st.integers(0, 50),
    says=st.none() | st.sampled_from([FAILING, answer_of(404, b"<title>Nowhere</title>")]),
)
sends = st.lists(st.none() | unanswered | answered | failed | refused, max_size=5)
questions = st.lists(st.none() | asked, max_size=8)


@settings(max_examples=times(40))
@given(sends, questions, questions)
async def test_any_run_of_accidents(
    on_send: list[Fault | None], on_draft: list[Fault | None], on_thread: list[Fault | None]
) -> None:
    async with google() as server, transport_to(server) as transport:
        server.fail("send", *on_send)
        server.fail("r101", *on_draft)
        server.fail("t101", *on_thread)
        evidence, report = await send(server, transport)
        await check(server, transport, evidence, report)


async def test_a_gone_draft_whose_thread_is_shown_late_is_in_doubt_at_worst() -> None:
    async with google() as server, transport_to(server) as transport:
        server.fail("send", Fault(stalls=True))
        server.fail("t101", *[Fault(says=GONE)] * 9)
        evidence, report = await send(server, transport)
        assert report.reached is Reached.AFTER_DOT
        await check(server, transport, evidence, report)
