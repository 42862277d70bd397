"""Keys remain valid when their creator leaves, and disabling a member reports them."""

from datetime import UTC, datetime
from typing import Any

import httpx2 as httpx

from fairpost.model.auth import Role
from tests.api.conftest import Api
from tests.api.signed_in import signed_in

EVE = "manager@example.com"  # as the test signs in


async def _make(client: httpx.AsyncClient, name: str, *scopes: str, **more: Any) -> dict[str, Any]:
    made = await client.post("/v1/keys", json={"name": name, "scopes": scopes or ["read"], **more})
    assert made.status_code == 201, made.text
    data: dict[str, Any] = made.json()["data"]
    return data


async def _keys_of_eve(api: Api) -> list[dict[str, Any]]:
    """Creates keys by her, with one of her keys, and with a key created with that one; and two that are no longer
    valid."""
    async with signed_in(api, "acme", Role.MANAGER) as eve:
        first = await _make(eve, "first", "read", "manage")
        over = await _make(eve, "over", expires_at="2099-01-01T00:00:00Z")
        revoked = await _make(eve, "revoked")
        assert (await eve.delete(f"/v1/keys/{revoked['id']}")).status_code == 200
    await api.store.value(
        "UPDATE fairpost.api_keys SET expires_at = $1 WHERE id = $2", datetime(2026, 1, 1, tzinfo=UTC), over["id"]
    )
    async with httpx.AsyncClient(base_url=api.url, headers={"Authorization": f"Bearer {first['key']}"}) as with_first:
        second = await _make(with_first, "second", "manage")
    async with httpx.AsyncClient(base_url=api.url, headers={"Authorization": f"Bearer {second['key']}"}) as with_second:
        third = await _make(with_second, "third", "manage")
    return [third, second, first]


async def _opens(api: Api, key: dict[str, Any]) -> bool:
    async with httpx.AsyncClient(base_url=api.url, headers={"Authorization": f"Bearer {key['key']}"}) as client:
        return (await client.get("/v1/workspace")).status_code != 401


async def test_disabling_a_member_lists_the_keys_that_still_work(api: Api, client: httpx.AsyncClient) -> None:
    keys = await _keys_of_eve(api)
    answer = (await client.post(f"/v1/members/{EVE}/disable")).json()["data"]
    assert [key["name"] for key in answer["keys"]] == ["third", "second", "first"]
    assert answer["keys_revoked"] == []
    assert "key" not in answer["keys"][0]
    assert [await _opens(api, key) for key in keys] == [True] * 3
    listed = {key["name"]: key for key in (await client.get("/v1/keys")).json()["data"]}
    for name in ("first", "second", "third", "over", "revoked"):
        assert (listed[name]["maker"], listed[name]["is_maker_member"]) == (EVE, False), name
    assert (listed["test"]["maker"], listed["test"]["is_maker_member"]) == (None, None)
    assert listed["second"]["created_by"] == f"key {keys[2]['id']}"


async def test_keys_are_revoked_in_the_commit_that_keeps_their_maker_out(api: Api, client: httpx.AsyncClient) -> None:
    keys = await _keys_of_eve(api)
    answer = (await client.post(f"/v1/members/{EVE}/disable", params={"keys": "revoke"})).json()["data"]
    assert answer["keys"] == []
    assert [key["name"] for key in answer["keys_revoked"]] == ["third", "second", "first"]
    assert [await _opens(api, key) for key in keys] == [False] * 3
    audit = (await client.get("/v1/audit")).json()["data"]["items"]
    written = [(entry["action"], entry["subject"]) for entry in audit[:4]]
    assert written == [*(("key.revoke", key["id"]) for key in reversed(keys)), ("member.disable", EVE)]
    assert len({entry["request_id"] for entry in audit[:4]}) == 1
    again = (await client.post(f"/v1/members/{EVE}/disable", params={"keys": "revoke"})).json()["data"]
    assert again["keys"] == again["keys_revoked"] == []
    assert (await client.get("/v1/workspace")).status_code == 200  # the key of this test was not among them


async def test_a_refused_request_revokes_nothing(api: Api, client: httpx.AsyncClient) -> None:
    keys = await _keys_of_eve(api)
    assert (await client.post("/v1/members/nobody@example.com/disable?keys=revoke")).status_code == 404
    assert (await client.post(f"/v1/members/{EVE}/disable?keys=all")).status_code == 422
    await api.workspace("other", domains=())
    async with api.client("other") as others:
        assert (await others.post(f"/v1/members/{EVE}/disable?keys=revoke")).status_code == 404
    assert [await _opens(api, key) for key in keys] == [True] * 3


async def test_a_lower_role_names_the_keys_and_a_manager_keeps_them(api: Api, client: httpx.AsyncClient) -> None:
    await _keys_of_eve(api)
    path = f"/v1/members/{EVE}/role"
    stays = (await client.put(path, json={"role": "manager"}, params={"keys": "revoke"})).json()["data"]
    assert stays["keys"] == stays["keys_revoked"] == []
    lower = (await client.put(path, json={"role": "viewer"})).json()["data"]
    assert ([key["name"] for key in lower["keys"]], lower["role"]) == (["third", "second", "first"], "viewer")
    listed = (await client.get("/v1/keys")).json()["data"]
    assert {(key["maker_role"], key["is_maker_member"]) for key in listed if key["maker"]} == {("viewer", True)}
    gone = (await client.put(path, json={"role": "viewer"}, params={"keys": "revoke"})).json()["data"]
    assert len(gone["keys_revoked"]) == 3


async def test_which_of_the_operators_made_a_key_is_their_own_affair(api: Api, client: httpx.AsyncClient) -> None:
    async with signed_in(api, None, Role.ADMIN) as admin:
        admin.headers["X-Workspace"] = "acme"
        made = await _make(admin, "theirs")
    assert made["created_by"] == "the operator"
    (listed,) = [key for key in (await client.get("/v1/keys")).json()["data"] if key["name"] == "theirs"]
    assert (listed["created_by"], listed["maker"]) == ("the operator", None)
