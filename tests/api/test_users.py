"""Users of a workspace over HTTP."""

from dataclasses import replace
from datetime import timedelta
from urllib.parse import quote

import httpx2 as httpx

from fairpost.model.sender import Priority, SenderId
from fairpost.model.workspace import Scope
from fairpost.policy.senders import SenderPolicy, impose
from fairpost.store import senders
from tests.api.conftest import Api

HELLO = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}
KNOWN = {"plan": "team", "since": "2020-01-31T00:00:00Z", "daily_max": 5, "waiting_max": 3}


async def throttle(api: Api, workspace: str, user: str) -> None:
    (active,) = await senders.with_activity(api.store, [SenderId(workspace=workspace, name=user)])
    now = await api.store.value("SELECT clock_timestamp()")
    decided = impose(
        active.sender, until=now + timedelta(hours=1), reason="a bought list", policy=SenderPolicy(), now=now
    )
    assert await senders.decide(api.store, decided.after, is_new=decided.is_new)


async def test_a_home_is_given_and_stays_when_it_is_left_out(client: httpx.AsyncClient) -> None:
    put = await client.put("/v1/users/ann", json={"home": "Acme.example"})
    assert put.json()["data"]["home"] == "acme.example"
    put = await client.put("/v1/users/ann", json=KNOWN)
    assert put.json()["data"]["home"] == "acme.example"


