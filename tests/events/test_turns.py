"""The order of events: by commit, each once, and never delayed by an open transaction."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from fairpost.model.account import Limits
from fairpost.model.errors import Refusal
from fairpost.model.outside import as_told
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.verdict import Failed, Sent
from fairpost.store.events import all_events, events_after, events_end, take_turn
from tests.settle.test_leases import NOW, Bench
from tests.simulation.world import connect

if TYPE_CHECKING:
    from fairpost.model.event import Event

ACCEPTED = Report(reached=Reached.REPLIED, reply=Reply(250, "ok"))
WRITE = "INSERT INTO fairpost.outbox (at, kind, workspace, subject) SELECT clock_timestamp(), 'test.' || g, $1, g FROM unnest($2::text[]) g"


@pytest.fixture
async def bench(url: str) -> AsyncIterator[Bench]:
    store = await connect(url)
    yield Bench(store, await store.add_account("anna", address="anna@post.test", limits=Limits()))
    await store.close()


async def told(bench: Bench, cursor: str | None = None, **which: Any) -> list[str]:
    await take_turn(bench.store)
    return [event.kind async for event in all_events(bench.store, cursor, **which)]


async def write(conn: Any, *kinds: str, workspace: str = "w1") -> None:
    await conn.execute(WRITE, workspace, list(kinds))


@pytest.fixture
async def others(url: str) -> AsyncIterator[list[asyncpg.Connection]]:
    connections = [await asyncpg.connect(url) for _ in range(2)]
    yield connections
    for each in connections:
        each.terminate()


async def test_what_ends_reports_it_in_the_same_commit(bench: Bench) -> None:
    sent, failed = await bench.enqueue(2, type="reset", tags={"order": "17"}, metadata={"a": 1})
    lease = await bench.lease()
    for id_, verdict in ((sent, Sent()), (failed, Failed())):
        await bench.store.claim(lease, limit=1, now=NOW)
        await bench.begin(lease, id_)
        assert await bench.store.settle(lease, id_, verdict, ACCEPTED, now=NOW) == "settled"
    await take_turn(bench.store)
    events = {event.email_id: event async for event in all_events(bench.store, kinds=["email.sent", "email.failed"])}
    assert events[sent].kind == "email.sent"
    assert (events[failed].kind, events[failed].reason) == ("email.failed", "email.refused")
    assert (events[sent].type, events[sent].tags, events[sent].metadata) == ("reset", {"order": "17"}, {"a": 1})
    assert (events[sent].account, events[sent].recipients) == ("anna", ("p0@there.test",))
    ids = await bench.store.public_ids()
    assert as_told(events[sent], ids)["data"]["email_id"] == ids.email(sent)


async def test_a_late_commit_comes_after_what_was_read_and_keeps_nothing_waiting(
    bench: Bench, others: list[asyncpg.Connection]
) -> None:
    late, other = others
    await late.execute("BEGIN")
    await write(late, "late")
    await write(other, "first")
    assert await told(bench) == ["test.first"]
    cursor = await events_end(bench.store)
    await write(other, "second")
    assert await told(bench, cursor) == ["test.second"]
    await late.execute("COMMIT")
    assert await told(bench, cursor) == ["test.second", "test.late"]
    assert await told(bench) == ["test.first", "test.second", "test.late"]


async def test_what_was_rolled_back_never_happened(bench: Bench, others: list[asyncpg.Connection]) -> None:
    one, _ = others
    await one.execute("BEGIN")
    await write(one, "kept")
    await one.execute("SAVEPOINT s")
    await write(one, "undone")
    await one.execute("ROLLBACK TO s")
    await one.execute("COMMIT")
    assert await told(bench) == ["test.kept"]


async def test_many_events_of_one_commit_are_read_page_by_page(bench: Bench, others: list[asyncpg.Connection]) -> None:
    await write(others[0], *[f"{i:04}" for i in range(2500)])
    await take_turn(bench.store)
    seen: list[Event] = []
    cursor = None
    while not (page := await events_after(bench.store, cursor, most=70)).is_end:
        seen += page.events
        cursor = page.cursor
    assert [event.kind for event in seen] == [f"test.{i:04}" for i in range(2500)]
    assert len({event.id for event in seen}) == 2500


async def test_who_looks_for_little_still_gets_on(bench: Bench, others: list[asyncpg.Connection]) -> None:
    await write(others[0], *["noise"] * 30, workspace="w2")
    await write(others[0], "mine")
    await take_turn(bench.store)
    page = await events_after(bench.store, None, workspace="w1")
    assert [event.kind for event in page.events] == ["test.mine"]
    page = await events_after(bench.store, None, workspace="w3")
    assert (page.events, page.cursor) == ((), await events_end(bench.store))
    assert await told(bench, kinds=["test.mine"]) == ["test.mine"]


async def test_nothing_new_writes_no_turn_and_two_at_once_take_one(bench: Bench, url: str) -> None:
    assert await take_turn(bench.store) == 0
    assert await bench.store.value("SELECT count(*) FROM fairpost.event_turns") == 0
    other = await asyncpg.connect(url)
    await other.execute("BEGIN")
    await other.execute("SELECT fairpost.take_turn()")
    assert await take_turn(bench.store) is None
    other.terminate()


async def test_a_cursor_of_dropped_events_or_of_another_database_is_refused(bench: Bench) -> None:
    await bench.store.value("UPDATE fairpost.events_dropped SET turn = 5, id = 7 RETURNING 1")
    with pytest.raises(Refusal, match=r"events\.cursor_expired"):
        await events_after(bench.store, "5.6")
    for wrong in ("6.1", "x", "1", "-1.2"):
        with pytest.raises(Refusal, match=r"events\.cursor_unknown"):
            await events_after(bench.store, wrong)
    assert (await events_after(bench.store, None)).is_end


async def test_a_restored_database_tells_what_had_no_turn_and_nothing_twice(
    bench: Bench, others: list[asyncpg.Connection]
) -> None:
    late, other = others
    await late.execute("BEGIN")
    await write(late, "late")
    await write(other, "told")
    assert await told(bench) == ["test.told"]
    before = await events_end(bench.store)
    await late.execute("COMMIT")
    await write(other, "untold")
    # As in a dump: everything was written by transactions that the counter has not reached yet.
    await bench.store.value(
        """WITH moved AS (UPDATE fairpost.outbox SET xid = ((xid::text)::bigint + 1000000)::text::xid8 RETURNING 1)
           SELECT count(*) FROM moved"""
    )
    await bench.store.value(
        """UPDATE fairpost.event_turns SET since = ((since::text)::bigint + 1000000)::text::xid8, late = '{}',
               snap = (SELECT format('%s:%s:%s', (pg_snapshot_xmin(snap)::text)::bigint + 1000000, (pg_snapshot_xmax(snap)::text)::bigint + 1000000,
                   (SELECT string_agg(((x::text)::bigint + 1000000)::text, ',') FROM pg_snapshot_xip(snap) x))::pg_snapshot) RETURNING 1"""
    )
    await take_turn(bench.store)
    await write(other, "new")
    assert await told(bench, before) == ["test.late", "test.untold", "test.new"]
    assert await told(bench) == ["test.told", "test.late", "test.untold", "test.new"]
    await write(other, "newer")
    assert await told(bench, await events_end(bench.store)) == ["test.newer"]


async def test_readers_see_each_event_once_while_others_commit(bench: Bench, url: str) -> None:
    writers, each = 4, 60

    async def writer(n: int) -> None:
        conn = await asyncpg.connect(url)
        for i in range(each):
            async with conn.transaction():
                await write(conn, f"{n}-{i}")
        await conn.close()

    async def reader() -> list[str]:
        cursor: str | None = None
        seen: list[str] = []
        while len(seen) < writers * each:
            await take_turn(bench.store)
            page = await events_after(bench.store, cursor, most=7)
            seen += [event.kind for event in page.events]
            cursor = page.cursor
        return seen

    async with asyncio.TaskGroup() as group:
        for n in range(writers):
            group.create_task(writer(n))
        reading = group.create_task(reader())
    seen = reading.result()
    for n in range(writers):
        assert [kind for kind in seen if kind.startswith(f"test.{n}-")] == [f"test.{n}-{i}" for i in range(each)]
    assert len(seen) == writers * each
