"""The amount that a claim reads does not grow with the queue: no scan and no sort of the backlog."""

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from fairpost.dev.bench.workload import empty, fill, stage_all
from fairpost.model.account import Lease
from fairpost.model.fault import Bounces
from fairpost.policy.blame import BLOCKS_MAX
from fairpost.store.blocks import block
from fairpost.store.store import Store

pytestmark = pytest.mark.fresh

GROWING = ("queue", "node_state", "nodes", "arrivals", "emails", "idempotency_keys", "suppression")


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url, connections_max=1) as store:
        yield store


async def plans_of_a_claim(store: Store, lease: Lease) -> list[dict[str, Any]]:
    """Returns every statement that one claim runs, with what it really read."""
    said: list[str] = []
    async with store.connection() as conn:
        conn.add_log_listener(listener := lambda _, message: said.append(message.message))
        await conn.execute(
            """LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;
               SET auto_explain.log_analyze = on; SET auto_explain.log_timing = off; SET auto_explain.log_format = json;
               SET auto_explain.log_level = notice"""
        )
        claimed = await conn.fetchval("SELECT ids FROM fairpost.claim($1, $2, 50)", lease.account_id, lease.epoch)
        await conn.execute("SET auto_explain.log_min_duration = -1")
        conn.remove_log_listener(listener)
    assert len(claimed) == 50
    return [json.loads(text[text.index("{") :]) for text in said if "plan:" in text and "fairpost." in text]


def walk(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in walk(child))]


def rows_read(node: dict[str, Any]) -> float:
    discarded = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return float((node["Actual Rows"] + discarded) * node["Actual Loops"])


async def reading(store: Store, lease: Lease) -> float:
    nodes = [node for plan in await plans_of_a_claim(store, lease) for node in walk(plan["Plan"])]
    scans = [node for node in nodes if node.get("Relation Name", "").startswith(GROWING)]
    assert scans, "auto_explain showed no scan, so this test would prove nothing"
    assert not [n for n in scans if n["Node Type"] == "Seq Scan" and rows_read(n) > 0], (
        "a growing table was read as a whole"
    )
    for node in nodes:
        assert node["Actual Rows"] <= 500, f"{node['Node Type']} handled {node['Actual Rows']} rows for 50 e-mails"
    return sum(rows_read(node) for node in scans)


async def test_a_claim_reads_no_more_with_a_hundred_times_the_backlog(store: Store) -> None:
    lease = await empty(store)
    await fill(store, [f"w{i}" for i in range(60)], 5)
    await stage_all(store)
    little = await reading(store, lease)

    lease = await empty(store)
    await fill(store, ["whale"], 25_000)
    await fill(store, [f"w{i}" for i in range(1_000)], 5)
    await stage_all(store)
    much = await reading(store, lease)
    assert much <= 1.2 * little


async def test_a_claim_steps_over_a_hundred_blocked_senders_and_no_oftener_than_it_must(store: Store) -> None:
    async def senders() -> Lease:
        lease = await empty(store)
        await fill(store, [f"w{i}" for i in range(60)], 50)
        await fill(store, [f"blocked{i}" for i in range(BLOCKS_MAX)], 50)
        await stage_all(store)
        return lease

    free = await reading(store, await senders())
    lease = await senders()
    for i in range(BLOCKS_MAX):
        assert await block(store, lease, f"blocked{i}", Bounces(sent=20, bounced=3, percent_max=5.0))
    first = await reading(store, lease)
    assert first <= free + 5 * BLOCKS_MAX
    for _ in range(20):
        claim = await store.claim(lease, limit=50)
        assert len(claim.ids) == 50
    assert await reading(store, lease) <= free + 5 * BLOCKS_MAX, "however far the others have got"


async def test_a_claim_before_anything_was_analyzed_uses_the_indexes_too(store: Store) -> None:
    """The first hour of a new installation: the planner has no statistics and assumes that every table is tiny."""
    lease = await empty(store)
    await fill(store, ["whale"], 20_000)
    await fill(store, [f"w{i}" for i in range(200)], 5)
    while await store.value("SELECT EXISTS (SELECT FROM fairpost.arrivals)"):
        await store.value("SELECT fairpost.absorb_arrivals(ARRAY['default'])")
    await reading(store, lease)


async def test_holding_a_sender_touches_nothing_that_waits(store: Store) -> None:
    await empty(store)
    await fill(store, ["whale"], 20_000)
    await stage_all(store)

    async with store.connection() as conn, conn.transaction():
        before = await conn.fetchval("SELECT sum(waiting) FROM fairpost.node_state")
        await Store(conn).hold("whale", "user", "u", reason="test")
        changed = await conn.fetchval("SELECT count(*) FROM fairpost.queue WHERE xmin = pg_current_xact_id()::xid")
        nodes = await conn.fetchval("SELECT count(*) FROM fairpost.node_state WHERE xmin = pg_current_xact_id()::xid")
        assert changed == 0
        assert nodes <= 4
        assert await conn.fetchval("SELECT sum(waiting) FROM fairpost.node_state") == before


async def test_notes_are_found_again_in_a_restored_database(store: Store) -> None:
    """Its transaction ids start again: what the old snapshot considers seen was never seen here."""
    lease = await empty(store)
    await store.value("UPDATE fairpost.routes SET seen = '9000000000:9000000000:', swept_at = clock_timestamp()")
    await fill(store, ["w"], 1)
    assert (await store.claim(lease, limit=1)).ids == ()
    await store.value("UPDATE fairpost.routes SET swept_at = swept_at - interval '1 minute'")
    assert len((await store.claim(lease, limit=1)).ids) == 1


async def test_a_claim_under_another_isolation_level_is_refused(store: Store) -> None:
    lease = await empty(store)
    async with store.connection() as conn, conn.transaction(isolation="repeatable_read"):
        with pytest.raises(asyncpg.PostgresError, match="read committed"):
            await Store(conn).claim(lease, limit=1)
