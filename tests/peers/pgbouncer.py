"""PgBouncer in transaction mode in front of a test PostgreSQL: no client keeps a session for longer than a transaction.

    with pgbouncer(url) as through, sessions(through(url)) as left_behind:
        connect_to(through(url))
        assert left_behind() == []

It serves every database of the server. All clients of one database share a few sessions, which take turns: each
transaction of a client runs in a different session than the one before.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import psycopg

from fairpost.store.identity import choose_identity
from tests.peers.fetch import PeerMissing, Software, require
from tests.peers.process import HOST, free_port, running

KEEPS_STATEMENTS = (1, 21)  # the first version that supports prepared statements in transaction mode
STATEMENTS_KEPT = 200
SESSIONS = 3

CONFIGURATION = """
[databases]
* = host={host} port={server_port} user={user}
[pgbouncer]
listen_addr = {address}
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
server_round_robin = 1
max_client_conn = 500
"""

Through = Callable[[str], str]


def why_not(*, keeps_statements: bool = False) -> str | None:
    """Returns the reason to skip a test, or None if it can run."""
    try:
        version = version_of(require("pgbouncer"))
    except PeerMissing as missing:
        return str(missing)
    if keeps_statements and version < KEEPS_STATEMENTS:
        return f"PgBouncer {'.'.join(map(str, version))} keeps no prepared statements in transaction mode; 1.21 does"
    return None


@cache
def version_of(software: Software) -> tuple[int, ...]:
    command = [str(software.root / software.program("pgbouncer")), "--version"]
    done = subprocess.run(command, env=software.environment(), capture_output=True, text=True, check=True)
    found = re.match(r"PgBouncer (\d+)\.(\d+)", done.stdout)
    assert found is not None, done.stdout
    return tuple(map(int, found.groups()))


@contextmanager
def pgbouncer(url: str, *, pool_size: int = SESSIONS, keeps_statements: bool = False) -> Iterator[Through]:
    """Yields a function that converts a database's URL to one that leads through PgBouncer. It refuses to run as root,
    like PostgreSQL, and the same workaround applies."""
    software, parts, port = require("pgbouncer"), urlsplit(url), free_port()
    options = {name: values[0] for name, values in parse_qs(parts.query).items()}
    with psycopg.connect(url) as conn:
        data_dir = Path(str(conn.execute("SHOW data_directory").fetchone()[0]))  # type: ignore[index]
    settings = CONFIGURATION.format(
        host=options.get("host") or parts.hostname,
        server_port=options.get("port") or parts.port or 5432,
        user=parts.username,
        address=HOST,
        port=port,
        pool_size=pool_size,
    )
    if version_of(software) >= KEEPS_STATEMENTS:
        settings += f"max_prepared_statements = {STATEMENTS_KEPT if keeps_statements else 0}\n"
    with tempfile.TemporaryDirectory(prefix="fp-bouncer-") as folder:
        ini = Path(folder, "pgbouncer.ini")
        ini.write_text(settings)
        identity = choose_identity(data_dir.parent, data_dir)
        command = [*identity.prefix, str(software.root / software.program("pgbouncer")), "-q", str(ini)]
        log = Path(folder, "log")
        environment = software.environment()
        with running(command, name="pgbouncer", ports=[port], log=log, environment=environment, cwd=Path(folder)):
            netloc = f"{parts.username}@{HOST}:{port}"
            rest = urlencode({name: value for name, value in options.items() if name not in ("host", "port")})
            yield lambda to: urlunsplit(urlsplit(to)._replace(netloc=netloc, query=rest))


# PgBouncer sets these itself, to the values of the current client.
OF_THE_CLIENT = ["application_name", "client_encoding", "DateStyle", "IntervalStyle", "TimeZone"]
LEFT_BEHIND = """
SELECT 'statement ' || s.statement FROM pg_prepared_statements s
UNION ALL SELECT 'cursor ' || c.name FROM pg_cursors c WHERE c.name <> ''
UNION ALL SELECT 'listens to ' || c FROM pg_listening_channels() c
UNION ALL SELECT 'table ' || c.relname FROM pg_class c WHERE c.relnamespace = pg_my_temp_schema()
UNION ALL SELECT 'lock ' || l.objid FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory'
UNION ALL SELECT 'role ' || current_user WHERE current_user <> session_user
UNION ALL SELECT 'setting ' || s.name || ' = ' || s.setting FROM pg_settings s
    WHERE s.source = 'session' AND s.setting IS DISTINCT FROM s.reset_val AND NOT s.name = ANY (%s)
"""


@contextmanager
def sessions(url: str, *, pool_size: int = SESSIONS) -> Iterator[Callable[[], list[str]]]:
    """Opens all sessions of a database. Yields a function that returns what clients have left in them, once they are
    idle."""

    def client() -> "psycopg.Connection[Any]":
        return psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor)  # prepares nothing itself

    with ExitStack() as stack:
        clients = [stack.enter_context(client()) for _ in range(pool_size)]
        for each in clients:
            each.execute("BEGIN")
        for each in clients:
            each.execute("COMMIT")

        def left_behind() -> list[str]:
            found: dict[int, list[str]] = {}
            while len(found) < pool_size:
                with clients[0].transaction():
                    (pid,) = clients[0].execute("SELECT pg_backend_pid()").fetchone() or (0,)
                    found[pid] = [row[0] for row in clients[0].execute(LEFT_BEHIND, (OF_THE_CLIENT,))]
            return [each for those in found.values() for each in those]

        yield left_behind
