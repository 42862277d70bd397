"""History is dropped by month, and nothing that is still needed is dropped with it."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from fairpost.maintenance.retention import HistoryWatch
from fairpost.model.ids import EmailId
from fairpost.store import retention
from fairpost.store.store import Store
from fairpost.system import clock
from tests.campaigns.world import MONDAY, World
from tests.facts import missing
from tests.retention.past import DAY, LIMIT, OLD, Past
from tests.simulation.world import draft

if TYPE_CHECKING:
    from fairpost.model.reason import Reason


@pytest.fixture
async def past(store: Store) -> Past:
    past = Past(store)
    await past.begin()
    return past


async def drop(store: Store, before: datetime = LIMIT) -> list[str]:
    return [f"{month.month:%Y-%m}" async for month in retention.drop_months(store, before=before)]


async def kept(store: Store, before: datetime = LIMIT) -> dict[str, str]:
    return {f"{m.month:%Y-%m}": m.kept for m in await retention.old_months(store, before=before) if m.kept}


async def in_rest(store: Store, table: str) -> int:
    return int(await store.value(f"SELECT count(*) FROM fairpost.{table}_rest"))


async def test_old_months_go_whole_and_later_ones_stay(past: Past, store: Store) -> None:
    file = {"filename": "a.txt", "data": base64.b64encode(b"a").decode()}
    old, young = await past.finished(attachments=[file], tags={"a": "b"}), await past.finished(None)
    assert await past.rows(old) == {"contents": 1, "attachments": 1, "emails": 1, "labels": 1, "tag_marks": 1}
    planned = await retention.old_months(store, before=LIMIT)
    assert [(f"{m.month:%Y-%m}", m.kept) for m in planned] == [("2020-01", None), ("2020-02", None), ("2020-03", None)]
    assert planned[0].bytes > planned[1].bytes > 0
    assert planned[0].partitions == tuple(
        f"{table}_2020_01" for table in ("attachments", "attempts", "contents", "emails", "labels", "tag_marks")
    )
    assert await drop(store) == ["2020-01", "2020-02", "2020-03"]
    assert await past.rows(old) == {}
    assert await past.rows(young) == {"contents": 1, "emails": 1}
    assert await drop(store) == []


async def test_a_month_that_has_only_begun_before_the_moment_stays(past: Past, store: Store) -> None:
    assert await drop(store, datetime(2020, 2, 29, 23, tzinfo=UTC)) == ["2020-01"]
    assert await drop(store, datetime(2020, 3, 1, tzinfo=UTC)) == ["2020-02"]


async def test_nothing_of_the_future_is_dropped_whatever_the_moment(past: Past, store: Store) -> None:
    young = await past.finished(None)
    await drop(store, datetime(2999, 1, 1, tzinfo=UTC))
    assert await past.rows(young) == {"contents": 1, "emails": 1}


async def test_idempotency_keys_survive_for_good(past: Past, store: Store) -> None:
    old = await past.finished(idempotency_key="k")
    await drop(store)
    assert await past.rows(old) == {"idempotency_keys": 1}
    (again,) = await store.enqueue_many([draft(idempotency_key="k")])
    assert (again["id"], again["new"]) == (old, False)


async def test_a_month_waits_for_its_last_email_to_finish_and_to_grow_old(past: Past, store: Store) -> None:
    late = await past.waiting(OLD)
    assert await drop(store) == ["2020-02", "2020-03"]
    assert {month: missing(why, f"e-mail {late} ") for month, why in (await kept(store)).items()} == {"2020-01": []}
    await store.value("SELECT fairpost.cancel($1, p_now => $2)", late, LIMIT)
    assert await drop(store, LIMIT) == []
    assert "2020-06-01" in (await kept(store))["2020-01"]
    assert await past.rows(late) == {"contents": 1, "emails": 1}
    assert await drop(store, LIMIT + DAY) == ["2020-01"]


async def test_a_month_waits_for_what_follows_its_emails(past: Past, store: Store) -> None:
    first = await past.finished()
    second = await past.waiting(follows=first)
    assert await drop(store) == ["2020-02", "2020-03"]
    assert f"e-mail {second} " in (await kept(store))["2020-01"]
    await store.value("SELECT fairpost.cancel($1)", second)
    assert await drop(store) == ["2020-01"]


async def test_a_content_that_waiting_emails_share_survives_with_its_attachments(past: Past, store: Store) -> None:
    file = {"filename": "a.txt", "data": base64.b64encode(b"all of it").decode()}
    used, unused = await past.put_content(attachments=[file]), await past.put_content()
    waiting = await past.waiting(content_id=used)
    assert await drop(store) == ["2020-01", "2020-02", "2020-03"]
    assert await past.rows(used) == {"contents": 1, "attachments": 1}
    assert await past.rows(unused) == {}
    (email,) = await store.load([EmailId(waiting)])
    assert (email.content.subject, email.content.attachments[0].data) == ("shared", b"all of it")


async def test_a_content_of_later_emails_survives_until_the_last_of_them_is_gone(past: Past, store: Store) -> None:
    content = await past.put_content()
    last = OLD + 60 * DAY
    for at in (OLD, OLD + 20 * DAY, last, last, last):
        await past.finished(at, content_id=content)
    assert await drop(store, datetime(2020, 3, 1, tzinfo=UTC)) == ["2020-01", "2020-02"]
    await retention.drop_rows(store, before=datetime(2020, 3, 1, tzinfo=UTC))
    assert await past.rows(content) == {"contents": 1}
    assert await drop(store) == ["2020-03"]
    assert await past.rows(content) == {"contents": 1}
    await retention.drop_rows(store, before=LIMIT)
    assert await past.rows(content) == {}


async def test_an_email_whose_own_content_others_use_leaves_it_behind(past: Past, store: Store) -> None:
    lender = await past.finished()
    await past.waiting(content_id=lender)
    await drop(store)
    await retention.drop_rows(store, before=LIMIT)
    assert await past.rows(lender) == {"contents": 1}


async def test_a_campaign_keeps_its_words(past: Past, store: Store) -> None:
    with clock.stopped_at(MONDAY) as manual:
        world = World(store, manual)
        await world.add_people(2)
        campaign = await world.draft()
        await world.launch(campaign)
    content = await store.value("SELECT content_id FROM fairpost.campaign_steps")
    moved = await past.moved(content, OLD)
    await store.value("UPDATE fairpost.campaign_steps SET content_id = $1", moved)
    await drop(store)
    await retention.drop_rows(store, before=LIMIT)
    assert await past.rows(moved) == {"contents": 1}
    ids = [row["id"] for row in await store.fetch("SELECT id FROM fairpost.queue")]
    assert len(await store.load([EmailId(id_) for id_ in ids])) == 2


async def test_a_step_is_retried_although_the_one_before_it_is_forgotten(past: Past, store: Store) -> None:
    with clock.stopped_at(MONDAY) as manual:
        world = World(store, manual)
        await world.add_people(1)
        await world.launch(await world.draft(delays=[DAY]))
        first, second = [row["id"] for row in await store.fetch("SELECT id FROM fairpost.queue ORDER BY step")]
        await store.value("SELECT fairpost.note(ARRAY[$1::bigint, $2::bigint], -1)", first, second)
        await store.value("SELECT fairpost.move_to_history(ARRAY[$1::bigint], 'sent', NULL, NULL, $2)", first, OLD)
        await store.value(
            "SELECT fairpost.move_to_history(ARRAY[$1::bigint], 'failed', NULL, NULL, $2)", second, MONDAY
        )
    await past.moved(first, OLD)
    await drop(store)
    assert await store.value("SELECT fairpost.retry($1)", second) == "waiting"
    assert await store.value("SELECT due_at < 'infinity' FROM fairpost.queue WHERE id = $1", second)


# ── concurrency ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_long_read_is_waited_for_briefly_and_delays_no_other_transaction(
    past: Past, store: Store, conn: Any
) -> None:
    await past.finished()
    async with conn.transaction():
        await conn.fetchval("SELECT count(*) FROM fairpost.emails")
        dropping = asyncio.create_task(drop(store))
        await in_the_queue_for_a_lock(store)
        await store.enqueue_many([draft()])  # the reader has not finished, and will not while we are here
        with pytest.raises(asyncpg.LockNotAvailableError):
            await dropping
    assert await drop(store) == ["2020-01", "2020-02", "2020-03"]


async def in_the_queue_for_a_lock(store: Store) -> None:
    """The drop has found the table in use, or has already given up."""
    for _ in range(1000):
        if await store.value("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation IS NOT NULL)"):
            return


async def test_an_open_transaction_keeps_the_old_content_it_refers_to(past: Past, store: Store, conn: Any) -> None:
    """The drop checked before it had the tables, and found no users, so it must check again."""
    content = await past.put_content()
    while True:  # on a slow machine, the commit may come too late, and the drop has given up
        async with conn.transaction():
            await conn.fetchval(
                "SELECT fairpost.enqueue(jsonb_build_object('to', 'a@b.test', 'content_id', $1::bigint))", content
            )
            dropping = asyncio.create_task(drop(store))
            await in_the_queue_for_a_lock(store)
        try:
            assert "2020-01" in await dropping
            break
        except asyncpg.LockNotAvailableError:
            await store.value("SELECT count(fairpost.cancel(id)) FROM fairpost.queue")
            await store.value("DELETE FROM fairpost.emails")
    assert await past.rows(content) == {"contents": 1}


async def test_a_concurrent_retry_of_an_old_email_keeps_its_month(past: Past, store: Store, conn: Any) -> None:
    old = await past.finished()
    while True:
        async with conn.transaction():
            assert await conn.fetchval("SELECT fairpost.retry($1, p_also_unbegun => true)", old) == "waiting"
            dropping = asyncio.create_task(drop(store))
            await in_the_queue_for_a_lock(store)
        try:
            assert "2020-01" not in await dropping
            break
        except asyncpg.LockNotAvailableError:
            await store.value("SELECT fairpost.cancel($1, p_now => $2)", old, OLD)
    assert await past.rows(old) == {"contents": 1, "queue": 1}


async def test_a_long_read_of_one_month_does_not_block_the_others(past: Past, store: Store, conn: Any) -> None:
    """As an erasure does. The month being read waits; users of the whole table do not."""
    async with conn.transaction():
        await conn.fetchval("SELECT count(*) FROM fairpost.emails_2020_01")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await drop(store)
        await store.enqueue_many([draft()])
    assert len(await drop(store)) == 3


async def test_enqueuers_beside_the_drop_lose_nothing(past: Past, url: str, store: Store) -> None:
    """Some contents are dropped before the e-mails arrive, which then get an error. A content with a known id still
    exists."""
    contents = [await past.put_content() for _ in range(40)]
    is_dropped = asyncio.Event()
    taken = 0

    async def enqueuer(turn: "count[int]") -> None:
        nonlocal taken
        conn = await asyncpg.connect(url)
        afterwards = 0
        while afterwards < 20:
            afterwards += is_dropped.is_set()
            content = contents[next(turn) % len(contents)]
            sql = "SELECT id FROM fairpost.enqueue(jsonb_build_object('to', 'a@b.test', 'content_id', $1::bigint))"
            own = """SELECT id FROM fairpost.enqueue('{"to": "a@b.test", "subject": "s", "text": "t"}')"""
            try:
                async with conn.transaction():
                    await conn.fetchval(own)
                    await conn.fetchval(sql, content)
                taken += 1
            except asyncpg.PostgresError as error:
                if error.sqlstate != "FP001":
                    raise
        await conn.close()

    turn = count()
    enqueuers = [asyncio.create_task(enqueuer(turn)) for _ in range(3)]
    gone = 0
    while gone < 3:  # one by one: months stay dropped even if the next one cannot be
        try:
            gone += await retention.drop_month(store, before=LIMIT) is not None
        except asyncpg.LockNotAvailableError:
            await asyncio.sleep(0.01)
    is_dropped.set()
    await asyncio.gather(*enqueuers)
    missing = "SELECT count(*) FROM fairpost.queue q WHERE NOT EXISTS (SELECT FROM fairpost.contents c WHERE c.id = q.content_id)"
    assert await store.value(missing) == 0
    assert await store.value("SELECT count(*) FROM fairpost.queue") == 2 * taken


# ── future months ─────────────────────────────────────────────────────────────────────────────────────────


async def partitions(store: Store) -> set[str]:
    rows = await store.fetch(
        "SELECT c.relname AS name FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE inhparent = 'fairpost.emails'::regclass"
    )
    return {row["name"] for row in rows}


async def test_the_watch_makes_the_months_to_come(store: Store) -> None:
    with clock.stopped_at(datetime(2041, 11, 3, tzinfo=UTC)):
        await HistoryWatch(store, None, print, keep_events=DAY).step()
    made = {f"emails_{month}" for month in ("2041_11", "2041_12", "2042_01")}
    assert made <= await partitions(store)


async def test_the_watch_drops_months_past_retention(past: Past, store: Store) -> None:
    said: list[Reason] = []
    old = await past.finished()
    await HistoryWatch(store, None, said.append, keep_events=DAY).step()
    assert (said, await past.rows(old)) == ([], {"contents": 1, "emails": 1})
    await HistoryWatch(store, timedelta(days=400), said.append, keep_events=DAY).step()
    assert await past.rows(old) == {}
    assert {each.code for each in said} == {"history.dropped"}
    assert [each.params["month"] for each in said] == [f"2020-0{n}" for n in (1, 2, 3)]


async def test_rows_move_to_their_month_once_it_is_created(past: Past, store: Store) -> None:
    file = {"filename": "a.txt", "data": base64.b64encode(b"a").decode()}
    id_ = await past.finished(datetime(2019, 5, 5, tzinfo=UTC), attachments=[file])
    assert await in_rest(store, "emails") == await in_rest(store, "attachments") == 1
    await store.value("SELECT fairpost.make_partitions($1)", datetime(2019, 5, 30, tzinfo=UTC))
    assert await in_rest(store, "emails") == await in_rest(store, "attachments") == 0
    assert await past.rows(id_) == {"contents": 1, "attachments": 1, "emails": 1}
    assert await drop(store, datetime(2019, 6, 1, tzinfo=UTC)) == ["2019-05"]


async def test_a_partition_made_later_has_the_indexes_and_rules_of_the_first(store: Store) -> None:
    await store.value("SELECT fairpost.make_partitions($1)", OLD)
    for table in ("contents", "attachments", "emails", "attempts", "labels", "tag_marks"):
        sql = """SELECT count(*) FROM pg_index i JOIN pg_inherits h ON h.inhrelid = i.indexrelid WHERE i.indrelid = ($1)::text::regclass"""
        first = await store.value(sql, f"fairpost.{table}_rest")
        assert await store.value(sql, f"fairpost.{table}_2020_01") == first > 0


async def test_making_months_is_in_nobodys_way(past: Past, store: Store, conn: Any) -> None:
    async with conn.transaction():
        await conn.fetchval("""SELECT fairpost.enqueue('{"to": "a@b.test", "subject": "s", "text": "t"}')""")
        await store.value("SELECT fairpost.prepare_months($1)", OLD + 400 * DAY)
        await store.enqueue_many([draft()])
    assert "emails_2021_02" in await partitions(store)


async def test_the_rest_is_swept_of_what_is_old(past: Past, store: Store) -> None:
    long_ago = datetime(2018, 5, 5, tzinfo=UTC)
    old = await past.finished(long_ago)
    late = await past.finished(long_ago, finished_at=LIMIT)
    waiting = await past.waiting(long_ago)
    await retention.drop_rows(store, before=LIMIT)
    assert await past.rows(old) == {}
    assert await past.rows(late) == {"contents": 1, "emails": 1}
    assert await past.rows(waiting) == {"contents": 1, "queue": 1}


async def test_old_events_and_mails_of_the_inbox_go(store: Store) -> None:
    for at in (OLD, LIMIT):
        await store.value("INSERT INTO fairpost.events (at, kind, subject) VALUES ($1, 'k', 's')", at)
        await store.value(
            """INSERT INTO fairpost.inbox (received_at, sender, recipients, subject, from_header, message_id, size, attachments, helo, peer, search, raw)
               VALUES ($1, '', '{}', '', '', '', 0, '[]', '', '', '', '')""",
            at,
        )
    await retention.drop_rows(store, before=LIMIT)
    for table, moment in (("events", "at"), ("inbox", "received_at")):
        assert [row[0] for row in await store.fetch(f"SELECT {moment} FROM fairpost.{table}")] == [LIMIT]
