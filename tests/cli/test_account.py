"""Accounts: added, changed, listed, paused, resumed, removed. Their servers are in test_account_server.py."""

from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fairpost.cli.output import jsonable
from fairpost.model.account import DailyMode, Limits, RestReason, WarmUp
from fairpost.model.report import Reached, Reply, Report
from tests.cli.conftest import Cli, deliver, missing, send


def test_an_account_is_added_with_its_limits(cli: Cli) -> None:
    added = cli.json(
        *(
            "account",
            "add",
            "sales",
            "--from",
            "Sales <sales@Post.test>",
            "--pool",
            "news",
            "--display-name",
            "The Shop",
        ),
        *("--delay-ms", "400", "--hourly", "100", "--daily", "500", "--batch-size", "10"),
    )
    (account,) = cli.json("account", "list")
    assert added == {"id": account["id"], "name": "sales", "provider": None}
    expected = {
        "name": "sales",
        "address": "sales@post.test",
        "display_name": "The Shop",
        "pool": "news",
        "status": "active",
        "status_reason": None,
        "server": None,
        "limits": jsonable(Limits(delay_ms=400, hourly_max=100, daily_max=500, batch_max=10)),
        "hour_used": 0,
        "day_used": 0,
        "sent_total": 0,
        "driven_by": None,
        "lease_until": None,
        "may_send_at": None,
        "may_send_why": None,
    }
    assert {name: account[name] for name in expected} == expected


def test_the_errors_of_the_day_and_the_last_use_are_shown(cli: Cli, url: str) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test", "--provider", "none")
    unused = cli.json("account", "show", "sales")
    assert (unused["day_errors"], unused["last_used_at"]) == (0, None)
    send(cli)
    deliver(url, Report(reached=Reached.REPLIED, reply=Reply(451, "4.3.0 try later")))
    shown = cli.json("account", "show", "sales")
    assert (shown["day_errors"], shown["sent_total"]) == (1, 0)
    with psycopg.connect(url, autocommit=True) as db:
        begun_at = db.execute("SELECT last_begun_at FROM fairpost.leases").fetchone()
        assert begun_at is not None
        assert datetime.fromisoformat(shown["last_used_at"]) == begun_at[0]
        assert f"{begun_at[0]:%H:%M:%S}" in cli.ok("account", "show", "sales")
        db.execute("UPDATE fairpost.leases SET day_started_at = day_started_at - interval '2 days'")
    assert cli.json("account", "list")[0]["day_errors"] == 0, "they were from another day"


def test_a_rest_is_shown_and_a_suspension_with_what_it_ends(cli: Cli, url: str) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test", "--provider", "none")
    assert (cli.json("account", "show", "sales")["rest"], cli.json("account", "show", "sales")["patience"]) == (
        None,
        None,
    )
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(
            "UPDATE fairpost.leases SET rest_until = '2100-01-01Z', rest_reason = %s, rest_detail = '421 slow down'",
            [RestReason.BACK_OFF],
        )
        db.execute(
            "UPDATE fairpost.accounts SET status = 'suspended', status_reason = 'account.worker_died', status_params = '{\"times\": 3}'"
        )
    shown = cli.json("account", "show", "sales")
    assert (shown["rest"]["until"], shown["rest"]["detail"]) == ("2100-01-01T00:00:00Z", "421 slow down")
    assert shown["rest"]["reason_code"] == RestReason.BACK_OFF
    assert (shown["status_reason_code"], shown["status_reason_params"]) == ("account.worker_died", {"times": 3})
    assert shown["patience"]["urgent"] < shown["patience"]["bulk"]
    day = shown["patience"]["bulk"][:10]
    assert missing(cli.ok("account", "show", "sales"), "2100-01-01", "421 slow down", day) == []


def test_the_list_shows_what_was_used_and_when_the_next_send_may_be(cli: Cli, url: str) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test", "--smtp", "smtp://127.0.0.1:25", "--hourly", "1")
    send(cli)
    deliver(url)
    (account,) = cli.json("account", "list")
    assert account["condition"]["code"] == "account.hourly_limit"
    assert (account["hour_used"], account["sent_total"], account["may_send_why"]) == (1, 1, "hourly limit")
    assert account["may_send_at"].endswith("Z")
    table = cli.ok("account", "list")
    assert missing(table, "1/1", "hourly limit") == []


def test_without_accounts_the_list_says_how_to_add_one(cli: Cli) -> None:
    assert "fairpost account add NAME --from ADDRESS" in cli.ok("account", "list")
    assert cli.json("account", "list") == []


