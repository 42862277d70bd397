"""The previous version's paths respond like their successors, and name them."""

import re

import httpx2 as httpx

from tests.api.conftest import ANSWER_S_MAX, Api
from tests.api.served import document, every_operation

FILLED = re.compile(r"\{[^}]+\}")


def _shown(answer: httpx.Response) -> tuple[int, object]:
    said = answer.json()
    return answer.status_code, said.get("data") if said["success"] else said["error"]["code"]


def test_the_document_knows_the_new_paths_alone() -> None:
    paths = document()["paths"]
    assert [path for path in paths if path.startswith("/v1/")] != []
    assert [path for path in paths if path.startswith("/api/")] == []


async def test_every_path_leads_from_the_old_one_to_the_new(api: Api) -> None:
    """A stranger gets the same error at both."""
    async with httpx.AsyncClient(base_url=api.url, timeout=ANSWER_S_MAX) as client:
        for asked in (each for each in every_operation() if each.path.startswith("/v1/")):
            new = FILLED.sub("now", asked.path)
            at_new = await client.request(asked.method, new, json={})
            at_old = await client.request(asked.method, new.replace("/v1/", "/api/", 1), json={})
            assert _shown(at_old) == _shown(at_new)
            assert _shown(at_new)[1] != "not_found", asked
            assert at_old.headers["Deprecation"].startswith("@")
            assert at_old.headers["Link"] == f'<{new}>; rel="successor-version"'
            assert {"Deprecation", "Link"}.isdisjoint(at_new.headers)


async def test_an_email_that_comes_by_the_old_path_is_the_same_by_the_new(client: httpx.AsyncClient) -> None:
    email = {"to": "a@b.example", "subject": "s", "text": "t", "from": "x@acme.example"}
    taken = await client.post("/api/emails", json=email, headers={"Idempotency-Key": "one"})
    again = await client.post("/v1/emails", json=email, headers={"Idempotency-Key": "one"})
    assert (taken.status_code, again.status_code) == (201, 200)
    assert taken.json()["data"]["id"] == again.json()["data"]["id"]
    path = f"/emails/{taken.json()['data']['id']}?pictures=true"
    assert _shown(await client.get(f"/api{path}")) == _shown(await client.get(f"/v1{path}"))


async def test_a_campaign_is_scheduled_by_either_path(client: httpx.AsyncClient) -> None:
    for path in ("/api/campaigns/none/schedule", "/v1/campaigns/none/schedule"):
        assert _shown(await client.post(path)) == (404, "not_found")


async def test_bodies_have_the_same_limits_by_either_path(client: httpx.AsyncClient) -> None:
    for path in ("/api/auth/sign-in", "/v1/auth/sign-in"):
        assert _shown(await client.post(path, content=b" " * 70_000)) == (413, "too_large")


async def test_live_topics_work_under_the_old_path(client: httpx.AsyncClient) -> None:
    async with client.stream("GET", "/api/live/now") as answer:
        assert answer.headers["Link"] == '</v1/live/now>; rel="successor-version"'
        async for line in answer.aiter_lines():
            if line == "event: state":
                break
        else:
            raise AssertionError("it ended without a state")


async def test_an_id_in_a_path_is_linked_as_it_was_written(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/prospects/a%22b%40c.example?x=1")
    assert answer.headers["Link"] == '</v1/prospects/a%22b%40c.example>; rel="successor-version"'


async def test_a_path_that_was_renamed_too_leads_to_its_successor(client: httpx.AsyncClient) -> None:
    for old, new in (
        ("campaigns/course/course", "campaigns/course/progress"),
        ("admin/senders/lift", "admin/senders/unthrottle"),
    ):
        answer = await client.get(f"/api/{old}")
        assert answer.headers["Link"] == f'</v1/{new}>; rel="successor-version"'
