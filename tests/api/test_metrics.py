"""Figures and events of a workspace: only its own, and cheap to read."""

import json
import re
from datetime import timedelta
from typing import Any

import asyncpg
import httpx2 as httpx
import pytest

from fairpost.model.reason import Reason
from fairpost.policy.ledger import Ledger, Measure
from fairpost.store.store import Store
from tests.api.conftest import Api

HELLO = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}


async def send(client: httpx.AsyncClient, **more: Any) -> str:
    answer = await client.post("/v1/emails", json={**HELLO, **more})
    assert answer.status_code == 201, answer.text
    id_: str = answer.json()["data"]["id"]
    return id_


async def add_account(client: httpx.AsyncClient, name: str = "sales") -> None:
    answer = await client.post("/v1/accounts", json={"name": name, "address": f"{name}@acme.example"})
    assert answer.status_code == 201, answer.text


async def stage(store: Store) -> None:
    """Adds arrivals to the tree, as an engine does."""
    for _ in range(100):
        await store.value("SELECT fairpost.absorb_arrivals(ARRAY(SELECT r.route FROM fairpost.routes r))")
        if not await store.value("SELECT EXISTS (SELECT FROM fairpost.arrivals)"):
            return
    raise AssertionError("notes stay unread")


async def book(store: Store, account: str, ledger: Ledger) -> None:
    lease = await store.take_lease((await store.account_named(account)).id, owner="x", seconds=60)
    assert lease is not None
    outcomes, measures = ledger.take()
    await store.book(lease, outcomes, measures)
    await store.drop_lease(lease)


@pytest.mark.parametrize("staged", [False, True])
async def test_the_queue_is_counted_by_state_and_class(api: Api, client: httpx.AsyncClient, staged: bool) -> None:
    await add_account(client)
    for n in range(4):
        await send(client, user=f"u{n}", stream="a")
    urgent = await send(client, **{"class": "urgent"})
    await send(client, **{"class": "bulk"}, due_at="2190-01-01T00:00:00Z")
    if staged:
        await stage(api.store)
    queue = (await client.get("/v1/metrics/queue")).json()["data"]
    assert (queue["waiting"], queue["ready"], queue["scheduled"]) == (6, 5, 1)
    assert (queue["claimed"], queue["sending"], queue["in_doubt"]) == (0, 0, 0)
    assert 0 < queue["oldest_wait_s"] < 60
    by_class = {each["class"]: each for each in queue["classes"]}
    assert {name: each["waiting"] for name, each in by_class.items()} == {"urgent": 1, "bulk": 5}
    lease = await api.store.take_lease((await api.store.account_named("acme/sales")).id, owner="x", seconds=60)
    assert lease is not None
    claim = await api.store.claim(lease, limit=1)
    assert claim.ids == (await api.store.value("SELECT fairpost.private_id($1)", urgent),)
    queue = (await client.get("/v1/metrics/queue")).json()["data"]
    assert (queue["waiting"], queue["ready"], queue["claimed"]) == (5, 4, 1)
    assert {each["class"]: each["claimed"] for each in queue["classes"]} == {"urgent": 1, "bulk": 0}


async def test_an_empty_workspace_has_figures_too(client: httpx.AsyncClient) -> None:
    queue = (await client.get("/v1/metrics/queue")).json()["data"]
    assert (queue["waiting"], queue["oldest_wait_s"], queue["last_day"]["sent"]) == (0, None, 0)
    share = (await client.get("/v1/metrics/fairness")).json()["data"]
    assert (share["waiting"]["emails"], share["served"]["emails"], share["waits"]) == (0, 0, None)
    assert len(share["served"]["hours"]) == 25
    for hours in ("0", "25", "x"):
        assert (await client.get("/v1/metrics/fairness", params={"hours": hours})).status_code == 422


async def test_outcomes_and_shares_are_the_workspaces_own(api: Api, client: httpx.AsyncClient) -> None:
    await api.workspace("other", domains=["other.example"])
    await api.store.value("SELECT fairpost.add_account('house', 'a@house.example', 'default', '{}')")
    await add_account(client)
    mine, shared = Ledger(), Ledger()
    for ledger, workspace, user, n in (
        (mine, "acme", "ann", 3),
        (shared, "acme", "bob", 1),
        (shared, "other", "eve", 50),
    ):
        for _ in range(n):
            ledger.count(workspace, user, is_handled=True, is_sent=True)
    mine.count("acme", "ann", is_handled=True, is_rejected=True)
    mine.measure(Measure.WAIT, timedelta(seconds=2))
    shared.measure(Measure.WAIT, timedelta(seconds=500))
    await book(api.store, "acme/sales", mine)
    await book(api.store, "house", shared)
    for user, n in (("ann", 3), ("bob", 1)):
        for _ in range(n):
            await send(client, user=user)
    async with api.client("other") as stranger:
        for _ in range(20):
            await send(stranger, user="eve")
        theirs = (await stranger.get("/v1/metrics/fairness")).json()["data"]
        assert (theirs["served"]["emails"], theirs["waiting"]["emails"], theirs["waits"]) == (50, 20, None)
        assert "ann" not in json.dumps(theirs)
    queue = (await client.get("/v1/metrics/queue")).json()["data"]
    for span in ("last_hour", "last_day"):
        assert (queue[span]["sent"], queue[span]["rejected"]) == (4, 1)
    assert queue["waiting"] == 4
    share = (await client.get("/v1/metrics/fairness", params={"hours": "1"})).json()["data"]
    assert [(each["name"], each["emails"]) for each in share["served"]["top_users"]] == [("ann", 4), ("bob", 1)]
    assert share["served"]["top_users"][0]["share"] == 0.8
    assert [(each["name"], each["emails"]) for each in share["waiting"]["top_users"]] == [("ann", 3), ("bob", 1)]
    assert share["waiting"]["users"]["senders"] == 2
    assert share["waits"]["count"] == 1
    assert share["waits"]["p50_s"] == pytest.approx(2, rel=0.05)
    said = json.dumps([queue, share])
    assert not re.search(r"other|eve|house", said)


