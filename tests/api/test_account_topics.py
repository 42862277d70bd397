"""Accounts as live topics: those with problems first, only the workspace's own, and what their servers said."""

import json
from collections import Counter
from typing import Any

import pytest

from fairpost.api.topics import accounts
from fairpost.model.account import Limits, WarmUp
from fairpost.model.auth import Role
from fairpost.model.reason import Reason
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.transport import Security
from fairpost.observe import accounts as looking
from fairpost.observe import now as observe_now
from fairpost.observe import status
from fairpost.observe.accounts import AccountNow
from fairpost.observe.recent import Recent
from fairpost.policy.reply_findings import GONE
from fairpost.store.store import Store
from fairpost.transports.smtp.settings import SmtpSettings
from tests.api.conftest import Api
from tests.api.signed_in import signed_in
from tests.api.test_live import watching
from tests.engine.test_runner import deliver
from tests.facts import missing

SERVER = SmtpSettings(host="127.0.0.1", port=2525, security=Security.NONE)
NO_SUCH_USER = Report(reached=Reached.REPLIED, reply=Reply(550, "5.1.1 no such user"))


async def add(api: Api, name: str, **limits: Any) -> None:
    pool = f"{name.rpartition('/')[0]}/default" if "/" in name else "default"
    await api.store.add_account(
        name, address=f"{name.rpartition('/')[2]}@acme.example", pool=pool, limits=Limits(**limits), transport=SERVER
    )


async def pause(api: Api, name: str, reason: str) -> None:
    await api.store.change_account(
        name, {"status": "paused", "status_reason": Reason("account.paused_by_hand", note=reason)}
    )


async def add_many(store: Store, n: int) -> None:
    """Adds w1/mail, w2/mail …, one per workspace, without servers."""
    await store.value(_MANY, n)


_MANY = """
    WITH named AS (SELECT n, 'w' || n AS workspace FROM generate_series(1, $1::integer) n), registered AS (
        INSERT INTO fairpost.workspaces (name, created_at) SELECT d.workspace, clock_timestamp() FROM named d
    ), added AS (
        INSERT INTO fairpost.accounts (name, address, pool, transport, created_at)
        SELECT d.workspace || '/mail', 'mail' || d.n || '@post.test', d.workspace || '/default', '{}', clock_timestamp() FROM named d
        RETURNING id)
    INSERT INTO fairpost.leases (account_id) SELECT a.id FROM added a"""


async def test_accounts_with_problems_come_first_and_each_caller_sees_its_own(api: Api) -> None:
    await api.workspace()
    for name in ("acme/a", "acme/b", "acme/c", "other/x", "own"):
        await add(api, name)
    await pause(api, "acme/b", "a holiday")
    await api.store.change_account(
        "acme/c",
        {"status": "suspended", "status_reason": Reason("account.paused_by_hand", note="the password was refused")},
    )
    await api.store.value(
        "UPDATE fairpost.leases SET owner = 'host:1:x', until = clock_timestamp() + interval '1 hour'"
    )
    await api.store.value("SELECT fairpost.engine_here('host:1:x', false, clock_timestamp() + interval '1 hour')")
    async with signed_in(api, "acme", Role.VIEWER) as member, signed_in(api, None, Role.ADMIN) as admin:
        async with watching(member, "/v1/live/accounts") as stream:
            seen = await stream.state()
        assert [(each["name"], each["situation"], each["pool"]) for each in seen["listed"]] == [
            ("c", "suspended", "default"),
            ("b", "paused", "default"),
            ("a", "active", "default"),
        ]
        assert seen["situations"] == {"suspended": 1, "paused": 1, "active": 1}
        conditions = [each["condition"] for each in seen["listed"]]
        assert [each["code"] for each in conditions] == ["account.suspended", "account.paused", "account.idle"]
        assert missing(conditions[0]["text"], "the password was refused") == []
        assert {each["then"] for each in conditions} == {""}  # people on this page have no command line
        assert {(each["is_driven"], each["driven_by"]) for each in seen["listed"]} == {(True, None)}
        async with watching(admin, "/v1/live/accounts") as stream:
            everything = await stream.state()
        assert [each["name"] for each in everything["listed"]] == ["acme/c", "acme/b", "acme/a", "other/x", "own"]
        assert everything["listed"][0]["driven_by"] == "host:1:x"
        async with watching(admin, "/v1/live/accounts?having=ACME&situation=paused") as stream:
            found = await stream.state()
        assert ([each["name"] for each in found["listed"]], found["found"], found["all"]) == (["acme/b"], 1, 5)
        assert (await admin.get("/v1/live/accounts?situation=lost")).status_code == 422


