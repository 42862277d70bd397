"""Which accounts get a worker, for one engine and for several."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from fairpost.model.account import Account, AccountRuntime, AccountStatus, Limits, Usage
from fairpost.model.ids import AccountId
from fairpost.policy.placement import Plan, plan

NOW = datetime(2030, 1, 31, 9, tzinfo=UTC)


def account(number: int, *, pool: str = "default", **given: object) -> Account:
    made = Account(
        id=AccountId(number),
        name=f"a{number}",
        address=f"a{number}@example.com",
        display_name=None,
        pool=pool,
        status=AccountStatus.ACTIVE,
        status_reason=None,
        limits=Limits(),
        usage=Usage(),
        transport=None,
    )
    return replace(made, **given)  # type: ignore[arg-type]


def planned(
    *accounts: Account,
    due: tuple[str, ...] = ("default",),
    driven: tuple[int, ...] = (),
    ours: dict[int, bool] | None = None,
    barred: tuple[int, ...] = (),
    engines: int = 1,
    places: int = 100,
) -> Plan:
    return plan(
        [AccountRuntime(account=a) for a in accounts],
        due,
        driven=[AccountId(id_) for id_ in driven],
        ours={AccountId(id_): idle for id_, idle in (ours or {}).items()},
        barred=[AccountId(id_) for id_ in barred],
        engines=engines,
        places=places,
        now=NOW,
    )


def test_an_account_with_work_gets_a_worker_and_one_without_does_not() -> None:
    assert planned(account(1), account(2, pool="other")).start == (1,)


def test_mail_pinned_to_an_account_is_its_work() -> None:
    assert planned(account(1), account(2), due=("@a2",)).start == (2,)


def test_idle_workers_are_woken_and_busy_ones_are_not() -> None:
    accounts = account(1), account(2), account(3, pool="quiet")
    result = planned(*accounts, driven=(1, 2, 3), ours={1: True, 2: False, 3: True})
    assert result.wake == (1,)
    assert result.start == ()


def test_an_account_that_another_drives_is_left_alone() -> None:
    assert planned(account(1), driven=(1,)).start == ()


def test_an_account_driven_by_old_settings_is_released_by_its_own_engine() -> None:
    seen = [AccountRuntime(account=account(n), is_outdated=True) for n in (1, 2)]
    driven = [AccountId(1), AccountId(2)]
    result = plan(seen, [], ours={AccountId(1): False}, driven=driven, barred=[], engines=1, places=9, now=NOW)
    assert result.let_go == (1,)


def test_paused_suspended_and_barred_accounts_are_not_started() -> None:
    accounts = [account(1, status=AccountStatus.PAUSED), account(2, status=AccountStatus.SUSPENDED), account(3)]
    assert planned(*accounts, barred=(3,)).start == ()


def test_an_account_at_its_limit_is_started_when_it_may_send_again() -> None:
    begun = NOW - timedelta(minutes=20)
    full = account(1, limits=Limits(hourly_max=5), usage=Usage(hour_started_at=begun, hour_used=5))
    result = planned(full)
    assert result.start == ()
    assert result.next_at == begun + timedelta(hours=1)


def test_one_of_two_engines_takes_half_of_the_accounts() -> None:
    accounts = [account(n) for n in range(1, 6)]
    assert len(planned(*accounts, engines=2).start) == 3
    assert len(planned(*accounts, engines=2, ours={1: False, 2: False}, driven=(1, 2)).start) == 1
    assert len(planned(*accounts, engines=1).start) == 5


def test_an_engine_with_more_than_its_share_releases_the_idle_first() -> None:
    accounts = [account(n) for n in range(1, 5)]
    result = planned(*accounts, engines=2, ours={1: False, 2: True, 3: False, 4: True}, driven=(1, 2, 3, 4))
    assert result.let_go == (2, 4)
    assert planned(*accounts, engines=1, ours={1: False, 2: True, 3: False, 4: True}).let_go == ()


def test_no_more_than_there_are_places_for() -> None:
    assert len(planned(*[account(n) for n in range(1, 10)], places=4).start) == 4
