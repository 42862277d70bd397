"""Accounts: added, listed, paused, resumed."""

import pytest

from tests.cli.conftest import Cli, deliver, send


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
    assert added == {"id": account["id"], "name": "sales"}
    expected = {
        "name": "sales",
        "address": "sales@post.test",
        "display_name": "The Shop",
        "pool": "news",
        "status": "active",
        "status_reason": None,
        "limits": {"delay_ms": 400, "hourly_max": 100, "daily_max": 500, "batch_max": 10},
        "hour_used": 0,
        "day_used": 0,
        "sent_total": 0,
        "driven_by": None,
        "lease_until": None,
        "may_send_at": None,
        "may_send_why": None,
    }
    assert {name: account[name] for name in expected} == expected


def test_the_list_shows_what_was_used_and_when_the_next_send_may_be(cli: Cli, url: str) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test", "--hourly", "1")
    send(cli)
    deliver(url)
    (account,) = cli.json("account", "list")
    assert (account["hour_used"], account["sent_total"], account["may_send_why"]) == (1, 1, "hourly limit")
    assert account["may_send_at"].endswith("Z")
    table = cli.ok("account", "list")
    assert "1/1" in table
    assert "hourly limit" in table


def test_without_accounts_the_list_says_how_to_add_one(cli: Cli) -> None:
    assert "fairpost account add NAME --from ADDRESS" in cli.ok("account", "list")
    assert cli.json("account", "list") == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("a b", "--from", "a@b.test"), "NAME must be 1..100 letters, digits and ._-"),
        (("sales", "--from", "nobody"), "--from must be an e-mail address, got 'nobody'"),
        (("sales", "--from", "a@b.test", "--pool", "@sales"), "--pool must be 1..100 characters"),
    ],
)
def test_a_wrong_account_is_one_clear_line(cli: Cli, arguments: tuple[str, ...], error: str) -> None:
    assert cli.error("account", "add", *arguments).startswith(f"error: {error}")
    assert cli.json("account", "list") == []


@pytest.mark.parametrize(
    "option", [("--hourly", "0"), ("--daily", "-1"), ("--delay-ms", "-1"), ("--batch-size", "1001")]
)
def test_a_limit_out_of_range_is_a_usage_error(bare: Cli, option: tuple[str, str]) -> None:
    assert "Invalid value" in bare.error("account", "add", "sales", "--from", "a@b.test", *option, code=2)


def test_a_name_is_given_once(cli: Cli) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    assert "There is an account sales already" in cli.error("account", "add", "sales", "--from", "x@post.test")


def test_an_account_is_paused_and_resumed(cli: Cli) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    assert cli.ok("account", "pause", "sales", "--reason", "new password") == "paused sales\n"
    (paused,) = cli.json("account", "list")
    assert (paused["status"], paused["status_reason"]) == ("paused", "new password")
    assert cli.ok("account", "resume", "sales") == "sales is active\n"
    (resumed,) = cli.json("account", "list")
    assert (resumed["status"], resumed["status_reason"]) == ("active", None)


def test_an_unknown_account_is_an_error(cli: Cli) -> None:
    assert "There is no account gone" in cli.error("account", "resume", "gone")