def test_a_wrong_account_is_not_added_and_its_error_names_the_option_the_rule_and_the_value(cli: Cli) -> None:
    sales = ("account", "add", "sales", "--from")
    cases = (
        (("account", "add", "a b", "--from", "a@b.test"), ("NAME", "1..100", "._-", "'a b'")),
        ((*sales, "nobody"), ("--from", "'nobody'")),
        ((*sales, "a@b.test", "--pool", "@sales"), ("--pool", "1..100", "'@sales'")),
        ((*sales, "a@b.test", "--display-name", "a\nb"), ("--display-name", "200", r"'a\nb'")),
    )
    assert cli.wrong_errors(cases) == []
    assert cli.json("account", "list") == []


@pytest.mark.parametrize(
    "option",
    [
        ("--hourly", "0"),
        ("--daily", "-1"),
        ("--daily", "all"),
        ("--hourly", str(2**31)),
        ("--delay-ms", "-1"),
        ("--batch-size", "1001"),
        ("--daily-mode", "lunar"),
        ("--units-per-send", "0"),
        ("--bounce-percent-max", "500"),
        ("--warm-up", "fast"),
        ("--warm-up", "0+5"),
    ],
)
def test_a_limit_out_of_range_is_a_usage_error(bare: Cli, option: tuple[str, str]) -> None:
    assert option[0] in bare.error("account", "add", "sales", "--from", "a@b.test", *option, code=2)


def test_a_name_is_given_once(cli: Cli) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    error = cli.error("account", "add", "sales", "--from", "x@post.test")
    assert missing(error, "sales", "fairpost account show sales") == []
    assert [account["address"] for account in cli.json("account", "list")] == ["sales@post.test"]


def test_an_account_is_paused_and_resumed(cli: Cli) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    cli.ok("account", "pause", "sales", "--reason", "new password")
    (paused,) = cli.json("account", "list")
    assert (paused["status"], paused["status_reason"]) == ("paused", "new password")
    cli.ok("account", "resume", "sales")
    (resumed,) = cli.json("account", "list")
    assert (resumed["status"], resumed["status_reason"]) == ("active", None)


def test_an_unknown_account_is_an_error(cli: Cli) -> None:
    commands = (
        ("show", "gone"),
        ("verify", "gone"),
        ("pause", "gone", "--reason", "x"),
        ("resume", "gone"),
        ("remove", "gone", "--yes"),
        ("set", "gone", "--pool", "news"),
    )
    assert cli.wrong_errors((("account", *each), ("gone", "fairpost account list")) for each in commands) == []


def test_an_account_without_a_server_is_listed_as_such_and_cannot_be_verified(cli: Cli) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    (listed,) = cli.json("account", "list")
    assert listed["server"] is None
    assert cli.json("account", "show", "sales")["server"] is None
    assert missing(cli.error("account", "verify", "sales"), "sales", "fairpost account set sales --smtp") == []


def test_only_given_options_are_changed(cli: Cli) -> None:
    cli.ok(
        *("account", "add", "sales", "--from", "sales@post.test", "--display-name", "Shop"),
        *("--hourly", 10, "--daily", 20),
    )
    before = cli.json("account", "show", "sales")
    cli.ok("account", "set", "sales", "--daily", 30, "--pool", "news")
    after = cli.json("account", "show", "sales")
    limits = {**before["limits"], "daily_max": 30}
    assert after == {**before, "limits": limits, "day_max": 30, "pool": "news"}


def test_limits_and_the_name_beside_the_address_can_be_taken_away(cli: Cli) -> None:
    cli.ok("account", "add", "sales", "--from", "a@post.test", "--display-name", "Shop", "--hourly", 1, "--daily", 2)
    cli.ok(
        "account", "set", "sales", "--hourly", "none", "--daily", "none", "--display-name", "", "--from", "b@post.test"
    )
    account = cli.json("account", "show", "sales")
    assert (account["limits"]["hourly_max"], account["limits"]["daily_max"]) == (None, None)
    assert (account["display_name"], account["address"]) == (None, "b@post.test")


def test_an_account_serves_the_pool_it_was_moved_to(cli: Cli, url: str) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    cli.ok("account", "set", "sales", "--pool", "news")
    id_ = send(cli, "--pool", "news")
    deliver(url)
    assert cli.json("email", "show", id_)["state"] == "sent"


def test_a_change_of_nothing_says_how_to_change_something(cli: Cli) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    assert "fairpost account set sales --help" in cli.error("account", "set", "sales")


def test_a_wrong_change_changes_nothing(cli: Cli) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    before = cli.json("account", "show", "sales")
    options = (("--from", "nobody"), ("--pool", "@x"), ("--display-name", "a\nb"))
    change = ("account", "set", "sales", "--daily", 5)
    assert cli.wrong_errors(((*change, name, value), (name, repr(value))) for name, value in options) == []
    assert cli.json("account", "show", "sales") == before


