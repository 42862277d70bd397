"""Templates and sequences over HTTP."""

import asyncio
from itertools import product
from typing import Any

import httpx2 as httpx

from fairpost.model.workspace import Scope
from fairpost.store import templates
from tests.api.conftest import Api, fields_of

HELLO = {"subject": 'Hello {{ first_name or "there" }}', "text": "{{ company }} is great."}


async def test_a_template_is_new_once_and_then_changed_or_the_same(api: Api, client: httpx.AsyncClient) -> None:
    first = await client.put("/v1/templates/hello", json=HELLO)
    assert first.status_code == 201, first.text
    data = first.json()["data"]
    assert (data["required"], data["optional"], data["sequences"]) == (["company"], ["first_name"], [])
    same = await client.put("/v1/templates/hello", json=HELLO)
    assert (same.status_code, same.json()["data"]) == (200, data)
    changed = await client.put("/v1/templates/hello", json={**HELLO, "html": "<p>Hi</p>"})
    assert (changed.status_code, changed.json()["data"]["html"]) == (200, "<p>Hi</p>")
    assert (await client.get("/v1/templates/hello")).json() == changed.json()
    assert await _audited(api) == ["template.add", "template.change"]


async def test_only_one_of_many_concurrent_writers_is_the_first(client: httpx.AsyncClient) -> None:
    asked = [client.put("/v1/templates/hello", json={**HELLO, "text": f"{n}"}) for n in range(8)]
    answers = await asyncio.gather(*asked)
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"subject": "", "text": "x"}, "subject"),
    ({"subject": "x"}, "text"),
    ({"subject": "x", "text": "  "}, "text"),
    ({"subject": "x", "html": ""}, "html"),
    ({"subject": "x", "text": "x", "colour": "red"}, "colour"),
    ({"subject": "x", "text": "a\0b"}, "text"),
    ({"subject": 5, "text": "x"}, "subject"),
    ({"text": "x"}, "subject"),
]


async def test_a_wrong_one_names_the_field(client: httpx.AsyncClient) -> None:
    wrong = []
    for given, field in WRONG:
        answer = await client.put("/v1/templates/hello", json=given)
        if fields_of(answer)[:1] != [field]:
            wrong.append((given, answer.text))
    assert wrong == []
    assert (await client.get("/v1/templates/hello")).status_code == 404


async def test_a_subject_may_be_as_long_as_that_of_an_email(client: httpx.AsyncClient) -> None:
    path, longest = "/v1/templates/hello", "x" * 998
    assert (await client.put(path, json={**HELLO, "subject": longest})).status_code == 201
    answer = await client.put(path, json={**HELLO, "subject": longest + "x"})
    assert (answer.status_code, fields_of(answer)) == (422, ["subject"])
    assert (await client.get(path)).json()["data"]["subject"] == longest


async def test_a_longer_subject_that_is_stored_can_still_be_read(api: Api) -> None:
    await api.workspace("acme", domains=())
    longer = "{{ first_name or '" + "x" * 2_000 + "' }}"
    await templates.put_template(api.store, "acme", "long", subject=longer, text="Hello", html=None)
    async with api.client("acme") as client:
        assert (await client.get("/v1/templates/long")).json()["data"]["subject"] == longer
        assert [each["subject"] for each in (await client.get("/v1/templates")).json()["data"]["items"]] == [longer]
        shown = await client.post("/v1/templates/long/preview", json={"values": {"first_name": "Ann"}})
        assert shown.json()["data"]["subject"] == "Ann"


async def test_a_broken_one_is_told_by_line_and_column_and_changes_nothing(client: httpx.AsyncClient) -> None:
    await client.put("/v1/templates/hello", json=HELLO)
    answer = await client.put(
        "/v1/templates/hello", json={"subject": "{{ a", "text": "one\ntwo {% if %}", "html": "<p>{{ b }}</p>"}
    )
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["code"] == "invalid"
    assert [(each["field"], each["line"]) for each in error["details"]] == [("subject", 1), ("text", 2)]
    assert all(each["column"] >= 1 and each["message"] for each in error["details"])
    assert (await client.get("/v1/templates/hello")).json()["data"]["subject"] == HELLO["subject"]


