"""Each test finds a clean environment: nothing of earlier tests is left in its database, connections and loop."""

import asyncio
import json
from typing import Any

import asyncpg
import psycopg
import pytest

from fairpost.store.connections import ANSWER_S_MAX, connect
from tests.conftest import Databases
from tests.simulation.world import draft


def seen(url: str) -> list[Any]:
    """Returns every row and every sequence."""
    with psycopg.connect(url) as conn:
        tables = conn.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'fairpost'::regnamespace AND relkind = 'r' ORDER BY 1"
        ).fetchall()
        sequences = conn.execute("SELECT sequencename, last_value FROM pg_sequences ORDER BY 1").fetchall()
        return [sequences, *(conn.execute(f"SELECT t::text FROM fairpost.{table} t").fetchall() for (table,) in tables)]


def change(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        for sql in statements:
            conn.execute(sql.encode())


def enqueue(n: int) -> str:
    return f"SELECT fairpost.enqueue_many('{json.dumps([draft()] * n)}')"


@pytest.mark.parametrize(
    "statements",
    [
        [enqueue(1)],
        [enqueue(2_000), "SELECT fairpost.add_account('a', 'a@post.test', 'default', '{}')"],
        ["UPDATE fairpost.fairness SET lanes = true", "DELETE FROM fairpost.patience"],
    ],
    ids=["deleted", "truncated", "restored"],
)
def test_a_database_is_emptied_for_the_next_test(databases: Databases, statements: list[str]) -> None:
    with databases.new() as url:
        before = seen(url)
        change(url, *statements)
        assert seen(url) != before
    with databases.new() as again:
        assert again == url
        assert seen(again) == before


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE fairpost.queue ADD mine int",
        "DROP INDEX fairpost.emails_by_user",
        "ANALYZE fairpost.fairness",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    ],
)
def test_a_database_that_emptying_cannot_restore_is_dropped(databases: Databases, sql: str) -> None:
    with databases.new() as url:
        change(url, sql)
    with databases.new() as other:
        assert other != url


def test_a_connection_is_lent_again_as_new(databases: Databases) -> None:
    async def backend(*statements: str) -> tuple[int, str, str, str | None]:
        conn = await asyncpg.connect(url)
        before = (
            await conn.fetchval("SHOW work_mem"),
            await conn.fetchval("SELECT count(*)::text FROM pg_listening_channels()"),
            await conn.fetchval("SELECT to_regclass('mine')::text"),
        )
        for sql in statements:
            await conn.execute(sql)
        await conn.close()
        assert conn.is_closed()
        return conn.get_server_pid(), *before

    with databases.new() as url:
        first = asyncio.run(
            backend("SET work_mem = '1MB'", "LISTEN news", "CREATE TEMP TABLE mine (n int)", "BEGIN", enqueue(1))
        )
        assert asyncio.run(backend()) == first
        with psycopg.connect(url) as conn:
            assert conn.execute("SELECT count(*) FROM fairpost.queue").fetchone() == (0,), "it was rolled back"
    with databases.new() as again:
        assert again == url


def test_a_connection_of_the_product_is_lent_again_with_the_limits_it_was_opened_with(databases: Databases) -> None:
    async def backend() -> tuple[int, float | None]:
        conn = await connect(url)
        limit_s = conn.answer_s_max
        conn.allow(0.5)
        await conn.close()
        return conn.get_server_pid(), limit_s

    async def given_up() -> int:
        conn = await connect(url)
        conn.is_given_up = True
        await conn.close()
        return int(conn.get_server_pid())

    with databases.new() as url:
        first = asyncio.run(backend())
        assert first[1] == ANSWER_S_MAX
        assert asyncio.run(backend()) == first
        assert asyncio.run(given_up()) != asyncio.run(given_up())


def test_a_loop_in_which_something_is_left_is_not_lent_again(databases: Databases) -> None:
    async def left() -> tuple[asyncio.AbstractEventLoop, asyncio.Server]:
        return asyncio.get_running_loop(), await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)

    async def nothing_left() -> asyncio.AbstractEventLoop:
        await asyncio.to_thread(int)
        return asyncio.get_running_loop()

    loop = asyncio.run(nothing_left())
    assert not loop.is_closed()
    again, server = asyncio.run(left())
    assert again is loop
    assert loop.is_closed()
    assert asyncio.run(nothing_left()) is not loop
    server.close()
