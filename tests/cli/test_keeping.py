"""Long-running programs and their database: the embedded one is restarted when it dies, any other is waited for."""

import asyncio
import http.client
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from fairpost.store.embedded import EmbeddedServer
from fairpost.store.postmaster import is_alive
from tests.cli.conftest import PROCESS_S_MAX, Cli, new_home, until
from tests.conftest import at_database
from tests.regions.proxy import Proxy

if TYPE_CHECKING:
    import subprocess

pytestmark = pytest.mark.slow

LOOKS = "SELECT count(*) FROM fairpost.engines WHERE seen_at > %s"


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with new_home() as home:
        Cli({"FAIRPOST_HOME": str(home)}).ok("db", "start")
        yield EmbeddedServer(home)


@pytest.fixture
def cli(server: EmbeddedServer) -> Cli:
    cli = Cli({"FAIRPOST_HOME": str(server.status().data_dir.parent.parent)})
    cli.ok("db", "start")
    return cli


@contextmanager
def running(cli: Cli, *arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Runs a program until the end of the block. Begins once the program is ready, and yields the line that said so."""
    process = cli.start(*arguments)
    try:
        yield process, hear(process, ".started")[-1]
        process.terminate()
        err = process.communicate(timeout=PROCESS_S_MAX)[1]
        assert process.returncode == 0, err
        assert "Traceback" not in err
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def hear(process: "subprocess.Popen[str]", words: str) -> list[str]:
    """Reads its output until then."""
    assert process.stderr is not None
    said: list[str] = []
    while words not in "".join(said):
        line = process.stderr.readline()
        assert line, said
        said.append(line)
    return said


def kill(server: EmbeddedServer) -> int:
    pid = server.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(pid), "the server is dead")
    return pid


def runs_again(server: EmbeddedServer, dead: int) -> None:
    until(lambda: server.is_ready() and server.status().pid != dead, "another server runs")


def engine_looks(server: EmbeddedServer) -> None:
    with psycopg.connect(server.url, autocommit=True) as conn:
        now = conn.execute("SELECT clock_timestamp()").fetchone()
        assert now is not None
        until(lambda: conn.execute(LOOKS, now).fetchone() == (1,), "the engine looks at its database")


def test_an_engine_starts_its_server_again_and_leaves_one_alone_that_was_stopped(
    cli: Cli, server: EmbeddedServer
) -> None:
    with running(cli, "work") as (process, _):
        runs_again(server, kill(server))
        engine_looks(server)
        cli.ok("db", "stop")
        hear(process, "fairpost db start")  # it was stopped on purpose
        (orchestrator,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(orchestrator), signal.SIGKILL)
        hear(process, "fairpost db start")  # a new orchestrator does not start it either
        assert not server.status().running
        cli.ok("db", "start")
        engine_looks(server)


def test_a_service_starts_its_server_again(cli: Cli, server: EmbeddedServer) -> None:
    with running(cli, "api", "--listen", "127.0.0.1:0") as (_, ready):
        port = int(ready.rpartition(":")[2].split()[0])
        until(lambda: is_served(port), "the service answers")
        runs_again(server, kill(server))
        until(lambda: is_served(port), "the service answers again")


def is_served(port: int) -> bool:
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=PROCESS_S_MAX)
    try:
        conn.request("GET", "/readyz")
        return conn.getresponse().status == 200
    finally:
        conn.close()


async def test_an_engine_waits_for_a_database_that_is_away_and_says_so_once(url: str, tmp_path: Path) -> None:
    tries = asyncio.Semaphore(0)

    async def turn_away(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tries.release()
        writer.close()

    away = await asyncio.start_server(turn_away, "127.0.0.1", 0)
    proxy = Proxy(url, port=away.sockets[0].getsockname()[1])
    process = Cli({"FAIRPOST_DATABASE_URL": proxy.url, "FAIRPOST_HOME": str(tmp_path)}).start("work")
    try:
        for _ in range(3):
            await tries.acquire()
        away.close()
        async with proxy:
            said = await asyncio.to_thread(hear, process, "engine.started")
            process.terminate()
            err = (await asyncio.to_thread(process.communicate, timeout=PROCESS_S_MAX))[1]
        assert sum("FAIRPOST_DATABASE_URL" in line for line in said) == 1, said
        assert "Traceback" not in "".join([*said, err])
        assert process.returncode == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_a_permanent_error_ends_with_one_line_and_the_command(url: str, blank_url: str, tmp_path: Path) -> None:
    def at(database_url: str) -> Cli:
        return Cli({"FAIRPOST_DATABASE_URL": database_url, "FAIRPOST_HOME": str(tmp_path)})

    assert at(blank_url).run("work", code=1).count("fairpost db migrate") == 1
    missing = at(at_database(url, "no_such_database"))
    for command in (("api", "--listen", "127.0.0.1:0"), ("up", "--no-demo"), ("status",)):
        told = missing.error(*command)
        assert "no_such_database" in told, command
        assert told.count("FAIRPOST_DATABASE_URL") == 1, command


def test_a_server_without_a_connection_left_is_one_line(url: str, server_url: str, tmp_path: Path) -> None:
    login = f"crowded_{os.getpid()}"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE ROLE {login} LOGIN CONNECTION LIMIT 0")
        try:
            crowded = url.replace("//fairpost@", f"//{login}@")
            assert crowded != url
            told = Cli({"FAIRPOST_DATABASE_URL": crowded, "FAIRPOST_HOME": str(tmp_path)}).error("status")
            assert "max_connections" in told
            assert told.count("\n") == 1
        finally:
            conn.execute(f"DROP ROLE {login}")
