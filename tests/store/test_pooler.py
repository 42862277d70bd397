"""Connections through PgBouncer in transaction mode: detected automatically, and without effect on other clients."""

import asyncio

import psycopg
import pytest
from tests.peers.pgbouncer import Through, sessions

from fairpost.store.connections import connect
from fairpost.store.migrations import migrate, pending
from fairpost.store.store import Store

CLIENTS = 6
ROUNDS = 10


@pytest.mark.fresh
async def test_a_pooler_is_noticed_and_a_direct_connection_keeps_its_statements(url: str, pooled_url: str) -> None:
    kept = "SELECT count(*) FROM pg_prepared_statements"
    async with Store.open(url, connections_max=1) as direct, Store.open(pooled_url, connections_max=1) as pooled:
        assert (direct.behind_pooler, pooled.behind_pooler) == (False, True)
        for _ in range(2):
            assert (await direct.value(kept), await pooled.value(kept)) == (1, 0)


async def test_a_pooler_that_is_known_is_not_asked_for(url: str) -> None:
    """If the user says so, with any pooler."""
    async with Store.open(url, behind_pooler=True) as store:
        assert store.behind_pooler
        assert await store.value("SELECT count(*) FROM pg_prepared_statements") == 0


async def test_clients_that_share_sessions_get_their_own_answers_and_leave_nothing(url: str, pooled_url: str) -> None:
    """Includes types that the driver has to look up, for which it changes a setting of the session."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f"ALTER DATABASE {conn.info.dbname} SET jit = on")

    async def ask(number: int) -> None:
        async with Store.open(pooled_url, connections_max=1) as store:
            for turn in range(ROUNDS):
                assert await store.value("SELECT $1::bigint[]", [number, turn]) == [number, turn]
                assert await store.value("SELECT $1::text", str(number)) == str(number)
                async with store.together() as whole:
                    assert await whole.value("SELECT $1::int + $2::int", number, turn) == number + turn
                    states = await whole.value("SELECT ARRAY[$1::fairpost.email_class]", "bulk")
                    assert states == ["bulk"]

    with sessions(pooled_url) as left_behind:
        await asyncio.gather(*map(ask, range(CLIENTS)))
        assert left_behind() == []


async def test_a_schema_is_laid_through_a_pooler(blank_url: str, through_pooler: Through) -> None:
    pooled_url = through_pooler(blank_url)
    with sessions(pooled_url) as left_behind:
        conns = [await connect(pooled_url) for _ in range(2)]
        await asyncio.gather(*map(migrate, conns))
        assert await pending(conns[0]) == []
        for conn in conns:
            await conn.close()
        assert left_behind() == []
