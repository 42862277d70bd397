"""The service as real processes: replaced, killed, stopped, and without its database for a while."""

import asyncio
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from fairpost.api.routes.bulk import CHUNK_LINES
from fairpost.store.postmaster import is_alive
from tests.cli.conftest import PROCESS_S_MAX, PROGRAM, Cli, missing, process_environment, until
from tests.conftest import at_database
from tests.regions.proxy import Proxy

pytestmark = pytest.mark.slow

READY = re.compile(r"service\.started .* http://127\.0\.0\.1:([0-9]+)")


@dataclass(slots=True)
class Running:
    process: "subprocess.Popen[str]"
    port: int
    said: list[str] = field(default_factory=list)

    def workers(self) -> set[int]:
        """Returns the processes that respond, without Python's own resource tracker."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return {int(pid) for pid in children if is_alive(int(pid)) and b"spawn_main" in _command(int(pid))}

    def ask(
        self, path: str = "/healthz", *, key: str | None = None, timeout: float = PROCESS_S_MAX
    ) -> tuple[int, dict[str, object]]:
        """Uses a separate connection."""
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            conn.request("GET", path, headers={"Authorization": f"Bearer {key}"} if key else {})
            answer = conn.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            conn.close()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@contextmanager
def running(environment: dict[str, str], *, processes: int) -> Iterator[Running]:
    process = subprocess.Popen(
        [*PROGRAM, "api", "--processes", str(processes), "--listen", "127.0.0.1:0"],
        env=process_environment(environment),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    found = READY.search(first)
    assert found, first
    it = Running(process, int(found[1]))

    def listen() -> None:
        assert process.stderr is not None
        it.said.extend(process.stderr)

    listening = threading.Thread(target=listen)
    listening.start()
    known: set[int] = set()
    try:
        until(lambda: len(it.workers()) == processes, what="the processes")
        assert it.ask()[0] == 200
        known = it.workers()
        yield it
        known |= it.workers() if process.poll() is None else set()
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=PROCESS_S_MAX)
        for pid in known:
            until(lambda pid=pid: not is_alive(pid), what="the end of a process")  # type: ignore[misc]
        listening.join(timeout=PROCESS_S_MAX)
        process.stderr.close()


@pytest.fixture
def environment(url: str, tmp_path: Path) -> dict[str, str]:
    settings = {"FAIRPOST_DATABASE_URL": url, "FAIRPOST_HOME": str(tmp_path / "home")}
    return {**settings, "FAIRPOST_USER_DAILY_MAX": "0"}  # a key may submit more than a person's daily limit


def key_of(environment: dict[str, str]) -> str:
    cli = Cli(environment)
    cli.ok("workspace", "add", "acme", "--pool", "relay=acme.test")
    return str(cli.json("key", "add", "--workspace", "acme")["key"])


def test_no_request_is_lost_or_done_twice_when_processes_are_replaced_killed_and_stopped(
    environment: dict[str, str],
) -> None:
    """One service with one process for all of it, because starting processes takes longest."""
    keys = [key_of(environment), str(Cli(environment).json("key", "add", "--workspace", "acme")["key"])]
    url = environment["FAIRPOST_DATABASE_URL"]
    with running(environment, processes=1) as it, psycopg.connect(url, autocommit=True) as db:
        replace_under_load(it)
        assert it.said == []
        kill_while_it_enqueues(it, url, db, keys[0])
        stop_with_a_request_under_way(it, db, keys[1])
    assert it.process.returncode == 0


def replace_under_load(it: Running) -> None:
    before = it.workers()
    is_over = threading.Event()
    answers: list[int] = []
    failures: list[BaseException] = []

    def load() -> None:
        while not is_over.wait(0.05):
            try:
                answers.append(it.ask("/readyz")[0])
            except Exception as error:
                failures.append(error)

    clients = [threading.Thread(target=load) for _ in range(2)]
    for client in clients:
        client.start()
    it.process.send_signal(signal.SIGHUP)
    try:
        until(lambda: len(it.workers()) == 1 and not it.workers() & before, what="a new process")
    finally:
        is_over.set()
        for client in clients:
            client.join()
    assert failures == []
    assert set(answers) == {200}


def kill_while_it_enqueues(it: Running, url: str, db: "psycopg.Connection[Any]", key: str) -> None:
    """A request's e-mails are stored completely or not at all, and repeating it stores none twice."""
    lines = 2 * CHUNK_LINES
    body = (
        b'{"to": "ann@example.com", "from": "a@acme.test", "pool": "relay", "subject": "Hello", "text": "Hi"}\n' * lines
    )
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/x-ndjson", "Idempotency-Key": "june"}
    before = it.workers()
    with psycopg.connect(
        url
    ) as blocker:  # a line of the second chunk has to wait for it; by then, the first chunk is written
        blocker.execute(
            "INSERT INTO fairpost.idempotency_keys (key_hash, email_id) VALUES (fairpost.key_hash('acme', %s), 0)",
            [f"june:{lines}"],
        )
        dying = http.client.HTTPConnection("127.0.0.1", it.port, timeout=PROCESS_S_MAX)
        dying.request("POST", "/v1/emails/bulk", body=body, headers=headers)
        until(lambda: _is_enqueueing(db), what="the enqueueing")
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            dying.getresponse()
        dying.close()
        until(lambda: len(it.workers() - before) == 1, what="another in its place")
        blocker.rollback()
    until(lambda: not _is_enqueueing(db), what="the end of what was begun")
    assert _queued(db) == 0
    again = http.client.HTTPConnection("127.0.0.1", it.port, timeout=PROCESS_S_MAX)
    for _ in range(2):
        again.request("POST", "/v1/emails/bulk", body=body, headers=headers)
        answer = again.getresponse()
        assert answer.status == 200
        answer.read()
    again.close()
    assert _queued(db) == lines


