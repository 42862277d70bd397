"""Each situation has one code, and only an account that really sends is called sending. There is no database: facts in,
conditions out."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairpost.model.account import Account, AccountRuntime, AccountStatus, Limits, Rest, RestReason, Usage
from fairpost.model.fault import Block, Bounces
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason
from fairpost.model.troubles import Troubles
from fairpost.policy.conditions import Condition, Tone, diagnose, headline, of_hold, of_route
from fairpost.policy.facts import BlockedMail, Claims, Facts, Hold, Pause, Route
from fairpost.reasons.rendering import command, told
from fairpost.transports.smtp.settings import SmtpSettings
from tests.facts import missing

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=30)
TOMORROW = NOW + timedelta(days=1)
SECOND = timedelta(seconds=1)


def account(
    name: str = "sales", *, driven: bool = True, begun_at: datetime | None = None, **more: Any
) -> AccountRuntime:
    """Driven by a live engine, with a send just now."""
    known = Account(
        **{
            "id": AccountId(1),
            "name": name,
            "address": f"{name}@post.test",
            "display_name": None,
            "pool": "default",
            "status": AccountStatus.ACTIVE,
            "status_reason": None,
            "limits": Limits(),
            "usage": Usage(last_begun_at=NOW - SECOND),
            "transport": SmtpSettings(host="mail.test", port=587),
            **more,
        }
    )
    owner = "engine" if driven else None
    return AccountRuntime(account=known, owner=owner, until=LATER if driven else None, begun_at=begun_at)


def used_up(**more: Any) -> dict[str, Any]:
    usage = Usage(hour_started_at=LATER - timedelta(hours=1), hour_used=5, last_begun_at=NOW)
    return {"limits": Limits(hourly_max=5), "usage": usage, **more}


def troubled(reason: RestReason, until: datetime, **troubles: Any) -> dict[str, Any]:
    rest = Rest(until, reason, "421 go away")
    return {"usage": Usage(rest=rest, last_begun_at=NOW - SECOND), "troubles": Troubles(has_passed=False, **troubles)}


def unreachable(until: datetime = LATER, **more: Any) -> dict[str, Any]:
    return troubled(RestReason.UNREACHABLE, until, unreachable=3, **more)


ROUTE = Route(route="default", waiting=3)
ALL_WELL = Facts(now=NOW, engines={"engine"}, accounts=[account()], routes=[ROUTE])

STATUS = {"status": AccountStatus.PAUSED}
SITUATIONS: dict[str, tuple[AccountRuntime, Tone]] = {
    "account.sending": (account(), Tone.WORKING),
    "account.suspended": (
        account(status=AccountStatus.SUSPENDED, status_reason=Reason("account.paused_by_hand", note="bad password")),
        Tone.FAULT,
    ),
    "account.no_server": (account(transport=None), Tone.FAULT),
    "account.paused": (account(status=AccountStatus.PAUSED), Tone.STOPPED),
    "account.server_unreachable": (account(**unreachable()), Tone.FAULT),
    "account.server_forbidden": (account(**unreachable(is_barred=True)), Tone.FAULT),
    "account.provider_pause": (account(**troubled(RestReason.BACK_OFF, LATER, throttle_count=1)), Tone.WAITING),
    "account.hourly_limit": (account(**used_up()), Tone.WAITING),
    "account.daily_limit": (account(usage=Usage(rest=Rest(TOMORROW, RestReason.DAILY))), Tone.WAITING),
    "account.delay": (account(limits=Limits(delay_ms=3_600_000)), Tone.WAITING),
    "account.no_worker": (account(driven=False), Tone.WAITING),
    "account.server_hangs": (account(begun_at=NOW - timedelta(minutes=1)), Tone.FAULT),
    "account.not_begun": (account(usage=Usage(last_begun_at=NOW - timedelta(hours=1))), Tone.WAITING),
}


@pytest.mark.parametrize("code", SITUATIONS)
def test_an_account_is_in_one_condition_and_its_route_says_so(code: str) -> None:
    runtime, tone = SITUATIONS[code]
    facts = replace(ALL_WELL, accounts=[runtime])
    found = of_route(ROUTE, facts)
    assert (found.code, found.tone, found.waiting) == (code, tone, 3)
    assert missing(told(found), "sales", "3 e-mails") == []
    assert [each.code for each in diagnose(facts)] == ([code] if tone is not Tone.WORKING else [])


def test_a_pause_with_an_end_is_only_to_be_waited_for() -> None:
    for status, code in (
        (AccountStatus.PAUSED, "account.paused"),
        (AccountStatus.PAUSED_LIMIT_REACHED, "account.daily_limit"),
    ):
        found = of_route(ROUTE, replace(ALL_WELL, accounts=[account(status=status, status_until=LATER)]))
        assert (found.code, found.tone, found.until) == (code, Tone.WAITING, LATER)


def test_a_fault_stays_one_while_it_is_tried_again() -> None:
    tried = account(begun_at=NOW - SECOND, **unreachable(NOW - SECOND))
    assert of_route(ROUTE, replace(ALL_WELL, accounts=[tried])).code == "account.server_unreachable"


def test_a_fault_beats_a_pause_that_merely_ends_later() -> None:
    soon = unreachable(NOW + timedelta(minutes=1))
    both = account(
        limits=Limits(hourly_max=5), **{**soon, "usage": replace(soon["usage"], hour_used=5, hour_started_at=NOW)}
    )
    assert of_route(ROUTE, replace(ALL_WELL, accounts=[both])).code == "account.server_unreachable"
    facts = replace(ALL_WELL, accounts=[account(**used_up()), account("other", **soon)])
    assert of_route(ROUTE, facts).code == "account.server_unreachable"
    facts = replace(ALL_WELL, accounts=[account(**used_up()), account("other", **unreachable(TOMORROW))])
    assert of_route(ROUTE, facts).code == "account.hourly_limit"


def test_one_account_that_sends_is_enough_and_of_the_others_the_first_to_send_again_decides() -> None:
    paused = account("p", status=AccountStatus.PAUSED)
    broken = account("b", status=AccountStatus.SUSPENDED)
    assert diagnose(replace(ALL_WELL, accounts=[paused, broken, account(**unreachable()), account("ok")])) == []
    found = of_route(ROUTE, replace(ALL_WELL, accounts=[paused, broken, account(**used_up())]))
    assert (found.code, found.until, found.accounts) == ("account.hourly_limit", LATER, 3)
    assert of_route(ROUTE, replace(ALL_WELL, accounts=[paused, broken])).code == "account.suspended"


def test_an_engine_that_was_killed_drives_nothing_although_its_lease_lasts() -> None:
    (found,) = diagnose(replace(ALL_WELL, engines=()))
    assert (found.code, found.tone, command(found.reason)) == ("engine.none", Tone.FAULT, "fairpost work")
    assert of_route(ROUTE, replace(ALL_WELL, engines={"another"})).code == "account.no_worker"


def test_no_engine_is_said_once_and_not_where_an_account_could_not_send_anyway() -> None:
    routes = [ROUTE, Route(route="@sales", waiting=2)]
    (found,) = diagnose(replace(ALL_WELL, engines=(), routes=routes))
    assert (found.code, found.waiting) == ("engine.none", 5)
    facts = replace(ALL_WELL, engines=(), accounts=[account(status=AccountStatus.SUSPENDED)])
    assert [each.code for each in diagnose(facts)] == ["account.suspended"]


def test_mail_needs_an_account_and_its_pool_one() -> None:
    assert [each.code for each in diagnose(replace(ALL_WELL, accounts=[]))] == ["account.none"]
    routes = [Route(route="big news", waiting=1200), Route(route="@gone", waiting=1)]
    pool, pinned = diagnose(replace(ALL_WELL, routes=routes))
    assert (pool.code, pinned.code) == ("pool.empty", "account.unknown")
    assert missing(told(pool), "1,200", "big news") == []


def only(facts: Facts) -> Condition:
    (found,) = diagnose(facts)
    return found


SPAM = Reason("hold.by_hand", note="spam")


def hold(**more: Any) -> Hold:
    known = {"workspace": "acme", "level": "workspace", "key": "", "until": None, "reason": SPAM, "waiting": 7}
    return Hold(**{**known, **more})


@pytest.mark.parametrize(
    ("found", "code", "typed"),
    [
        (hold(), "hold.workspace", "fairpost release --workspace acme"),
        (hold(level="user", key="ann lee"), "hold.user", "fairpost release --workspace acme --user 'ann lee'"),
        (hold(level="domain", key="a.test"), "hold.domain", "fairpost release --workspace acme --domain a.test"),
        (hold(level="stream", key="news"), "hold.stream", "fairpost release --workspace acme --stream news"),
        (hold(until=LATER, kind="throttled"), "throttle.workspace", "fairpost user unthrottle --workspace acme"),
        (
            hold(level="user", key="ann", until=LATER, kind="throttled"),
            "throttle.user",
            "fairpost user unthrottle --workspace acme ann",
        ),
        (
            hold(level="stream", key="spring", until=LATER, kind="closed"),
            "window.closed",
            "fairpost schedule show --workspace acme",
        ),
    ],
)
def test_held_mail_shows_the_cause_and_how_to_end_it(found: Hold, code: str, typed: str) -> None:
    condition = only(replace(ALL_WELL, holds=[found]))
    assert (condition.code, condition.until, command(condition.reason)) == (code, found.until, typed)
    assert missing(told(condition), "7 e-mails", "acme", "spam") == []
    assert diagnose(replace(ALL_WELL, holds=[replace(found, waiting=0)])) == []


@pytest.mark.parametrize("held", [hold(), hold(level="stream", key="x", campaign="spring", campaign_state="failed")])
def test_mail_that_is_held_on_a_broken_route_is_described_by_the_route(held: Hold) -> None:
    broken = replace(ALL_WELL, accounts=[account(transport=None)], holds=[replace(held, routes=["default"])])
    assert only(broken).code == "account.no_server"
    assert only(replace(broken, accounts=[account(name="other", pool="other")])).code == "pool.empty"
    of_two = replace(broken, holds=[replace(held, routes=["default", "other"])])
    assert {each.code for each in diagnose(of_two)} == {"account.no_server", of_hold(held).code}


def test_where_only_an_engine_is_missing_a_hold_is_reported() -> None:
    stopped = replace(ALL_WELL, engines=(), holds=[replace(hold(), routes=["default"])])
    assert "hold.workspace" in {each.code for each in diagnose(stopped)}


def pause(**more: Any) -> Pause:
    return Pause(
        **{
            "since": NOW,
            "until": None,
            "reason": Reason("everything.paused_by_hand", note="wrong prices"),
            "paused_by": "ann on desk",
            **more,
        }
    )


def test_a_pause_of_everything_comes_first_and_adds_no_other_cause() -> None:
    found = only(replace(ALL_WELL, pause=pause(until=LATER)))
    assert (found.code, found.until, command(found.reason)) == ("everything.paused", LATER, "fairpost resume --all")
    assert missing(told(found), "2030-01-01 12:30:00 UTC", "ann on desk", "wrong prices") == []
    assert only(replace(ALL_WELL, pause=pause(restored=True))).code == "everything.restored"
    assert diagnose(replace(ALL_WELL, pause=pause(), accounts=[]))[0].code == "everything.paused"


def test_mail_for_later_says_when_the_next_is_due_unless_something_is_due() -> None:
    later = Route(route="default", waiting=3, due=False, next_at=LATER)
    found = only(replace(ALL_WELL, routes=[later]))
    assert (found.code, found.until) == ("mail.scheduled", LATER)
    assert diagnose(replace(ALL_WELL, routes=[replace(later, due=True)])) == []


def test_mail_in_doubt_is_for_a_person_or_for_an_engine() -> None:
    found = diagnose(replace(ALL_WELL, claimed={AccountId(1): Claims(in_doubt=3, undecided=2)}))
    assert [(each.code, each.waiting, each.tone) for each in found] == [
        ("mail.undecided", 2, Tone.STOPPED),
        ("mail.in_doubt", 1, Tone.WAITING),
    ]


def test_mail_of_a_worker_that_is_gone_is_reported() -> None:
    claimed = {AccountId(1): Claims(claimed=3, sending=1)}
    assert diagnose(replace(ALL_WELL, claimed=claimed)) == []
    found = only(replace(ALL_WELL, claimed=claimed, routes=[], accounts=[account(driven=False)]))
    assert (found.code, found.waiting) == ("mail.stranded", 4)


def test_a_block_names_the_workspace_the_account_and_the_figures() -> None:
    fault = Bounces(sent=40, bounced=7, percent_max=5.0)
    block = Block(account_id=AccountId(1), account="sales", workspace="acme", since=NOW, until=LATER, fault=fault)
    found = only(replace(ALL_WELL, blocked=[BlockedMail(route=ROUTE, block=block)]))
    assert (found.code, found.until) == ("account.blocks_workspace", LATER)
    assert command(found.reason) == "fairpost account unblock sales --workspace acme"
    assert missing(told(found), "acme", "sales", "7 of 40") == []


# ── the headline ──────────────────────────────────────────────────────────────────────────────────────────


def first_of(facts: Facts, per_s: float = 0) -> Condition:
    return headline(facts, diagnose(facts), per_s=per_s)


def test_the_first_look_says_sending_where_an_account_sends() -> None:
    assert (first_of(ALL_WELL).code, first_of(ALL_WELL).tone) == ("mail.sending", Tone.WORKING)
    assert missing(told(first_of(ALL_WELL, 3.2)), "3 e-mails/s", "3 queued") == []


def test_a_recent_send_does_not_hide_that_no_engine_is_running() -> None:
    assert first_of(replace(ALL_WELL, engines=()), 3.2).code == "engine.none"


def test_blocked_mail_is_counted_while_other_mail_is_sent() -> None:
    facts = replace(ALL_WELL, holds=[hold()])
    assert missing(told(first_of(facts, 1)), "1 e-mail/s", "7 of them") == []


@pytest.mark.parametrize("code", [code for code, (_, tone) in SITUATIONS.items() if tone is not Tone.WORKING])
def test_nothing_that_does_not_send_is_called_sending(code: str) -> None:
    facts = replace(ALL_WELL, accounts=[SITUATIONS[code][0]])
    assert first_of(facts).code == code


def test_nothing_waiting_is_said_quietly() -> None:
    assert first_of(replace(ALL_WELL, routes=[])).code == "mail.none"
