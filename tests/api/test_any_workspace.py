"""Those who run the service, in workspaces that nobody registered."""

from typing import Any

from fairpost.model.account import Limits
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
            told = await client.get("/api/emails", headers={"X-Workspace": name})
            assert told.status_code == (400 if " " in name else 404), name
        id_ = await enqueue(api, "default")
        await enqueue(api, "fairpost")  # the service's own: links and codes of others are in its e-mails
        await api.store.add_account("with-account/x", address="x@example.com", pool="with-account/x", limits=Limits())
        listed = await client.get("/api/emails", headers={"X-Workspace": "default"})
        assert [each["id"] for each in listed.json()["data"]["items"]] == [str(id_)]
        cancelled = await client.post(f"/api/emails/{id_}/cancel", headers={"X-Workspace": "default"})
        assert cancelled.json()["data"]["state"] == "cancelled"
        for name, status in (("default", 200), ("with-account", 200), ("fairpost", 404), ("defaul", 404)):
            told = await client.get("/api/emails", headers={"X-Workspace": name})
            assert told.status_code == status, name


async def test_names_to_choose_from(api: Api) -> None:
    await api.workspace("acme")
    await enqueue(api, "default")
    await enqueue(api, "fairpost")
    await enqueue(api, "No Name Of Ours")
    await api.store.add_account("alone/x", address="x@example.com", pool="alone/x", limits=Limits())
    await api.store.value("SELECT fairpost.stage(ARRAY['default'])")
    await enqueue(api, "fresh")
    await api.store.value(
        """INSERT INTO fairpost.activity (workspace, user_name, hour, writer, sent)
           SELECT 'served-' || n, 'ann', date_trunc('hour', clock_timestamp()), 'x', 1 FROM generate_series(1, 300) n"""
    )
    async with signed_in(api) as client:
        told = (await client.get("/api/admin/workspaces/names")).json()["data"]
        assert len(told) == 200
        assert [each["name"] for each in told][:4] == ["acme", "alone", "default", "fresh"]
        assert [each["name"] for each in told if each["is_registered"]] == ["acme"]
        begun = (await client.get("/api/admin/workspaces/names", params={"prefix": "served-29"})).json()["data"]
        assert {each["name"] for each in begun} == {"served-29", *(f"served-29{n}" for n in range(10))}
        assert (await client.get("/api/admin/workspaces/names", params={"region": "mars"})).status_code == 404
