"""Each reason is given when its cause is there, and only then. No database: facts in, reasons out."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairpost.model.account import Account, AccountStatus, Limits, Usage
from fairpost.model.fault import Block, Bounces
from fairpost.model.ids import AccountId
from fairpost.policy.diagnosis import BlockedMail, Cause, Facts, Hold, InHand, Pause, Post, Reason, Route, diagnose
from tests.facts import missing

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=30)


def post(name: str = "sales", *, driven: bool = True, **more: Any) -> Post:
    account = Account(
        **{
            "id": AccountId(1),
            "name": name,
            "address": f"{name}@post.test",
            "display_name": None,
            "pool": "default",
            "status": AccountStatus.ACTIVE,
            "status_reason": None,
            "limits": Limits(),
            "usage": Usage(),
            **more,
        }
    )
    return Post(account=account, owner="w1" if driven else None, until=LATER if driven else None)


def used_up(**more: Any) -> dict[str, Any]:
    usage = Usage(hour_started_at=LATER - timedelta(hours=1), hour_used=5, last_begun_at=NOW)
    return {"limits": Limits(hourly_max=5), "usage": usage, **more}


ALL_WELL = Facts(now=NOW, posts=[post()], routes=[Route(route="default", waiting=3)])


def only_reason(facts: Facts) -> Reason:
    (reason,) = diagnose(facts)
    return reason


def test_when_all_is_well_there_is_nothing_to_say() -> None:
    assert diagnose(ALL_WELL) == []
    assert diagnose(replace(ALL_WELL, routes=[])) == []


def pause(**more: Any) -> Pause:
    return Pause(**{"since": NOW, "until": None, "reason": "wrong prices", "paused_by": "ann on desk", **more})


def test_that_everything_is_paused_is_said_first_with_who_and_why() -> None:
    reason = only_reason(replace(ALL_WELL, pause=pause()))
    assert reason.cause is Cause.PAUSED
    assert missing(reason.text, "2030-01-01 12:00:00 UTC", "ann on desk", "wrong prices") == []
    assert reason.until is None
    assert reason.then == "fairpost resume --all"
    assert diagnose(replace(ALL_WELL, pause=pause(), posts=[]))[0].cause is Cause.PAUSED


def test_a_pause_that_ends_by_itself_says_when() -> None:
    reason = only_reason(replace(ALL_WELL, pause=pause(until=LATER)))
    assert missing(reason.text, "2030-01-01 12:30:00 UTC", "wrong prices") == []
    assert reason.until == LATER


def test_without_any_account_that_alone_is_said() -> None:
    reason = only_reason(replace(ALL_WELL, posts=[]))
    assert reason.cause is Cause.NO_ACCOUNT
    assert reason.then == "fairpost account add NAME --from ADDRESS"


def test_a_pool_that_mail_waits_for_needs_an_account() -> None:
    reason = only_reason(replace(ALL_WELL, routes=[Route(route="big news", waiting=1200)]))
    assert reason.cause is Cause.NO_ACCOUNT_IN_POOL
    assert missing(reason.text, "1,200", '"big news"') == []
    assert reason.then == "fairpost account add NAME --from ADDRESS --pool 'big news'"


def test_mail_pinned_to_an_account_needs_that_account() -> None:
    reason = only_reason(replace(ALL_WELL, routes=[Route(route="@gone", waiting=1)]))
    assert reason.cause is Cause.NO_SUCH_ACCOUNT
    assert missing(reason.text, "1 e-mail ", '"gone"') == []


def test_mail_pinned_to_an_account_that_is_there_is_well() -> None:
    assert diagnose(replace(ALL_WELL, routes=[Route(route="@sales", waiting=1)])) == []


@pytest.mark.parametrize("status", [s for s in AccountStatus if s is not AccountStatus.ACTIVE])
def test_accounts_that_may_not_send_are_named_with_their_reason(status: AccountStatus) -> None:
    reason = only_reason(replace(ALL_WELL, posts=[post(status=status, status_reason="bad password")]))
    assert reason.cause is Cause.ACCOUNTS_OUT_OF_ACTION
    assert missing(reason.text, "sales", status.replace("_", " "), "bad password") == []
    assert reason.then.endswith("fairpost account resume sales")


def test_one_active_account_is_enough() -> None:
    paused = post("other", status=AccountStatus.PAUSED)
    assert diagnose(replace(ALL_WELL, posts=[paused, post()])) == []


def test_of_many_accounts_only_some_are_named() -> None:
    paused = [post(f"a{i}", status=AccountStatus.PAUSED) for i in range(9)]
    text = only_reason(replace(ALL_WELL, posts=paused)).text
    assert missing(text, "a0", "a4", " 4 ") == []
    assert "a5" not in text


def test_limits_reached_by_all_say_who_is_first_to_send_again() -> None:
    reason = only_reason(replace(ALL_WELL, posts=[post(**used_up())]))
    assert reason.cause is Cause.LIMITS_REACHED
    assert reason.until == LATER
    assert missing(reason.text, "sales", "hourly", "2030-01-01 12:30:00 UTC") == []


def test_one_account_below_its_limit_is_enough() -> None:
    assert diagnose(replace(ALL_WELL, posts=[post(**used_up()), post("other")])) == []


def test_a_short_pause_between_two_sends_is_no_reason_and_a_long_one_is() -> None:
    usage = Usage(last_begun_at=NOW)
    short = post(limits=Limits(delay_ms=5_000), usage=usage)
    long = post(limits=Limits(delay_ms=3_600_000), usage=usage)
    assert diagnose(replace(ALL_WELL, posts=[short])) == []
    assert only_reason(replace(ALL_WELL, posts=[long])).cause is Cause.LIMITS_REACHED


def hold(**more: Any) -> Hold:
    known = {"workspace": "acme", "level": "workspace", "key": "", "until": None, "reason": "spam", "waiting": 7}
    return Hold(**{**known, **more})


def test_a_hold_with_mail_behind_it_is_told_with_its_reason() -> None:
    reason = only_reason(replace(ALL_WELL, holds=[hold()]))
    assert reason.cause is Cause.HELD
    assert missing(reason.text, "7 e-mails", 'workspace "acme"', "spam") == []
    assert reason.until is None
    assert reason.then == "fairpost release acme"


def test_a_hold_on_a_name_says_which_and_until_when() -> None:
    reason = only_reason(replace(ALL_WELL, holds=[hold(level="user", key="ann lee", until=LATER)]))
    assert missing(reason.text, 'user "ann lee"', 'workspace "acme"', "2030-01-01 12:30:00 UTC") == []
    assert reason.then == "fairpost release acme --user 'ann lee'"
    assert reason.until == LATER


def test_a_throttle_is_told_as_such_and_is_lifted() -> None:
    throttle = hold(level="user", key="ann lee", until=LATER, reason="too many bounces", is_throttle=True)
    reason = only_reason(replace(ALL_WELL, holds=[throttle]))
    facts = ("7 e-mails", 'user "ann lee"', 'workspace "acme"', "2030-01-01 12:30:00 UTC", "too many bounces")
    assert missing(reason.text, *facts) == []
    assert reason.then == "fairpost user lift acme 'ann lee'"
    reason = only_reason(replace(ALL_WELL, holds=[hold(until=LATER, is_throttle=True)]))
    assert reason.then == "fairpost user lift acme"


def test_a_hold_with_nothing_behind_it_keeps_nothing_back() -> None:
    assert diagnose(replace(ALL_WELL, holds=[hold(waiting=0)])) == []


def test_mail_that_is_all_for_later_says_when_the_next_is_due() -> None:
    routes = [Route(route="default", waiting=3, due=False, next_at=LATER)]
    reason = only_reason(replace(ALL_WELL, routes=routes, posts=[post(driven=False)]))
    assert reason.cause is Cause.SCHEDULED
    assert reason.until == LATER


def test_mail_for_later_beside_mail_that_is_due_is_no_reason() -> None:
    routes = [Route(route="default", waiting=3, due=True, next_at=LATER)]
    assert diagnose(replace(ALL_WELL, routes=routes)) == []


def test_mail_in_doubt_says_how_much_is_for_people_to_decide() -> None:
    reason = only_reason(replace(ALL_WELL, in_hand={AccountId(1): InHand(in_doubt=3, undecided=2)}))
    assert reason.cause is Cause.IN_DOUBT
    assert missing(reason.text, "2 ", "1 ") == []
    assert "fairpost email resolve ID --as sent|failed|resend" in reason.then


def test_mail_in_the_hands_of_a_worker_is_no_reason_while_he_lives() -> None:
    in_hand = {AccountId(1): InHand(claimed=3, sending=1)}
    assert diagnose(replace(ALL_WELL, in_hand=in_hand)) == []
    gone = only_reason(replace(ALL_WELL, in_hand=in_hand, routes=[], posts=[post(driven=False)]))
    assert gone.cause is Cause.STRANDED
    assert "4 e-mails" in gone.text


def test_ready_mail_and_nobody_at_work_is_said() -> None:
    reason = only_reason(replace(ALL_WELL, posts=[post(driven=False)]))
    assert reason.cause is Cause.NO_WORKER
    assert '"default"' in reason.text


def test_a_lease_that_has_run_out_is_nobody_at_work() -> None:
    dead = replace(post(), until=NOW - timedelta(seconds=1))
    assert only_reason(replace(ALL_WELL, posts=[dead])).cause is Cause.NO_WORKER


def test_nobody_at_work_is_not_said_where_no_account_could_send_anyway() -> None:
    facts = replace(ALL_WELL, posts=[post(driven=False, **used_up())])
    assert [reason.cause for reason in diagnose(facts)] == [Cause.LIMITS_REACHED]


def test_each_route_is_judged_by_its_own_accounts() -> None:
    facts = replace(
        ALL_WELL,
        posts=[post(), post("news", driven=False, pool="news")],
        routes=[Route(route="default", waiting=1), Route(route="news", waiting=1), Route(route="none", waiting=1)],
    )
    assert [reason.cause for reason in diagnose(facts)] == [Cause.NO_ACCOUNT_IN_POOL, Cause.NO_WORKER]
    assert '"news"' in diagnose(facts)[1].text


def blocked(route: str, *, until: datetime | None = None) -> BlockedMail:
    fault = Bounces(sent=40, bounced=7, percent_max=5.0)
    block = Block(account_id=AccountId(1), account="sales", workspace="acme", since=NOW, until=until, fault=fault)
    return BlockedMail(route=Route(route=route, waiting=3), block=block)


@pytest.mark.parametrize("route", ["default", "@sales"])
def test_a_block_is_named_with_the_sender_s_own_figures_and_how_to_end_it(route: str) -> None:
    reason = only_reason(replace(ALL_WELL, blocked=[blocked(route, until=LATER)]))
    assert (reason.cause, reason.until) == (Cause.BLOCKED, LATER)
    assert reason.then == "fairpost account unblock sales --workspace acme"
    assert missing(reason.text, "3", '"acme"', route.removeprefix("@"), "7 of 40", "12:30") == []


def test_an_account_with_nothing_but_blocked_mail_needs_no_worker() -> None:
    undriven = replace(ALL_WELL, posts=[post(driven=False)])
    assert only_reason(undriven).cause is Cause.NO_WORKER
    assert diagnose(replace(undriven, shut=[AccountId(1)])) == []