async def test_a_user_is_registered_and_shown(api: Api, client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/users/ann")).status_code == 404
    put = await client.put("/v1/users/ann", json=KNOWN)
    assert put.status_code == 200, put.text
    assert put.json()["data"] == {
        "name": "ann",
        **KNOWN,
        "tier": "normal",
        "throttle": None,
        "waiting": 0,
        "home": None,
        "last_24h": {"volume": 0, "sent": 0, "bounced": 0, "rejected": 0},
        "stops": [],
    }
    for _ in range(3):
        assert (await client.post("/v1/emails", json={**HELLO, "user": "ann"})).status_code == 201
    assert (await client.post("/v1/emails", json={**HELLO, "user": "ann"})).json()["error"]["code"] == "quota_reached"
    assert (await client.get("/v1/users/ann")).json()["data"]["waiting"] == 3
    # Omitted fields are cleared.
    changed = (await client.put("/v1/users/ann", json={"plan": "free"})).json()["data"]
    assert (changed["plan"], changed["since"], changed["daily_max"], changed["waiting_max"]) == (
        "free",
        None,
        None,
        None,
    )
    audit = await api.store.fetch("SELECT action, subject FROM fairpost.audit ORDER BY id")
    assert [tuple(row) for row in audit] == [("user.set", "user ann")] * 2


async def test_names_are_what_applications_call_their_users(client: httpx.AsyncClient) -> None:
    for name in ("ann@example.com", "team/ann lee", "jürgen", "a+b?c#d"):
        path = f"/v1/users/{quote(name, safe='')}"
        assert (await client.put(path, json=KNOWN)).json()["data"]["name"] == name
        assert (await client.get(path)).json()["data"]["name"] == name
        other_form = f"/v1/users/{quote(f' {name.upper()}', safe='')}"
        assert (await client.get(other_form)).json()["data"]["name"] == name
    for path in ("/v1/users/" + "x" * 201, "/v1/users/a%00b", "/v1/users/%E2%80%8B"):
        assert (await client.put(path, json=KNOWN)).status_code == 422
    names = [each["name"] for each in (await client.get("/v1/users")).json()["data"]["items"]]
    assert len(names) == 4


async def test_an_invalid_field_is_named(api: Api, client: httpx.AsyncClient) -> None:
    for wrong in (
        {"plan": "x" * 101},
        {"plan": "a\x00b"},
        {"since": "2199-01-01T00:00:00Z"},
        {"since": "1950-01-01T00:00:00Z"},
        {"since": "0001-01-01T00:00:00+12:00"},
        {"since": "2020-01-01"},
        {"daily_max": 0},
        {"daily_max": 2**31},
        {"waiting_max": -1},
        {"home": "no domain"},
        {"home": ""},
        {"tier": "high"},
        {"throttle": None},
    ):
        answer = await client.put("/v1/users/ann", json=wrong)
        assert answer.status_code == 422, answer.text
    assert await api.store.value("SELECT count(*) FROM fairpost.senders") == 0


async def test_a_throttle_is_shown_with_its_reason_and_is_not_the_workspaces_to_lift(
    api: Api, client: httpx.AsyncClient
) -> None:
    for name in ("ann", "bob"):
        await client.put(f"/v1/users/{name}", json=KNOWN)
    await throttle(api, "acme", "ann")
    shown = (await client.get("/v1/users/ann")).json()["data"]
    assert shown["tier"] == "throttled"
    assert shown["throttle"]["reasons"] == ["a bought list"]
    assert shown["throttle"]["is_by_hand"] is True
    assert shown["stops"][0] | {"until": None} == {
        "level": "user",
        "until": None,
        "reason": "a bought list",
        "reason_code": "throttle.by_hand",
        "reason_params": {"note": "a bought list"},
        "kind": "throttled",
        "is_throttle": True,
    }
    listed = (await client.get("/v1/users", params={"throttled": "true"})).json()["data"]["items"]
    assert [each["name"] for each in listed] == ["ann"]
    await client.put("/v1/users/ann", json={**KNOWN, "plan": "enterprise"})
    assert (await client.get("/v1/users/ann")).json()["data"]["throttle"] is not None
    for method, path in (("DELETE", "/v1/users/ann"), ("POST", "/v1/users/ann/lift")):
        assert (await client.request(method, path)).status_code == 405


async def test_two_workspaces_have_users_of_the_same_name(api: Api, client: httpx.AsyncClient) -> None:
    await api.workspace("other", domains=[])
    await client.put("/v1/users/ann", json=KNOWN)
    await client.post("/v1/emails", json={**HELLO, "user": "ann"})
    async with api.client("other") as stranger:
        assert (await stranger.get("/v1/users")).json()["data"]["items"] == []
        assert (await stranger.get("/v1/users/ann")).status_code == 404
        theirs = (await stranger.put("/v1/users/ann", json={"plan": "free"})).json()["data"]
        assert (theirs["plan"], theirs["waiting"]) == ("free", 0)
    assert (await client.get("/v1/users/ann")).json()["data"]["plan"] == "team"


async def test_pages_and_scopes(api: Api) -> None:
    await api.workspace()
    async with api.client(scopes=[Scope.MANAGE]) as manager, api.client(scopes=[Scope.READ]) as reader:
        for n in range(5):
            assert (await manager.put(f"/v1/users/u{n}", json={})).status_code == 200
        assert (await reader.put("/v1/users/u9", json={})).status_code == 403
        first = (await reader.get("/v1/users", params={"limit": "3"})).json()["data"]
        rest = (await reader.get("/v1/users", params={"limit": "3", "cursor": first["next"]})).json()["data"]
        assert [each["name"] for each in (*first["items"], *rest["items"])] == [f"u{n}" for n in range(5)]
        assert rest["next"] is None


async def test_a_plan_is_the_operators_where_lanes_are_shared(api: Api, client: httpx.AsyncClient) -> None:
    lanes = replace(api.service.settings, priority=Priority.LANES)
    object.__setattr__(api.service, "settings", lanes)
    refused = await client.put("/v1/users/ann", json={"plan": "team"})
    assert refused.json()["error"]["details"][0]["field"] == "plan"
    assert (await client.put("/v1/users/ann", json={"daily_max": 5})).status_code == 200


async def test_a_workspace_cannot_raise_the_operators_limits(api: Api, client: httpx.AsyncClient) -> None:
    most = api.service.settings.user_daily_max
    refused = await client.put("/v1/users/ann", json={"daily_max": most + 1})
    assert refused.json()["error"]["details"][0]["field"] == "daily_max"
    assert (await client.put("/v1/users/ann", json={"daily_max": most})).status_code == 200
