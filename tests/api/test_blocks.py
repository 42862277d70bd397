"""Workspaces blocked on the operator's account: what the operator sees and does, and what the workspaces see."""

from fairpost.model.account import Limits
from fairpost.model.auth import Role
from fairpost.model.fault import Bounces
from fairpost.store.blocks import block, read_blocks
from fairpost.store.store import Store
from tests.api.conftest import Api
from tests.api.signed_in import signed_in
from tests.api.test_live import watching

FAULT = Bounces(sent=40, bounced=7, percent_max=5.0)


async def lay(store: Store, *workspaces: str, account: str = "relay-7") -> None:
    id_ = await store.add_account(account, address="x@post.example", limits=Limits())
    lease = await store.take_lease(id_, owner="test", seconds=60)
    assert lease is not None
    for workspace in workspaces:
        assert await block(store, lease, workspace, FAULT)
    await store.drop_lease(lease)


async def test_an_admin_sees_who_is_blocked_and_lets_them_go(api: Api) -> None:
    await api.workspace()
    await lay(api.store, "acme", "other")
    async with signed_in(api) as client, api.client() as key:
        found = (await client.get("/v1/admin/accounts/relay-7/blocks")).json()["data"]["items"]
        assert [(each["workspace"], each["reason"], each["until"]) for each in found] == [
            ("acme", "bounces", None),
            ("other", "bounces", None),
        ]
        assert found[0]["figures"] == {"sent": 40, "bounced": 7, "percent_max": 5.0}
        async with watching(client, "/v1/live/account?name=relay-7") as stream:
            shown = (await stream.state())["account"]["blocks"]
        assert [each["workspace"] for each in shown] == ["acme", "other"]
        one = await client.post("/v1/admin/accounts/relay-7/unblock", json={"workspace": "acme"})
        assert one.json()["data"] == {"workspaces": ["acme"]}, one.text
        again = await client.post("/v1/admin/accounts/relay-7/unblock", json={"workspace": "acme"})
        assert again.json()["data"] == {"workspaces": []}
        rest = await client.post("/v1/admin/accounts/relay-7/unblock", json={})
        assert rest.json()["data"] == {"workspaces": ["other"]}
        assert await read_blocks(api.store, now=await api.store.now()) == []
        for asked in (
            client.get("/v1/admin/accounts/nobody/blocks"),
            client.post("/v1/admin/accounts/nobody/unblock", json={}),
        ):
            assert (await asked).json()["error"]["code"] == "not_found"
        audit = (await client.get("/v1/admin/audit", params={"region": "main"})).json()["data"]["items"]
        assert [each["action"] for each in audit].count("account.unblock") == 2  # unblocking again changes nothing
        assert (await key.post("/v1/admin/accounts/relay-7/unblock", json={})).status_code == 401


async def test_a_workspace_learns_of_its_own_block_but_no_account_name(api: Api) -> None:
    await api.workspace()
    await lay(api.store, "acme", "neighbour")
    email = {"workspace": "acme", "to": "ann@there.test", "subject": "s", "text": "t"}
    (row,) = await api.store.enqueue_many([email])
    assert [each.workspace for each in await read_blocks(api.store.of_tenant("acme"), now=await api.store.now())] == [
        "acme"
    ]
    async with signed_in(api, "acme", Role.VIEWER) as member:
        public_id = (await api.store.public_ids()).email(row["id"])
        life = await member.get(f"/v1/emails/{public_id}/life")
        kinds = {each["kind"]: each["words"] for each in life.json()["data"]["stands_in_the_way"]}
        assert "7 of 40" in kinds["block"]
        async with watching(member, "/v1/live/now") as stream:
            now = await stream.state()
        (told,) = [each for each in now["reasons"] if each["code"] == "account.blocks_workspace"]
        assert "7 of 40" in told["text"]
        assert "relay-7" not in life.text + str(now)
        events = (await member.get("/v1/log")).json()["data"]["items"]
        assert [each for each in events if each["kind"] == "blocked"] == []
