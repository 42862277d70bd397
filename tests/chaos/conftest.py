"""A PostgreSQL server for tests that kill it."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from fairpost.store.embedded import EmbeddedServer
from fairpost.store.migrations import migrate
from tests.conftest import at_database


@pytest.fixture(scope="package")
def mortal() -> Iterator[EmbeddedServer]:
    """With fsync, as in production. A test that kills it starts it again."""
    with tempfile.TemporaryDirectory(prefix="fp") as home:
        server = EmbeddedServer(Path(home), settings={"shared_buffers": "64MB"})
        try:
            server.start()
            yield server
        finally:
            server.stop("immediate")


async def database_on(server: EmbeddedServer) -> str:
    """Returns the URL of an empty database with the newest schema."""
    url = await asyncio.to_thread(server.start)
    conn = await asyncpg.connect(url)
    name = f"chaos_{await conn.fetchval('SELECT count(*) FROM pg_database')}"
    await conn.execute(f"CREATE DATABASE {name}")
    await conn.close()
    conn = await asyncpg.connect(at_database(url, name))
    await migrate(conn)
    await conn.close()
    return at_database(url, name)