def test_an_account_is_removed(cli: Cli) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    cli.ok("account", "remove", "sales", "--yes")
    assert cli.json("account", "list") == []
    cli.ok("account", "add", "sales", "--from", "sales@post.test")


def test_removing_asks_first(cli: Cli) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    assert "sales" in cli.error("account", "remove", "sales")
    assert len(cli.json("account", "list")) == 1


def test_sent_emails_outlive_their_account(cli: Cli, url: str) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    id_ = send(cli)
    deliver(url)
    cli.ok("account", "remove", "sales", "--yes")
    assert cli.json("email", "show", id_)["state"] == "sent"
    cli.ok("status")


def test_an_account_that_e_mails_wait_for_is_not_removed(cli: Cli) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    id_ = send(cli, "--account", "sales")
    send(cli)  # any account in the pool may send this one
    error = cli.error("account", "remove", "sales", "--yes")
    assert missing(error, "1 that only", "fairpost email list --account sales") == []
    cli.ok("email", "cancel", id_)
    cli.ok("account", "remove", "sales", "--yes")


def test_an_account_with_claimed_e_mails_or_in_doubt_is_not_removed(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    id_ = cli.json("account", "add", "sales", "--from", "sales@post.test")["id"]
    send(cli)
    db.execute("SELECT fairpost.take_lease(%s, 'test', 60)", (id_,))
    db.execute("SELECT fairpost.claim(%s, 1, 10)", (id_,))
    error = cli.error("account", "remove", "sales", "--yes")
    assert missing(error, "1 claimed", "fairpost email list --account sales") == []
    db.execute(
        "UPDATE fairpost.queue SET state = 'in_doubt', attempts = 1, begun_at = clock_timestamp() WHERE account_id = %s",
        (id_,),
    )
    error = cli.error("account", "remove", "sales", "--yes")
    assert missing(error, "1 in doubt", "fairpost email list --account sales") == []


def test_a_worker_whose_account_was_removed_claims_nothing(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    id_ = cli.json("account", "add", "sales", "--from", "sales@post.test")["id"]
    db.execute("SELECT fairpost.take_lease(%s, 'test', 60)", (id_,))
    cli.ok("account", "remove", "sales", "--yes")
    send(cli)
    assert db.execute("SELECT verdict FROM fairpost.claim(%s, 1, 10)", (id_,)).fetchone() == ("stale",)


# ── limits and providers ──────────────────────────────────────────────────────────────────────────────────────


def test_an_account_begins_with_the_limits_of_its_provider(cli: Cli) -> None:
    begins: dict[tuple[str, ...], tuple[str | None, int | None, int | None, int]] = {
        ("ann@gmail.com",): ("gmail", 100, 500, 3000),
        ("ann@GMail.com", "--hourly", "50"): ("gmail", 50, 500, 3000),
        ("ann@hotmail.com",): ("hotmail", 60, 300, 4000),
        ("ann@outlook.com",): ("outlook", 60, 300, 4000),
        ("Ann <ann@yahoo.com>",): ("yahoo", 80, 500, 5000),
        ("ann@post.test",): ("custom", 200, 1000, 2000),
        ("ann@post.test", "--delay-ms", "0"): (None, None, None, 0),
        ("ann@post.test", "--provider", "workspace"): ("workspace", None, 2000, 400),
        ("ann@gmail.com", "--provider", "none"): (None, None, None, 0),
    }
    added = {given: cli.json("account", "add", f"a{n}", "--from", *given)["provider"] for n, given in enumerate(begins)}
    assert added == {given: provider for given, (provider, *_) in begins.items()}
    accounts = {account["name"]: account for account in cli.json("account", "list")}
    found = [
        (account["provider"], *(account["limits"][name] for name in ("hourly_max", "daily_max", "delay_ms")))
        for account in (accounts[f"a{n}"] for n in range(len(begins)))
    ]
    assert dict(zip(begins, found, strict=True)) == begins


def test_every_limit_can_be_set_and_taken_away(cli: Cli) -> None:
    options = {
        "--delay-ms": ("30000", "0"),
        "--gap-max-ms": ("90000", "none"),
        "--hourly": ("7", "none"),
        "--daily": ("70", "none"),
        "--daily-mode": ("sliding", "calendar"),
        "--units-per-minute": ("6000", "none"),
        "--units-per-send": ("115", "1"),
        "--warm-up": ("5+2", "none"),
        "--bounce-percent-max": ("3.5", "none"),
        "--bounce-sample-min": ("50", "10"),
        "--cool-down-s": ("3600", "none"),
        "--batch-size": ("9", "50"),
    }
    given = [word for name, (value, _) in options.items() for word in (name, value)]
    cli.ok("account", "add", "ann", "--from", "ann@post.test", *given)
    limits = cli.json("account", "show", "ann")["limits"]
    assert limits == jsonable(
        Limits(
            delay_ms=30_000,
            gap_max_ms=90_000,
            hourly_max=7,
            daily_max=70,
            daily_mode=DailyMode.SLIDING,
            units_per_minute=6000,
            units_per_send=115,
            warm_up=WarmUp(start=5, step=2),
            bounce_percent_max=3.5,
            bounce_sample_min=50,
            cool_down_s=3600,
            batch_max=9,
        )
    )
    shown = cli.ok("account", "show", "ann")
    assert (
        missing(shown, "30 s", "90 s", "24 hours", "0 of 5") == []
    )  # five, which is the limit of the warm-up's first day
    taken = [word for name, (_, value) in options.items() for word in (name, value)]
    cli.ok("account", "set", "ann", *taken)
    limits = cli.json("account", "show", "ann")["limits"]
    assert limits == jsonable(Limits(daily_mode=DailyMode.CALENDAR, bounce_percent_max=None, bounce_sample_min=10))
    cli.ok("account", "set", "ann", "--provider", "cold", "--warm-up", "10d")
    changed = cli.json("account", "show", "ann")
    assert (changed["provider"], changed["limits"]["warm_up"]["days"], changed["day_max"]) == ("cold", 10, 5)


def test_limits_that_make_no_sense_are_refused_and_change_nothing(cli: Cli) -> None:
    senseless = (
        (("--delay-ms", "5000", "--gap-max-ms", "100"), ("gap_max_ms", "delay_ms", "5000", "100")),
        (("--units-per-minute", "10", "--units-per-send", "100"), ("units_per_minute",)),
        (("--provider", "pigeon"), ("'pigeon'", "gmail", "fairpost account providers")),
    )
    add = ("account", "add", "ann", "--from", "ann@post.test")
    assert cli.wrong_errors(((*add, *options), facts) for options, facts in senseless) == []
    assert cli.json("account", "list") == []
    cli.ok(*add)
    before = cli.json("account", "show", "ann")
    assert cli.wrong_errors((("account", "set", "ann", *options), facts) for options, facts in senseless) == []
    assert cli.json("account", "show", "ann") == before


def test_providers_are_listed_and_an_operator_can_add_some(cli: Cli, tmp_path: Path) -> None:
    home = Path(cli.environment.get("FAIRPOST_HOME", tmp_path))
    own = Cli({**cli.environment, "FAIRPOST_HOME": str(home)})
    home.mkdir(exist_ok=True)
    (home / "providers.toml").write_text('[acme]\ndomains = ["acme.test"]\ndaily_max = 77\n', "utf-8")
    assert "acme.test" in own.ok("account", "providers")
    assert {"gmail", "custom", "acme"} <= {preset["name"] for preset in own.json("account", "providers")}
    own.ok("account", "add", "ann", "--from", "ann@acme.test")
    assert own.json("account", "show", "ann")["limits"]["daily_max"] == 77
    (home / "providers.toml").write_text("[acme]\nhourly_max = -1\n", "utf-8")
    error = own.error("account", "add", "bob", "--from", "bob@acme.test")
    assert missing(error, "hourly_max", "-1") == []


def test_an_account_of_a_workspace_has_its_name_before_it(cli: Cli) -> None:
    assert "fairpost workspace add acme" in cli.error(
        "account", "add", "sales", "--workspace", "acme", "--from", "s@post.test"
    )
    cli.ok("workspace", "add", "acme")
    added = cli.json("account", "add", "sales", "--workspace", "acme", "--from", "s@post.test", "--pool", "news")
    assert added["name"] == "acme/sales"
    cli.ok("account", "add", "house", "--from", "house@post.test")
    (account,) = cli.json("account", "list", "--workspace", "acme")
    assert (account["name"], account["workspace"], account["pool"]) == ("acme/sales", "acme", "acme/news")
    assert {each["name"]: each["workspace"] for each in cli.json("account", "list")} == {
        "acme/sales": "acme",
        "house": None,
    }
    assert "workspace" in cli.ok("account", "list")
    cli.ok("account", "set", "acme/sales", "--pool", "bulk", "--daily", "7")
    shown = cli.json("account", "show", "acme/sales")
    assert (shown["pool"], shown["limits"]["daily_max"]) == ("acme/bulk", 7)
    cli.ok("account", "set", "acme/sales", "--pool", "acme/news")
    assert cli.json("account", "show", "acme/sales")["pool"] == "acme/news"
    cli.ok("account", "pause", "acme/sales", "--reason", "later")
    cli.ok("account", "resume", "acme/sales")
    cli.ok("account", "remove", "acme/sales", "--yes")
    assert "--workspace acme" in cli.error("account", "add", "acme/sales", "--from", "s@post.test")
