"""A key refers to one e-mail, whatever happens concurrently, and only callers with the same key wait for each other."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from fairpost import Email, Enqueued, InvalidEmail, enqueue, enqueue_many

HELLO: dict[str, Any] = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}
WAITS = "SELECT pg_blocking_pids($1) <> '{}'"

Connect = Callable[[], Awaitable["asyncpg.Connection"]]


@pytest.fixture
async def connect(url: str) -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:

        async def connect() -> "asyncpg.Connection":
            conn = await asyncpg.connect(url)
            stack.push_async_callback(conn.close)
            return conn

        yield connect


async def started(conn: "asyncpg.Connection", isolation: str = "read_committed") -> Any:
    transaction = conn.transaction(isolation=isolation)
    await transaction.start()
    return transaction


async def until_it_waits(watcher: "asyncpg.Connection", waiting: "asyncpg.Connection") -> None:
    """Returns when the server reports that this connection waits for a lock."""
    async with asyncio.timeout(60):
        while not await watcher.fetchval(WAITS, waiting.get_server_pid()):  # noqa: ASYNC110
            await asyncio.sleep(0.005)  # the server sends no event for it


async def in_background(watcher: "asyncpg.Connection", conn: "asyncpg.Connection", key: str) -> Any:
    """An enqueue with this key that is in progress and waiting for a lock."""
    task = asyncio.ensure_future(enqueue(conn, **HELLO, idempotency_key=key))
    await until_it_waits(watcher, conn)
    return task


async def waiting_emails(conn: "asyncpg.Connection") -> int:
    count: int = await conn.fetchval("SELECT count(*) FROM fairpost.queue")
    return count


async def test_a_key_is_known_in_its_workspace_only(conn: "asyncpg.Connection") -> None:
    first = await enqueue(conn, **HELLO, idempotency_key="k")
    assert await enqueue(conn, **HELLO, idempotency_key="k") == Enqueued(first.id, False)
    assert await enqueue(conn, **HELLO, idempotency_key="k", workspace="default") == Enqueued(first.id, False)
    elsewhere = await enqueue(conn, **HELLO, idempotency_key="k", workspace="acme")
    assert elsewhere.new
    assert elsewhere.id != first.id
    assert (await enqueue(conn, **HELLO, idempotency_key="K")).new
    assert (await enqueue(conn, **HELLO, idempotency_key="k ")).new


async def test_without_a_key_everything_is_new(conn: "asyncpg.Connection") -> None:
    first, second = await enqueue(conn, **HELLO), await enqueue(conn, **HELLO)
    assert first.new
    assert second.new
    assert first.id != second.id


async def test_a_known_key_writes_nothing_even_if_the_email_is_another(conn: "asyncpg.Connection") -> None:
    first = await enqueue(conn, **HELLO, idempotency_key="k")
    again = await enqueue(conn, to="bob@example.com", subject="x", html="y", idempotency_key="k", stream="z")
    assert again == Enqueued(first.id, False)
    assert await waiting_emails(conn) == 1
    assert await conn.fetchval("SELECT count(*) FROM fairpost.contents") == 1
    assert await conn.fetchval("SELECT sum(n) FROM fairpost.arrivals") == 1


async def test_a_refused_email_does_not_use_up_its_key(conn: "asyncpg.Connection") -> None:
    with pytest.raises(InvalidEmail):
        await enqueue(conn, to="nobody", subject="", text="", idempotency_key="k")
    assert (await enqueue(conn, **HELLO, idempotency_key="k")).new


async def test_a_savepoint_that_is_rolled_back_forgets_the_key(conn: "asyncpg.Connection") -> None:
    async with conn.transaction():
        savepoint = await started(conn)
        await enqueue(conn, **HELLO, idempotency_key="k")
        await savepoint.rollback()
        assert (await enqueue(conn, **HELLO, idempotency_key="k")).new
    assert await waiting_emails(conn) == 1


async def test_the_same_key_twice_in_one_bulk_is_one_email(conn: "asyncpg.Connection") -> None:
    a, b = Email(**HELLO, idempotency_key="a"), Email(**HELLO, idempotency_key="b")
    bad = {**HELLO, "to": "nobody", "idempotency_key": "c"}
    good = {**HELLO, "idempotency_key": "c"}
    results: list[Any] = await enqueue_many(conn, [a, b, HELLO, b, bad, good, a])
    first_a, first_b, without, second_b, _, first_c, second_a = results
    assert [first_a.new, first_b.new, without.new, first_c.new] == [True] * 4
    assert second_a == Enqueued(first_a.id, False)
    assert second_b == Enqueued(first_b.id, False)
    assert await waiting_emails(conn) == 4
    assert await enqueue_many(conn, [b, a]) == [second_b, second_a]


async def test_a_key_outlives_its_email(conn: "asyncpg.Connection") -> None:
    for state in ("sent", "failed", "bounced", "suppressed", "cancelled"):
        first = await enqueue(conn, **HELLO, idempotency_key=state)
        await conn.execute(
            "SELECT fairpost.finish($1, $2::text::fairpost.email_state, NULL, $3)", first.id, state, datetime.now(UTC)
        )
        assert await waiting_emails(conn) == 0
        assert await enqueue(conn, **HELLO, idempotency_key=state) == Enqueued(first.id, False)
        assert await waiting_emails(conn) == 0


async def test_the_second_of_two_transactions_waits_and_gets_the_first_id(
    conn: "asyncpg.Connection", connect: Connect
) -> None:
    early, late = await connect(), await connect()
    first_transaction, second_transaction = await started(early), await started(late)
    first = await enqueue(early, **HELLO, idempotency_key="k")
    second = await in_background(conn, late, "k")
    await first_transaction.commit()
    assert await second == Enqueued(first.id, False)
    await second_transaction.commit()
    assert await waiting_emails(conn) == 1


async def test_the_second_becomes_the_first_if_the_other_rolls_back(
    conn: "asyncpg.Connection", connect: Connect
) -> None:
    early, late = await connect(), await connect()
    first_transaction, second_transaction = await started(early), await started(late)
    first = await enqueue(early, **HELLO, idempotency_key="k")
    second = await in_background(conn, late, "k")
    await first_transaction.rollback()
    assert (await second).new
    assert (await second).id != first.id
    await second_transaction.commit()
    assert await conn.fetchval("SELECT array_agg(id) FROM fairpost.queue") == [(await second).id]


async def test_under_repeatable_read_the_second_fails_rather_than_send_twice(
    conn: "asyncpg.Connection", connect: Connect
) -> None:
    early, late = await connect(), await connect()
    first_transaction, second_transaction = await started(early), await started(late, "repeatable_read")
    await late.execute("SELECT 1")
    await enqueue(early, **HELLO, idempotency_key="k")
    second = await in_background(conn, late, "k")
    await first_transaction.commit()
    with pytest.raises(asyncpg.SerializationError):
        await second
    await second_transaction.rollback()
    assert await waiting_emails(conn) == 1


async def test_twenty_at_once_with_one_key_are_one_email(conn: "asyncpg.Connection", connect: Connect) -> None:
    connections = [await connect() for _ in range(20)]
    results = await asyncio.gather(*(enqueue(c, **HELLO, idempotency_key="k") for c in connections))
    assert len({result.id for result in results}) == 1
    assert sum(result.new for result in results) == 1
    assert await waiting_emails(conn) == 1


async def test_two_bulks_with_the_same_keys_in_opposite_order_do_not_deadlock(
    conn: "asyncpg.Connection", connect: Connect
) -> None:
    left, right = await connect(), await connect()
    for round_ in range(20):
        emails = [Email(**HELLO, idempotency_key=f"{round_} {n}") for n in range(100)]
        there, back = await asyncio.gather(enqueue_many(left, emails), enqueue_many(right, emails[::-1]))
        pairs: Any = zip(there, back[::-1], strict=True)
        assert all(one.id == other.id and one.new != other.new for one, other in pairs)
    assert await waiting_emails(conn) == 20 * 100


async def test_enqueueing_does_not_wait_for_an_open_transaction_with_another_key(
    conn: "asyncpg.Connection", connect: Connect
) -> None:
    """The same tenant, user, stream and shared content: only the keys differ."""
    content = await conn.fetchval("""SELECT fairpost.put_content('{"subject": "News", "text": "Hi"}')""")
    connections = [await connect() for _ in range(5)]
    transactions = []
    for c in connections:
        await c.execute("SET lock_timeout = '5s'")
        transactions.append(await started(c))
    for turn in range(4):
        for n, c in enumerate(connections):
            key = f"{turn} {n}"
            await enqueue(c, to="ann@example.com", content_id=content, stream="news", idempotency_key=key)
            await enqueue(c, **HELLO, idempotency_key=key + " own", user="u1", from_="ann@acme.example")
            await enqueue_many(c, [HELLO, {**HELLO, "idempotency_key": key + " many"}])
    for transaction in transactions:
        await transaction.commit()
    assert await waiting_emails(conn) == 4 * 5 * 4
