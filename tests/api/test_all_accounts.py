"""Accounts of all workspaces, for admins, and tests of their servers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from ipaddress import ip_network

import httpx2 as httpx
import pytest

from fairpost.api import verification
from fairpost.dev.inbox.server import InboxServer, ServerOptions
from fairpost.model.account import Limits
from fairpost.model.transport import Security
from fairpost.model.workspace import Scope
from fairpost.smtp.guard import NetworkGuard
from fairpost.transports.smtp.settings import SmtpSettings
from tests.api.conftest import Api
from tests.api.signed_in import signed_in


@pytest.fixture
async def server(api: Api) -> AsyncIterator[SmtpSettings]:
    inbox = InboxServer(api.store, ServerOptions(port=0))
    await inbox.start()
    try:
        yield SmtpSettings(host="127.0.0.1", port=inbox.port, security=Security.NONE)
    finally:
        await inbox.stop()


async def add(api: Api, name: str, server: SmtpSettings | None = None) -> None:
    pool = f"{name.rpartition('/')[0]}/default" if "/" in name else "default"
    await api.store.add_account(name, address="x@acme.example", pool=pool, limits=Limits(), transport=server)


async def test_an_admin_sees_and_stops_the_accounts_of_all(api: Api) -> None:
    await api.workspace()
    for name in ("acme/sales", "own", "other/x"):
        await add(api, name)
    await api.store.value(
        """UPDATE fairpost.leases SET day_used = 40, day_bounces = 3, day_started_at = clock_timestamp(), owner = 'engine 7',
               until = clock_timestamp() + interval '1 minute'
           WHERE account_id = (SELECT id FROM fairpost.accounts WHERE name = 'acme/sales')"""
    )
    async with signed_in(api) as client, api.client() as key:
        first = (await client.get("/v1/admin/accounts", params={"limit": 2})).json()["data"]
        rest = (await client.get("/v1/admin/accounts", params={"limit": 2, "cursor": first["next"]})).json()["data"]
        found = {each["name"]: each for each in (*first["items"], *rest["items"])}
        assert {name: each["workspace"] for name, each in found.items()} == {
            "acme/sales": "acme",
            "other/x": "other",
            "own": None,
        }
        sales = found["acme/sales"]
        assert (sales["pool"], sales["bounce_percent"], sales["driven_by"]) == ("acme/default", 7.5, "engine 7")
        assert sales["driven_until"] is not None
        assert found["own"]["bounce_percent"] is None
        only = (await client.get("/v1/admin/accounts", params={"workspace": "other"})).json()["data"]
        assert [each["name"] for each in only["items"]] == ["other/x"]

        paused = await client.post("/v1/admin/accounts/acme/sales/pause", json={"reason": "complaints"})
        assert paused.json()["data"]["status"] == "paused", paused.text
        assert (await key.post("/v1/accounts/sales/resume")).status_code == 409  # the operator's decision
        past = {"reason": "x", "until": "2020-01-01T00:00:00Z"}
        assert (await client.post("/v1/admin/accounts/own/pause", json=past)).status_code == 422
        resumed = await client.post("/v1/admin/accounts/acme%2Fsales/resume")
        assert resumed.json()["data"]["status"] == "active", resumed.text
        for verb in ("pause", "resume", "verify"):
            told = await client.post(f"/v1/admin/accounts/nobody/{verb}", json={"reason": "x"})
            assert told.json()["error"]["code"] == "not_found"
        await client.post("/v1/admin/accounts/own/pause", json={"reason": "mine"})
        of_acme = (await client.get("/v1/audit", headers={"X-Workspace": "acme"})).json()["data"]["items"]
        assert [each["action"] for each in of_acme] == ["account.resume", "account.pause"]
        own = (await client.get("/v1/admin/audit", params={"region": "main"})).json()["data"]["items"]
        assert own[0]["subject"] == "account own"
        assert (await key.get("/v1/admin/accounts")).status_code == 401


async def suspend(api: Api, name: str) -> None:
    """Pauses the account as an engine does."""
    done = await api.store.value(
        "SELECT fairpost.set_status(a.id, NULL, 'suspended', 'account.authentication_failed', '{}') FROM fairpost.accounts a WHERE a.name = $1",
        name,
    )
    assert done


async def test_the_owner_resumes_what_an_engine_suspended_also_after_a_pause_of_the_operators(api: Api) -> None:
    await api.workspace()
    await add(api, "acme/sales")
    soon = {"reason": "complaints", "until": "2198-12-31T23:00:00Z"}
    async with signed_in(api) as admin, api.client() as owner:
        await suspend(api, "acme/sales")
        assert (await owner.post("/v1/accounts/sales/resume")).json()["data"]["status"] == "active"
        await admin.post("/v1/admin/accounts/acme/sales/pause", json=soon)
        assert (await owner.post("/v1/accounts/sales/resume")).status_code == 409
        await api.store.value("UPDATE fairpost.accounts SET status_until = '2020-01-01Z'")
        taken = await api.store.value(
            "SELECT (fairpost.take_lease(a.id, 'engine 7', 60)).taken FROM fairpost.accounts a"
        )  # the pause has ended
        assert taken
        await suspend(api, "acme/sales")
        assert (await owner.post("/v1/accounts/sales/resume")).json()["data"]["status"] == "active"


async def test_only_managers_of_the_workspace_resume_its_account(api: Api) -> None:
    for name in ("acme", "globex"):
        await api.workspace(name)
    await add(api, "acme/sales")
    await suspend(api, "acme/sales")
    async with api.client(scopes=[Scope.READ, Scope.SEND]) as sender, api.client("globex") as stranger:
        assert (await sender.post("/v1/accounts/sales/resume")).status_code == 403
        for name in ("sales", "acme%2Fsales"):
            assert (await stranger.post(f"/v1/accounts/{name}/resume")).status_code in (404, 422)
    assert await api.store.value("SELECT status FROM fairpost.accounts") == "suspended"


async def test_an_account_stopped_by_the_operator_cannot_be_removed_and_added_again(api: Api) -> None:
    await api.workspace()
    await add(api, "acme/sales")
    async with signed_in(api) as admin, api.client() as owner:
        await admin.post("/v1/admin/accounts/acme/sales/pause", json={"reason": "complaints"})
        assert (await owner.delete("/v1/accounts/sales")).json()["error"]["code"] == "conflict"
        assert (await owner.get("/v1/accounts/sales")).json()["data"]["status"] == "paused"
        await admin.post("/v1/admin/accounts/acme/sales/resume")
        assert (await owner.delete("/v1/accounts/sales")).status_code == 200


async def test_a_server_is_tried_and_nothing_is_sent(api: Api, client: httpx.AsyncClient, server: SmtpSettings) -> None:
    for name in ("own", "acme/inside"):
        await add(api, name, server)
    await add(api, "acme/none")
    async with signed_in(api) as admin:
        own = (await admin.post("/v1/admin/accounts/own/verify")).json()["data"]
        assert own["ok"] is True
        assert own["steps"] == [
            {"step": step, "ok": True, "text": None, "reply": None} for step in ("connect", "greeting", "hello")
        ]
        # A workspace's account never connects to our network, even if an admin asks.
        for asked in (admin.post("/v1/admin/accounts/acme/inside/verify"), client.post("/v1/accounts/inside/verify")):
            inside = (await asked).json()["data"]
            assert (inside["ok"], [(each["step"], each["ok"]) for each in inside["steps"]]) == (
                False,
                [("connect", False)],
            )
    none = (await client.post("/v1/accounts/none/verify")).json()["data"]
    assert (none["ok"], none["steps"]) == (False, [])
    assert none["words"]
    assert "fairpost account" not in none["words"]  # commands are not shown over HTTP
    assert (await client.post("/v1/accounts/own/verify")).status_code == 404  # the operator's account
    object.__setattr__(
        api.service, "guard", NetworkGuard(allowed=(ip_network("127.0.0.0/8"),), ports=frozenset({server.port}))
    )
    assert (await client.post("/v1/accounts/inside/verify")).json()["data"]["ok"] is True
    assert await api.store.value("SELECT count(*) FROM fairpost.inbox") == 0


async def test_a_silent_server_does_not_delay_the_response(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "VERIFYING_S_MAX", 0.3)
    over = asyncio.Event()

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    listening = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    await add(api, "own", SmtpSettings(host="127.0.0.1", port=port, security=Security.NONE))
    async with listening, signed_in(api) as client:
        told = (await client.post("/v1/admin/accounts/own/verify")).json()["data"]
        assert (told["ok"], told["steps"]) == (False, [])
        assert told["words"]
        over.set()


async def test_servers_that_say_nothing_keep_no_other_workspace_from_its_work(
    api: Api, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpost.api.concurrency.WAIT_S_MAX", 2.0)
    over, connected = asyncio.Event(), asyncio.Semaphore(0)

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.release()
        await over.wait()
        writer.close()

    listening = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    guard = NetworkGuard(allowed=(ip_network("127.0.0.0/8"),), ports=frozenset({port}))
    object.__setattr__(api.service, "guard", guard)
    async with listening, AsyncExitStack() as stack:
        asked = list[asyncio.Task[httpx.Response]]()
        for workspace in ("a", "b", "c"):
            await api.workspace(workspace)
            await add(api, f"{workspace}/x", SmtpSettings(host="127.0.0.1", port=port, security=Security.NONE))
            hostile = await stack.enter_async_context(api.client(workspace))
            asked += [asyncio.create_task(hostile.post("/v1/accounts/x/verify")) for _ in range(2)]
        for _ in asked[:5]:
            await connected.acquire()
        bulk = await client.post("/v1/emails/bulk", content="", headers={"Content-Type": "application/x-ndjson"})
        over.set()
        assert {answer.json()["data"]["ok"] for answer in await asyncio.gather(*asked)} == {False}
    assert bulk.status_code != 429, bulk.text
