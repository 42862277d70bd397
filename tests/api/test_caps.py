"""Limits cannot be bypassed by leaving out the user, spelling a name differently, or inventing users."""

import asyncio
from dataclasses import replace
from typing import Any

import httpx2 as httpx
import pytest

from fairpost.model.auth import Role
from fairpost.model.sender import SenderId, SenderLevel
from fairpost.store import senders
from tests.api.conftest import Api
from tests.api.signed_in import signed_in
from tests.api.test_bulk import NDJSON, line
from tests.api.test_campaigns import add_people

pytestmark = pytest.mark.attack

HELLO = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}


async def _accepted(client: httpx.AsyncClient, *lines: str) -> int:
    answer = await client.post("/v1/emails/bulk", content="\n".join(lines), headers=NDJSON)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["data"]["accepted"])


async def _users(api: Api) -> set[str]:
    return {row["user_name"] for row in await api.store.fetch("SELECT DISTINCT user_name FROM fairpost.queue")}


async def test_without_a_user_the_key_is_the_user(api: Api, client: httpx.AsyncClient) -> None:
    limit = api.service.settings.user_daily_max
    assert await _accepted(client, *(line(n) for n in range(limit + 100))) == limit
    assert await _accepted(client, line(1, user=""), line(2, user=None), line(3, user="  ")) == 0
    refused = await client.post("/v1/emails", json=HELLO)
    assert refused.json()["error"]["code"] == "quota_reached"
    async with api.client("acme") as other_key:
        assert (await other_key.post("/v1/emails", json=HELLO)).status_code == 201
    keys = {f"key:{row['id']}" for row in await api.store.fetch("SELECT id FROM fairpost.api_keys")}
    assert await _users(api) == keys


async def test_without_a_user_the_signed_in_person_is_the_user(api: Api, client: httpx.AsyncClient) -> None:
    async with signed_in(api, "acme", Role.SENDER) as sender:
        assert (await sender.post("/v1/emails", json=HELLO)).status_code == 201
    assert await _users(api) == {f"person:{await api.store.value('SELECT id FROM fairpost.people')}"}


async def test_a_name_written_otherwise_is_the_same_user(api: Api, client: httpx.AsyncClient) -> None:
    limit = api.service.settings.user_daily_max
    assert await _accepted(client, *(line(n, user="capu") for n in range(limit))) == limit
    forms = ("Capu", "CAPU", " capu ", "ｃａｐｕ", "capu\u200b", "\u00a0capu", "cap\u00adu")
    for form in forms:
        assert (await client.post("/v1/emails", json={**HELLO, "user": form})).status_code == 429, form
    assert await _accepted(client, *(line(n, user=form) for n, form in enumerate(forms))) == 0
    assert await _users(api) == {"capu"}


@pytest.mark.parametrize("name", ["key:abcdefghijkl", "KEY:abcdefghijkl", " person:1", "ｋey:x", "login:ann"])
async def test_a_caller_cannot_pose_as_another_key(api: Api, client: httpx.AsyncClient, name: str) -> None:
    refused = await client.post("/v1/emails", json={**HELLO, "user": name})
    assert (refused.status_code, refused.json()["error"]["details"][0]["field"]) == (422, "user")
    await add_people(api)
    campaign = {"lists": ["customers"], "steps": [{"subject": "Hi", "text": "Hello"}], "user": name}
    refused = await client.put("/v1/campaigns/spring", json=campaign)
    assert (refused.status_code, refused.json()["error"]["details"][0]["field"]) == (422, "user")


async def test_inventing_users_does_not_help(api: Api, client: httpx.AsyncClient) -> None:
    acme = SenderId(workspace="acme", level=SenderLevel.WORKSPACE)
    assert await _accepted(client, *(line(n, user=f"early {n}") for n in range(5))) == 5
    await senders.set_limits(api.store, acme, daily_max=25, waiting_max=None)
    answers = await asyncio.gather(*(client.post("/v1/emails", json={**HELLO, "user": f"user {n}"}) for n in range(40)))
    assert sum(answer.status_code == 201 for answer in answers) == 20, "five of the day's limit were already used"
    (refused, *_) = [answer.json()["error"] for answer in answers if answer.status_code != 201]
    assert (refused["code"], refused["details"][0]["field"]) == ("quota_reached", "workspace")
    await api.workspace("other")
    async with api.client("other") as other:
        assert (await other.post("/v1/emails", json=HELLO)).status_code == 201


async def test_a_workspace_has_as_much_as_a_hundred_users_unless_set(api: Api) -> None:
    settings = api.service.settings
    assert settings.daily_max_of_workspace == 100 * settings.user_daily_max
    assert replace(settings, user_daily_max=0).daily_max_of_workspace == 0
    assert replace(settings, workspace_daily_max=7).daily_max_of_workspace == 7


async def test_waiting_mail_is_also_limited_for_the_workspace(api: Api, client: httpx.AsyncClient) -> None:
    acme = SenderId(workspace="acme", level=SenderLevel.WORKSPACE)
    await senders.set_limits(api.store, acme, daily_max=None, waiting_max=3)
    later: dict[str, Any] = {"due_at": "2100-01-01T00:00:00Z"}
    assert await _accepted(client, *(line(n, user=f"user {n}", **later) for n in range(5))) == 3
    assert await _accepted(client, line(9, user="one more", **later)) == 0


async def test_a_request_changes_nothing_of_its_own_workspaces_limits(api: Api, client: httpx.AsyncClient) -> None:
    acme = SenderId(workspace="acme", level=SenderLevel.WORKSPACE)
    await senders.set_limits(api.store, acme, daily_max=5, waiting_max=None)
    tenant = api.store.of_tenant("acme")
    for sql in (
        "UPDATE fairpost.senders SET daily_max = NULL WHERE level = 'workspace'",
        "DELETE FROM fairpost.senders WHERE level = 'workspace'",
    ):
        await tenant.value(sql)
    assert await api.store.value("SELECT daily_max FROM fairpost.senders WHERE level = 'workspace'") == 5
