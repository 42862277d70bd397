"""Admins in workspaces that are not registered."""

from typing import Any

import pytest

from fairpost.model.account import Limits
from fairpost.model.auth import Role
from tests.api.conftest import Api
from tests.api.signed_in import signed_in


async def enqueue(api: Api, workspace: str, **more: Any) -> int:
    (row,) = await api.store.enqueue_many(
        [{"workspace": workspace, "to": "x@example.com", "subject": "Hello", "text": "Hi", **more}]
    )
    assert row["error"] is None, row
    return int(row["id"])


async def test_an_admin_comes_into_a_workspace_as_soon_as_there_is_anything_of_it(api: Api) -> None:
    async with signed_in(api) as client:
        for name in ("default", "with-account", "fairpost", "Not a name"):
            told = await client.get("/v1/emails", headers={"X-Workspace": name})
            assert told.status_code == {"default": 200, "fairpost": 403, "Not a name": 400}.get(name, 404), name
        id_ = await enqueue(api, "default")
        await enqueue(
            api, "fairpost"
        )  # the service's own workspace: its e-mails contain other people's links and codes
        await api.store.add_account("with-account/x", address="x@example.com", pool="with-account/x", limits=Limits())
        listed = await client.get("/v1/emails", headers={"X-Workspace": "default"})
        public_id = (await api.store.public_ids()).email(id_)
        assert [each["id"] for each in listed.json()["data"]["items"]] == [public_id]
        cancelled = await client.post(f"/v1/emails/{id_}/cancel", headers={"X-Workspace": "default"})
        assert cancelled.json()["data"]["state"] == "cancelled"
        for name, status in (("default", 200), ("with-account", 200), ("fairpost", 403), ("defaul", 404)):
            told = await client.get("/v1/emails", headers={"X-Workspace": name})
            assert told.status_code == status, name


async def test_names_to_choose_from(api: Api) -> None:
    await api.workspace("acme")
    await enqueue(api, "default")
    await enqueue(api, "fairpost")
    await enqueue(api, "No Name Of Ours")
    await api.store.add_account("alone/x", address="x@example.com", pool="alone/x", limits=Limits())
    await api.store.value("SELECT fairpost.absorb_arrivals(ARRAY['default'])")
    await enqueue(api, "fresh")
    await api.store.value(
        """INSERT INTO fairpost.activity (workspace, user_name, hour, writer, sent)
           SELECT 'served-' || n, 'ann', date_trunc('hour', clock_timestamp()), 'x', 1 FROM generate_series(1, 300) n"""
    )
    async with signed_in(api) as client:
        told = (await client.get("/v1/admin/workspaces/names")).json()["data"]
        assert len(told) == 200
        assert [each["name"] for each in told][:4] == ["acme", "alone", "default", "fresh"]
        assert [each["name"] for each in told if each["is_registered"]] == ["acme", "default"]
        begun = (await client.get("/v1/admin/workspaces/names", params={"prefix": "served-29"})).json()["data"]
        assert {each["name"] for each in begun} == {"served-29", *(f"served-29{n}" for n in range(10))}
        assert (await client.get("/v1/admin/workspaces/names", params={"region": "mars"})).status_code == 404


@pytest.mark.parametrize("named", [["globex"], ["Not a name"], ["acme", "globex"], [""]])
async def test_a_workspace_that_one_may_not_act_in_is_refused_and_nothing_happens(api: Api, named: list[str]) -> None:
    hello = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}
    headers = [("X-Workspace", name) for name in named]
    for name in ("acme", "globex"):
        await api.workspace(name)
    async with api.client() as by_key, signed_in(api, "acme", Role.MANAGER) as member:
        for client in (by_key, member):
            for body in (hello, {**hello, "text": "x" * 100_000}):  # a large body needs a key before it is read
                told = await client.post("/v1/emails", json=body, headers=[*client.headers.multi_items(), *headers])
                assert (told.status_code, told.json()["error"]["code"]) == (403, "workspace_forbidden")
        told = await member.get("/v1/auth/session", headers=headers)
        assert told.json()["error"]["code"] == "workspace_forbidden"
    assert await api.store.value("SELECT count(*) FROM fairpost.queue") == 0


async def test_a_live_stream_of_another_workspace_is_refused(api: Api) -> None:
    for name in ("acme", "globex"):
        await api.workspace(name)
    async with api.client() as by_key, signed_in(api, "acme", Role.VIEWER) as member:
        for client in (by_key, member):
            told = await client.get("/v1/live/now", params={"workspace": "globex"})
            assert told.json()["error"]["code"] == "workspace_forbidden"


async def test_ones_own_workspace_may_be_named(api: Api) -> None:
    await api.workspace("acme")
    async with api.client() as by_key, signed_in(api, "acme", Role.VIEWER) as member:
        for client in (by_key, member):
            assert (await client.get("/v1/emails", headers={"X-Workspace": "acme"})).status_code == 200
