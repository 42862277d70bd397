"""The service as real processes: replaced, killed, stopped, and without its database for a while."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from fairpost.postgres.embedded import EmbeddedServer
from fairpost.postgres.postmaster import is_alive
from tests.cli.conftest import PROCESS_S_MAX, PROGRAM, Cli, new_home, process_environment, until
from tests.conftest import TEST_SETTINGS, at_database

pytestmark = pytest.mark.slow

READY = re.compile(r"ready: .* http://127\.0\.0\.1:([0-9]+)")


@dataclass(slots=True)
class Running:
    process: "subprocess.Popen[str]"
    port: int
    said: list[str] = field(default_factory=list)

    def workers(self) -> set[int]:
        """The processes that answer; not the one of Python's own that cleans up after them."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return {int(pid) for pid in children if is_alive(int(pid)) and b"spawn_main" in _command(int(pid))}

    def ask(
        self, path: str = "/healthz", *, key: str | None = None, timeout: float = PROCESS_S_MAX
    ) -> tuple[int, dict[str, object]]:
        """On a connection of its own."""
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
def running(environment: dict[str, str], *, processes: int = 2) -> Iterator[Running]:
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
    return {"FAIRPOST_DATABASE_URL": url, "FAIRPOST_HOME": str(tmp_path / "home")}


def key_of(environment: dict[str, str]) -> str:
    cli = Cli(environment)
    cli.ok("workspace", "add", "acme")
    return str(cli.json("key", "add", "acme")["key"])


def test_a_replacement_under_load_fails_no_request(environment: dict[str, str]) -> None:
    with running(environment) as it:
        before = it.workers()
        assert len(before) == 2
        is_over = threading.Event()
        answers: list[int] = []
        failures: list[BaseException] = []

        def load() -> None:
            while not is_over.is_set():
                try:
                    answers.append(it.ask("/readyz")[0])
                except Exception as error:
                    failures.append(error)

        clients = [threading.Thread(target=load) for _ in range(4)]
        for client in clients:
            client.start()
        it.process.send_signal(signal.SIGHUP)
        try:
            until(lambda: len(it.workers()) == 2 and not it.workers() & before, what="new processes")
        finally:
            is_over.set()
            for client in clients:
                client.join()
        assert failures == []
        assert set(answers) == {200}
        assert len(answers) > 20
    assert it.process.returncode == 0
    assert it.said == []


def test_the_killed_are_replaced_and_follow_their_parent(environment: dict[str, str]) -> None:
    with running(environment) as it:
        before = it.workers()
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        until(lambda: len(it.workers()) == 2 and victim not in it.workers(), what="a new process")
        assert it.ask()[0] == 200
        orphans = it.workers()
        it.process.kill()
        it.process.wait(timeout=PROCESS_S_MAX)
        for pid in orphans:
            until(lambda pid=pid: not is_alive(pid), what="the end of an orphan")  # type: ignore[misc]
        with pytest.raises(ConnectionRefusedError):
            it.ask()


def _is_let_in(environment: dict[str, str]) -> bool:
    """The key is known, and the body is waited for."""
    with psycopg.connect(environment["FAIRPOST_DATABASE_URL"]) as conn:
        return conn.execute("SELECT last_used_at IS NOT NULL FROM fairpost.api_keys").fetchone() == (True,)


def _queued(environment: dict[str, str]) -> int:
    with psycopg.connect(environment["FAIRPOST_DATABASE_URL"]) as conn:
        (n,) = conn.execute("SELECT count(*) FROM fairpost.queue").fetchone() or (0,)
    return int(n)


def _is_enqueueing(environment: dict[str, str]) -> bool:
    """A transaction that has written something, and is still open."""
    with psycopg.connect(environment["FAIRPOST_DATABASE_URL"]) as conn:
        sql = "SELECT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datname = current_database() AND a.backend_xid IS NOT NULL AND a.query LIKE '%fairpost.submit%')"
        return conn.execute(sql).fetchone() == (True,)


