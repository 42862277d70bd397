"""Senders blocked on an account: shown with their figures, explained on request, and unblocked."""

import asyncio
from datetime import timedelta

import pytest

from fairpost.model.fault import Bounces, Fault, Refusals
from fairpost.store.blocks import block
from fairpost.store.store import Store
from tests.cli.conftest import Cli, missing, send

BOUNCES = Bounces(sent=40, bounced=7, percent_max=5.0)
REFUSALS = Refusals(refused=5, since=None, reply="550 5.7.1 go away")

BLOCKED = "account.blocks_workspace"


def lay(url: str, account: str, workspace: str, fault: Fault, length: timedelta | None = None) -> None:
    async def work() -> None:
        async with Store.open(url, connections_max=1) as store:
            lease = await store.take_lease((await store.account_named(account)).id, owner="test", seconds=60)
            assert lease is not None
            until = await store.now() + length if length else None
            assert await block(store, lease, workspace, fault, until=until)
            await store.drop_lease(lease)

    asyncio.run(work())


@pytest.fixture
def accounts(cli: Cli, url: str) -> None:
    for name in ("one", "two"):
        cli.ok("account", "add", name, "--from", f"{name}@post.test", "--smtp", "smtp://127.0.0.1:1")


@pytest.mark.usefixtures("accounts")
def test_an_account_shows_who_is_blocked_on_it_with_its_own_figures(cli: Cli, url: str) -> None:
    assert cli.json("account", "show", "one")["blocks"] == []
    lay(url, "one", "acme", BOUNCES)
    lay(url, "one", "bad", REFUSALS, timedelta(hours=1))
    first, second = cli.json("account", "show", "one")["blocks"]
    assert (first["workspace"], first["reason"], first["until"]) == ("acme", "bounces", None)
    assert first["figures"] == {"sent": 40, "bounced": 7, "percent_max": 5.0}
    assert (second["workspace"], second["reason"]) == ("bad", "refusals")
    assert second["until"] > second["since"]
    assert missing(cli.ok("account", "show", "one"), "acme", "7 of 40", "550 5.7.1 go away") == []
    assert cli.json("account", "show", "two")["blocks"] == []


@pytest.mark.usefixtures("accounts")
def test_a_workspace_is_unblocked_or_all_of_them(cli: Cli, url: str) -> None:
    for workspace in ("a", "b", "c"):
        lay(url, "one", workspace, BOUNCES)
    cli.ok("account", "unblock", "one", "--workspace", "b")
    assert [each["workspace"] for each in cli.json("account", "show", "one")["blocks"]] == ["a", "c"]
    assert missing(cli.ok("account", "resume", "one"), "2", "fairpost account show one") == []
    cli.ok("account", "unblock", "one", "--all")
    assert cli.json("account", "show", "one")["blocks"] == []
    for arguments in (["one", "--workspace", "b"], ["one", "--all"], ["nobody", "--all"]):
        assert "fairpost account" in cli.error("account", "unblock", *arguments)
    for arguments in (["one"], ["one", "--all", "--workspace", "b"]):
        assert "--all" in cli.error("account", "unblock", *arguments, code=2)


@pytest.mark.usefixtures("accounts")
def test_status_and_the_email_name_the_block_only_if_no_other_account_may_send(cli: Cli, url: str) -> None:
    pooled = send(cli, "--workspace", "acme")
    pinned = send(cli, "--workspace", "acme", "--account", "one")

    def causes() -> list[tuple[str, str]]:
        return [
            (reason["code"], reason["then"]) for reason in cli.json("status")["reasons"] if reason["code"] == BLOCKED
        ]

    def waits_for(email: str) -> list[str]:
        found = cli.json("email", "show", email)["life"]["stands_in_the_way"]
        return [each["kind"] for each in found if each["kind"] != "engine"]

    lay(url, "one", "acme", BOUNCES)
    assert causes() == [(BLOCKED, "fairpost account unblock one --workspace acme")]
    assert (waits_for(pooled), waits_for(pinned)) == ([], ["block"])
    lay(url, "two", "acme", BOUNCES, timedelta(hours=1))
    assert sorted(causes()) == [
        (BLOCKED, "fairpost account unblock one --workspace acme"),
        (BLOCKED, "fairpost account unblock two --workspace acme"),
    ]
    assert (waits_for(pooled), waits_for(pinned)) == (["block"], ["block"])
    assert missing(cli.ok("email", "show", pinned), "7 of 40") == []
