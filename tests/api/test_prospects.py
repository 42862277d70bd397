"""Prospects and lists over HTTP: a list is imported completely or not at all."""

import asyncio
import gzip
import json
from typing import Any

import asyncpg
import httpx2 as httpx
import pytest

from fairpost.model.workspace import Scope
from tests.api.conftest import Api, fields_of

PEOPLE = "email,first_name,timezone,id\nann@example.com,Ann,Europe/Berlin,1\nbob@example.com,Bob,,2\n"
CSV = {"Content-Type": "text/csv"}
LINES = {"Content-Type": "application/x-ndjson; charset=utf-8"}


async def upload(client: httpx.AsyncClient, content: Any, name: str = "spring", **more: Any) -> httpx.Response:
    more.setdefault("headers", CSV)
    return await client.post(f"/v1/lists/{name}/prospects", content=content, **more)


async def addresses(client: httpx.AsyncClient, name: str = "spring") -> list[str]:
    page = (await client.get(f"/v1/lists/{name}/prospects")).json()["data"]
    return [each["address"] for each in page["items"]]


async def test_a_list_comes_in_and_says_what_became_of_each_line(api: Api, client: httpx.AsyncClient) -> None:
    first = await upload(client, PEOPLE)
    assert first.status_code == 200, first.text
    assert first.json()["data"] == {"added": 2, "changed": 0, "same": 0, "duplicates": 0, "bad": 0, "bad_lines": []}
    again = await upload(client, "email,first_name\nANN@example.com,Anna\nann@example.com,\nbob@example.com,Bob\n")
    assert again.json()["data"] | {"bad_lines": []} == {
        "added": 0,
        "changed": 1,
        "same": 1,
        "duplicates": 1,
        "bad": 0,
        "bad_lines": [],
    }
    assert await addresses(client) == ["ann@example.com", "bob@example.com"]
    shown = (await client.get("/v1/prospects/Ann@Example.com")).json()["data"]
    assert shown["fields"] == {"first_name": "Anna"}
    assert (shown["timezone"], shown["external_id"], shown["lists"]) == ("Europe/Berlin", "1", ["spring"])
    lists = (await client.get("/v1/lists")).json()["data"]["items"]
    assert [(each["name"], each["prospects"]) for each in lists] == [("spring", 2)]
    audit = await api.store.fetch("SELECT action, detail FROM fairpost.audit ORDER BY id")
    assert [row["action"] for row in audit] == ["prospects.import"] * 2
    assert json.loads(audit[0]["detail"])["added"] == 2


async def test_json_is_taken_by_lines_and_as_a_list(client: httpx.AsyncClient) -> None:
    people = [
        {"address": "Ann Lee <ann@example.com>", "id": 7, "fields": {"city": "Zürich", "seats": 3, "vip": True}},
        {"address": "bob@example.com", "timezone": "Asia/Tokyo", "fields": {"city": None}},
    ]
    by_lines = "\n".join(json.dumps(each) for each in people) + "\n\n"
    assert (await upload(client, by_lines, headers=LINES)).json()["data"]["added"] == 2
    as_list = await client.post("/v1/lists/autumn/prospects", json=people)
    assert as_list.json()["data"]["same"] == 2
    shown = (await client.get("/v1/prospects/ann@example.com")).json()["data"]
    assert shown["fields"] == {"city": "Zürich", "seats": "3", "vip": "true", "name": "Ann Lee"}
    assert (shown["external_id"], shown["lists"]) == ("7", ["autumn", "spring"])


async def test_bad_lines_are_named_and_nothing_changes(api: Api, client: httpx.AsyncClient) -> None:
    bad = "email,first_name\nann@example.com,Ann\nnobody,Bob\ncy@example.com,Cy\n"
    answer = await upload(client, bad)
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["code"] == "invalid"
    assert error["details"][0]["field"] == "line 3"
    assert "--" not in error["message"]
    assert await api.store.value("SELECT count(*) FROM fairpost.prospects") == 0
    assert await api.store.value("SELECT count(*) FROM fairpost.lists") == 0
    assert await api.store.value("SELECT count(*) FROM fairpost.audit") == 0
    taken = (await upload(client, bad, params={"skip_bad": "true"})).json()["data"]
    assert (taken["added"], taken["bad"], taken["bad_lines"][0]["line"]) == (2, 1, 3)


