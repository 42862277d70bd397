"""A workspace that reads its events reads no other's. The database counts the rows, index entries and pages that it
reads; no clock is involved."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from fairpost.store import events, webhooks
from fairpost.store.store import Store
from tests.simulation.world import connect
from tests.store.test_held import READ

if TYPE_CHECKING:
    from fairpost.model.event import Event

pytestmark = pytest.mark.fresh

NOISE, COMMITS = 3_000, 5  # another workspace's events in each commit, as several ranges of ids
TURNS = COMMITS * NOISE // 1000
READ_MAX = 8 * TURNS + 100  # an index entry and its parent pages for each turn
WRITE = """INSERT INTO fairpost.outbox (at, kind, workspace, email_id)
           SELECT clock_timestamp(), 'email.sent', $1, g FROM generate_series(1, $2::integer) g"""


async def read_by(store: Store, work: Callable[[Store], Awaitable[Any]]) -> int:
    """Returns how much of the events was read."""
    async with store.connection() as conn, conn.transaction():
        sql = f"SELECT sum(r.n) FROM ({READ}) r WHERE r.name IN ('outbox', 'event_turns')"
        before = await conn.fetchval(sql)
        await work(Store(conn))
        return int(await conn.fetchval(sql) - before)


@pytest.mark.parametrize("statistics", ["none", "of all", "of the noise"])
async def test_a_small_workspace_reads_its_own_events_only(url: str, statistics: str) -> None:
    store = await connect(url)
    await store.value(
        "INSERT INTO fairpost.webhooks (workspace, url, created_at, cursor) VALUES ('small', 'x', now(), '0.0')"
    )
    hook = (await webhooks.webhooks_of(store, "small"))[0]
    for number in range(COMMITS):
        await store.value(WRITE, "loud", NOISE)
        if number == 3:
            if statistics == "of the noise":
                await store.value("ANALYZE fairpost.outbox")
            await store.value(WRITE, "small", 3)
        await events.take_turn(store)
    if statistics == "of all":
        await store.value("ANALYZE fairpost.outbox")
    found: list[Event] = []

    async def read(s: Store) -> None:
        page = await events.events_after(s, None, workspace="small")
        found.extend(page.events)
        assert (await events.events_after(s, page.cursor, workspace="small")).is_end

    assert await read_by(store, read) < READ_MAX
    assert len(found) == 3
    turn, _, id_ = found[1].cursor.partition(".")
    await store.value(
        "INSERT INTO fairpost.webhook_pending VALUES ($1, $2, $3, 'small', 'x', 1, now(), now()) RETURNING 1",
        *(hook.id, int(turn), int(id_)),
    )
    due: list[Any] = []

    async def pending(s: Store) -> None:
        due.extend((await webhooks.pending(s, hook, most=10, is_all=True))[0])

    assert await read_by(store, pending) < 100
    assert [each.event.id for each in due] == [found[1].id]
    await store.close()
