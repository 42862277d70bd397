"""`fairpost workspace`, `key`, `domain` and `audit`."""

import re

from tests.cli.conftest import Cli, missing


def test_a_workspace_is_added_once_and_shown(cli: Cli) -> None:
    assert "acme" in cli.ok("workspace", "add", "acme", "--pool", "relay", "--pool", "fast")
    assert "acme" in cli.ok("workspace", "add", "acme")
    shown = cli.json("workspace", "show", "acme")
    assert shown["workspace"]["pools"] == ["fast", "relay"]
    assert "acme" in cli.ok("workspace", "list")
    assert cli.json("workspace", "pools", "acme", "--pool", "slow")["pools"] == ["slow"]
    assert cli.json("workspace", "pools", "acme")["pools"] == ["slow"]
    assert cli.json("workspace", "pools", "acme", "--none")["pools"] == []
    assert cli.json("workspace", "rate", "acme", "30000")["per_minute"] == 30000


def test_a_new_workspace_is_lent_nothing_and_a_loan_names_its_senders(cli: Cli) -> None:
    assert cli.json("workspace", "add", "acme")["loans"] == []
    written = ("--pool", "fast", "--pool", "relay=Acme.Example,news@brand.example")
    loans = [
        {"pool": "fast", "senders": ["proven"]},
        {"pool": "relay", "senders": ["acme.example", "news@brand.example"]},
    ]
    assert cli.json("workspace", "pools", "acme", *written)["loans"] == loans
    for wrong in ("default", "default=acme.example", "default=account", "fast=*", "=x"):
        cli.error("workspace", "pools", "acme", "--pool", wrong)
        cli.error("workspace", "add", "other", "--pool", wrong)
    assert cli.json("workspace", "show", "acme")["workspace"]["loans"] == loans


def test_the_operators_own_workspace_sends_as_the_operator_does(cli: Cli) -> None:
    assert cli.json("workspace", "add", "default")["loans"] == [{"pool": "default", "senders": ["proven", "account"]}]


def test_a_name_that_cannot_be_one_changes_nothing(cli: Cli) -> None:
    for wrong in ("Ann@example.com", "UPPER", "", "a/b", "fairpost", "-x", "a" * 101):
        cli.error("workspace", "add", "--", wrong)
    assert [each["name"] for each in cli.json("workspace", "list")] == ["default"]


def test_suspended_and_readmitted(cli: Cli) -> None:
    cli.ok("workspace", "add", "acme")
    assert missing(cli.ok("workspace", "suspend", "acme", "--reason", "unpaid"), "acme", "unpaid") == []
    assert "acme" in cli.error("workspace", "suspend", "acme")
    assert "acme" in cli.ok("workspace", "readmit", "acme")
    assert "other" in cli.error("workspace", "suspend", "other")
    actions = [entry["action"] for entry in cli.json("audit", "acme")]
    assert actions == ["workspace.readmit", "workspace.suspend", "workspace.add"]


def test_a_key_is_shown_once(cli: Cli) -> None:
    cli.ok("workspace", "add", "acme")
    text = cli.ok("key", "add", "--workspace", "acme", "--name", "shop", "--scope", "send").splitlines()[0]
    assert re.fullmatch(r"fp_main_[a-z0-9]{12}_[A-Za-z0-9_-]{43}", text)
    (known,) = cli.json("key", "list", "--workspace", "acme")
    assert known["scopes"] == ["send"]
    assert text.split("_", 3)[3] not in cli.ok("key", "list", "--workspace", "acme", "--json")
    assert "revoked" in cli.ok("key", "revoke", "--workspace", "acme", known["id"])
    assert cli.json("key", "list", "--workspace", "acme")[0]["revoked_at"]
    assert "unknown" in cli.error("key", "revoke", "--workspace", "acme", "unknown")
    assert "nobody" in cli.error("key", "add", "--workspace", "nobody")


def test_a_domain_is_claimed_granted_and_taken(cli: Cli) -> None:
    cli.ok("workspace", "add", "acme")
    assert '_fairpost.acme.example TXT "fairpost-domain=' in cli.ok(
        "domain", "add", "--workspace", "acme", "ACME.example"
    )
    (claimed,) = cli.json("domain", "list", "--workspace", "acme")
    assert (claimed["domain"], claimed["proven_by"]) == ("acme.example", None)
    assert cli.json("domain", "grant", "--workspace", "acme", "acme.example")["proven_by"]
    cli.ok("domain", "remove", "--workspace", "acme", "acme.example")
    assert cli.json("domain", "list", "--workspace", "acme") == []
    for command in ("remove", "check"):
        assert "acme.example" in cli.error("domain", command, "acme", "acme.example")
    assert "com" in cli.error("domain", "add", "--workspace", "acme", "com")


def test_audit_of_nothing(cli: Cli) -> None:
    assert cli.ok("audit").count("\n") == 1
    assert cli.json("audit", "acme") == []
