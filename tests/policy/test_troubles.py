"""Whether an e-mail or its account is at fault: the consequences of attempts in sequence."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fairpost.model.account import RestReason
from fairpost.model.email import Content, Outgoing, Recipient
from fairpost.model.ids import EmailId
from fairpost.model.report import Channel, Reached, Reply, Report, Step
from fairpost.model.states import DoubtPolicy, EmailClass
from fairpost.model.troubles import NO_TROUBLES, Troubles
from fairpost.model.verdict import Bounced, Deferred, Failed, InDoubt, Retry, Sent, Untouched
from fairpost.policy.troubles import SUSPECTS_MAX, Weighed, weigh
from fairpost.policy.verdicts import judge

NOW = datetime(2030, 1, 1, tzinfo=UTC)
TAKEN = Report(reached=Reached.REPLIED, step=Step.DOT, reply=Reply(250, "2.0.0 ok"))
NO_USER = Report(reached=Reached.REPLIED, step=Step.RCPT, reply=Reply(550, "5.1.1 no such user"))
LATER = Report(reached=Reached.REPLIED, step=Step.RCPT, reply=Reply(451, "4.3.0 try again later"))
FULL = Report(reached=Reached.REPLIED, step=Step.RCPT, reply=Reply(452, "4.2.2 mailbox full"))
TOO_FAST = Report(reached=Reached.REPLIED, step=Step.MAIL, reply=Reply(450, "4.7.0 too many messages, slow down"))
GMAIL_503 = Report(reached=Reached.REPLIED, channel=Channel.GOOGLE, reply=Reply(503, "backendError: try again"))
CUT = Report(reached=Reached.BEFORE_DOT, step=Step.BODY, error="the connection was lost")
CUT_AFTER_DOT = Report(reached=Reached.AFTER_DOT, step=Step.DOT, error="the connection was lost")
HUNG = Report(reached=Reached.BEFORE_DOT, step=Step.RCPT, error="no answer to rcpt in time", is_silent=True)
HUNG_AFTER_DOT = replace(HUNG, reached=Reached.AFTER_DOT, step=Step.DOT)
NO_SERVER = Report(reached=Reached.UNTOUCHED, step=Step.CONNECT, error="connection refused")


def email(number: int, **more: object) -> Outgoing:
    plain = Outgoing(
        id=EmailId(number),
        workspace="w",
        email_class=EmailClass.BULK,
        on_doubt=DoubtPolicy.HOLD,
        attempts=0,
        attempts_max=4,
        sender=None,
        recipients=(Recipient(kind="to", address="ann@there.test"),),
        envelope=("ann@there.test",),
        fields={},
        content=Content(id=1, subject="s", text="t", html=None, reply_to=None, headers={}),
    )
    return replace(plain, **more)  # type: ignore[arg-type]


class Account:
    """Attempts of one account, in sequence."""

    def __init__(self) -> None:
        self.troubles = NO_TROUBLES

    def tries(self, number: int, report: Report, *, attempt: int = 1, **more: object) -> Weighed:
        one = email(number, **more)
        verdict = judge(one, report, attempts=attempt, now=NOW, roll=0)
        weighed = weigh(self.troubles, one, verdict, report, attempts=attempt, now=NOW, roll=0)
        self.troubles = weighed.troubles
        return weighed


def rest_s(weighed: Weighed) -> float | None:
    return (weighed.rest.until - NOW).total_seconds() if weighed.rest else None


@pytest.mark.parametrize("report", [LATER, FULL, CUT])
def test_a_failure_about_one_email_uses_up_its_attempt_and_the_account_continues(report: Report) -> None:
    account = Account()
    for _ in range(5):
        weighed = account.tries(1, report)
        assert isinstance(weighed.verdict, Retry)
        assert weighed.rest is None
        assert account.tries(2, TAKEN).verdict == Sent()


def test_three_different_e_mails_in_a_row_with_the_same_answer_mean_the_account() -> None:
    account = Account()
    assert isinstance(account.tries(1, LATER).verdict, Retry)
    assert isinstance(account.tries(2, LATER).verdict, Retry)
    third = account.tries(3, LATER)
    assert isinstance(third.verdict, Deferred), "it has not used up an attempt"
    assert third.forgiven == (1, 2)
    assert (third.rest and third.rest.reason, rest_s(third)) == (RestReason.BACK_OFF, 60)
    fourth = account.tries(4, LATER)
    assert isinstance(fourth.verdict, Deferred)
    assert fourth.forgiven == (), "the others already have theirs back"
    assert rest_s(fourth) == 120, "it grows until one is accepted"
    account.tries(5, TAKEN)
    assert account.troubles == NO_TROUBLES


def test_a_row_is_of_different_e_mails_with_one_answer_and_nothing_passed_between() -> None:
    account = Account()
    for number, report in [(1, LATER), (1, LATER), (2, LATER), (3, CUT), (4, LATER), (5, LATER)]:
        assert account.tries(number, report).rest is None
    account.tries(6, TAKEN)
    assert account.tries(7, LATER).rest is None
    account.tries(8, NO_USER)
    assert account.tries(9, LATER).rest is None


@pytest.mark.parametrize(
    "text", ["4.2.2 mailbox full", "4.7.1 Greylisted, please try again", "4.7.1 Rate limit exceeded for this recipient"]
)
def test_failures_specific_to_recipients_are_not_a_streak(text: str) -> None:
    account = Account()
    for number in range(10):
        weighed = account.tries(number, replace(LATER, reply=Reply(451, text)))
        assert isinstance(weighed.verdict, Retry)
        assert weighed.rest is None


def test_in_a_row_the_last_try_of_an_e_mail_is_not_its_end() -> None:
    account = Account()
    account.tries(1, LATER)
    account.tries(2, LATER)
    assert isinstance(account.tries(3, LATER, attempt=4).verdict, Deferred)
    assert isinstance(Account().tries(3, LATER, attempt=4).verdict, Failed)


def test_in_a_row_who_got_it_and_who_is_dead_stays_so() -> None:
    people = ("ann@there.test", "bob@there.test")
    account = Account()
    account.tries(1, LATER)
    account.tries(2, LATER)
    each = {"ann@there.test": Reply(550, "5.1.1 no such user"), "bob@there.test": LATER.reply or Reply(451, "")}
    third = account.tries(3, replace(LATER, recipients=each), envelope=people)
    assert isinstance(third.verdict, Retry)
    assert third.verdict.bounced == ("ann@there.test",)
    assert third.forgiven == (1, 2, 3)


def test_connections_that_break_in_a_row_rest_the_account_for_seconds() -> None:
    account = Account()
    assert [rest_s(account.tries(n, CUT)) for n in (1, 2, 3, 4)] == [None, None, 1, 2]
    account = Account()
    assert [rest_s(account.tries(n, CUT_AFTER_DOT)) for n in (1, 2, 3)] == [None, None, 1]
    assert account.tries(4, CUT_AFTER_DOT).verdict == InDoubt()


@pytest.mark.parametrize(("report", "first_s"), [(TOO_FAST, 60), (GMAIL_503, 1)])
def test_an_account_that_is_put_off_rests_longer_each_time_and_its_e_mails_lose_nothing(
    report: Report, first_s: int
) -> None:
    account = Account()
    weighed = [account.tries(n, report, attempt=4) for n in (1, 2, 3, 4)]
    assert [rest_s(w) for w in weighed] == [first_s, 2 * first_s, 4 * first_s, 8 * first_s]
    assert all(isinstance(w.verdict, Deferred) for w in weighed)
    again = Account()
    assert [rest_s(again.tries(1, report)) for _ in range(2)] == [first_s, 2 * first_s], "also with a single e-mail"


@pytest.mark.parametrize(("report", "first_s"), [(TOO_FAST, 60), (GMAIL_503, 1)])
def test_an_e_mail_put_off_three_times_while_others_pass_is_to_blame_itself(report: Report, first_s: int) -> None:
    account = Account()
    for due_s in (None, 60):
        weighed = account.tries(1, report)
        assert isinstance(weighed.verdict, Deferred)
        assert weighed.verdict.due_at == (None if due_s is None else NOW + timedelta(seconds=due_s))
        assert rest_s(weighed) == first_s
        account.tries(2, TAKEN)
    for attempt in (1, 2, 3):
        weighed = account.tries(1, report, attempt=attempt)
        assert isinstance(weighed.verdict, Retry), "from now on, it uses up its attempts"
        assert weighed.rest is None
    assert isinstance(account.tries(1, report, attempt=4).verdict, Failed)


def test_an_account_for_which_nothing_passes_blames_no_e_mail() -> None:
    account = Account()
    for _ in range(10):
        for number in (1, 2):
            assert isinstance(account.tries(number, TOO_FAST).verdict, Deferred)


def test_the_cache_has_a_limit() -> None:
    account = Account()
    for number in range(100):
        account.tries(number, TOO_FAST)
        account.tries(1000, TAKEN)
    assert len(account.troubles.put_off) <= SUSPECTS_MAX
    for number in range(100):
        account.tries(number, LATER)
    assert len(account.troubles.refused) <= 3


@pytest.mark.parametrize("report", [HUNG, HUNG_AFTER_DOT])
def test_after_a_silence_the_rest_grows_only_when_another_e_mail_is_met_by_silence(report: Report) -> None:
    account = Account()
    assert [rest_s(account.tries(n, report)) for n in (1, 1, 1, 2, 3)] == [1, 1, 1, 2, 4]
    assert account.troubles.last == 3
    account.tries(4, TAKEN)
    assert rest_s(account.tries(3, report)) == 1


def test_a_server_that_does_not_exist_rests_the_account_up_to_a_minute() -> None:
    account = Account()
    weighed = [account.tries(1, NO_SERVER) for _ in range(9)]
    assert [rest_s(w) for w in weighed] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert {type(w.verdict) for w in weighed} == {Untouched}


def test_a_server_that_names_a_moment_is_obeyed() -> None:
    moment = NOW + timedelta(hours=2)
    weighed = Account().tries(1, replace(GMAIL_503, retry_at=moment))
    assert weighed.rest is not None
    assert weighed.rest.until == moment


def test_a_bounce_shows_that_the_account_is_served() -> None:
    account = Account()
    account.tries(1, TOO_FAST)
    assert account.tries(2, NO_USER).verdict == Bounced(("ann@there.test",))
    assert account.troubles == Troubles(put_off={EmailId(1): 1})
