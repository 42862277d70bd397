"""One embedded server for each test process, and an empty database for each test that requests one.

`make test` distributes the tests among processes (pytest-xdist, -n auto); `make test ARGS=-n0` runs them in one.
"""

import asyncio
import faulthandler
import gc
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from xdist.scheduler import LoadScopeScheduling

from fairpost.dev.emulate import keys
from fairpost.model.errors import EmbeddedServerError
from fairpost.store.embedded import EmbeddedServer
from fairpost.store.migrations import migrate
from fairpost.store.postmaster import is_alive
from fairpost.store.store import Store
from tests import timing
from tests.databases import Databases as Databases
from tests.databases import at_database as at_database
from tests.lasting import Lasting
from tests.peers.pgbouncer import Through, pgbouncer, why_not
from tests.simulation.world import broken_promises
from tests.thorough import IS_FREE

T = TypeVar("T")

# `make test` uses the same examples each time, so that failures are caused by changes and not by chance; `make fuzz`
# uses others.
settings.register_profile(
    "fairpost",
    deadline=None,
    derandomize=not IS_FREE,
    database=None,
    max_examples=100 if IS_FREE else 40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("fairpost")
if not IS_FREE:
    # The examples of a test would depend on each string and number of all modules that its process happened to import.
    providers.is_local_module_file = lambda _: False  # type: ignore[assignment, attr-defined]

# Fast settings: nothing here has to survive a power cut. Tests of durability use separate servers.
TEST_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "256MB",
    "max_wal_size": "256MB",
    "autovacuum_naptime": "1h",  # never: it takes CPU, and changes plans at random
    # A quarter of the server's CPU is planning, because a statement is planned each of the first five times that a
    # connection uses it. Databases marked `fresh` plan as usual.
    "plan_cache_mode": "force_generic_plan",
}

# Number of objects between garbage collections: tests create many that live as long as they do.
GARBAGE_FROM = 20_000

TEST_URL = os.environ.get("FAIRPOST_TEST_URL")
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 4 << 30  # required for the servers of all processes; containers often have only 64 MB
# Many tests copy a database of 10 MB, which takes 100 to 400 ms on a disk, and 30 ms here.
IN_MEMORY = not TEST_URL and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES_MIN
COPYING = "STRATEGY FILE_COPY" if IN_MEMORY else ""  # without the log, if writing is cheap

HOME_PREFIX = "fairpost-test-"  # followed by the process that created it

# For clients that trust nothing else. Reading the system's authorities takes 40 ms of CPU per client.
NO_AUTHORITY = Path(__file__).with_name("no-authority.pem")

PROCESSES_MAX = 8
TEARDOWN_S_MAX = 180  # of a failed test

# Tests of one file run in one process, in order, so they can share expensive fixtures. So do these folders: one reads
# all of the source, one has a browser, and one has worlds of many processes, which would only slow each other down.
TOGETHER = ("tests/architecture/", "tests/browser/", "tests/chaos/")


def pytest_configure(config: pytest.Config) -> None:
    timing.register(config)
    os.environ["SSL_CERT_FILE"] = str(NO_AUTHORITY)
    os.environ.pop("SSL_CERT_DIR", None)
    keys.RSA_BITS = 1_024  # a key is checked whenever it is read, which takes 6 ms instead of 40
    gc.set_threshold(GARBAGE_FROM, *gc.get_threshold()[1:])
    config.option.loadscopereorder = False  # we determine the order: see pytest_collection_modifyitems