async def test_one_account_shows_its_warm_up_and_what_servers_said(api: Api) -> None:
    await api.workspace()
    await add(api, "acme/sales", daily_max=50, warm_up=WarmUp(start=10, step=10))
    (row,) = await api.store.enqueue_many(
        [{"workspace": "acme", "to": "gone@there.test", "subject": "s", "text": "t", "pool": "acme/default"}]
    )
    account = (await api.store.account_named("acme/sales")).id
    await deliver(api.store, account, NO_SUCH_USER)
    async with signed_in(api, "acme", Role.VIEWER) as member:
        async with watching(member, "/v1/live/account?name=sales") as stream:
            told = (await stream.state())["account"]
        assert (told["now"]["day_used"], told["now"]["day_max"], told["now"]["day_bounces"]) == (1, 10, 1)
        assert (told["now"]["day_errors"], told["now"]["last_used_at"] is not None) == (0, True)
        assert told["warm_up"].startswith("<svg")
        (failure,) = told["failures"]
        assert (failure["email_id"], failure["code"], failure["outcome"]) == (
            (await api.store.public_ids()).email(row["id"]),
            550,
            "bounced",
        )
        assert failure["why"] == f"{GONE.why}."
        for name in ("nobody", "acme/sales", "../own"):
            async with watching(member, f"/v1/live/account?name={name}") as stream:
                assert (await stream.state()) == {"account": None}


async def test_at_most_a_hundred_are_reported(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "LISTED_MAX", 3)
    for n in range(5):
        await add(api, f"own{n}")
    await pause(api, "own4", "tired")
    async with signed_in(api, None, Role.ADMIN) as admin, watching(admin, "/v1/live/accounts") as stream:
        seen = await stream.state()
    assert ([each["name"] for each in seen["listed"]], seen["found"]) == (["own4", "own0", "own1"], 5)


MANY, STATE_BYTES_MAX = 2_000, 80_000


async def test_the_state_of_thousands_is_small_and_a_workspace_reads_its_own_alone(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_many(api.store, MANY)
    await add(api, "own")
    await pause(api, "w1321/mail", "tired")
    async with signed_in(api, None, Role.ADMIN) as admin:
        async with watching(admin, "/v1/live/accounts") as stream:
            seen = await stream.state()
        assert (seen["all"], seen["found"], len(seen["listed"])) == (MANY + 1, MANY + 1, 100)
        assert seen["situations"] == {"no_server": MANY - 1, "paused": 1, "active": 1}
        assert len(json.dumps(seen)) < STATE_BYTES_MAX
        async with watching(admin, "/v1/live/accounts?having=MAIL1321@") as stream:
            assert [each["name"] for each in (await stream.state())["listed"]] == ["w1321/mail"]
        async with watching(admin, "/v1/live/now") as stream:
            everything = await stream.state()
        assert everything["accounts"]["all"] == MANY + 1
        assert len(json.dumps(everything)) < STATE_BYTES_MAX

        await api.store.enqueue_many([{"workspace": "w7", "to": "a@b.example", "subject": "s", "text": "t"}])
        read: list[int] = []

        async def counted(*given: Any, **named: Any) -> Any:
            found = await status.read_accounts(*given, **named)
            read.append(len(found))
            return found

        monkeypatch.setattr(observe_now, "read_accounts", counted)
        async with watching(admin, "/v1/live/now?workspace=w7") as stream:
            assert (await stream.state())["accounts"][
                "all"
            ] == 2  # its own account, and the operator's that its mail goes through
        assert read[0] == 2


async def test_a_look_at_many_is_kept_for_longer_and_serves_all_who_search(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, looks = 0.0, 0

    async def takes_a_quarter_of_a_second() -> int:
        nonlocal now_s, looks
        now_s, looks = now_s + 0.25, looks + 1
        return looks

    monkeypatch.setattr("fairpost.observe.recent.clock.monotonic", lambda: now_s)
    recent: Recent[int] = Recent(kept_s=0.8, cost_max=0.1)
    assert await recent.look(takes_a_quarter_of_a_second) == 1
    now_s += 2.4
    assert await recent.look(takes_a_quarter_of_a_second) == 1
    now_s += 0.2
    assert await recent.look(takes_a_quarter_of_a_second) == 2


async def test_many_who_search_cost_the_database_one_look(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "FRESH_S", 1_000.0)
    looks = Counter[str | None]()

    async def counted(store: Store, *, workspace: str | None, **more: Any) -> list[AccountNow]:
        looks[workspace] += 1
        return await looking.read_accounts(store, workspace=workspace, **more)

    monkeypatch.setattr(accounts, "read_accounts", counted)
    await api.workspace()
    for name in ("acme/sales", "acme/news", "own"):
        await add(api, name)
    async with (
        signed_in(api, "acme", Role.VIEWER) as member,
        watching(member, "/v1/live/accounts?having=sal") as first,
        watching(member, "/v1/live/accounts?having=news") as second,
        watching(member, "/v1/live/accounts?having=acme/") as third,
    ):
        found = [[each["name"] for each in (await stream.state())["listed"]] for stream in (first, second, third)]
    assert found == [["sales"], ["news"], []]
    assert looks == {"acme": 1}


async def test_providers_have_names_and_limits(api: Api) -> None:
    await api.workspace()
    async with api.client() as client:
        known = {each["name"]: each for each in (await client.get("/v1/providers")).json()["data"]}
    assert known["gmail"]["limits"]["daily_max"] == 500
    assert "gmail.com" in known["gmail"]["domains"]