BAD_LINES: list[str] = [
    "{",
    "[]",
    '"ann@example.com"',
    "{}",
    '{"address": 5}',
    '{"address": "ann@example.com", "colour": "red"}',
    '{"address": "ann@example.com", "fields": []}',
    '{"address": "ann@example.com", "fields": {"a b": "c"}}',
    '{"address": "ann@example.com", "fields": {"email": "c"}}',
    '{"address": "ann@example.com", "fields": {"a": ["c"]}}',
    '{"address": "ann@example.com", "fields": {"a": "\\u0000"}}',
    '{"address": "ann@example.com", "fields": {"a": "\\ud800"}}',
    '{"address": "ann@example.com", "fields": {"a": NaN}}',
    '{"address": "ann@example.com", "fields": {"a": "' + "x" * 70_000 + '"}}',
    '{"address": "ann@example.com", "timezone": "Mars"}',
    '{"address": "ann@example.com", "id": "a:b"}',
    '{"address": "ann@example.com", "id": true}',
    "[" * 100_000,
    '{"address": "ann@example.com", "id": ' + "1" * 5_000 + "}",
    '{"address": "' + "a" * 1_100_000 + '"}',
]


async def test_a_bad_line_of_json_is_bad_and_no_more(api: Api, client: httpx.AsyncClient) -> None:
    wrong = []
    for line in BAD_LINES:
        content = f"{line}\n" + '{"address": "bob@example.com"}\n'
        refused = await upload(client, content, headers=LINES)
        added = await api.store.value("SELECT count(*) FROM fairpost.prospects")
        taken = (await upload(client, content, headers=LINES, params={"skip_bad": "true"})).json()["data"]
        await api.store.value("SELECT fairpost.remove_prospects(array_agg(id)) FROM fairpost.prospects")
        if (fields_of(refused)[:1], added, taken["added"], taken["bad"]) != (["line 1"], 0, 1, 1):
            wrong.append((line[:100], refused.text[:200], taken))
    assert wrong == []


async def test_an_invalid_list_is_refused(api: Api, client: httpx.AsyncClient) -> None:
    for content, headers, params, status in (
        ("", CSV, {}, 422),
        ("first_name\nAnn\n", CSV, {}, 422),
        (PEOPLE, CSV, {"delimiter": "x"}, 422),
        (PEOPLE, CSV, {"encoding": "punycode"}, 422),
        (PEOPLE, CSV, {"column": "nothing"}, 422),
        (PEOPLE, CSV, {"column": "Nobody=email"}, 422),
        ("{}", {"Content-Type": "application/json"}, {}, 422),
        ("{", {"Content-Type": "application/json"}, {}, 422),
        (b"\xff\xfe\x00" * 9, {"Content-Type": "application/json"}, {}, 422),
        ("[" + "1," * 2_200_000 + "1]", {"Content-Type": "application/json"}, {}, 413),
        (b"\xff\xfee\x00m\x00a\x00i\x00l\x00\n\x00\x00\xd8\n\x00x", CSV, {"encoding": "utf-16"}, 422),
        (PEOPLE, {"Content-Type": "application/xml"}, {}, 415),
        (PEOPLE, {}, {}, 415),
    ):
        answer = await upload(client, content, headers=headers, params=params)
        assert answer.status_code == status, (content[:50], answer.text[:300])
    assert (await upload(client, PEOPLE, name="a%2Fb")).status_code in (404, 405)
    assert (await upload(client, PEOPLE, name="a b")).status_code == 422
    assert await api.store.value("SELECT count(*) FROM fairpost.prospects") == 0


async def test_columns_and_encodings_can_be_named(client: httpx.AsyncClient) -> None:
    content = "Kontakt;Ort;Notiz\nann@example.com;Zürich;x\n".encode("cp1252")
    params = {"column": ["Kontakt=email", "Notiz="], "encoding": "cp1252", "delimiter": ";"}
    assert (await upload(client, content, params=params)).status_code == 200
    assert (await client.get("/v1/prospects/ann@example.com")).json()["data"]["fields"] == {"ort": "Zürich"}


