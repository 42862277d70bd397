"""The consequences of an outcome for the account, and their order."""

from datetime import UTC, datetime, timedelta

from fairpost.model.account import Rest, RestReason
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.troubles import NO_TROUBLES, Troubles
from fairpost.model.verdict import Bounced, Deferred, Failed, InDoubt, Retry, Sent, Untouched
from fairpost.policy.consequences import Book, ClearDoubt, Count, Refund, Remember, Suspend, consequences
from fairpost.policy.troubles import Weighed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REST = Rest(NOW + timedelta(minutes=1), RestReason.BACK_OFF)
OK = Report(reached=Reached.REPLIED, reply=Reply(250, "2.0.0 taken"))
WRONG_PASSWORD = Report(reached=Reached.UNTOUCHED, reply=Reply(535, "5.7.8 authentication failed"))
SPAM = Report(reached=Reached.REPLIED, reply=Reply(550, "5.1.8 sender address rejected: access denied"))


def test_an_e_mail_that_was_sent_is_counted_and_nothing_else() -> None:
    weighed = Weighed(verdict=Sent(("gone@x.test",)), troubles=NO_TROUBLES)
    assert consequences(NO_TROUBLES, weighed, OK) == [Count(is_handled=True, bounces=1, is_sent=True)]


def test_a_retry_counts_its_bounces_and_is_not_handled_yet() -> None:
    weighed = Weighed(verdict=Retry(NOW, ("a@x.test",), ("b@x.test",)), troubles=NO_TROUBLES)
    assert consequences(NO_TROUBLES, weighed, OK) == [Count(is_handled=False, bounces=1)]


def test_a_bounce_is_counted_as_one() -> None:
    weighed = Weighed(verdict=Bounced(("a@x.test", "b@x.test")), troubles=NO_TROUBLES)
    assert consequences(NO_TROUBLES, weighed, OK) == [Count(is_handled=True, bounces=2, is_bounced=True)]


def test_a_login_that_is_refused_suspends_before_it_rests_and_gives_the_charge_back_last() -> None:
    met = Troubles(throttle_count=1, has_passed=False)
    weighed = Weighed(verdict=Untouched(), troubles=met, rest=REST)
    remembered, suspended, *rest = consequences(NO_TROUBLES, weighed, WRONG_PASSWORD)
    assert remembered == Remember(met, ())
    assert isinstance(suspended, Suspend)
    assert rest == [REST, Refund()]


def test_an_e_mail_that_is_put_off_costs_the_account_a_rest() -> None:
    weighed = Weighed(verdict=Deferred(None), troubles=NO_TROUBLES, rest=REST)
    assert consequences(NO_TROUBLES, weighed, OK) == [REST]


def test_a_doubt_is_cleared() -> None:
    weighed = Weighed(verdict=InDoubt(), troubles=NO_TROUBLES)
    assert consequences(NO_TROUBLES, weighed, OK) == [ClearDoubt()]


def test_a_refusal_of_who_we_are_is_booked_at_once() -> None:
    weighed = Weighed(verdict=Failed(), troubles=NO_TROUBLES)
    counted, booked = consequences(NO_TROUBLES, weighed, SPAM)
    assert isinstance(counted, Count)
    assert counted.refusal is not None
    assert booked == Book()
