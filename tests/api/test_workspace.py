"""Keys and the audit log of a workspace, over HTTP."""

from datetime import UTC, datetime, timedelta

import httpx2 as httpx

from fairpost.model.workspace import Scope
from fairpost.store import workspaces
from tests.api.conftest import Api


async def test_a_key_made_is_shown_once_and_opens_until_revoked(api: Api, client: httpx.AsyncClient) -> None:
    made = (await client.post("/v1/keys", json={"name": "shop", "scopes": ["read"]})).json()["data"]
    headers = {"Authorization": f"Bearer {made['key']}"}
    assert (await client.get("/v1/workspace", headers=headers)).json()["data"]["scopes"] == ["read"]
    secret = made["key"].split("_", 3)[3]
    assert len(secret) > 20
    stored = await api.store.value("SELECT string_agg(k::text, '') FROM fairpost.api_keys k")
    assert secret not in stored
    assert made["key"] not in (await client.get("/v1/keys")).text
    assert (await client.delete(f"/v1/keys/{made['id']}")).status_code == 200
    assert (await client.get("/v1/workspace", headers=headers)).json()["error"]["code"] == "unauthenticated"
    told = (await client.get("/v1/audit")).json()["data"]["items"]
    assert [entry["action"] for entry in told] == ["key.revoke", "key.add"]
    assert all(entry["request_id"] for entry in told)


async def test_a_key_cannot_grant_more_scopes_than_it_has(api: Api) -> None:
    await api.workspace()
    async with api.client(scopes=[Scope.MANAGE]) as client:
        answer = await client.post("/v1/keys", json={"scopes": ["read", "send"]})
    assert answer.json()["error"]["code"] == "forbidden"


async def test_expired_and_suspended_keys_open_nothing(api: Api) -> None:
    await api.workspace()
    async with api.client(expires_at=datetime.now(UTC) - timedelta(seconds=1)) as client:
        assert (await client.get("/v1/workspace")).json()["error"]["code"] == "unauthenticated"
    async with api.client() as client:
        await workspaces.suspend_workspace(api.store, "acme", reason="unpaid")
        assert (await client.get("/v1/workspace")).json()["error"]["code"] == "workspace_suspended"
        await workspaces.readmit_workspace(api.store, "acme")
        assert (await client.get("/v1/workspace")).status_code == 200


async def test_a_key_of_another_is_not_there(api: Api, client: httpx.AsyncClient) -> None:
    await api.workspace("other")
    theirs = await api.key("other")
    answer = await client.delete(f"/v1/keys/{theirs.split('_')[2]}")
    assert answer.json()["error"]["code"] == "not_found"
    assert await api.store.value("SELECT count(*) FROM fairpost.api_keys WHERE revoked_at IS NOT NULL") == 0


async def test_all_keys_of_a_workspace_have_one_rate_together(api: Api) -> None:
    await api.workspace()
    await workspaces.set_rate(api.store, "acme", 6)
    async with api.client() as one, api.client() as other:
        answers = [await client.get("/v1/workspace") for client in (one, other) * 4]
    assert sorted(answer.status_code for answer in answers) == [200] * 6 + [429] * 2
    assert answers[-1].json()["error"]["code"] == "rate_limited"


async def test_a_key_cannot_have_a_higher_rate_than_its_workspace(api: Api, client: httpx.AsyncClient) -> None:
    await workspaces.set_rate(api.store, "acme", 1000)
    answer = await client.post("/v1/keys", json={"scopes": ["read"], "per_minute": 1001})
    assert answer.json()["error"]["details"][0]["field"] == "per_minute"


async def test_which_operator_it_was_is_not_told(api: Api, client: httpx.AsyncClient) -> None:
    await workspaces.write_audit(
        api.store, workspace="acme", who="admin root@operator.example", action="workspace.pools", subject="acme"
    )
    await workspaces.write_audit(
        api.store, workspace="acme", who="cli root on operator-1", action="workspace.rate", subject="acme"
    )
    told = await client.get("/v1/audit")
    assert [each["who"] for each in told.json()["data"]["items"]] == ["cli", "the operator"]
    assert "root" not in told.text
