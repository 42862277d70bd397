"""The meaning of replies, and their consequences for the e-mail."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fairpost.model.email import Content, Outgoing, Recipient
from fairpost.model.ids import EmailId
from fairpost.model.reason import Reason
from fairpost.model.report import Channel, Reached, Reply, Report, Step
from fairpost.model.states import DoubtPolicy, EmailClass
from fairpost.model.verdict import Bounced, Deferred, Failed, InDoubt, Retry, Sent, Untouched, Verdict
from fairpost.policy.retries import back_off_delay, retry_delay, unreachable_delay
from fairpost.policy.verdicts import account_rejection, judge, requested_pause, suspend_reason

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


TOO_FAST = Reply(421, "4.7.28 unusual rate of mail from your account, try again in 10 minutes")
LOGIN = Report(reached=Reached.REPLIED, channel=Channel.GOOGLE, reply=Reply(401, "authError: Invalid Credentials"))


def test_being_too_fast_costs_the_account_a_pause_and_the_e_mail_nothing() -> None:
    told = Report(reached=Reached.REPLIED, step=Step.MAIL, reply=TOO_FAST)
    assert verdict(told, attempts=EMAIL.attempts_max) == Deferred(NOW + timedelta(minutes=10))
    header = replace(told, retry_at=NOW + timedelta(hours=1))
    assert verdict(header) == Deferred(NOW + timedelta(hours=1))
    assert verdict(replace(told, step=Step.RCPT, recipients={ANN: TOO_FAST, BOB: TOO_FAST})) == verdict(told)
    silent = replace(told, reply=Reply(421, "4.7.0 too many messages"))
    assert verdict(silent) == Deferred(None)
    assert requested_pause(silent, now=NOW) is None


def test_one_recipient_who_gets_too_much_waits_alone() -> None:
    assert verdict(replied(OK, bob=TOO_FAST)) == Retry(IN_A_MINUTE, (BOB,))


def test_an_account_that_lost_its_authorisation_gives_back_what_others_may_send() -> None:
    assert verdict(LOGIN) == Deferred(None)
    assert suspend_reason(LOGIN) == Reason("account.authentication_failed", reply="401 authError: Invalid Credentials")


def test_refusals_of_the_sender_and_of_the_message_are_distinguished() -> None:
    blocked = Report(reached=Reached.REPLIED, step=Step.MAIL, reply=Reply(550, "5.7.1 your IP is on a blocklist"))
    assert verdict(blocked) == Failed()
    assert account_rejection(blocked) == "550 5.7.1 your IP is on a blocklist"
    assert account_rejection(Report(reached=Reached.REPLIED, step=Step.DOT, reply=Reply(552, "5.3.4 too big"))) is None


def test_a_throttled_account_rests_longer_each_time_up_to_an_hour() -> None:
    assert [back_off_delay(times=n, roll=0).total_seconds() / 60 for n in (1, 2, 3, 7, 99)] == [1, 2, 4, 60, 60]


def test_a_server_in_trouble_costs_the_e_mail_no_attempt_until_it_has_seen_it() -> None:
    down = Report(reached=Reached.REPLIED, channel=Channel.GOOGLE, reply=Reply(503, "backendError: try again"))
    assert verdict(down) == Deferred(None)
    closing = Report(reached=Reached.REPLIED, step=Step.MAIL, reply=Reply(451, "4.3.2 system not accepting messages"))
    assert verdict(closing) == Deferred(None)
    assert verdict(replace(closing, step=Step.DOT)) == Retry(IN_A_MINUTE, (ANN, BOB)), "the message may be at fault"


def test_a_login_that_fails_for_now_costs_the_e_mail_nothing_at_any_step() -> None:
    for step in (Step.MAIL, Step.RCPT, Step.DOT):
        report = Report(reached=Reached.REPLIED, step=step, reply=Reply(454, "4.7.0 Temporary authentication failure"))
        assert isinstance(verdict(report), Deferred)
