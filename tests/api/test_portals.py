"""The product's own e-mails over HTTP, and a person's data."""

import httpx2 as httpx

from tests.api.conftest import Api

WORDS = {
    "subject": "{{ code }} is your code",
    "text": "Your code: {{ code }}",
    "html": "<p>Your code: <b>{{ code }}</b></p>",
}


async def test_an_email_is_put_into_own_words_sent_and_put_back(api: Api, client: httpx.AsyncClient) -> None:
    items = (await client.get("/v1/portals")).json()["data"]
    assert {(i["portal"], i["type"]) for i in items} >= {
        ("hub", "tfa"),
        ("org", "welcome"),
        ("agency", "invite"),
    }
    before = (await client.get("/v1/portals/hub/tfa")).json()["data"]
    unsaved = await client.post("/v1/portals/hub/tfa/preview", json={"words": WORDS, "values": {"code": "111222"}})
    assert unsaved.json()["data"]["subject"].startswith("111222 ")
    broken = await client.post("/v1/portals/hub/tfa/preview", json={"words": {**WORDS, "subject": "{{ nothing }}"}})
    assert (broken.status_code, broken.json()["error"]["details"][0]["field"]) == (422, "words.subject")
    assert (await client.get("/v1/portals/hub/tfa")).json()["data"] == before
    put = await client.put("/v1/portals/hub/tfa", json=WORDS)
    assert put.status_code == 201, put.text
    assert (await client.put("/v1/portals/hub/tfa", json=WORDS)).status_code == 200
    shown = (await client.post("/v1/portals/hub/tfa/preview", json={"values": {"code": "482913"}})).json()["data"]
    assert shown["subject"].startswith("482913 ")
    async with api.client(await api.workspace("other")) as others:
        assert (await others.get("/v1/portals/hub/tfa")).json()["data"]["subject"] == before["subject"]
    values = {"code": "482913", **await _samples(client)}
    given, once = {"to": "ann@example.com", "values": values, "tags": {"person": "7"}}, {"Idempotency-Key": "the first"}
    sent = await client.post("/v1/portals/hub/tfa/send", json=given, headers=once)
    assert sent.status_code == 201, sent.text
    again = await client.post("/v1/portals/hub/tfa/send", json=given, headers=once)
    assert (again.status_code, again.json()["data"]) == (200, {"id": sent.json()["data"]["id"], "new": False})
    email = (await client.get(f"/v1/emails/{sent.json()['data']['id']}")).json()["data"]
    assert email["subject"].startswith(f"{values['code']} ")
    assert (email["class"], email["type"], email["tags"]) == ("urgent", "hub_tfa", {"person": "7"})
    assert (await client.delete("/v1/portals/hub/tfa")).json()["data"] == {"removed": True}
    assert (await client.get("/v1/portals/hub/tfa")).json()["data"]["subject"] == before["subject"]
    assert (await client.delete("/v1/portals/hub/tfa")).json()["data"] == {"removed": False}


async def _samples(client: httpx.AsyncClient) -> dict[str, object]:
    items = (await client.get("/v1/portals")).json()["data"]
    (fields,) = [i["fields"] for i in items if (i["portal"], i["type"]) == ("hub", "tfa")]
    return {name: "482913" if name == "code" else "someone" for name in fields}


async def test_a_product_email_says_that_a_program_sends_it(api: Api, client: httpx.AsyncClient) -> None:
    values = {"first_name": "Ann", "code": "482913"}
    sent = await client.post("/v1/portals/hub/tfa/send", json={"to": "ann@example.com", "values": values})
    assert sent.status_code == 201, sent.text
    headers = await api.store.value("SELECT headers ->> 'Auto-Submitted' FROM fairpost.contents")
    assert headers == "auto-generated"


async def test_broken_words_are_refused_with_their_place(client: httpx.AsyncClient) -> None:
    answer = await client.put("/v1/portals/hub/tfa", json={**WORDS, "text": "Hello\n{{ code"})
    assert answer.status_code == 422
    detail = answer.json()["error"]["details"][0]
    assert detail["line"] == 2
    assert detail["column"] >= 1
    for path in ("/v1/portals/hub/nothing", "/v1/portals/..%2f..%2fetc/passwd", "/v1/portals/HUB/tfa"):
        assert (await client.get(path)).status_code == 404, path
        assert (await client.put(path, json=WORDS)).status_code == 404, path
    assert (await client.post("/v1/portals/hub/tfa/send", json={"to": "a@example.com"})).status_code == 422


async def test_a_persons_data_is_handed_out_and_erased(api: Api, client: httpx.AsyncClient) -> None:
    await api.workspace("other")
    email = {"to": "ann@example.com", "subject": "Hello Ann", "text": "Hi", "due_at": "2100-01-01T00:00:00Z"}
    await client.post("/v1/emails", json=email)
    async with api.client("other") as others:
        await others.post("/v1/emails", json={**email, "subject": "of others"})
    told = await client.get("/v1/persons/ann@example.com")
    data = told.json()["data"]
    assert [each["subject"] for each in data["emails"]] == ["Hello Ann"]
    assert set(data) == {
        "prospects",
        "suppressions",
        "soft_bounces",
        "returned",
        "replies",
        "inbox_mails",
        "events",
        "emails",
    }
    erased = (await client.delete("/v1/persons/ann@example.com")).json()["data"]
    assert erased["cancelled"] == 1
    assert (await client.get("/v1/persons/ann@example.com")).json()["data"]["emails"] == []
    states = await api.store.fetch("SELECT workspace FROM fairpost.queue")
    assert [row["workspace"] for row in states] == ["other"]
    assert (await client.get("/v1/persons/nobody")).status_code == 422