def test_killed_while_it_enqueues_all_are_there_or_none_and_the_same_again_makes_none_twice(
    environment: dict[str, str],
) -> None:
    lines = 20_000
    key = key_of(environment)
    body = b'{"to": "ann@example.com", "subject": "Hello", "text": "Hi"}\n' * lines
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/x-ndjson", "Idempotency-Key": "june"}
    with running(environment) as it:
        before = it.workers()
        dying = http.client.HTTPConnection("127.0.0.1", it.port, timeout=PROCESS_S_MAX)
        dying.request("POST", "/api/emails/bulk", body=body, headers=headers)
        until(lambda: _is_enqueueing(environment), what="the enqueueing")
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            dying.getresponse()
        dying.close()
        until(lambda: len(it.workers() - before) == 2, what="others in their place")
        until(lambda: not _is_enqueueing(environment), what="the end of what was begun")
        assert _queued(environment) in (0, lines)
        again = http.client.HTTPConnection("127.0.0.1", it.port, timeout=PROCESS_S_MAX)
        for _ in range(2):
            again.request("POST", "/api/emails/bulk", body=body, headers=headers)
            answer = again.getresponse()
            assert answer.status == 200
            answer.read()
        again.close()
        assert _queued(environment) == lines


def test_what_is_under_way_is_answered_before_the_end(environment: dict[str, str]) -> None:
    key = key_of(environment)
    body = b'{"to": "ann@example.com", "subject": "Hello", "text": "Hi"}\n'
    with running(environment) as it, socket.create_connection(("127.0.0.1", it.port), timeout=PROCESS_S_MAX) as conn:
        head = (
            f"POST /api/emails/bulk HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        conn.sendall(head.encode() + body[:10])
        until(lambda: _is_let_in(environment), what="the request to be let in")
        it.process.send_signal(signal.SIGTERM)
        until(lambda: _is_refused(it), what="the end of new connections")
        conn.sendall(body[10:])
        answer = b""
        while piece := conn.recv(65_536):
            answer += piece
        assert b" 200 " in answer.partition(b"\r\n")[0]
        assert b'"accepted":1' in answer
        assert it.process.wait(timeout=PROCESS_S_MAX) == 0


def _is_refused(it: Running) -> bool:
    """Nobody accepts any more: the parent still holds the socket, so one may connect, and wait."""
    try:
        it.ask(timeout=0.5)
    except (TimeoutError, OSError):
        return True
    return False


def test_a_database_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    with new_home() as home:
        server = EmbeddedServer(home, settings=TEST_SETTINGS)
        environment = {"FAIRPOST_DATABASE_URL": server.start(), "FAIRPOST_HOME": str(tmp_path / "home")}
        Cli(environment).ok("db", "migrate")
        key = key_of(environment)
        with running(environment, processes=1) as it:
            assert it.ask("/api/workspace", key=key)[0] == 200
            pids = it.workers()
            server.stop("immediate")
            for path in ("/readyz", "/api/workspace", "/api/emails", "/readyz"):
                status, answer = it.ask(path, key=key)
                assert (status, answer["error"]["code"]) == (503, "unavailable"), path  # type: ignore[index]
            assert it.ask("/healthz")[0] == 200
            server.start()
            for path in ("/readyz", "/api/workspace"):  # a region that was away is left alone for a moment
                until(lambda path=path: it.ask(path, key=key)[0] == 200, what=path)  # type: ignore[misc]
            assert it.workers() == pids
        assert [re.sub(": .*", "", line).strip() for line in it.said] == [
            "Region main does not answer",
            "Region main answers again",
        ]


def test_what_is_wrong_at_the_start_says_what_to_type(environment: dict[str, str], url: str, server_url: str) -> None:
    with running(environment, processes=1) as it:
        told = Cli(environment).run("api", "--listen", f"127.0.0.1:{it.port}", code=1)
        assert "in use" in told
        assert "fairpost api --listen" in told
    login = f"plain_{os.getpid()}"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE ROLE {login} LOGIN")
        conn.execute(f"CREATE DATABASE {login} OWNER {login}")
        try:
            parts = urlsplit(at_database(url, login))
            theirs = urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc.rpartition('@')[2]}"))
            plain = Cli({**environment, "FAIRPOST_DATABASE_URL": theirs})
            plain.run("db", "migrate")
            told = plain.run("api", "--listen", "127.0.0.1:0", code=1)
            assert f"GRANT fairpost_tenant TO {login}" in told
            conn.execute(f"GRANT fairpost_tenant TO {login}")
            plain.run("db", "migrate")
            with running(plain.environment, processes=1) as it:
                assert it.ask("/api/workspace", key=key_of(plain.environment))[0] == 200
        finally:
            conn.execute(f"DROP DATABASE {login} WITH (FORCE)")
            conn.execute(f"DROP ROLE {login}")


def test_the_document_needs_no_database() -> None:
    document = json.loads(Cli({"FAIRPOST_HOME": "/nonexistent"}).run("api", "--openapi"))
    assert document["openapi"].startswith("3.")
    assert "/api/emails" in document["paths"]
