"""The state of the whole installation."""

import asyncio
import re

import pytest

from fairpost.auth import membership
from fairpost.model.account import Limits
from fairpost.model.auth import Offered, Person, Role
from tests.api.conftest import Api
from tests.api.signed_in import signed_in
from tests.api.test_any_workspace import enqueue


async def test_the_status_says_what_waits_and_why(api: Api) -> None:
    await enqueue(api, "acme")
    await api.store.add_account("own", address="own@example.com", limits=Limits(), pool="elsewhere")
    async with signed_in(api) as client:
        told = (await client.get("/v1/admin/status")).json()["data"]
        assert (told["region"], told["queue"]["waiting"], told["pause"]) == ("main", 1, None)
        assert told["routes"] == [{"route": "default", "waiting": 1, "due": True, "next_at": None}]
        assert (told["accounts"], told["driven"]) == ({"active": 1}, 0)
        assert told["finished_24h"]["sent"] == 0
        reason = told["reasons"][0]
        assert reason["code"] == "pool.empty"
        assert "fairpost account" in reason["then"]


async def test_many_callers_share_one_read(api: Api) -> None:
    async with signed_in(api) as client:
        asked = await asyncio.gather(*(client.get("/v1/admin/status") for _ in range(8)))
        assert len({each.json()["data"]["now"] for each in asked}) == 1
        both = await asyncio.gather(*(client.get("/v1/admin/fairness", params={"hours": n}) for n in (1, 1, 2)))
        assert [each.json()["data"]["window_s"] for each in both] == [3600, 3600, 7200]
        assert both[0].json() == both[1].json()


async def test_how_all_share_what_there_is(api: Api) -> None:
    for workspace, user in (("acme", "ann"), ("acme", "bob"), ("other", "carl")):
        await enqueue(api, workspace, user=user)
    async with signed_in(api) as client:
        told = (await client.get("/v1/admin/fairness")).json()["data"]
        assert told["waiting"]["emails"] == 3
        assert [(each["workspace"], each["emails"]) for each in told["waiting"]["top_workspaces"]] == [
            ("acme", 2),
            ("other", 1),
        ]
        assert told["waiting"]["users"]["gini"] == 0
        assert (await client.get("/v1/admin/fairness", params={"hours": 25})).status_code == 422


