"""Heavy use by one workspace, or by a stranger, does not affect others."""

import asyncio
import json
from contextlib import suppress

import httpx2 as httpx
import pytest
from argon2 import PasswordHasher

from fairpost.api import concurrency, live
from fairpost.api.concurrency import ConcurrencyLimit
from fairpost.api.errors import ApiError
from fairpost.api.service import RECENTS_MAX
from fairpost.auth import passwords
from tests.api.conftest import ANSWER_S_MAX, Api
from tests.api.signed_in import signed_in
from tests.thorough import times

pytestmark = pytest.mark.attack

NDJSON = {"Content-Type": "application/x-ndjson"}
HELLO = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}


async def test_a_few_are_under_way_and_the_others_follow() -> None:
    it, most, now = ConcurrencyLimit(), 0, 0

    async def one(workspace: str) -> None:
        nonlocal most, now
        async with it.one_more(workspace):
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

    await asyncio.gather(*(one("a") for _ in range(20)))
    assert most == concurrency.OF_ONE_MAX
    most = 0
    await asyncio.gather(*(one(f"w{n}") for n in range(20)))
    assert most == concurrency.OF_ALL_MAX


async def test_a_caller_that_waits_in_vain_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "WAIT_S_MAX", 0.01)
    it = ConcurrencyLimit()
    async with it.one_more("a"), it.one_more("a"):
        with pytest.raises(ApiError) as refused:
            async with it.one_more("a"):
                pass
        assert refused.value.code == "rate_limited"
        async with it.one_more("b"):
            pass
    async with it.one_more("a"):
        pass


@pytest.mark.thorough
async def test_many_bulks_of_one_do_not_keep_another_from_being_answered(api: Api) -> None:
    await api.workspace("busy")
    await api.workspace("calm")
    body = "\n".join(json.dumps({**HELLO, "user": f"u{n % 50}"}) for n in range(times(1500)))
    async with api.client("busy") as busy, api.client("calm") as calm:
        bulks = [asyncio.create_task(busy.post("/v1/emails/bulk", content=body, headers=NDJSON)) for _ in range(8)]
        answers: list[httpx.Response] = []
        while not all(task.done() for task in bulks) and len(answers) < 40:
            answers.append(await calm.post("/v1/emails", json={**HELLO, "user": "ann"}))
        done = await asyncio.gather(*bulks)
    assert {answer.status_code for answer in answers} == {201}
    assert {answer.status_code for answer in done} <= {200, 429}
    assert 200 in {answer.status_code for answer in done}


async def test_a_flood_of_sign_ins_does_not_block_requests_with_a_key(
    api: Api, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=8_192, parallelism=1))
    given = {"address": "nobody@example.com", "password": "some words or other", "workspace": "nosuch"}
    async with httpx.AsyncClient(base_url=api.url, timeout=ANSWER_S_MAX) as stranger:
        flood = [asyncio.create_task(stranger.post("/v1/auth/sign-in", json=given)) for _ in range(40)]
        while not all(task.done() for task in flood):
            assert (await client.get("/v1/workspace")).status_code == 200
        assert {task.result().status_code for task in flood} <= {401, 429}


async def test_members_changed_at_once_do_not_wait_for_each_other_forever(api: Api, client: httpx.AsyncClient) -> None:
    asked = [client.put("/v1/members/x@example.com/role", json={"role": "viewer"}) for _ in range(24)]
    answers = await asyncio.wait_for(asyncio.gather(*asked), 120)
    assert {answer.status_code for answer in answers} == {404}


async def test_an_unauthenticated_request_is_refused_before_its_body_is_read(api: Api) -> None:
    host, port = api.url.removeprefix("http://").split(":")
    for path, kind in (("/v1/emails", "application/json"), ("/v1/emails/bulk", "application/x-ndjson")):
        for authorization in ("", "Authorization: Bearer fp_main_aaaaaaaaaaaa_" + "a" * 43 + "\r\n"):
            reader, writer = await asyncio.open_connection(host, int(port))
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{authorization}Content-Type: {kind}\r\nContent-Length: 30000000\r\n\r\n"
            writer.write(head.encode())  # no byte of the body is sent
            status = await asyncio.wait_for(reader.readline(), 60)
            assert b"401" in status
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def test_invitations_are_few_and_no_place_for_advertisements(api: Api, client: httpx.AsyncClient) -> None:
    asked = {"address": "stranger@example.com", "role": "viewer"}
    for name in ("https://evil.example/win", "evil.example", "a@b", "<b>"):
        assert (await client.post("/v1/members", json={**asked, "name": name})).status_code == 422
    answers = [await client.post("/v1/members", json={**asked, "name": "Dr. Ann O'Neil-Lee"}) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [201, 201, 201, 429]
    assert await api.store.value("SELECT count(*) FROM fairpost.queue WHERE workspace = 'fairpost'") == 3


async def test_words_that_are_saved_are_compiled_among_few_as_those_that_are_checked(
    api: Api, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrency, "WAIT_S_MAX", 0.05)
    words = {"subject": "Hello", "text": "Hi", "html": "<p>Hi</p>"}
    steps = {"pool": "default", "lists": [], "sequence": [words]}
    saved = {"/v1/templates/hello": words, "/v1/portals/hub/welcome": words, "/v1/campaigns/spring": steps}
    await api.workspace("calm", domains=())
    async with api.client("calm") as calm:
        async with api.service.writing.one_more("acme"), api.service.writing.one_more("acme"):
            for path, given in saved.items():
                refused = await client.put(path, json=given)
                assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited"), path
                assert "Retry-After" in refused.headers
            assert (await calm.put("/v1/templates/hello", json=words)).status_code == 201
        assert (await client.get("/v1/templates")).json()["data"]["items"] == []  # nothing was stored
        for path, given in saved.items():
            assert (await client.put(path, json=given)).status_code != 429, path


async def test_requests_for_arbitrary_names_use_bounded_memory(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workspaces, addresses, keys and things that do not exist, requested with and without a key."""
    monkeypatch.setattr(live, "LINGERING_MAX", 3)
    names = [f"w{n}" for n in range(12)]
    for name in names:
        await api.workspace(name, domains=())
    async with signed_in(api) as admin:
        for name in names:
            async with admin.stream("GET", f"/v1/live/now?workspace={name}") as stream:
                await anext(stream.aiter_lines())
        for n in range(25):
            for path in (
                f"/v1/admin/status?region=r{n}",
                f"/v1/admin/fairness?hours={n % 30}",
                f"/v1/live/account?name=a{n}",
            ):
                async with admin.stream("GET", path) as stream:
                    await anext(stream.aiter_lines())
    async with httpx.AsyncClient(base_url=api.url, timeout=ANSWER_S_MAX) as stranger:
        for n in range(25):
            bad = {"Authorization": f"Bearer fp_main_{n:012}_{'a' * 43}"}
            assert (await stranger.get(f"/v1/live/now?workspace=x{n}", headers=bad)).status_code == 401
            assert (await stranger.get(f"/v1/nothing/{n}")).status_code in (401, 404)
    async with api.client(names[0]) as client:
        async with client.stream("GET", "/v1/live/now") as stream:
            await anext(stream.aiter_lines())
        service = api.service
        assert len(service.live.topics) <= live.LINGERING_MAX + 2
        assert 1 < len(service.recents) <= RECENTS_MAX
        assert len(service.kept) <= len(service.regions)
        for limit in (service.long, service.trying, service.writing):
            assert limit.workspaces == set()