async def test_a_body_that_is_compressed_is_refused_everywhere(client: httpx.AsyncClient) -> None:
    packed = gzip.compress(PEOPLE.encode())
    for coding in ("gzip", "br", "deflate", "identity, gzip", "x-anything"):
        headers = {"Content-Encoding": coding, **CSV}
        for path in ("/v1/lists/spring/prospects", "/v1/emails", "/v1/nothing"):
            answer = await client.post(path, content=packed, headers=headers)
            assert answer.status_code == 415, answer.text
            assert answer.json()["error"]["code"] == "unsupported_media_type"
    plain = await upload(client, PEOPLE, headers={"Content-Encoding": "identity", **CSV})
    assert plain.status_code == 200


async def test_a_list_that_is_too_long_is_refused_before_it_is_read(api: Api, client: httpx.AsyncClient) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
    head = "POST /v1/lists/spring/prospects HTTP/1.1", "Host: x", "Content-Type: text/csv", "Content-Length: 70000000"
    writer.write("\r\n".join((*head, "", "")).encode())
    async with asyncio.timeout(60):
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_a_long_list_does_not_delay_other_requests(client: httpx.AsyncClient) -> None:
    people, answered = 15_000, 0
    content = "email,first_name\n" + "".join(f"p{n}@example.com,Name {n}\n" for n in range(people))
    long = asyncio.create_task(upload(client, content))
    while not long.done():
        assert (await client.get("/healthz")).status_code == 200
        answered += 1
    assert (await long).json()["data"]["added"] == people
    assert answered > 3
    found, cursor = 0, None
    while True:
        params = {"limit": "200"} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/v1/lists/spring/prospects", params=params)).json()["data"]
        found += len(page["items"])
        cursor = page["next"]
        if cursor is None or found >= 1_000:
            break
    assert found == 1_000


async def test_two_workspaces_know_the_same_person_each_for_itself(api: Api, client: httpx.AsyncClient) -> None:
    await api.workspace("other", domains=[])
    await upload(client, PEOPLE)
    async with api.client("other") as stranger:
        for asked in (
            await stranger.get("/v1/prospects/ann@example.com"),
            await stranger.patch("/v1/prospects/ann@example.com", json={"is_paused": True}),
            await stranger.delete("/v1/prospects/ann@example.com"),
            await stranger.get("/v1/lists/spring/prospects"),
            await stranger.delete("/v1/lists/spring"),
        ):
            assert asked.status_code == 404, asked.text
        assert (await upload(stranger, "email,first_name\nann@example.com,Other\n")).json()["data"]["added"] == 1
        assert await addresses(stranger) == ["ann@example.com"]
        assert (await stranger.delete("/v1/prospects/ann@example.com")).status_code == 200
    shown = (await client.get("/v1/prospects/ann@example.com")).json()["data"]
    assert shown["fields"] == {"first_name": "Ann"}
    assert len(await addresses(client)) == 2


async def test_one_is_changed_paused_and_resumed(api: Api, client: httpx.AsyncClient) -> None:
    await upload(client, PEOPLE)
    path = "/v1/prospects/ann@example.com"
    changed = await client.patch(
        path,
        json={"fields": {"first_name": None, "city": "Bern", "seats": 2}, "timezone": None, "external_id": "ann-1"},
    )
    assert changed.status_code == 200, changed.text
    shown = changed.json()["data"]
    assert shown["fields"] == {"city": "Bern", "seats": "2"}
    assert (shown["timezone"], shown["external_id"], shown["is_paused"]) == (None, "ann-1", False)
    assert (await client.patch(path, json={"is_paused": True})).json()["data"]["is_paused"] is True
    assert (await client.patch(path, json={"fields": {"city": "Basel"}})).json()["data"]["is_paused"] is True
    assert (await client.patch(path, json={"is_paused": False})).json()["data"]["is_paused"] is False
    for wrong, status in (
        ({"external_id": "2"}, 409),
        ({"external_id": "a:b"}, 422),
        ({"timezone": "Mars"}, 422),
        ({"fields": {"a b": "c"}}, 422),
        ({"fields": {"a": ["c"]}}, 422),
        ({"fields": {f"f{n}": "x" * 10_000 for n in range(8)}}, 422),
        ({"colour": "red"}, 422),
        ({"is_paused": None}, 422),
    ):
        answer = await client.patch(path, json=wrong)
        assert answer.status_code == status, answer.text
    assert (await client.get(path)).json()["data"]["fields"] == {"city": "Basel", "seats": "2"}
    assert (await client.patch("/v1/prospects/nobody@example.com", json={"is_paused": True})).status_code == 404
    assert (await client.get("/v1/prospects/a%00b")).status_code == 422