async def test_settings_are_shown_without_secrets(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRPOST_SECRET_KEY", "a" * 43 + "=")
    monkeypatch.setenv("FAIRPOST_DATABASE_URL", "postgresql://post:hidden-word@db.example/x")
    async with signed_in(api) as client:
        answer = await client.get("/v1/admin/settings")
        told = {each["variable"]: each for each in answer.json()["data"]}
        assert (told["FAIRPOST_SECRET_KEY"]["value"], told["FAIRPOST_SECRET_KEY"]["origin"]) == ("set", "environment")
        assert told["FAIRPOST_SECRET_KEY_OLD"]["value"] != told["FAIRPOST_SECRET_KEY"]["value"]
        assert told["FAIRPOST_DATABASE_URL"]["value"] == "postgresql://post:***@db.example/x"
        assert told["FAIRPOST_PUBLIC_URL"]["origin"] == "default"
        assert "hidden-word" not in answer.text
        assert "a" * 43 not in answer.text
        monkeypatch.setenv("FAIRPOST_PRIORITY", "nonsense")
        assert (await client.get("/v1/admin/settings")).status_code == 409


async def test_the_newest_of_all_workspaces(api: Api) -> None:
    ids = [await enqueue(api, name, user="ann") for name in ("acme", "other", "third")]
    public = (await api.store.public_ids()).email
    await api.store.cancel(ids[1])  # type: ignore[arg-type]
    async with signed_in(api) as client:
        first = (await client.get("/v1/admin/emails", params={"limit": 2})).json()["data"]
        assert [(each["workspace"], each["state"]) for each in first["items"]] == [
            ("third", "ready"),
            ("other", "cancelled"),
        ]
        rest = (await client.get("/v1/admin/emails", params={"limit": 2, "cursor": first["next"]})).json()["data"]
        assert [each["id"] for each in rest["items"]] == [public(ids[0])]
        only = (await client.get("/v1/admin/emails", params={"state": "cancelled"})).json()["data"]["items"]
        assert [each["workspace"] for each in only] == ["other"]
        for workspace in ("acme", "other"):
            await api.workspace(workspace)
            draft = {"lists": ["all"], "steps": [{"subject": "Hello", "text": "Hi"}]}
            async with api.client(workspace) as key:
                people = [{"address": "x@example.com"}]
                assert (await key.post("/v1/lists/all/prospects", json=people)).status_code < 300
                assert (await key.put("/v1/campaigns/spring", json=draft)).status_code == 201
        campaigns = (await client.get("/v1/admin/campaigns", params={"limit": 1})).json()["data"]
        (newest,) = campaigns["items"]
        assert (newest["workspace"], newest["id"], newest["state"]) == ("other", "spring", "draft")
        older = await client.get("/v1/admin/campaigns", params={"cursor": campaigns["next"]})
        assert [each["workspace"] for each in older.json()["data"]["items"]] == ["acme"]
        for path in ("status", "fairness", "settings", "emails", "campaigns", "accounts"):
            assert (await client.get(f"/v1/admin/{path}", params={"region": "mars"})).status_code == (
                200 if path == "settings" else 404
            )
            async with api.client() as key:
                assert (await key.get(f"/v1/admin/{path}")).status_code == 401


async def test_an_email_of_any_workspace_is_found_by_its_id_or_its_address(api: Api) -> None:
    ids = [await enqueue(api, name, to=f"{name}@example.com") for name in ("acme", "other")]
    public = (await api.store.public_ids()).email
    async with signed_in(api) as client:
        one = (await client.get(f"/v1/admin/emails/{ids[1]}")).json()["data"]
        assert (one["id"], one["workspace"], one["subject"]) == (public(ids[1]), "other", "Hello")
        assert "text" not in one
        assert (await client.get(f"/v1/admin/emails/{ids[1] + 1}")).status_code == 404
        found = (await client.get("/v1/admin/emails", params={"to": "ACME@example.com"})).json()["data"]
        assert [(each["id"], each["workspace"]) for each in found["items"]] == [(public(ids[0]), "acme")]
        none = {"to": "acme@example.com", "state": "sent"}
        assert (await client.get("/v1/admin/emails", params=none)).json()["data"] == {"items": [], "next": None}
    async with api.client(await api.workspace("acme")) as member:
        assert (await member.get(f"/v1/admin/emails/{ids[0]}")).status_code in (401, 403)


async def test_pages_of_an_address_lead_through_all_workspaces(api: Api) -> None:
    ids = [await enqueue(api, name) for name in ("acme", "other", "third")]
    public = (await api.store.public_ids()).email
    async with signed_in(api) as client:
        found: list[str] = []
        cursor: str | None = None
        while cursor is not None or not found:
            asked = {"to": "x@example.com", "limit": "1", **({"cursor": cursor} if cursor else {})}
            page = (await client.get("/v1/admin/emails", params=asked)).json()["data"]
            found += [each["id"] for each in page["items"]]
            cursor = page["next"]
        assert found == [public(id_) for id_ in reversed(ids)]


async def test_the_codes_of_others_are_in_no_subject(api: Api) -> None:
    """These fields are for members' pages; admins do not need them."""
    await api.workspace("acme")
    bob = {"workspace": "acme", "address": "bob@example.com"}
    offered = await membership.invite(api.store, workspace="acme", address=bob["address"], role=Role.VIEWER)
    assert isinstance(offered, Offered)
    assert isinstance(await membership.accept_invitation(api.store, offered.token, "four words that fit"), Person)
    async with signed_in(api) as admin:
        begun = await admin.post("/v1/auth/sign-in", json={**bob, "password": "four words that fit"})
        assert begun.status_code == 202, begun.text
        assert re.match(r"\d{6} ", await api.store.value("SELECT c.subject FROM fairpost.contents c"))
        (listed,) = (await admin.get("/v1/admin/emails")).json()["data"]["items"]
        one = (await admin.get(f"/v1/admin/emails/{listed['id']}")).json()["data"]
    assert listed == one
    assert (listed["recipients"][0]["address"], listed["subject"]) == ("bob@example.com", None)
