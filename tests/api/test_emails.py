"""E-mails over HTTP, with a real queue."""

import asyncio
import json

import httpx2 as httpx

from fairpost.model.workspace import Scope
from fairpost.store import workspaces
from tests.api.conftest import Api

HELLO = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}


async def test_an_email_handed_in_is_in_the_queue(api: Api, client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/emails", json={**HELLO, "from": "Shop <shop@acme.example>", "user": "ann"})
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert body["success"] is True
    assert body["data"]["new"] is True
    shown = (await client.get(f"/v1/emails/{body['data']['id']}")).json()["data"]
    assert shown["state"] == "ready"
    assert shown["status"] == "pending"
    assert shown["from"] == {"address": "shop@acme.example", "name": "Shop"}
    assert shown["subject"] == "Hello"
    row = await api.store.row(
        "SELECT workspace, route FROM fairpost.queue WHERE id = fairpost.private_id($1)", body["data"]["id"]
    )
    assert tuple(row) == ("acme", "default")


async def test_the_same_key_counts_once_also_at_the_same_moment(api: Api, client: httpx.AsyncClient) -> None:
    asked = [client.post("/v1/emails", json=HELLO, headers={"Idempotency-Key": "order-17"}) for _ in range(10)]
    answers = await asyncio.gather(*asked)
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    assert len({answer.json()["data"]["id"] for answer in answers}) == 1
    assert await api.store.value("SELECT count(*) FROM fairpost.queue") == 1


async def test_a_bad_email_names_the_field(api: Api, client: httpx.AsyncClient) -> None:
    for wrong, field in (
        ({**HELLO, "to": "nobody"}, "to"),
        ({**HELLO, "colour": "red"}, "colour"),
        ({**HELLO, "from": "ann@elsewhere.example"}, "from"),
        ({**HELLO, "pool": "unknown"}, "pool"),
        ({**HELLO, "account": "unknown"}, "account"),
        ({**HELLO, "headers": {"X-A": "b\r\nBcc: victim@example.com"}}, "headers.X-A"),
        ({**HELLO, "subject": "a\nBcc: victim@example.com"}, "subject"),
        ({**HELLO, "type": "a b"}, "type"),
        ({**HELLO, "tags": {"order": 7}}, "tags.order"),
        ({**HELLO, "tags": {"order": "a\nb"}}, "tags.order"),
        ({**HELLO, "metadata": [1]}, "metadata"),
        ({**HELLO, "metadata": {"a": "b" * 3000}}, "metadata"),
    ):
        answer = await client.post("/v1/emails", json=wrong)
        assert answer.status_code == 422, answer.text
        assert answer.json()["error"]["code"] == "invalid"
        assert answer.json()["error"]["details"][0]["field"] == field
    assert await api.store.value("SELECT count(*) FROM fairpost.queue") == 0


async def test_labels_are_kept_shown_and_searched(client: httpx.AsyncClient) -> None:
    labels = {"type": "hub_forgot_password", "tags": {"order": "7", "plan": "a=b"}, "metadata": {"cart": [None]}}
    id_ = (await client.post("/v1/emails", json={**HELLO, **labels})).json()["data"]["id"]
    lines = "".join(f"{json.dumps({**HELLO, 'tags': {'order': str(n)}})}\n" for n in (7, 8))
    kind = {"Content-Type": "application/x-ndjson"}
    many = (await client.post("/v1/emails/bulk", content=lines, headers=kind)).json()["data"]["results"]
    shown = (await client.get(f"/v1/emails/{id_}")).json()["data"]
    assert {name: shown[name] for name in labels} == labels
    for params, found in (
        ({"type": "hub_forgot_password", "state": "ready"}, [id_]),
        ({"type": "hub_forgot_password", "state": "failed"}, []),
        ({"tag": "order=7"}, [many[0]["id"], id_]),
        ({"tag": ["order=7", "plan=a=b"]}, [id_]),
        ({"tag": "order="}, []),
    ):
        page = (await client.get("/v1/emails", params=params)).json()["data"]
        assert [each["id"] for each in page["items"]] == found, params
    (item,) = (await client.get("/v1/emails", params={"type": "hub_forgot_password"})).json()["data"]["items"]
    assert (item["type"], item["tags"]) == (labels["type"], labels["tags"])
    for wrong in ("order", "=7", "a b=c"):
        refused = await client.get("/v1/emails", params={"tag": wrong})
        assert (refused.status_code, refused.json()["error"]["details"][0]["field"]) == (422, "tag")


async def test_pages_lead_through_all(api: Api, client: httpx.AsyncClient) -> None:
    ids = [(await client.post("/v1/emails", json=HELLO)).json()["data"]["id"] for _ in range(7)]
    found, cursor = [], None
    while True:
        page = (await client.get("/v1/emails", params={"limit": 3} | ({"cursor": cursor} if cursor else {}))).json()[
            "data"
        ]
        found += [each["id"] for each in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == ids[::-1]


async def test_cancel_and_retry_and_resolve_say_what_they_cannot_do(api: Api, client: httpx.AsyncClient) -> None:
    id_ = (await client.post("/v1/emails", json=HELLO)).json()["data"]["id"]
    assert (await client.post(f"/v1/emails/{id_}/retry")).json()["error"]["code"] == "conflict"
    assert (await client.post(f"/v1/emails/{id_}/resolve", json={"decision": "sent"})).status_code == 409
    again = await client.post(f"/v1/emails/{id_}/resolve", json={"decision": "resend"})
    assert again.json()["data"] == {"id": id_, "state": "ready", "changed": False}, (
        "a caller that lost the response gets the same result"
    )
    cancelled = await client.post(f"/v1/emails/{id_}/cancel", json={"reason": "wrong address"})
    assert cancelled.json() == {"success": True, "data": {"id": id_, "state": "cancelled", "changed": True}}
    told = (await client.get(f"/v1/emails/{id_}")).json()["data"]
    assert (told["reason_code"], told["reason_params"]) == ("email.cancelled", {"note": "wrong address"})
    assert (await client.post(f"/v1/emails/{id_}/cancel")).json()["data"]["changed"] is False
    assert (await client.get("/v1/emails/12345")).json()["error"]["code"] == "not_found"
    assert (await client.post("/v1/emails/12345/cancel")).status_code == 404


async def test_every_error_has_the_same_shape(api: Api, client: httpx.AsyncClient) -> None:
    asked = {
        404: await client.get("/v1/nothing"),
        405: await client.put("/v1/emails"),
        400: await client.post("/v1/emails", content=b"{", headers={"Content-Type": "application/json"}),
        422: await client.get("/v1/emails", params={"limit": 0}),
        413: await client.post("/v1/emails/5/cancel", content=b"x" * 2_000_000),
        401: await client.get("/v1/emails", headers={"Authorization": "Bearer fp_main_aaaaaaaaaaaa_" + "a" * 43}),
    }
    for status, answer in asked.items():
        assert answer.status_code == status, answer.text
        body = answer.json()
        assert body["success"] is False
        assert set(body["error"]) == {"code", "message", "details"}
        assert answer.headers["X-Request-Id"]


async def test_a_key_does_what_its_scopes_say(api: Api) -> None:
    await api.workspace()
    async with api.client(scopes=[Scope.READ]) as reader, api.client(scopes=[Scope.SEND]) as sender:
        assert (await reader.get("/v1/emails")).status_code == 200
        assert (await reader.post("/v1/emails", json=HELLO)).json()["error"]["code"] == "forbidden"
        assert (await sender.post("/v1/emails", json=HELLO)).status_code == 201
        assert (await sender.get("/v1/emails")).json()["error"]["code"] == "forbidden"


async def test_a_rate_is_kept_and_told(api: Api) -> None:
    await api.workspace()
    async with api.client(per_minute=5) as client:
        answers = [await client.get("/v1/emails") for _ in range(6)]
    assert [a.status_code for a in answers] == [200] * 5 + [429]
    assert [a.headers["RateLimit-Remaining"] for a in answers] == ["4", "3", "2", "1", "0", "0"]
    assert answers[-1].json()["error"]["code"] == "rate_limited"
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 12


async def test_the_rate_that_is_reported_is_the_one_with_the_least_left(api: Api) -> None:
    """Two keys share a workspace limit of ten requests per minute; each also has its own limit of twenty and three."""
    await api.workspace()
    await workspaces.set_rate(api.store, "acme", 10)
    async with api.client(per_minute=20) as fast, api.client(per_minute=3) as slow:
        first = await fast.get("/v1/emails")
        assert [first.headers[f"RateLimit-{name}"] for name in ("Limit", "Remaining", "Reset")] == ["10", "9", "6"]
        second = await slow.get("/v1/emails")
        assert [second.headers[f"RateLimit-{name}"] for name in ("Limit", "Remaining", "Reset")] == ["3", "2", "20"]
        refused = [await fast.get("/v1/emails") for _ in range(9)][-1]
        assert refused.status_code == 429
        assert [refused.headers[f"RateLimit-{name}"] for name in ("Limit", "Remaining")] == ["10", "0"]