async def test_failures_are_counted(api: Api, client: httpx.AsyncClient) -> None:
    await add_account(client)
    await send(client)
    lease = await api.store.take_lease((await api.store.account_named("acme/sales")).id, owner="x", seconds=60)
    assert lease is not None
    (id_,) = (await api.store.claim(lease, limit=1)).ids
    assert await api.store.fail_claimed(lease, id_, Reason("email.fields_missing"))
    queue = (await client.get("/v1/metrics/queue")).json()["data"]
    assert (queue["last_hour"]["failed"], queue["last_day"]["failed"], queue["waiting"]) == (1, 1, 0)


@pytest.mark.fresh
async def test_figures_read_no_history_and_no_queue_from_end_to_end(api: Api, client: httpx.AsyncClient) -> None:
    """The number of blocks read does not grow with the number of e-mails, its own or others'."""

    async def blocks(sql: str) -> int:
        async with api.store.connection() as conn:
            text = await conn.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}")
        plan = json.loads(text)[0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    asked = (
        "SELECT * FROM fairpost.own_queue('acme', 10000)",
        "SELECT * FROM fairpost.own_outcomes('acme', clock_timestamp() - interval '1 day', 10000)",
        "SELECT * FROM fairpost.waiting_by_sender('acme', 20)",
        "SELECT * FROM fairpost.served_by_sender('acme', clock_timestamp() - interval '1 day', 20)",
    )
    await api.store.value("SELECT fairpost.add_account('house', 'a@house.example', 'default', '{}')")
    await add_account(client)
    for workspace, n in (("acme", 3_000), ("house", 5_000)):
        await api.store.value(
            """SELECT count(*) FROM fairpost.enqueue_many((SELECT jsonb_agg(jsonb_build_object('workspace', $1::text, 'pool', $3::text, 'to', 'p' || i || '@example.com',
                   'subject', 's', 'text', 't', 'user', 'u' || i % 5, 'due_at', '2190-01-01T00:00:00Z')) FROM generate_series(1, $2) i))""",
            *(workspace, n, "acme/default" if workspace == "acme" else "default"),
        )
    await stage(api.store)
    async with api.store.connection() as conn:
        await conn.execute(
            """INSERT INTO fairpost.emails (id, state, finished_at, created_at, due_at, attempts, attempts_max, content_id, class, on_doubt, flow, route,
                   workspace, domain, user_name, stream, recipients, addresses)
               SELECT q.id - 100000, 'sent', now(), now(), now(), 1, 5, q.content_id, q.class, q.on_doubt, q.flow, q.route,
                   q.workspace, q.domain, q.user_name, q.stream, q.recipients, q.addresses FROM fairpost.queue q"""
        )
        await conn.execute("ANALYZE")
    for sql in asked:
        await blocks(sql)  # the first call also reads the catalogs
        assert await blocks(sql) < 400, sql
    queue = (await client.get("/v1/metrics/queue")).json()["data"]
    assert (queue["waiting"], queue["scheduled"]) == (3_000, 3_000)


async def test_events_are_the_workspaces_own_the_newest_first(api: Api, client: httpx.AsyncClient) -> None:
    await api.workspace("other", domains=[])
    for n in range(5):
        await api.store.hold("acme", "user", f"u{n}", reason="because")
    await api.store.hold("other", "user", "eve", reason="theirs")
    await api.store.release("acme", "user", "u1")
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        params = {"limit": "4"} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/v1/log", params=params)).json()["data"]
        found += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    assert [each["subject"] for each in found] == ["user u1", *(f"user u{n}" for n in reversed(range(5)))]
    assert found[0]["kind"] == "released"
    assert (found[1]["detail"]["reason"], found[1]["detail"]["params"]) == ("hold.by_hand", {"note": "because"})
    held = (await client.get("/v1/log", params={"kind": "held"})).json()["data"]["items"]
    assert len(held) == 5
    assert (await client.get("/v1/log", params={"kind": "a\x00"})).status_code == 422
    async with api.client("other") as stranger:
        assert len((await stranger.get("/v1/log")).json()["data"]["items"]) == 1


async def test_doors_to_figures_open_for_the_own_workspace_alone(api: Api, client: httpx.AsyncClient) -> None:
    tenant = api.store.of_tenant("acme")
    for workspace in ("'other'", "NULL", "''", "'*'"):
        for call in (
            f"fairpost.own_queue({workspace}, 10)",
            f"fairpost.own_outcomes({workspace}, now(), 10)",
            f"fairpost.waiting_behind({workspace}, 'eve')",
            f"fairpost.waiting_by_sender({workspace}, 10)",
            f"fairpost.measured_since(now(), {workspace})",
        ):
            with pytest.raises(asyncpg.PostgresError) as refused:
                await tenant.fetch(f"SELECT * FROM {call}")
            assert refused.value.sqlstate == "FP004", call
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await tenant.fetch("SELECT FROM fairpost.nodes")
