"""GET /v1/events: a workspace's own events by cursor, with public ids and sealed cursors."""

from typing import Any

import httpx2 as httpx

from fairpost.model.account import Limits
from fairpost.model.event import EventKind
from fairpost.store.events import take_turn
from fairpost.store.store import Store
from tests.api.conftest import Api
from tests.api.test_metrics import add_account, send, stage


async def read(client: httpx.AsyncClient, **params: Any) -> dict[str, Any]:
    answer = await client.get("/v1/events", params=params)
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()["data"]
    return data


async def queued(api: Api, client: httpx.AsyncClient, n: int = 1, **more: Any) -> list[str]:
    ids = [await send(client, **more) for _ in range(n)]
    await stage(api.store)
    await take_turn(api.store)
    return ids


async def test_events_are_read_by_cursor_with_public_ids(api: Api, client: httpx.AsyncClient) -> None:
    await add_account(client)
    ids = await queued(api, client, 3, type="reset", tags={"order": "17"}, metadata={"a": 1})
    first = await read(client, type="email.queued", limit=2)
    rest = await read(client, type="email.queued", after=first["cursor"])
    end = await read(client, after=rest["cursor"])
    assert [each["data"]["email_id"] for each in first["items"] + rest["items"]] == ids
    assert (end["items"], end["is_end"]) == ([], True)
    data = first["items"][0]["data"]
    assert (data["type"], data["tags"], data["metadata"]) == ("reset", {"order": "17"}, {"a": 1})
    assert data["recipients"] == ["ann@example.com"]
    assert await read(client, type="email.queued", limit=2) == first


async def test_a_workspace_reads_its_own_events_and_still_gets_on(api: Api, client: httpx.AsyncClient) -> None:
    await api.workspace("other", domains=[])
    await add_account(client)
    await queued(api, client)
    async with api.client("other") as stranger:
        page = await read(stranger)
        assert page["items"] == []
        assert (await read(stranger, after=page["cursor"]))["is_end"]


async def test_latest_begins_with_what_happens_from_now_on(api: Api, client: httpx.AsyncClient) -> None:
    await add_account(client)
    await queued(api, client)
    cursor = (await read(client, after="latest"))["cursor"]
    (id_,) = await queued(api, client)
    assert [each["data"]["email_id"] for each in (await read(client, after=cursor))["items"]] == [id_]


async def test_a_shared_account_has_no_name_in_events(api: Api, client: httpx.AsyncClient) -> None:
    await add_account(client)
    (id_,) = await queued(api, client)
    email = (await api.store.public_ids()).email_id(id_)
    account = await api.store.add_account("relay-7", address="x@relay.test", limits=Limits())
    await api.store.value(
        """INSERT INTO fairpost.outbox (at, kind, workspace, email_id, account_id, reason, params)
           VALUES (now(), 'email.failed', 'acme', $1, $2, 'email.refused', '{"account": "relay-7", "server": "relay-7"}') RETURNING 1""",
        *(email, account),
    )
    await take_turn(api.store)
    assert "relay-7" not in str(await read(client))
    rows = await api.store.of_tenant("acme").fetch("SELECT account, params FROM fairpost.events_after()")
    assert {(row["account"], row["params"]) for row in rows if row["params"]} == {(None, "{}")}


async def test_wrong_and_expired_cursors_and_types_are_refused(api: Api, client: httpx.AsyncClient) -> None:
    await add_account(client)
    await queued(api, client)
    cursor = (await read(client))["cursor"]
    for wrong, status in (("x", 400), ("1.2", 400), (f"{cursor}.{cursor}", 400), ("a\x00", 422)):
        assert (await client.get("/v1/events", params={"after": wrong})).status_code == status, wrong
    assert (await client.get("/v1/events", params={"type": "email.delivered"})).status_code == 422
    await drop(api.store)
    answer = await client.get("/v1/events", params={"after": cursor})
    assert (answer.status_code, answer.json()["error"]["code"]) == (410, "gone")
    assert answer.json()["error"]["details"]["reason"] == "events.cursor_expired"


async def drop(store: Store) -> None:
    await store.value("UPDATE fairpost.events_dropped SET turn = 1000, id = 1000 RETURNING 1")


async def test_every_type_can_be_asked_for(client: httpx.AsyncClient) -> None:
    assert (await read(client, type=[kind.value for kind in EventKind]))["items"] == []
