"""Which mailboxes soft-bounced: counted when the e-mail is given up, and only by replies about that mailbox."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.model.verdict import Bounced, Deferred, Failed, InDoubt, Retry, Sent, Untouched, Verdict
from fairpost.policy.soft_bounces import soft_bounced
from fairpost.policy.verdicts import judge
from tests.policy.test_verdicts import ANN, BOB, EMAIL, NOW

ALONE = replace(EMAIL, recipients=EMAIL.recipients[:1], envelope=(ANN,))
OK, FULL, GREY = Reply(250, "2.0.0 ok"), Reply(452, "4.2.2 mailbox full"), Reply(451, "4.7.1 greylisted")
FULL_FOR_GOOD, NO_USER, SPAM = Reply(552, "5.2.2 over quota"), Reply(550, "5.1.1 unknown"), Reply(554, "5.7.1 spam")


def replied(end: Reply, step: Step = Step.DOT, **each: Reply) -> Report:
    people = {"ann": ANN, "bob": BOB}
    return Report(reached=Reached.REPLIED, step=step, reply=end, recipients={people[k]: r for k, r in each.items()})


@pytest.mark.parametrize(
    ("verdict", "report", "expected"),
    [
        (Failed(), replied(FULL, Step.RCPT, ann=FULL), (ANN,)),
        (Failed(), replied(FULL_FOR_GOOD, Step.RCPT, ann=FULL_FOR_GOOD), (ANN,)),
        (Failed(), replied(FULL, ann=OK), (ANN,)),
        (Failed(), replied(FULL), (ANN,)),
        (Failed(), replied(GREY, Step.RCPT, ann=GREY), ()),
        (Failed(), replied(SPAM, ann=OK), ()),
        (Bounced((ANN,)), replied(NO_USER, Step.RCPT, ann=NO_USER), ()),
        (Sent(), replied(OK, ann=OK), ()),
        (Retry(NOW, (ANN,)), replied(FULL, Step.RCPT, ann=FULL), ()),
        (InDoubt(), replied(FULL), ()),
        (Untouched(), replied(FULL), ()),
        (Deferred(None), replied(FULL), ()),
    ],
)
def test_one_recipient(verdict: Verdict, report: Report, expected: tuple[str, ...]) -> None:
    assert soft_bounced(ALONE, verdict, report) == expected


@pytest.mark.parametrize(
    ("verdict", "report", "expected"),
    [
        (Sent(), replied(OK, ann=OK, bob=FULL), (BOB,)),
        (Sent((ANN,)), replied(OK, ann=NO_USER, bob=OK), ()),
        (Bounced((ANN,)), replied(FULL, Step.RCPT, ann=NO_USER, bob=FULL), (BOB,)),
        (Failed(), replied(FULL, Step.RCPT, ann=FULL, bob=FULL), (ANN, BOB)),
        (Failed(), replied(FULL, ann=OK, bob=OK), ()),  # the reply does not say whose mailbox is full
        (Failed(), replied(FULL), ()),
    ],
)
def test_several_recipients(verdict: Verdict, report: Report, expected: tuple[str, ...]) -> None:
    assert soft_bounced(EMAIL, verdict, report) == expected


def test_a_mailbox_that_is_full_for_an_afternoon_is_counted_once() -> None:
    report = replied(FULL, Step.RCPT, ann=FULL)
    verdicts = [judge(ALONE, report, attempts=n, now=NOW, roll=0) for n in range(1, ALONE.attempts_max + 1)]
    assert [soft_bounced(ALONE, verdict, report) for verdict in verdicts] == [(), (), (), (), (ANN,)]


@pytest.mark.parametrize("reached", [r for r in Reached if r is not Reached.REPLIED])
def test_without_an_answer_no_address_bounced(reached: Reached) -> None:
    assert soft_bounced(ALONE, Failed(), replace(replied(FULL, ann=FULL), reached=reached)) == ()


REPLIES = st.sampled_from((OK, FULL, GREY, FULL_FOR_GOOD, NO_USER, SPAM))


@given(REPLIES, REPLIES, REPLIES, st.integers(1, 5))
def test_hard_bounces_and_retries_are_not_counted(end: Reply, ann: Reply, bob: Reply, attempts: int) -> None:
    report = replied(end, ann=ann, bob=bob)
    verdict = judge(EMAIL, report, attempts=attempts, now=NOW, roll=0)
    found = set(soft_bounced(EMAIL, verdict, report))
    assert not found & set(getattr(verdict, "bounced", ()))
    assert not found & set(getattr(verdict, "remaining", ()))
