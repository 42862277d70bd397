"""Install the schema. Apply each numbered migration once and replace the functions whenever their text changes.

An applied migration is never edited, and its checksum is kept. Errors are corrected in a later migration. Functions
live in separate files, one per operation, and are always replaced as a complete set.
"""

import asyncio
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable

import asyncpg

from fairpost.model.errors import MigrationError, Outgrown
from fairpost.model.reason import Reason
from fairpost.model.rights import MissingRight
from fairpost.store.connections import allow
from fairpost.store.rights import missing_of_tenant, right_to_lay, ungranted, ungranted_to_applications
from fairpost.system import clock

SQL = files("fairpost.store") / "sql"
FUNCTION_FOLDERS = (
    *("base", "events", "accept", "release", "settle", "campaigns", "observe", "auth", "forget", "service"),
    "rights",  # created after everything they refer to
)
OLDEST_SERVER = 14

TAKE_S_MAX = 0.4  # how long other transactions may queue up behind us for the tables; the changes themselves are fast
LET_THROUGH_S = 0.6
PATIENCE_S = 120.0

_LOCK = 0x66616972706F7374  # the bytes of "fairpost"; one process migrates while the others wait

_LEDGER = """
CREATE TABLE IF NOT EXISTS fairpost.migrations (
    version    integer PRIMARY KEY,   -- 0: the functions
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
"""

# Checksums of earlier versions that are also accepted, because the migration was corrected before its release. Only
# sessions that are open during the migration need the objects that the earlier version dropped by mistake.
CORRECTED = {36: "100a1157eb675969353e83a3688e24399ea720a35b562988864e98e7ffa89583"}


