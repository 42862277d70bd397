"""One embedded server for the whole run, a database of its own for each test that asks for one."""

import asyncio
import itertools
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from hypothesis import HealthCheck, settings

from fairpost.postgres.embedded import EmbeddedServer
from fairpost.postgres.migrations import migrate
from fairpost.postgres.store import Store
from tests.simulation.world import broken_promises

T = TypeVar("T")

settings.register_profile(
    "fairpost",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("fairpost")

# Speed for tests: nothing here has to survive a power cut. What must is tested on servers of its own.
TEST_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "256MB",
    "autovacuum_naptime": "1s",
}

_numbers = itertools.count(1)


def at_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


async def _on(url: str, work: Callable[["asyncpg.Connection"], Awaitable[T]]) -> T:
    conn = await asyncpg.connect(url)
    try:
        return await work(conn)
    finally:
        await conn.close()


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The shared server, with a template database that holds the newest schema.

    FAIRPOST_TEST_URL names another server to test against, by a superuser who may create databases.
    """
    if given := os.environ.get("FAIRPOST_TEST_URL"):
        asyncio.run(_on(given, lambda conn: conn.execute("DROP DATABASE IF EXISTS pattern")))
        yield from _with_pattern(given)
        return
    with tempfile.TemporaryDirectory(prefix="fp") as home:
        server = EmbeddedServer(Path(home), settings=TEST_SETTINGS)
        url = server.start()
        try:
            yield from _with_pattern(url)
        finally:
            server.stop("immediate")


def _with_pattern(url: str) -> Iterator[str]:
    asyncio.run(_on(url, lambda conn: conn.execute("CREATE DATABASE pattern")))
    asyncio.run(_on(at_database(url, "pattern"), migrate))
    yield url


@pytest.fixture
def blank_url(server_url: str) -> Iterator[str]:
    """An empty database: no schema of ours in it."""
    yield from _database(server_url, "template1")


@pytest.fixture
def url(server_url: str) -> Iterator[str]:
    """A database with the newest schema and nothing in it."""
    yield from _database(server_url, "pattern")


def _database(server_url: str, template: str) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    asyncio.run(_on(server_url, lambda conn: conn.execute(f"CREATE DATABASE {name} TEMPLATE {template}")))
    yield at_database(server_url, name)
    asyncio.run(_on(server_url, lambda conn: conn.execute(f"DROP DATABASE {name} WITH (FORCE)")))


@pytest.fixture
async def conn(url: str) -> AsyncIterator["asyncpg.Connection"]:
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """A fresh database, whose tables must add up when the test is over."""
    async with Store.open(url) as store:
        yield store
        assert await broken_promises(store) == {}
