"""An account that stops or can send again is logged as one event, by one engine."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from fairpost.engine.changes import AccountChanges
from fairpost.model.account import Account, AccountRuntime, AccountStatus, Limits, Rest, RestReason, Usage
from fairpost.model.ids import AccountId
from fairpost.model.troubles import NO_TROUBLES, Troubles
from fairpost.transports.smtp.settings import SmtpSettings

NOW = datetime(2030, 1, 7, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=55)
SERVER = SmtpSettings(host="mail.test", port=587)
AWAY = Troubles(unreachable=1, has_passed=False)


def runtime(owner: str | None = "here", **more: object) -> AccountRuntime:
    account = Account(
        id=AccountId(1),
        name="news",
        address="news@x.test",
        display_name=None,
        pool="default",
        status=AccountStatus.ACTIVE,
        status_reason=None,
        limits=Limits(),
        usage=Usage(),
        transport=SERVER,
    )
    until = LATER if owner is not None else None
    return AccountRuntime(account=replace(account, **more), owner=owner, until=until, seen_at=NOW)  # type: ignore[arg-type]


def codes(changes: AccountChanges, seen: AccountRuntime) -> list[str]:
    return [event.code for event in changes.seen([seen])]


def limited(owner: str | None = "here") -> AccountRuntime:
    return runtime(owner, status=AccountStatus.PAUSED_LIMIT_REACHED, status_until=LATER)


def test_a_daily_limit_is_reported_once_with_its_end_and_so_is_that_it_can_send_again() -> None:
    changes = AccountChanges("here")
    assert codes(changes, runtime()) == []
    (event,) = changes.seen([limited()])
    assert (event.code, event.params["account"], event.params["until"]) == ("account.daily_limit", "news", LATER)
    assert codes(changes, limited()) == []
    assert codes(changes, runtime()) == ["account.active"]


def test_a_server_that_stays_away_is_reported_once_however_often_it_is_tried() -> None:
    changes = AccountChanges("here")
    for n, until in enumerate((LATER, NOW - timedelta(seconds=1), LATER)):  # resting, trying, resting again
        usage = Usage(rest=Rest(until, RestReason.UNREACHABLE, "connection refused"))
        assert codes(changes, runtime(usage=usage, troubles=AWAY)) == ["account.server_unreachable"] * (n == 0)
    over = Usage(rest=Rest(NOW - timedelta(seconds=1), RestReason.UNREACHABLE))
    assert codes(changes, runtime(usage=over, troubles=NO_TROUBLES)) == ["account.active"]


def test_an_account_that_another_engine_drives_is_reported_by_that_one() -> None:
    changes = AccountChanges("here")
    assert codes(changes, limited("there")) == []
    assert codes(changes, runtime("there")) == []


def test_an_account_that_no_engine_drives_is_reported() -> None:
    changes = AccountChanges("here")
    assert codes(changes, runtime(None, status=AccountStatus.PAUSED)) == ["account.paused"]


def test_an_account_that_was_removed_is_forgotten() -> None:
    changes = AccountChanges("here")
    assert codes(changes, limited()) == ["account.daily_limit"]
    assert list(changes.seen([])) == []
    assert codes(changes, limited()) == ["account.daily_limit"]