@dataclass(frozen=True)
class Migration:
    version: int
    name: str
    sql: str

    @cached_property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of one call to `migrate`.

    `missing` lists privileges that only an administrator can grant; until then, `fairpost api` does not start.
    """

    migrations: tuple[str, ...]
    functions: bool
    missing: tuple[MissingRight, ...] = ()


@cache
def known_migrations() -> tuple[Migration, ...]:
    found = []
    for file in (SQL / "migrations").iterdir():
        if match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name):
            found.append(Migration(int(match[1]), match[2], file.read_text("utf-8")))
    return tuple(sorted(found, key=lambda migration: migration.version))


@cache
def functions() -> Migration:
    text = "\n".join(file.read_text("utf-8") for folder in FUNCTION_FOLDERS for file in _sql_files(folder))
    return Migration(0, "functions", text)


def _sql_files(folder: str) -> Iterator[Traversable]:
    yield from sorted((f for f in (SQL / folder).iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)


async def migrate(conn: asyncpg.Connection, *, up_to: int | None = None, patience_s: float = PATIENCE_S) -> Applied:
    """Bring the schema up to date, completely or not at all. Idempotent. The functions require the newest schema.

    Applications that enqueue in the meantime wait only briefly. If another transaction holds the tables, we let all
    transactions that have queued up behind us continue before we try again.
    """
    _require_version(conn.get_server_version().major)
    # No time limit, because tables can be of any size and the caller can see that the migration is running.
    allow(conn, None)
    deadline_s = clock.monotonic() + patience_s
    while True:
        try:
            return await _migrate(conn, up_to)
        except asyncpg.QueryCanceledError:
            if clock.monotonic() > deadline_s:
                raise MigrationError(await _who_holds_it(conn), next_step=Reason("step.migrate")) from None
        await asyncio.sleep(LET_THROUGH_S)


async def _migrate(conn: asyncpg.Connection, up_to: int | None) -> Applied:
    wanted = [m for m in known_migrations() if up_to is None or m.version <= up_to]
    async with conn.transaction():
        await conn.execute("SET LOCAL client_min_messages = warning")
        await conn.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        await _lay_ledger(conn)
        ledger = await _ledger(conn)
        _check(ledger, wanted)
        new = [m for m in wanted if m.version not in ledger]
        if ledger and (tables := _altered(new)):
            await _take(conn, tables)
        for migration in new:
            await conn.execute(migration.sql)
            await _note(conn, migration)
        is_newest = len(wanted) == len(known_migrations())
        relaid = is_newest and (bool(new) or ledger.get(0) != functions().checksum or await _is_ungranted(conn))
        if relaid:
            await _lay_functions(conn)
        missing = await missing_of_tenant(conn) if is_newest else []
    return Applied(tuple(f"{m.version:04} {m.name}" for m in new), relaid, tuple(missing))


async def _is_ungranted(conn: asyncpg.Connection) -> bool:
    return bool(await ungranted(conn) or await ungranted_to_applications(conn))


async def _lay_ledger(conn: asyncpg.Connection) -> None:
    """Create the schema and its ledger if they are missing.

    CREATE SCHEMA IF NOT EXISTS requires a privilege on the whole database even if the schema exists.
    """
    if missing := await right_to_lay(conn):
        raise MigrationError(
            f"This login is not allowed to create the schema fairpost. Nothing was changed. As an administrator of the database, run: {missing.sql}.",
            next_step=Reason("step.migrate"),
        )
    if await conn.fetchval("SELECT to_regnamespace('fairpost') IS NULL"):
        await conn.execute("CREATE SCHEMA fairpost")
    await conn.execute(_LEDGER)


def _altered(new: Sequence[Migration]) -> list[str]:
    """Return the existing tables that must be locked exclusively."""
    text = "\n".join(migration.sql for migration in new)
    made = set(re.findall(r"CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(fairpost\.\w+)", text))
    return sorted(set(re.findall(r"ALTER TABLE (?:ONLY )?(fairpost\.\w+)", text)) - made)


async def _take(conn: asyncpg.Connection, tables: Sequence[str]) -> None:
    """Lock all of these tables or none of them, so that other transactions never wait long."""
    await conn.execute(f"SET LOCAL statement_timeout = {round(TAKE_S_MAX * 1000)}")
    await conn.execute(f"LOCK TABLE {', '.join(tables)}")
    await conn.execute("SET LOCAL statement_timeout = 0")


async def _who_holds_it(conn: asyncpg.Connection) -> str:
    held = await conn.fetchrow(
        """SELECT a.pid, a.usename, a.application_name, a.xact_start FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_stat_activity a ON a.pid = l.pid
           WHERE c.relnamespace = 'fairpost'::regnamespace AND l.granted AND a.pid <> pg_backend_pid() ORDER BY a.xact_start LIMIT 1"""
    )
    whose = (
        f"the transaction of {held['usename']} (process {held['pid']}), open since {held['xact_start']:%H:%M:%S},"
        if held
        else "A transaction"
    )
    return f"{whose[0].upper()}{whose[1:]} locks tables that must be changed. Nothing was changed. End the transaction, then try again."


async def pending(conn: asyncpg.Connection) -> list[str]:
    """List what `migrate` would do. The list is empty if the schema is up to date."""
    if await conn.fetchval("SELECT to_regclass('fairpost.migrations')") is None:
        return [f"{m.version:04} {m.name}" for m in known_migrations()]
    ledger = await _ledger(conn)
    _check(ledger, known_migrations())
    todo = [f"{m.version:04} {m.name}" for m in known_migrations() if m.version not in ledger]
    return todo + (["functions"] if ledger.get(0) != functions().checksum else [])


def require_known(newest: int) -> None:
    """Raise an error if a newer version created the schema, because this version may misinterpret it."""
    if newest > known_migrations()[-1].version:
        raise unknown(newest)


def unknown(version: int) -> Outgrown:
    return Outgrown(
        f"The database contains migration {version:04}, which this version of Fairpost does not know. A newer version "
        "created it. Nothing was changed. Upgrade Fairpost: pip install --upgrade fairpost"
    )


def _require_version(major: int) -> None:
    if major < OLDEST_SERVER:
        raise MigrationError(f"PostgreSQL {major} is too old: Fairpost needs {OLDEST_SERVER} or newer.")


async def _ledger(conn: asyncpg.Connection) -> dict[int, str]:
    return {row["version"]: row["checksum"] for row in await conn.fetch("SELECT * FROM fairpost.migrations")}


def _check(ledger: dict[int, str], wanted: Sequence[Migration]) -> None:
    known = {m.version for m in known_migrations()}
    by_version = {m.version: m for m in wanted}
    for version, checksum in sorted(ledger.items()):
        if version == 0:
            continue
        if version not in known:
            raise unknown(version)
        if version in by_version and checksum not in (by_version[version].checksum, CORRECTED.get(version)):
            raise MigrationError(
                f"Migration {version:04} {by_version[version].name} differs from the one applied to this "
                "database. Nothing was changed. Reinstall Fairpost: pip install --force-reinstall fairpost"
            )


async def _lay_functions(conn: asyncpg.Connection) -> None:
    laid = functions()
    await conn.execute("SET LOCAL check_function_bodies = off")  # they call each other
    await conn.execute(laid.sql)
    await conn.execute("SELECT fairpost.make_partitions()")
    await _note(conn, laid)


async def _note(conn: asyncpg.Connection, migration: Migration) -> None:
    await conn.execute(
        """INSERT INTO fairpost.migrations (version, name, checksum) VALUES ($1, $2, $3)
           ON CONFLICT (version) DO UPDATE SET checksum = excluded.checksum, applied_at = clock_timestamp()""",
        migration.version,
        migration.name,
        migration.checksum,
    )
