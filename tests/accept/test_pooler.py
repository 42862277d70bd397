"""`enqueue` over applications' connections behind PgBouncer in transaction mode, each configured as its driver
recommends."""

from typing import Any
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy.ext.asyncio as sa
from sqlalchemy.orm import Session

from tests.accept.test_drivers import (
    HELLO,
    Flavour,
    over_asyncpg,
    over_django,
    over_psycopg,
    over_psycopg2,
    over_psycopg_async,
    over_sqlalchemy,
    over_sqlalchemy_async,
)
from tests.peers.pgbouncer import sessions

TIMES = 8  # by default, psycopg prepares a statement when it runs for the sixth time

KEEPS_NOTHING: dict[str, Any] = {
    "statement_cache_size": 0,
    "prepared_statement_cache_size": 0,
    "prepared_statement_name_func": lambda: f"__{uuid4()}__",
}
POOLED: dict[str, Flavour] = {
    "psycopg": over_psycopg,
    "psycopg-async": over_psycopg_async,
    "psycopg2": over_psycopg2,
    "asyncpg": lambda url: over_asyncpg(url, statement_cache_size=0),
    "sqlalchemy-psycopg": lambda url: over_sqlalchemy(url, "psycopg", Session, prepare_threshold=None),
    "sqlalchemy-psycopg2": lambda url: over_sqlalchemy(url, "psycopg2", Session),
    "sqlalchemy-asyncpg": lambda url: over_sqlalchemy_async(url, "asyncpg", sa.AsyncSession, **KEEPS_NOTHING),
    "django": lambda url: over_django(url, lambda wrapper: wrapper),
}
PREPARES_BY_ITSELF = {"sqlalchemy-asyncpg"}  # regardless of its settings


@pytest.mark.parametrize("flavour", POOLED)
def test_emails_are_enqueued_and_nothing_is_left_in_the_session(url: str, pooled_url: str, flavour: str) -> None:
    with sessions(pooled_url) as left_behind, POOLED[flavour](pooled_url) as caller:
        ids = []
        for _ in range(TIMES):
            caller.begin()
            ids.append(caller.enqueue(**HELLO).id)
            caller.commit()
        with psycopg.connect(url) as others:
            found = others.execute("SELECT id FROM fairpost.queue ORDER BY id").fetchall()
        assert [row[0] for row in found] == ids
        assert flavour in PREPARES_BY_ITSELF or left_behind() == []
