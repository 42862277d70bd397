"""A million events are read by cursor in bounded memory: a reader holds one page."""

import tracemalloc

from fairpost.store.events import all_events, take_turn
from fairpost.store.store import Store
from tests.simulation.world import connect
from tests.thorough import IS_FREE

EVENTS = 1_000_000 if IS_FREE else 20_000
EACH = 1000
BYTES_MAX = 20_000_000

WRITE = """
    WITH written AS (
        INSERT INTO fairpost.outbox (at, kind, workspace, reason, params)
        SELECT clock_timestamp(), 'email.failed', 'w' || n % 10, 'email.refused', '{"code": 550, "reply": "no such user"}' FROM generate_series(1, $1) n RETURNING 1)
    SELECT count(*) FROM written"""


async def written(store: Store) -> None:
    for n in range(EVENTS // EACH):
        await store.value(WRITE, EACH)
        if n % 10 == 0:
            await take_turn(store)
    await take_turn(store)


async def test_many_events_are_read_in_bounded_memory(url: str) -> None:
    store = await connect(url)
    await written(store)
    tracemalloc.start()
    n, last = 0, 0
    async for event in all_events(store):
        assert event.id > last
        last = event.id
        n += 1
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await store.close()
    assert n == EVENTS
    assert most < BYTES_MAX