def stop_with_a_request_under_way(it: Running, db: "psycopg.Connection[Any]", key: str) -> None:
    """The response is sent before the end."""
    body = b'{"to": "ann@example.com", "from": "a@acme.test", "pool": "relay", "subject": "Hello", "text": "Hi"}\n'
    head = (
        f"POST /v1/emails/bulk HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", it.port), timeout=PROCESS_S_MAX) as conn:
        conn.sendall(head.encode() + body[:10])
        until(lambda: _is_let_in(db, key), what="the request to be let in")
        it.process.send_signal(signal.SIGTERM)
        until(lambda: _is_refused(it), what="the end of new connections")
        conn.sendall(body[10:])
        answer = b""
        while piece := conn.recv(65_536):
            answer += piece
    assert b" 200 " in answer.partition(b"\r\n")[0]
    assert b'"accepted":1' in answer
    assert it.process.wait(timeout=PROCESS_S_MAX) == 0


def _is_enqueueing(db: "psycopg.Connection[Any]") -> bool:
    """A service transaction that has written something and is still open."""
    sql = """SELECT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datname = current_database()
        AND a.pid <> pg_backend_pid() AND a.backend_xid IS NOT NULL AND a.query LIKE '%fairpost.submit%')"""
    return db.execute(sql).fetchone() == (True,)


def _queued(db: "psycopg.Connection[Any]") -> int:
    (n,) = db.execute("SELECT count(*) FROM fairpost.queue").fetchone() or (0,)
    return int(n)


def _is_let_in(db: "psycopg.Connection[Any]", key: str) -> bool:
    """The key is known, and the service waits for the body."""
    sql = "SELECT last_used_at IS NOT NULL FROM fairpost.api_keys WHERE id = %s"
    return db.execute(sql, [key.split("_")[2]]).fetchone() == (True,)


def _is_refused(it: Running) -> bool:
    """No process accepts connections any more. The parent still holds the socket, so clients can connect and wait."""
    try:
        it.ask(timeout=0.5)
    except (TimeoutError, OSError):
        return True
    return False


async def test_a_database_may_go_away_and_come_back_and_processes_end_with_their_parent(
    url: str, environment: dict[str, str]
) -> None:
    loop = asyncio.get_running_loop()
    async with Proxy(url) as proxy:

        def on_wire(work: Coroutine[Any, Any, None]) -> None:
            asyncio.run_coroutine_threadsafe(work, loop).result(timeout=PROCESS_S_MAX)

        def story() -> None:
            key = key_of(environment)
            with running({**environment, "FAIRPOST_DATABASE_URL": proxy.url}, processes=1) as it:
                assert it.ask("/v1/workspace", key=key)[0] == 200
                pids = it.workers()
                on_wire(proxy.cut())
                for path in ("/readyz", "/v1/workspace", "/v1/emails", "/readyz"):
                    status, answer = it.ask(path, key=key)
                    assert (status, answer["error"]["code"]) == (503, "unavailable"), path  # type: ignore[index]
                assert it.ask("/healthz")[0] == 200
                on_wire(proxy.open())
                for path in ("/readyz", "/v1/workspace"):  # a region that was unavailable is not retried for a moment
                    until(lambda path=path: it.ask(path, key=key)[0] == 200, what=path)  # type: ignore[misc]
                assert it.workers() == pids
                told = [line.split()[2] for line in it.said if "Region main " in line]
                assert told == ["region.away", "region.answers_again"], it.said
                on_wire(proxy.cut())
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
                until(lambda: it.ask("/readyz")[0] == 503, what="a process that starts without its database")
                (started,) = it.workers()
                on_wire(proxy.open())
                until(lambda: it.ask("/readyz")[0] == 200, what="its database")
                assert it.workers() == {started}
                it.process.kill()
                it.process.wait(timeout=PROCESS_S_MAX)
                until(lambda: not is_alive(started), what="the end of an orphan")
                with pytest.raises(ConnectionRefusedError):
                    it.ask()
            assert "Traceback" not in "".join(it.said)

        await asyncio.to_thread(story)


def test_a_port_in_use_is_named_with_what_to_type(environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = Cli(environment).error("api", "--listen", f"127.0.0.1:{port}")
    assert missing(told, port, "fairpost api --listen") == []


def test_a_login_that_cannot_become_a_tenant_is_told_what_to_grant(
    environment: dict[str, str], url: str, server_url: str
) -> None:
    login = f"plain_{os.getpid()}"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE ROLE {login} LOGIN")
        conn.execute(f"CREATE DATABASE {login} OWNER {login}")
        try:
            parts = urlsplit(at_database(url, login))
            theirs = urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc.rpartition('@')[2]}"))
            plain = Cli({**environment, "FAIRPOST_DATABASE_URL": theirs})
            plain.ok("db", "migrate")
            told = plain.error("api", "--listen", "127.0.0.1:0")
            assert missing(told, f"GRANT fairpost_tenant TO {login}") == []
            conn.execute(f"GRANT fairpost_tenant TO {login}")
            plain.ok("db", "migrate")
            with running(plain.environment, processes=1) as it:
                assert it.ask("/v1/workspace", key=key_of(plain.environment))[0] == 200
        finally:
            conn.execute(f"DROP DATABASE {login} WITH (FORCE)")
            conn.execute(f"DROP ROLE {login}")


def test_the_document_needs_no_database() -> None:
    document = json.loads(Cli({"FAIRPOST_HOME": "/dev/null/home"}).ok("api", "--openapi"))
    assert document["openapi"].startswith("3.")
    assert "/v1/emails" in document["paths"]
