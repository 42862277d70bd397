"""Forged From addresses, through every way in for a workspace's mail: none of them gets into the queue."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import httpx2 as httpx
import pytest

from fairpost import InvalidEmail, enqueue
from fairpost.model.urls import as_login
from tests.api.conftest import Api
from tests.api.test_accounts import SALES

pytestmark = pytest.mark.attack

VICTIM = "victim.example"
HELLO = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}
LOGIN = "forger_of_acme"

# Spellings of one address that is not acme's. To add one, add a line.
FORGED: tuple[Any, ...] = (
    f"ceo@{VICTIM}",
    f"ceo@{VICTIM.upper()}",
    f"ceo@sub.{VICTIM}",
    f"ceo@acme.example.{VICTIM}",
    f"ceo@not-acme.example.{VICTIM}",
    f"ceo@xacme.{VICTIM}",
    "ceo@notacme.example",
    f"Acme <ceo@{VICTIM}>",
    f'"ceo@acme.example" <ceo@{VICTIM}>',
    {"address": f"ceo@{VICTIM}", "name": "ceo@acme.example"},
    f"ceo@acme.example, ceo@{VICTIM}",
    f"ceo@acme.example <ceo@{VICTIM}>",
    f"ceo@{VICTIM}\u200b",
    f"ceo@{VICTIM}.",
)


async def over_http(api: Api, client: httpx.AsyncClient, conn: "asyncpg.Connection", sender: Any) -> bool:
    answer = await client.post("/v1/emails", json={**HELLO, "from": sender})
    return answer.is_success


async def in_bulk(api: Api, client: httpx.AsyncClient, conn: "asyncpg.Connection", sender: Any) -> bool:
    body = json.dumps({**HELLO, "from": sender})
    answer = await client.post(
        "/v1/emails/bulk", content=body, headers={"Content-Type": "application/x-ndjson", "X-From": str(len(body))}
    )
    return bool(answer.json()["data"]["accepted"])


async def as_a_header(api: Api, client: httpx.AsyncClient, conn: "asyncpg.Connection", sender: Any) -> bool:
    written = sender if isinstance(sender, str) else sender["address"]
    answers = [
        await client.post("/v1/emails", json={**HELLO, "headers": {name: written}})
        for name in ("From", "from", "Sender", "Return-Path", "FROM")
    ]
    return any(answer.is_success for answer in answers)


async def by_a_portal(api: Api, client: httpx.AsyncClient, conn: "asyncpg.Connection", sender: Any) -> bool:
    items = (await client.get("/v1/portals")).json()["data"]
    (fields,) = [each["fields"] for each in items if (each["portal"], each["type"]) == ("hub", "tfa")]
    given = {"to": "ann@example.com", "from": sender, "values": dict.fromkeys(fields, "482913")}
    return (await client.post("/v1/portals/hub/tfa/send", json=given)).is_success


async def over_sql(api: Api, client: httpx.AsyncClient, conn: "asyncpg.Connection", sender: Any) -> bool:
    email = json.dumps([{**HELLO, "from": sender}])
    return bool(await conn.fetchval("SELECT new FROM fairpost.enqueue_many($1)", email))


async def from_python(api: Api, client: httpx.AsyncClient, conn: "asyncpg.Connection", sender: Any) -> bool:
    if not isinstance(sender, str):
        sender = (sender["name"], sender["address"])
    try:
        sent = await enqueue(conn, to="ann@example.com", subject="Hello", text="Hi", from_=sender)
        return bool(sent.new)
    except InvalidEmail:
        return False


async def by_an_account(api: Api, client: httpx.AsyncClient, conn: "asyncpg.Connection", sender: Any) -> bool:
    address = sender if isinstance(sender, str) else sender["address"]
    return (await client.post("/v1/accounts", json={**SALES, "address": address})).is_success


Way = Callable[[Api, httpx.AsyncClient, "asyncpg.Connection", Any], Awaitable[bool]]
WAYS: tuple[Way, ...] = (over_http, in_bulk, as_a_header, by_a_portal, over_sql, from_python, by_an_account)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_no_way_in_takes_mail_in_another_s_name(api: Api, client: httpx.AsyncClient, url: str, way: Way) -> None:
    await api.store.value(f"CREATE ROLE {LOGIN} LOGIN")
    try:
        await api.store.value("SELECT fairpost.let_in($1)::text", LOGIN)
        await api.store.value("INSERT INTO fairpost.applications VALUES ($1, 'acme', now())", LOGIN)
        conn = await asyncpg.connect(as_login(url, LOGIN))
        taken = [sender for sender in FORGED if await way(api, client, conn, sender)]
        await conn.close()
        assert taken == []
        queued = await api.store.fetch(
            "SELECT sender FROM fairpost.queue WHERE sender::text LIKE '%' || $1 || '%'", VICTIM
        )
        assert queued == []
    finally:
        await api.store.value(f"DROP OWNED BY {LOGIN}")
        await api.store.value(f"DROP ROLE {LOGIN}")


async def test_the_ways_are_open_to_an_address_of_one_s_own(api: Api, client: httpx.AsyncClient, url: str) -> None:
    """Otherwise the test above would prove nothing."""
    await api.store.value(f"CREATE ROLE {LOGIN} LOGIN")
    try:
        await api.store.value("SELECT fairpost.let_in($1)::text", LOGIN)
        await api.store.value("INSERT INTO fairpost.applications VALUES ($1, 'acme', now())", LOGIN)
        conn = await asyncpg.connect(as_login(url, LOGIN))
        open_ways = {way.__name__ for way in WAYS if await way(api, client, conn, "shop@acme.example")}
        await conn.close()
    finally:
        await api.store.value(f"DROP OWNED BY {LOGIN}")
        await api.store.value(f"DROP ROLE {LOGIN}")
    assert open_ways == {way.__name__ for way in WAYS} - {"as_a_header"}
