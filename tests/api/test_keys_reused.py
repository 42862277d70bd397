"""An idempotency key reused for a different request is rejected; with the same request, it returns the first result."""

import json
from typing import Any

import httpx2 as httpx

from tests.api.conftest import Api

HELLO = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}
NDJSON = {"Content-Type": "application/x-ndjson"}


async def ask(client: httpx.AsyncClient, body: dict[str, Any], key: str = "order-17") -> httpx.Response:
    return await client.post("/v1/emails", json=body, headers={"Idempotency-Key": key})


async def test_another_body_under_a_known_key_is_a_conflict_of_its_own(api: Api, client: httpx.AsyncClient) -> None:
    first = await ask(client, HELLO)
    for other in ({**HELLO, "text": "Ho"}, {**HELLO, "to": "bob@example.com"}, {**HELLO, "user": "ann"}):
        answer = await ask(client, other)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "idempotency_key_reused")
    again = await ask(client, dict(reversed(HELLO.items())))
    assert (again.status_code, again.json()["data"]) == (200, {"id": first.json()["data"]["id"], "new": False})
    field = await client.post("/v1/emails", json={**HELLO, "idempotency_key": "order-17", "cc": None})
    assert field.status_code == 200
    assert await api.store.value("SELECT count(*) FROM fairpost.queue") == 1


async def test_each_line_of_a_bulk_is_compared_by_itself(api: Api, client: httpx.AsyncClient) -> None:
    async def send(*lines: dict[str, Any]) -> list[Any]:
        body = "\n".join(json.dumps(line) for line in lines)
        answer = await client.post("/v1/emails/bulk", content=body, headers={**NDJSON, "Idempotency-Key": "june"})
        return list(answer.json()["data"]["results"])

    bob = {**HELLO, "to": "bob@example.com"}
    first = await send(HELLO, bob)
    again = await send(HELLO, {**bob, "text": "Ho"})
    assert (again[0]["id"], again[0]["new"]) == (first[0]["id"], False)
    assert again[1]["error"]["code"] == "idempotency_key_reused"
    assert await api.store.value("SELECT count(*) FROM fairpost.queue") == 2


async def test_a_key_without_a_fingerprint_matches_any_request(api: Api, client: httpx.AsyncClient) -> None:
    """The e-mail was enqueued over SQL, or before requests were compared."""
    await api.store.enqueue_many([{**HELLO, "workspace": "acme", "idempotency_key": "order-17"}])
    answer = await ask(client, {**HELLO, "text": "Ho"})
    assert (answer.status_code, answer.json()["data"]["new"]) == (200, False)


async def test_over_sql_another_body_is_skipped_without_an_error(api: Api, client: httpx.AsyncClient) -> None:
    first = (await ask(client, HELLO)).json()["data"]["id"]
    (row,) = await api.store.enqueue_many([{**HELLO, "text": "Ho", "workspace": "acme", "idempotency_key": "order-17"}])
    ids = await api.store.public_ids()
    assert (ids.email(row["id"]), row["new"], row["error"]) == (first, False, None)


async def test_a_pool_that_is_lent_in_the_meantime_makes_no_other_request(api: Api, client: httpx.AsyncClient) -> None:
    await ask(client, HELLO)
    await api.store.value("SELECT fairpost.add_account('acme/own', 'own@acme.example', 'acme/default', '{}')")
    assert (await ask(client, HELLO)).status_code == 200


async def test_a_key_like_a_campaign_s_belongs_to_the_caller(api: Api, client: httpx.AsyncClient) -> None:
    await api.store.value(
        "INSERT INTO fairpost.idempotency_keys (key_hash, email_id) VALUES (fairpost.key_hash('acme', '8:1:2'), 7)"
    )
    assert (await ask(client, HELLO, key="8:1:2")).status_code == 201
    assert (await ask(client, HELLO, key="8:1:2")).status_code == 200
