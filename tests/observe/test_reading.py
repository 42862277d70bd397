"""The one answer to whether an account's mailbox is read, and what is not detected otherwise."""

from datetime import UTC, datetime, timedelta

import pytest

from fairpost.model.account import Account, AccountRuntime, AccountStatus, Limits, MailboxState, Usage
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason
from fairpost.model.transport import Security
from fairpost.observe.reading import OVERDUE, Unknown, reading_of
from fairpost.policy.conditions import Tone
from fairpost.reasons.rendering import shown
from fairpost.transports.smtp.settings import SmtpSettings

NOW = datetime(2030, 1, 7, 12, tzinfo=UTC)
REFUSED = Reason("account.read_login_refused", account="anna", why="no", until=NOW)
ALL = tuple(Unknown)


def runtime(
    *, read: bool = True, bounces: str | None = None, mailbox: MailboxState | None = None, has_server: bool = True
) -> AccountRuntime:
    settings = SmtpSettings(
        host="smtp.example.com", port=587, security=Security.STARTTLS, user="ann", read=read, bounce_domain=bounces
    )
    account = Account(
        id=AccountId(1),
        name="anna",
        address="anna@example.com",
        display_name=None,
        pool="default",
        status=AccountStatus.ACTIVE,
        status_reason=None,
        limits=Limits(),
        usage=Usage(),
        transport=settings if has_server else None,
    )
    return AccountRuntime(account=account, mailbox=mailbox)


def looked(ago: timedelta | None, reason: Reason | None = None) -> MailboxState:
    return MailboxState(looked_at=None if ago is None else NOW - ago, reason=reason, failed_at=NOW if reason else None)


@pytest.mark.parametrize(
    ("given", "state", "code", "unknown", "tone"),
    [
        (runtime(read=False), "off", "account.no_way_back", ALL, Tone.IDLE),
        (runtime(read=False, bounces="b.example"), "off", "account.replies_unknown", (Unknown.REPLIES,), Tone.IDLE),
        (runtime(), "waiting", "account.read_soon", ALL, Tone.WAITING),
        (runtime(mailbox=looked(None)), "waiting", "account.read_soon", ALL, Tone.WAITING),
        (runtime(mailbox=looked(timedelta(minutes=30))), "reading", "account.read", (), Tone.WORKING),
        (runtime(mailbox=looked(2 * OVERDUE)), "waiting", "account.read_overdue", ALL, Tone.WAITING),
        (runtime(mailbox=looked(OVERDUE, REFUSED)), "failing", "account.read_login_refused", ALL, Tone.FAULT),
        (
            runtime(bounces="b.example", mailbox=looked(None, REFUSED)),
            "failing",
            "account.read_login_refused",
            (Unknown.REPLIES,),
            Tone.FAULT,
        ),
        # A read from before reading was switched off no longer counts.
        (runtime(read=False, mailbox=looked(OVERDUE, REFUSED)), "off", "account.no_way_back", ALL, Tone.IDLE),
    ],
)
def test_what_comes_back(
    given: AccountRuntime, state: str, code: str, unknown: tuple[Unknown, ...], tone: Tone
) -> None:
    found = reading_of(given, NOW)
    assert found is not None
    assert (found.state, found.condition.code, found.unknown, found.condition.tone) == (state, code, unknown, tone)
    assert "anna" in shown(found.condition).text


def test_an_account_without_a_server_has_no_mailbox() -> None:
    assert reading_of(runtime(has_server=False), NOW) is None


def test_only_a_mailbox_that_is_on_and_was_tried_is_troubled() -> None:
    troubled = {
        code: found.is_troubled
        for each in (
            runtime(read=False),
            runtime(),
            runtime(mailbox=looked(timedelta())),
            runtime(mailbox=looked(2 * OVERDUE)),
            runtime(mailbox=looked(None, REFUSED)),
        )
        if (found := reading_of(each, NOW)) and (code := found.condition.code)
    }
    assert {code for code, is_so in troubled.items() if is_so} == {"account.read_overdue", "account.read_login_refused"}