async def _on(url: str, work: Callable[["asyncpg.Connection"], Awaitable[T]]) -> T:
    conn = await asyncpg.connect(url)
    try:
        return await work(conn)
    finally:
        await conn.close()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Returns twice the number of cores, because many tests wait. 0 means this process alone: for a single file, or if
    all tests have to share a given server."""
    is_one_file = len(config.args) == 1 and config.args[0].partition("::")[0].endswith(".py")
    return 0 if is_one_file or TEST_URL else min(2 * (os.cpu_count() or 1), PROCESSES_MAX)


def unit_of(nodeid: str) -> str:
    """A group of tests that one process runs from beginning to end."""
    return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]
    """Gives groups to the next process that is free."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def remove_node(self, node: Any) -> str | None:
        """A process has died: the test that it was running fails, and is not given to the next one."""
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
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Objects created by the collection live to the end, so the garbage collector need not scan them repeatedly."""
    gc.disable()
    try:
        if session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
            _import_tests(getattr(session.config, "workerinput", None))
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _import_tests(worker: dict[str, Any] | None) -> None:
    """Each process begins with other modules: in a fresh clone, compiling them takes longer than anything else here,
    and what one process has compiled the others read. What cannot be imported fails in the collection."""
    if worker is None:
        return
    files = sorted(Path(__file__).parent.rglob("test_*.py"))
    first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for file in files[first:] + files[:first]:
        with suppress(Exception, pytest.skip.Exception, pytest.fail.Exception):
            import_module(".".join(file.relative_to(Path(__file__).parents[1]).with_suffix("").parts))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several processes, long groups begin first, so that none of them is waited for at the end."""
    if hasattr(config, "workerinput"):
        units_s = Counter[str]()
        for file, seconds in timing.read_record()["files_s"].items():
            units_s[unit_of(file)] += seconds
        items.sort(key=lambda item: -units_s[unit_of(item.nodeid)])


def pytest_sessionstart(session: pytest.Session) -> None:
    """Stops servers left behind by a killed run, which still use memory."""
    if not IN_MEMORY or hasattr(session.config, "workerinput"):
        return
    for home in MEMORY.glob(f"{HOME_PREFIX}*"):
        maker = int(home.name.removeprefix(HOME_PREFIX).partition("-")[0])
        if home.stat().st_uid == os.getuid() and not is_alive(maker):
            with suppress(EmbeddedServerError):  # another run does the same
                EmbeddedServer(home).stop("immediate")
            shutil.rmtree(home, ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """A failed test may hang in its teardown. pytest has stopped its own watch by then, so this one ends the process."""
    if isinstance(node, pytest.Item):
        faulthandler.dump_traceback_later(TEARDOWN_S_MAX, exit=True, file=sys.__stderr__ or sys.stderr)


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The server shared by the tests of this process, with a database `pattern` that has the newest schema.

    FAIRPOST_TEST_URL names another server to test against, with a superuser who may create databases.
    """
    if TEST_URL:
        yield _with_pattern(TEST_URL)
        return
    prefix = f"{HOME_PREFIX}{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=MEMORY if IN_MEMORY else None) as home:
        server = EmbeddedServer(Path(home), settings=TEST_SETTINGS)
        url = server.start()
        timing.count_server(server.status().pid or 0)
        try:
            yield _with_pattern(url)
        finally:
            server.stop("immediate")


def _with_pattern(url: str) -> str:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("DROP DATABASE IF EXISTS pattern")
        conn.execute("CREATE DATABASE pattern")
    asyncio.run(_on(at_database(url, "pattern"), migrate))
    return url


@pytest.fixture(scope="session")
def databases(server_url: str) -> Iterator[Databases]:
    with Lasting(server_url).in_use() as lasting:
        made = Databases(server_url, copying=COPYING, lasting=lasting)
        yield made
        made.close()


@pytest.fixture
def blank_url(databases: Databases) -> Iterator[str]:
    """An empty database, without our schema."""
    with databases.fresh("template1") as url:
        yield url


@pytest.fixture
def url(databases: Databases, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database with the newest schema. If the test is marked `fresh`, no other test has used it."""
    with databases.fresh() if request.node.get_closest_marker("fresh") else databases.new() as url:
        yield url


@pytest.fixture(scope="session", params=[False, True], ids=["keeps-no-statements", "keeps-statements"])
def through_pooler(request: pytest.FixtureRequest, server_url: str) -> Iterator[Through]:
    """PgBouncer in transaction mode: a function that converts a URL to one that leads through it."""
    if reason := why_not(keeps_statements=request.param):
        pytest.skip(reason)
    with pgbouncer(server_url, keeps_statements=request.param) as through:
        yield through


@pytest.fixture
def pooled_url(url: str, through_pooler: Through) -> str:
    return through_pooler(url)


@pytest.fixture
async def conn(url: str) -> AsyncIterator["asyncpg.Connection"]:
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """An empty database, whose counts are checked when the test is over."""
    async with Store.open(url) as store:
        yield store
        assert await broken_promises(store) == {}
