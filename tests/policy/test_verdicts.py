"""What replies mean, and what follows from them for the e-mail."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fairpost.model.email import Content, Outgoing, Recipient
from fairpost.model.ids import EmailId
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.states import DoubtPolicy, EmailClass
from fairpost.model.verdict import Bounced, Failed, InDoubt, Retry, Sent, Untouched, Verdict
from fairpost.policy.retries import retry_delay, unreachable_delay
from fairpost.policy.verdicts import Meaning, judge, meaning

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ANN, BOB = "ann@there.test", "bob@there.test"

EMAIL = Outgoing(
    id=EmailId(1),
    workspace="w",
    email_class=EmailClass.URGENT,
    on_doubt=DoubtPolicy.RESEND,
    attempts=0,
    attempts_max=5,
    sender=None,
    recipients=(Recipient(kind="to", address=ANN), Recipient(kind="cc", address=BOB)),
    envelope=(ANN, BOB),
    fields={},
    content=Content(id=1, subject="s", text="t", html=None, reply_to=None, headers={}),
)


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (250, "2.0.0 queued", Meaning.ACCEPTED),
        (421, "4.3.2 closing", Meaning.TEMPORARY),
        (450, "mailbox busy", Meaning.TEMPORARY),
        (452, "4.2.2 over quota", Meaning.TEMPORARY),
        (552, "5.2.2 mailbox full", Meaning.TEMPORARY),
        (550, "Mailbox is full", Meaning.TEMPORARY),
        (550, "5.1.1 no such user", Meaning.NO_SUCH_RECIPIENT),
        (550, "no such user here", Meaning.NO_SUCH_RECIPIENT),
        (553, "5.1.3 bad syntax", Meaning.NO_SUCH_RECIPIENT),
        (550, "5.2.1 disabled", Meaning.NO_SUCH_RECIPIENT),
        (550, "5.1.8 sender's domain does not exist", Meaning.REFUSED),
        (553, "5.1.7 bad sender", Meaning.REFUSED),
        (550, "5.7.1 spam", Meaning.REFUSED),
        (554, "transaction failed", Meaning.REFUSED),
    ],
)
def test_a_reply_is_read_by_its_codes(code: int, text: str, expected: Meaning) -> None:
    assert meaning(Reply(code, text)) is expected


def verdict(report: Report, *, attempts: int = 1) -> Verdict:
    return judge(EMAIL, report, attempts=attempts, now=NOW, roll=0)


def replied(end: Reply, **each: Reply) -> Report:
    people = {"ann": ANN, "bob": BOB}
    return Report(reached=Reached.REPLIED, reply=end, recipients={people[k]: r for k, r in each.items()})


OK, LATER, NO_USER, SPAM = (
    Reply(250, "2.0.0 ok"),
    Reply(451, "4.3.0 later"),
    Reply(550, "5.1.1 unknown"),
    Reply(550, "5.7.1 spam"),
)
IN_A_MINUTE = NOW + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (replied(OK), Sent()),
        (replied(OK, bob=NO_USER), Sent((BOB,))),
        (replied(OK, bob=LATER), Retry(IN_A_MINUTE, (BOB,))),
        (replied(OK, ann=LATER, bob=NO_USER), Retry(IN_A_MINUTE, (ANN,), (BOB,))),
        (replied(LATER), Retry(IN_A_MINUTE, (ANN, BOB))),
        (replied(LATER, ann=OK, bob=NO_USER), Retry(IN_A_MINUTE, (ANN,), (BOB,))),
        (replied(NO_USER, ann=NO_USER, bob=NO_USER), Bounced((ANN, BOB))),
        (replied(SPAM), Failed()),
        (replied(SPAM, ann=OK, bob=NO_USER), Bounced((BOB,))),
        (Report(reached=Reached.UNTOUCHED), Untouched()),
        (Report(reached=Reached.BEFORE_DOT), Retry(IN_A_MINUTE, (ANN, BOB))),
        (Report(reached=Reached.AFTER_DOT), InDoubt()),
    ],
)
def test_the_verdict_follows_from_how_far_it_came_and_what_was_answered(report: Report, expected: Verdict) -> None:
    assert verdict(report) == expected


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (replied(LATER), Failed()),
        (replied(OK, bob=LATER), Sent()),
        (replied(LATER, bob=NO_USER), Bounced((BOB,))),
        (Report(reached=Reached.BEFORE_DOT), Failed()),
        (Report(reached=Reached.AFTER_DOT), InDoubt()),
        (Report(reached=Reached.UNTOUCHED), Untouched()),
    ],
)
def test_after_the_last_attempt_nothing_is_retried(report: Report, expected: Verdict) -> None:
    assert verdict(report, attempts=EMAIL.attempts_max) == expected


def test_retries_come_when_they_were_promised() -> None:
    def minutes(kind: EmailClass, n: int) -> list[float]:
        return [retry_delay(kind, attempts=i, roll=0).total_seconds() / 60 for i in range(1, n + 1)]

    assert minutes(EmailClass.URGENT, 4) == [1, 5, 30, 120]
    assert minutes(EmailClass.BULK, 6) == [1, 5, 15, 60, 60, 60]
    assert retry_delay(EmailClass.BULK, attempts=1, roll=1) == timedelta(seconds=66)


def test_bulk_mail_waits_by_its_own_table() -> None:
    bulk = replace(EMAIL, email_class=EmailClass.BULK)
    third = judge(bulk, replied(LATER), attempts=3, now=NOW, roll=0)
    assert third == Retry(NOW + timedelta(minutes=15), (ANN, BOB))


def test_an_account_waits_longer_each_time_its_server_is_not_there_and_a_minute_at_most() -> None:
    seconds = [unreachable_delay(times=n, roll=0).total_seconds() for n in (1, 2, 3, 7, 100)]
    assert seconds == [1, 2, 4, 60, 60]
