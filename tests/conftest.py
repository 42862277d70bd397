"""One embedded server for each process of the run, a database of its own for each test that asks for one.

`make test` shares the tests among processes (pytest-xdist, -n auto); `make test ARGS=-n0` runs them in one.
"""

import asyncio
import gc
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from fairpost.model.errors import EmbeddedServerError
from fairpost.postgres.embedded import EmbeddedServer
from fairpost.postgres.migrations import migrate
from fairpost.postgres.postmaster import is_alive
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
    "max_wal_size": "256MB",
    "autovacuum_naptime": "1s",
}

TEST_URL = os.environ.get("FAIRPOST_TEST_URL")
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 4 << 30  # free, for the servers of all processes; containers often have only 64 MB
# Many tests copy a database of 10 MB: that takes 100 to 400 ms on a disk, and 30 ms here.
IN_MEMORY = not TEST_URL and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES_MIN
COPYING = "STRATEGY FILE_COPY" if IN_MEMORY else ""  # where writing is cheap, without the log

HOME_PREFIX = "fairpost-test-"  # then the process that made it

PROCESSES_MAX = 8

# What one process runs from its beginning to its end: tests that share something which takes long to make, and worlds of
# many processes, two of which at once would only test the patience of the machine. (The groups that xdist has itself
# do nothing with pytest 9.2.)
TOGETHER = ("tests/browser/", "tests/chaos/", "tests/cli/test_up.py")

_numbers = itertools.count(1)


def at_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


async def _on(url: str, work: Callable[["asyncpg.Connection"], Awaitable[T]]) -> T:
    conn = await asyncpg.connect(url)
    try:
        return await work(conn)
    finally:
        await conn.close()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Twice as many as there are cores, for many tests wait. 0: this process alone, where one file
    would not be worth the start of others, and where all would have to share the server that was given to us."""
    is_one_file = len(config.args) == 1 and config.args[0].partition("::")[0].endswith(".py")
    return 0 if is_one_file or TEST_URL else min(2 * (os.cpu_count() or 1), PROCESSES_MAX)


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]
    """Test by test to whoever is free, but for what stays together: that begins first."""

    def _split_scope(self, nodeid: str) -> str:
        return next((path for path in TOGETHER if nodeid.startswith(path)), nodeid)

    def remove_node(self, node: Any) -> str | None:
        """A process is gone: the test that it died of has failed, and is not given to the next one."""
        units = self.assigned_work.pop(node)
        left = [(tests, test) for tests in units.values() for test, is_done in tests.items() if not is_done]
        if not left:
            return None
        tests, died_of = left[0]
        tests[died_of] = True
        self.workqueue.update({scope: tests for scope, tests in units.items() if not all(tests.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return str(died_of)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduler:
    return Scheduler(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What the collection makes stays to the end: nobody is to look through all of it for garbage, again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """When shared among processes, what takes long begins first: at the end, nobody is to be waited for."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_sessionstart(session: pytest.Session) -> None:
    """A run that was killed leaves its servers behind, and in memory they are in the way."""
    if not IN_MEMORY or hasattr(session.config, "workerinput"):
        return
    for home in MEMORY.glob(f"{HOME_PREFIX}*"):
        maker = int(home.name.removeprefix(HOME_PREFIX).partition("-")[0])
        if home.stat().st_uid == os.getuid() and not is_alive(maker):
            with suppress(EmbeddedServerError):  # another run does the same
                EmbeddedServer(home).stop("immediate")
            shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The shared server, with a template database that holds the newest schema.

    FAIRPOST_TEST_URL names another server to test against, by a superuser who may create databases.
    """
    if TEST_URL:
        asyncio.run(_on(TEST_URL, lambda conn: conn.execute("DROP DATABASE IF EXISTS pattern")))
        yield from _with_pattern(TEST_URL)
        return
    prefix = f"{HOME_PREFIX}{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=MEMORY if IN_MEMORY else None) as home:
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
    asyncio.run(_on(server_url, lambda conn: conn.execute(f"CREATE DATABASE {name} TEMPLATE {template} {COPYING}")))
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
