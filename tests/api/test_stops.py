"""Pausing everything, and holding, throttling and releasing names, as an admin."""

from typing import Any

import httpx2 as httpx

from tests.api.conftest import Api
from tests.api.signed_in import signed_in
from tests.api.test_any_workspace import enqueue


async def said(client: httpx.AsyncClient, path: str, **body: Any) -> dict[str, Any]:
    answer = await client.post(f"/v1/admin/{path}", json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()["data"]
    return told


async def test_everything_is_paused_and_resumed(api: Api) -> None:
    async with signed_in(api) as client:
        paused = await said(client, "pause", reason="wrong prices")
        assert paused["changed"] is True
        assert paused["pause"]["reason"] == "wrong prices"
        assert paused["pause"]["paused_by"] == "admin admin@example.com"
        assert paused["pause"]["until"] is None
        assert await api.store.value("SELECT count(*) FROM fairpost.pause_now()") == 1
        again = await said(client, "pause", reason="for longer", until="2100-01-01T00:00:00Z")
        assert (again["changed"], again["pause"]["until"]) == (False, "2100-01-01T00:00:00Z")
        past = await client.post("/v1/admin/pause", json={"reason": "x", "until": "2020-01-01T00:00:00Z"})
        assert past.status_code == 422
        assert await said(client, "resume") == {"region": "main", "pause": None, "changed": True}
        assert (await said(client, "resume"))["changed"] is False
        audit = (await client.get("/v1/admin/audit")).json()["data"]["items"]
        assert [each["action"] for each in audit][:3] == ["resume", "pause", "pause"]


async def test_names_are_held_and_released(api: Api) -> None:
    await enqueue(api, "acme", user="ann")
    async with signed_in(api) as client:
        held = await said(
            client, "senders/hold", workspace="acme", level="user", name="ann", reason="ask her", minutes=5
        )
        assert held["waiting"] == 1
        (stop,) = held["stops"]
        assert (stop["level"], stop["reason"], stop["is_throttle"]) == ("user", "ask her", False)
        assert stop["until"] is not None
        whole = await said(client, "senders/hold", workspace="acme", reason="unpaid")
        assert [(each["level"], each["until"]) for each in whole["stops"]] == [("workspace", None)]
        domain = await said(client, "senders/hold", workspace="acme", level="domain", name="ACME.example", reason="dns")
        assert (domain["name"], domain["waiting"], len(domain["stops"])) == ("acme.example", None, 2)
        left = await said(client, "senders/release", workspace="acme", level="user", name="ann")
        assert [each["level"] for each in left["stops"]] == ["workspace"]  # which still stops her mail
        gone = await client.post(
            "/v1/admin/senders/release", json={"workspace": "acme", "level": "user", "name": "ann"}
        )
        assert gone.json()["error"]["code"] == "not_found"
        for wrong in (
            {"workspace": "acme", "level": "user", "reason": "x"},
            {"workspace": "acme", "name": "ann", "reason": "x"},
            {"workspace": "acme", "reason": "x", "minutes": 5, "until": "2100-01-01T00:00:00Z"},
            {"workspace": "acme", "reason": "x", "until": "2020-01-01T00:00:00Z"},
            {"workspace": "acme", "reason": ""},
        ):
            assert (await client.post("/v1/admin/senders/hold", json=wrong)).status_code == 422, wrong
        audit = (await client.get("/v1/audit", headers={"X-Workspace": "acme"})).json()["data"]["items"]
        assert [(each["action"], each["subject"]) for each in audit] == [
            ("sender.release", "user ann"),
            ("sender.hold", "domain acme.example"),
            ("sender.hold", "workspace acme"),
            ("sender.hold", "user ann"),
        ]


async def test_users_are_throttled_and_lifted(api: Api) -> None:
    await api.workspace("acme")
    await enqueue(api, "acme", user="ann")
    async with signed_in(api) as client, api.client() as key:
        throttled = await said(client, "senders/throttle", workspace="acme", name="ann", reason="a bought list")
        (stop,) = throttled["stops"]
        assert (stop["is_throttle"], throttled["waiting"]) == (True, 1)
        shown = (await key.get("/v1/users/ann")).json()["data"]
        assert (shown["tier"], shown["throttle"]["is_by_hand"]) == ("throttled", True)
        lifted = await said(client, "senders/unthrottle", workspace="acme", name="ann", immune_minutes=5)
        assert lifted["stops"] == []
        again = await client.post("/v1/admin/senders/unthrottle", json={"workspace": "acme", "name": "ann"})
        assert again.json()["error"]["code"] == "not_found"
        await said(client, "senders/throttle", workspace="acme", level="workspace", reason="unpaid", minutes=60)
        assert [each["level"] for each in (await key.get("/v1/users/ann")).json()["data"]["stops"]] == ["workspace"]
        audit = (await key.get("/v1/audit")).json()["data"]["items"]
        assert [each["action"] for each in audit] == ["sender.throttle", "sender.unthrottle", "sender.throttle"]
        for path in ("pause", "resume", "senders/hold", "senders/unthrottle"):
            assert (await key.post(f"/v1/admin/{path}", json={})).status_code == 401
