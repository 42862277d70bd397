"""The suppression list of a workspace over HTTP."""

import httpx2 as httpx

from fairpost.model.workspace import Scope
from tests.api.conftest import Api

STOP = {"kind": "unsubscribe", "reason": "asked us to stop"}


async def test_an_address_is_suppressed_and_let_go(api: Api, client: httpx.AsyncClient) -> None:
    answer = await client.put("/v1/suppressions/Ann@Example.com", json=STOP)
    assert answer.status_code == 201, answer.text
    assert answer.json()["data"]["address"] == "ann@example.com"
    lighter = await client.put("/v1/suppressions/ann@example.com", json={"reason": "by hand"})
    assert lighter.status_code == 200
    assert lighter.json()["data"]["kind"] == "unsubscribe"
    shown = (await client.get("/v1/suppressions/ANN@EXAMPLE.COM")).json()["data"]
    assert (shown["kind"], shown["reason"]) == ("unsubscribe", "asked us to stop")
    sent = await client.post("/v1/emails", json={"to": "ann@example.com", "subject": "x", "text": "y"})
    assert sent.status_code == 201
    assert (await client.delete("/v1/suppressions/ann@example.com")).json()["data"] == {"removed": True}
    assert (await client.delete("/v1/suppressions/ann@example.com")).status_code == 404
    assert (await client.get("/v1/suppressions/ann@example.com")).status_code == 404
    actions = [row["action"] for row in await api.store.fetch("SELECT action FROM fairpost.audit ORDER BY id")]
    assert actions == ["suppression.add", "suppression.add", "suppression.remove"]


async def test_many_at_once_or_none(api: Api, client: httpx.AsyncClient) -> None:
    addresses = [f"p{n}@example.com" for n in range(250)] + ["P1@example.com", "jürgen@müller.example"]
    taken = await client.post("/v1/suppressions", json={"addresses": addresses, **STOP})
    assert taken.status_code == 200, taken.text
    assert taken.json()["data"] == {"added": 251, "known": 0, "duplicates": 1, "bad": 0, "bad_addresses": []}
    wrong = {"addresses": ["q@example.com", "nobody", "r@example.com"], **STOP}
    refused = await client.post("/v1/suppressions", json=wrong)
    assert refused.status_code == 422
    assert refused.json()["error"]["details"][0]["field"] == "addresses[1]"
    assert (await client.get("/v1/suppressions/q@example.com")).status_code == 404
    skipped = (await client.post("/v1/suppressions", json=wrong, params={"skip_bad": "true"})).json()["data"]
    assert (skipped["added"], skipped["bad"], skipped["bad_addresses"][0]["place"]) == (2, 1, 1)
    too_many = {"addresses": ["a@example.com"] * 10_001, **STOP}
    assert (await client.post("/v1/suppressions", json=too_many)).status_code == 422
    most = {"addresses": [f"m{n}@example.com" for n in range(10_000)], **STOP}
    assert (await client.post("/v1/suppressions", json=most)).json()["data"]["added"] == 10_000


async def test_pages_kinds_and_search(client: httpx.AsyncClient) -> None:
    for n in range(5):
        await client.put(f"/v1/suppressions/p{n}@example.com", json=STOP)
    await client.put("/v1/suppressions/a@shop.example", json={"kind": "complaint", "reason": "Spam!"})
    found: list[str] = []
    cursor = None
    while True:
        params = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/v1/suppressions", params=params)).json()["data"]
        found += [each["address"] for each in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == ["a@shop.example", *(f"p{n}@example.com" for n in range(5))]

    async def asked(**params: str) -> list[str]:
        page = (await client.get("/v1/suppressions", params=params)).json()["data"]
        return [each["address"] for each in page["items"]]

    assert await asked(kind="complaint") == ["a@shop.example"]
    assert await asked(search="shop") == ["a@shop.example"]
    assert await asked(search="SPAM") == ["a@shop.example"]
    assert await asked(search="nothing") == []
    assert (await client.get("/v1/suppressions", params={"kind": "colour"})).status_code == 422
    assert (await client.get("/v1/suppressions", params={"cursor": "!"})).status_code == 400


async def test_an_invalid_field_is_named(client: httpx.AsyncClient) -> None:
    for path, body in (
        ("nobody", STOP),
        ("a@b@c", STOP),
        ("ann@example.com", {}),
        ("ann@example.com", {"reason": ""}),
        ("ann@example.com", {**STOP, "kind": "colour"}),
        ("ann@example.com", {**STOP, "workspace": "other"}),
        ("ann%00@example.com", STOP),
    ):
        assert (await client.put(f"/v1/suppressions/{path}", json=body)).status_code == 422, path
    assert (await client.get("/v1/suppressions")).json()["data"]["items"] == []


async def test_the_list_of_everyone_and_those_of_others_are_out_of_reach(api: Api, client: httpx.AsyncClient) -> None:
    await api.workspace("other", domains=[])
    await api.store.suppress("*", "all@example.com", reason="the operator's")
    await api.store.suppress("other", "ann@example.com", reason="theirs")
    assert (await client.get("/v1/suppressions")).json()["data"]["items"] == []
    for address in ("all@example.com", "ann@example.com"):
        assert (await client.get(f"/v1/suppressions/{address}")).status_code == 404
        assert (await client.delete(f"/v1/suppressions/{address}")).status_code == 404
        assert (await client.put(f"/v1/suppressions/{address}", json=STOP)).status_code == 201
        assert (await client.delete(f"/v1/suppressions/{address}")).status_code == 200
    await client.post("/v1/suppressions", json={"addresses": ["all@example.com", "ann@example.com"], **STOP})
    rows = await api.store.fetch("SELECT workspace, address, reason FROM fairpost.suppressions ORDER BY 1, 2")
    assert [tuple(row) for row in rows] == [
        ("*", "all@example.com", "the operator's"),
        ("acme", "all@example.com", STOP["reason"]),
        ("acme", "ann@example.com", STOP["reason"]),
        ("other", "ann@example.com", "theirs"),
    ]


async def test_waiting_mail_of_an_unsubscribed_prospect_is_not_sent(api: Api, client: httpx.AsyncClient) -> None:
    people = "email\nann@example.com\nbob@example.com\n"
    await client.post("/v1/lists/spring/prospects", content=people, headers={"Content-Type": "text/csv"})
    assert (await client.put("/v1/suppressions/ann@example.com", json=STOP)).status_code == 201


async def test_scopes_are_kept(api: Api) -> None:
    await api.workspace()
    async with api.client(scopes=[Scope.READ, Scope.SEND]) as reader:
        assert (await reader.put("/v1/suppressions/ann@example.com", json=STOP)).status_code == 403
        assert (await reader.get("/v1/suppressions")).status_code == 200


async def test_lists_of_both_kinds_come_in_on_one_connection(client: httpx.AsyncClient) -> None:
    """The driver caches a table's columns by name for the lifetime of a connection."""
    for _ in range(10):
        people = await client.post("/v1/lists/spring/prospects", json=[{"address": "ann@example.com"}])
        assert people.status_code == 200, people.text
        stopped = await client.post("/v1/suppressions", json={"addresses": ["bob@example.com"], **STOP})
        assert stopped.status_code == 200, stopped.text
