"""Empty databases with the newest schema, used by one test after another.

Copying one costs 20 ms of CPU, dropping it 10, and what its first connection reads, compiles and plans up to 50 more.
So a database is emptied after its test, and its connections are kept for the next one (tests/lasting.py). If a change
cannot be undone by emptying, the database is dropped: a change of the schema, ANALYZE, database settings.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from tests.lasting import EMPTIED_PREFIX, Lasting

# Deleted rows leave space behind, so a table that is larger than this is truncated instead. That takes longer, and each
# connection has to plan its queries again.
DELETED_BYTES_MAX = 8 * 8192

OTHERS_S_MAX = 60  # until all others have disconnected; only guards against waiting forever

_TABLES = """
    SELECT 'fairpost.' || quote_ident(relname), pg_relation_size(oid) FROM pg_class
    WHERE relnamespace = 'fairpost'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
"""

# Every schema change is recorded, by any session; temporary tables do not count.
_WATCH = """
    CREATE TABLE watched.changes (what text);
    CREATE FUNCTION watched.note_change() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        INSERT INTO watched.changes SELECT tg_tag FROM pg_event_trigger_ddl_commands() c WHERE c.schema_name IS DISTINCT FROM 'pg_temp';
    END $$;
    CREATE FUNCTION watched.note_drop() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        INSERT INTO watched.changes SELECT tg_tag FROM pg_event_trigger_dropped_objects() d WHERE NOT d.is_temporary;
    END $$;
    CREATE EVENT TRIGGER changed ON ddl_command_end EXECUTE FUNCTION watched.note_change();
    CREATE EVENT TRIGGER dropped ON sql_drop EXECUTE FUNCTION watched.note_drop();
"""
_IS_CHANGED = """
    SELECT EXISTS (SELECT FROM watched.changes)
        OR EXISTS (SELECT FROM pg_class WHERE relnamespace = 'fairpost'::regnamespace AND relkind = 'r' AND reltuples >= 0)
        OR EXISTS (SELECT FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
                   WHERE d.datname = current_database())
"""

_END_OTHERS = f"""
    SELECT pg_terminate_backend(pid, {OTHERS_S_MAX * 1000}) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND pid <> ALL (%s)
"""

_RESTART = """
    SELECT setval(seqrelid, seqstart, false) FROM pg_sequence WHERE pg_sequence_last_value(seqrelid) IS NOT NULL
"""


def _sown(table: str) -> str:
    """The table in which its initial rows are kept."""
    return f"watched.{table.removeprefix('fairpost.')}"


def at_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def _name(url: str) -> str:
    return urlsplit(url).path[1:]


class Databases:
    def __init__(self, server_url: str, *, copying: str, lasting: Lasting) -> None:
        self._server_url = server_url
        self._copying = copying
        self._lasting = lasting
        self._conn = psycopg.connect(server_url, autocommit=True)
        self._made = 0
        self._empty: list[Emptied] = []
        self._drop("watched")
        with psycopg.connect(self._copy("pattern", "watched"), autocommit=True) as conn:
            self._seeds = [table for table, _ in conn.execute(_TABLES)]  # tables with rows from the migrations
            conn.execute("CREATE SCHEMA watched")
            for table in self._seeds:
                conn.execute(f"CREATE TABLE {_sown(table)} AS TABLE {table}")
            conn.execute(_WATCH)

    @contextmanager
    def new(self) -> Iterator[str]:
        """A database with the newest schema and no data."""
        database = self._empty.pop() if self._empty else Emptied(self._copy("watched"), seeds=self._seeds)
        try:
            yield database.url
        finally:
            try:
                is_empty = database.empty(self._lasting.backends(database.url))
            except psycopg.OperationalError:  # the test has cut this connection as well
                is_empty = False
            if is_empty:
                self._empty.append(database)
            else:
                database.close()
                self._lasting.forget(database.url)
                self._drop(_name(database.url))

    @contextmanager
    def fresh(self, template: str = "pattern") -> Iterator[str]:
        """A copy for one test alone. `template1` is without our schema."""
        url = self._copy(template, f"fresh_{self._made}")
        self._conn.execute(f"ALTER DATABASE {_name(url)} SET plan_cache_mode = auto")
        try:
            yield url
        finally:
            self._drop(_name(url))

    def close(self) -> None:
        for database in self._empty:
            database.close()
            self._lasting.forget(database.url)
            self._drop(_name(database.url))
        self._drop("watched")
        self._conn.close()

    def _copy(self, template: str, name: str = "") -> str:
        self._made += 1
        name = name or f"{EMPTIED_PREFIX}{self._made}"
        self._conn.execute(f"CREATE DATABASE {name} TEMPLATE {template} {self._copying}")
        return at_database(self._server_url, name)

    def _drop(self, name: str) -> None:
        self._conn.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


class Emptied:
    """A database that is emptied after each of its tests."""

    def __init__(self, url: str, *, seeds: list[str]) -> None:
        self.url = url
        self._conn = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self._conn.execute("SET session_replication_role = replica")  # disables triggers and foreign keys
        self._seeds = seeds
        self._sown = self._all(self._rows_sql(map(_sown, seeds)))

    def empty(self, kept: Collection[int]) -> bool:
        """Returns False if emptying would not restore it. These backends may stay; the others are ended."""
        self._all(_END_OTHERS, list(kept))
        if self._all(_IS_CHANGED) == [(True,)]:
            return False
        sizes = {table: size for table, size in self._all(_TABLES) if table not in self._seeds}
        if large := [table for table, size in sizes.items() if size > DELETED_BYTES_MAX]:
            self._conn.execute(f"TRUNCATE {', '.join(large)} CASCADE", prepare=False)
        with self._conn.pipeline():
            for table in sizes.keys() - set(large):
                self._conn.execute(f"DELETE FROM {table}")
            self._conn.execute(_RESTART)
        if self._all(self._rows_sql(self._seeds)) != self._sown:
            for table in self._seeds:
                self._conn.execute(f"DELETE FROM {table}")
                self._conn.execute(f"INSERT INTO {table} TABLE {_sown(table)}")
        return True

    def close(self) -> None:
        self._conn.close()

    def _rows_sql(self, tables: Iterable[str]) -> str:
        return "SELECT " + ", ".join(
            f"(SELECT string_agg(t::text, ';' ORDER BY t::text) FROM {each} t)" for each in tables
        )

    def _all(self, sql: str, *args: Any) -> list[Any]:
        return self._conn.execute(sql, args or None).fetchall()