async def test_pages_lead_through_all(client: httpx.AsyncClient) -> None:
    for n in range(5):
        await client.put(f"/v1/templates/t{n}", json=HELLO)
        await client.put(f"/v1/sequences/s{n}", json={"steps": [{"template": "t0"}]})
    for path, names in (("templates", [f"t{n}" for n in range(5)]), ("sequences", [f"s{n}" for n in range(5)])):
        found, cursor = [], None
        while True:
            params = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
            page = (await client.get(f"/v1/{path}", params=params)).json()["data"]
            found += [each["name"] for each in page["items"]]
            if (cursor := page["next"]) is None:
                break
        assert found == names
        assert (await client.get(f"/v1/{path}", params={"cursor": "%%%"})).json()["error"]["code"] == "bad_request"


async def test_it_is_removed_only_while_nothing_uses_it(api: Api, client: httpx.AsyncClient) -> None:
    await client.put("/v1/templates/hello", json=HELLO)
    await client.put("/v1/sequences/spring", json={"steps": [{"template": "hello"}]})
    refused = await client.delete("/v1/templates/hello")
    assert (refused.status_code, refused.json()["error"]["details"]["sequences"]) == (409, ["spring"])
    assert (await client.delete("/v1/sequences/spring")).json() == {"success": True, "data": {"removed": True}}
    assert (await client.delete("/v1/templates/hello")).json() == {"success": True, "data": {"removed": True}}
    for method, path in (
        ("GET", "/v1/templates/hello"),
        ("DELETE", "/v1/templates/hello"),
        ("POST", "/v1/templates/hello/preview"),
        ("GET", "/v1/sequences/spring"),
        ("DELETE", "/v1/sequences/spring"),
    ):
        answer = await client.request(method, path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert (await _audited(api))[-2:] == ["sequence.remove", "template.remove"]


async def test_a_preview_fills_in_what_is_given_or_something_made_up(client: httpx.AsyncClient) -> None:
    await client.put("/v1/templates/hello", json=HELLO)
    shown = await client.post("/v1/templates/hello/preview", json={"values": {"company": "Acme", "first_name": "Ann"}})
    said = {"subject": "Hello Ann", "text": "Acme is great.", "html": None}
    assert shown.json()["data"] == {**said, "required": ["company"], "optional": ["first_name"], "values": {}}
    made_up = (await client.post("/v1/templates/hello/preview")).json()["data"]
    assert made_up["text"] == "Example Ltd is great."
    assert made_up["values"] == {"company": "Example Ltd", "first_name": "Ada"}
    missing = await client.post("/v1/templates/hello/preview", json={"values": {}})
    assert missing.status_code == 422
    assert [each["field"] for each in missing.json()["error"]["details"]] == ["values.company"]


async def test_words_can_be_seen_before_they_are_kept(api: Api, client: httpx.AsyncClient) -> None:
    path = "/v1/templates/hello/preview"  # no template has this name
    words = {"subject": "Hi {{ first_name }}", "html": "<p>{{ company }}</p>"}
    shown = (await client.post(path, json={"words": words})).json()["data"]
    assert (shown["subject"], shown["text"], shown["html"]) == ("Hi Ada", None, "<p>Example Ltd</p>")
    assert (await client.get("/v1/templates/hello")).status_code == 404

    for wrong, field in (({"subject": "Hi"}, "words.text"), ({"subject": "Hi", "text": "{{ a"}, "words.text")):
        refused = await client.post(path, json={"words": wrong})
        assert (refused.status_code, refused.json()["error"]["details"][0]["field"]) == (422, field)
    assert (await client.post(path, json={"words": {**words, "text": "x" * 1_048_577}})).status_code == 422


async def test_words_can_be_seen_with_the_fields_of_a_prospect(api: Api, client: httpx.AsyncClient) -> None:
    people = [{"address": "Ann@Example.com", "fields": {"first_name": "Ann"}}]
    assert (await client.post("/v1/lists/spring/prospects", json=people)).is_success
    words = {"subject": "Hi {{ first_name }}", "text": "{{ email }}"}
    asked = {"words": words, "prospect": "ann@example.com"}
    shown = (await client.post("/v1/templates/hello/preview", json=asked)).json()["data"]
    assert (shown["subject"], shown["text"].lower()) == ("Hi Ann", "ann@example.com")

    lacking = {"words": {**words, "text": "{{ company }}"}, "prospect": "ann@example.com"}
    refused = (await client.post("/v1/templates/hello/preview", json=lacking)).json()["error"]
    assert [each["field"] for each in refused["details"]] == ["prospect.company"]
    assert (await client.post("/v1/templates/hello/preview", json={**asked, "values": {}})).status_code == 422
    async with api.client(await api.workspace("other")) as others:
        assert (await others.post("/v1/templates/hello/preview", json=asked)).status_code == 404


ODD_VALUES: list[bytes] = [
    b'{"values": {"company": "\\ud800"}}',
    b'{"values": {"company": ' + b"[" * 5000 + b"]" * 5000 + b"}}",
    b'{"values": {"company": ' + b"[" * 60 + b"]" * 60 + b"}}",
    b'{"values": {"company": NaN}}',
    b'{"values": {"company": 1' + b"0" * 400 + b"}}",
    b'{"values": {"company": {"a": 1}}}',
    b'{"values": []}',
]


async def test_values_of_any_kind_are_no_fault_of_ours(client: httpx.AsyncClient) -> None:
    await client.put("/v1/templates/hello", json=HELLO)
    wrong = []
    for body in ODD_VALUES:
        answer = await client.post(
            "/v1/templates/hello/preview", content=body, headers={"Content-Type": "application/json"}
        )
        if answer.status_code not in (200, 400, 422):
            wrong.append((body[:100], answer.text))
    assert wrong == []


async def test_a_sequence_is_new_once_and_then_changed_or_the_same(api: Api, client: httpx.AsyncClient) -> None:
    for name in ("a", "b"):
        await client.put(f"/v1/templates/{name}", json=HELLO)
    steps = [{"template": "a"}, {"template": "b", "delay": "1d 12h"}, {"template": "a", "delay_s": 60}]
    first = await client.put("/v1/sequences/spring", json={"steps": steps})
    assert first.status_code == 201, first.text
    assert [(s["template"], s["delay_s"], s["delay"]) for s in first.json()["data"]["steps"]] == [
        ("a", 0, "0s"),
        ("b", 129_600, "1d 12h"),
        ("a", 60, "1m"),
    ]
    same = await client.put("/v1/sequences/spring", json={"steps": steps})
    assert (same.status_code, same.json()["data"]) == (200, first.json()["data"])
    changed = await client.put("/v1/sequences/spring", json={"steps": steps[:2]})
    assert (changed.status_code, len(changed.json()["data"]["steps"])) == (200, 2)
    assert (await _audited(api))[2:] == ["sequence.add", "sequence.change"]


WRONG_SEQUENCES: list[tuple[list[dict[str, Any]], str]] = [
    ([], "steps"),
    ([{"template": "a", "delay": "3d"}], "steps[0].delay"),
    ([{"template": "a"}, {"template": "a"}], "steps[1].delay"),
    ([{"template": "a"}, {"template": "a", "delay": "soon"}], "steps[1].delay"),
    ([{"template": "a"}, {"template": "a", "delay": "900d"}], "steps[1].delay"),
    ([{"template": "a"}, {"template": "a", "delay": "3d", "delay_s": 5}], "steps[1].delay"),
    ([{"template": "a"}, {"template": "a", "delay_s": -1}], "steps[1].delay_s"),
    ([{"template": "a"}, {"template": "a", "delay_s": 10**9}], "steps[1].delay_s"),
    ([{"template": "a"}, {"template": "nobody", "delay": "1d"}], "steps[1].template"),
    ([{"template": "../etc"}], "steps[0].template"),
    ([{"template": "a"}] * 101, "steps"),
]


async def test_a_wrong_sequence_names_the_field(client: httpx.AsyncClient) -> None:
    await client.put("/v1/templates/a", json=HELLO)
    wrong = []
    for steps, field in WRONG_SEQUENCES:
        answer = await client.put("/v1/sequences/spring", json={"steps": steps})
        if fields_of(answer)[:1] != [field]:
            wrong.append((steps, answer.text))
    assert wrong == []
    assert (await client.get("/v1/sequences/spring")).status_code == 404


async def test_two_workspaces_with_the_same_names_never_meet(api: Api) -> None:
    for workspace in ("acme", "other"):
        await api.workspace(workspace, domains=())
    async with api.client("acme") as acme, api.client("other") as other:
        await acme.put("/v1/templates/hello", json=HELLO)
        await acme.put("/v1/sequences/spring", json={"steps": [{"template": "hello"}]})
        assert (await other.get("/v1/templates")).json()["data"]["items"] == []
        assert (await other.get("/v1/sequences")).json()["data"]["items"] == []
        assert (await other.get("/v1/templates/hello")).status_code == 404
        assert (await other.delete("/v1/templates/hello")).status_code == 404
        answer = await other.put("/v1/sequences/spring", json={"steps": [{"template": "hello"}]})
        assert answer.json()["error"]["details"][0]["field"] == "steps[0].template"
        assert (await other.put("/v1/templates/hello", json={"subject": "x", "text": "y"})).status_code == 201
        assert (await acme.get("/v1/templates/hello")).json()["data"]["subject"] == HELLO["subject"]
        assert (await other.delete("/v1/templates/hello")).status_code == 200
        assert (await acme.get("/v1/sequences/spring")).json()["data"]["steps"][0]["template"] == "hello"


async def test_a_key_does_what_its_scopes_say(api: Api) -> None:
    await api.workspace()
    async with api.client(scopes=[Scope.READ]) as reader, api.client(scopes=[Scope.MANAGE]) as manager:
        assert (await reader.put("/v1/templates/hello", json=HELLO)).json()["error"]["code"] == "forbidden"
        assert (await manager.put("/v1/templates/hello", json=HELLO)).status_code == 201
        assert (await manager.get("/v1/templates/hello")).json()["error"]["code"] == "forbidden"
        assert (await reader.post("/v1/templates/hello/preview")).status_code == 200
        for path in ("/v1/templates/hello", "/v1/sequences/spring"):
            assert (await reader.delete(path)).json()["error"]["code"] == "forbidden"


async def _audited(api: Api) -> list[str]:
    return [row["action"] for row in await api.store.fetch("SELECT action FROM fairpost.audit ORDER BY id")]


async def test_words_that_would_bring_the_service_down_are_refused(api: Api) -> None:
    await api.workspace("acme")
    texts = ("{{ a" + ".a" * 400_000 + " }}", "{{ a" + ".19" * 8 + " }}")
    paths = ("/v1/templates/hello/preview", "/v1/portals/hub/tfa/preview")
    async with api.client("acme", scopes=[Scope.READ]) as reader:
        for path, text in product(paths, texts):
            refused = await reader.post(path, json={"words": {"subject": "s", "text": text, "html": "<p>h</p>"}})
            assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid"), refused.text
        assert (await reader.get("/v1/workspace")).status_code == 200
