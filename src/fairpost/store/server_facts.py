"""Facts about the PostgreSQL server, for `fairpost doctor` and `fairpost db`. They are read on a connection of their own,
because the schema may be missing.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncpg


async def version(conn: "asyncpg.Connection") -> str:
    return str(await conn.fetchval("SHOW server_version")).split()[0]


async def settings(conn: "asyncpg.Connection", names: Sequence[str]) -> list[Any]:
    """Return each setting with the statement that resets it."""
    return list(await conn.fetch(_SETTINGS, list(names)))


async def sees_sessions(conn: "asyncpg.Connection") -> bool:
    return bool(await conn.fetchval("SELECT pg_has_role('pg_read_all_stats', 'USAGE')"))


async def is_standby(conn: "asyncpg.Connection") -> bool:
    return bool(await conn.fetchval("SELECT pg_is_in_recovery()"))


async def encoding(conn: "asyncpg.Connection") -> str:
    return str(await conn.fetchval("SHOW server_encoding"))


async def role(conn: "asyncpg.Connection") -> str:
    return str(await conn.fetchval("SELECT current_user"))


async def time(conn: "asyncpg.Connection") -> datetime:
    found: datetime = await conn.fetchval("SELECT clock_timestamp()")
    return found


async def transactions(conn: "asyncpg.Connection", *, older_than_s: float) -> list[Any]:
    """Return the transactions in this database. Those in other databases do not block cleanup in this database."""
    return list(await conn.fetch(_TRANSACTIONS, older_than_s))


async def prepared(conn: "asyncpg.Connection") -> list[Any]:
    return list(await conn.fetch(_PREPARED))


async def slots(conn: "asyncpg.Connection") -> list[Any]:
    return list(await conn.fetch(_SLOTS))


async def schema_version(conn: "asyncpg.Connection") -> int | None:
    if not await conn.fetchval("SELECT to_regclass('fairpost.migrations') IS NOT NULL"):
        return None
    found: int | None = await conn.fetchval("SELECT max(version) FROM fairpost.migrations")
    return found


async def size_bytes(conn: "asyncpg.Connection") -> int:
    return int(await conn.fetchval("SELECT pg_database_size(current_database())"))


async def engines_and_queue(conn: "asyncpg.Connection", *, seen_within: timedelta) -> Any:
    return await conn.fetchrow(
        """SELECT (SELECT count(*) FROM fairpost.engines e WHERE e.seen_at > clock_timestamp() - $1::interval) AS engines,
                  (SELECT coalesce(sum(w.waiting), 0)::bigint FROM fairpost.waiting_by_route() w) AS queued""",
        seen_within,
    )


_SETTINGS = """
SELECT s.name, s.setting, CASE s.source
    WHEN 'user' THEN format('ALTER ROLE %I RESET %I', session_user, s.name)
    WHEN 'database' THEN format('ALTER DATABASE %I RESET %I', current_database(), s.name)
    WHEN 'database user' THEN format('ALTER ROLE %I IN DATABASE %I RESET %I', session_user, current_database(), s.name)
    WHEN 'client' THEN format('take %s out of FAIRPOST_DATABASE_URL', s.name)
    ELSE format('ALTER SYSTEM RESET %I; then: SELECT pg_reload_conf()', s.name) END AS reset
FROM pg_settings s WHERE s.name = ANY ($1)
"""
_TRANSACTIONS = """
    SELECT a.pid, a.usename, a.application_name, a.state, extract(epoch FROM clock_timestamp() - a.xact_start)::float AS age_s
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.xact_start < clock_timestamp() - make_interval(secs => $1)
      AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL) AND a.backend_type = 'client backend'
    ORDER BY a.xact_start"""
_PREPARED = """
    SELECT p.gid, extract(epoch FROM clock_timestamp() - p.prepared)::float AS age_s FROM pg_prepared_xacts p
    WHERE p.database = current_database() ORDER BY p.prepared"""
_SLOTS = """
    SELECT s.slot_name, s.active,
           pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, s.restart_lsn)::bigint AS kept
    FROM pg_replication_slots s WHERE s.restart_lsn IS NOT NULL OR s.xmin IS NOT NULL ORDER BY 3 DESC NULLS LAST"""