async def test_a_prospect_among_many_is_removed_alone(api: Api, client: httpx.AsyncClient) -> None:
    await upload(client, PEOPLE)
    assert (await client.delete("/v1/prospects/ann@example.com")).json()["data"] == {"removed": True}
    assert (await client.delete("/v1/prospects/ann@example.com")).status_code == 404
    assert await addresses(client) == ["bob@example.com"]


async def test_a_list_is_removed_and_its_people_stay(api: Api, client: httpx.AsyncClient) -> None:
    await upload(client, PEOPLE)
    assert (await client.delete("/v1/lists/spring")).status_code == 200
    assert (await client.delete("/v1/lists/spring")).status_code == 404
    assert (await client.get("/v1/lists/spring/prospects")).status_code == 404
    assert (await client.get("/v1/prospects/ann@example.com")).json()["data"]["lists"] == []
    assert await api.store.value("SELECT count(*) FROM fairpost.list_members") == 0


async def test_a_list_that_a_campaign_needs_stays(api: Api, client: httpx.AsyncClient) -> None:
    await upload(client, PEOPLE)
    await api.store.value(
        """WITH s AS (INSERT INTO fairpost.sequences (workspace, name, created_at) VALUES ('acme', 's', now()) RETURNING id)
           INSERT INTO fairpost.campaigns (workspace, name, sequence_id, lists, route, created_at)
           SELECT 'acme', 'may', s.id, ARRAY(SELECT l.id FROM fairpost.lists l), 'default', now() FROM s"""
    )
    answer = await client.delete("/v1/lists/spring")
    assert answer.status_code == 409, answer.text
    details = answer.json()["error"]["details"]
    assert (details["reason"], details["campaigns"]) == ("list.in_use", ["may"])
    await api.store.value("UPDATE fairpost.campaigns SET state = 'cancelled'")
    assert (await client.delete("/v1/lists/spring")).status_code == 200


async def test_scopes_are_kept(api: Api) -> None:
    await api.workspace()
    async with api.client(scopes=[Scope.READ, Scope.SEND]) as reader:
        assert (await upload(reader, PEOPLE)).status_code == 403
        assert (await reader.delete("/v1/prospects/ann@example.com")).status_code == 403
        assert (await reader.get("/v1/lists")).status_code == 200


async def test_prospects_are_moved_by_their_own_workspace_alone(api: Api, client: httpx.AsyncClient) -> None:
    for workspace, address in (("acme", "ann@example.com"), ("acme", "bob@example.com"), ("other", "eve@example.com")):
        await api.store.value(
            """INSERT INTO fairpost.prospects (workspace, address, folded, created_at, changed_at) VALUES ($1, $2, $2, now(), now())""",
            *(workspace, address),
        )
    tenant = api.store.of_tenant("acme")
    ids = dict(tuple(row) for row in await api.store.fetch("SELECT address, id FROM fairpost.prospects"))
    assert await tenant.value("SELECT fairpost.pause_prospect($1, true)", ids["ann@example.com"]) is True
    for wrong in ([ids["eve@example.com"]], [ids["ann@example.com"], ids["eve@example.com"]], [2**60]):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await tenant.value("SELECT fairpost.remove_prospects($1)", wrong)
        assert refused.value.sqlstate == "FP004"
    assert await api.store.value("SELECT count(*) FROM fairpost.prospects") == 3
