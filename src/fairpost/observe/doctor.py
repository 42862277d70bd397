"""Reads the facts for `fairpost doctor` about the machine, the server, the schema and the engines.

It changes nothing. If one query fails, for example for lack of privileges or because the schema is missing, the other
queries still run.
"""

import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg

from fairpost.model.errors import MigrationError
from fairpost.observe.domains import read_health
from fairpost.observe.guard import lineage_of
from fairpost.observe.status import read_facts
from fairpost.policy.findings import CheckedDomain, Disk, Engine, Environment, Holdback, Schema, Server
from fairpost.store import workspaces
from fairpost.store.applications import applications
from fairpost.store.connections import leads_through_pooler
from fairpost.store.migrations import pending
from fairpost.store.rights import missing_rights
from fairpost.store.store import Store
from fairpost.system import clock

if TYPE_CHECKING:
    from datetime import datetime

SETTINGS = (
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "autovacuum",
    "track_counts",
    "default_transaction_isolation",
    "default_transaction_read_only",
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
LOOKS_AT_THE_CLOCK = 3  # number of measurements, of which the shortest is the most precise
OPEN_S_MIN = 60  # transactions shorter than this are normal

_REFUSED = (asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedFunctionError, asyncpg.FeatureNotSupportedError)


def mode_of(path: Path) -> int | None:
    """Returns the file mode, or None if the file does not exist or is not accessible."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def disks_of(places: Sequence[tuple[str, Path]]) -> list[Disk]:
    """Returns the disks that hold these paths.

    If a path does not exist yet, the nearest existing parent directory is used.
    """
    found = []
    for what, path in places:
        there = next((folder for folder in (path, *path.parents) if folder.is_dir()), Path("/"))
        found.append(Disk(what=what, path=str(path), free_bytes=shutil.disk_usage(there).free))
    return found


async def read_server(conn: "asyncpg.Connection") -> Server:
    version = conn.get_server_version()
    rows = await conn.fetch(_SETTINGS, list(SETTINGS))
    return Server(
        version=(await conn.fetchval("SHOW server_version")).split()[0],
        major=version.major,
        settings={row["name"]: row["setting"] for row in rows},
        resets={row["name"]: row["reset"] for row in rows},
        skew_s=await _skew_s(conn),
        is_pooled=await leads_through_pooler(conn),
        sees_sessions=await conn.fetchval("SELECT pg_has_role('pg_read_all_stats', 'USAGE')"),
        is_standby=await conn.fetchval("SELECT pg_is_in_recovery()"),
        encoding=await conn.fetchval("SHOW server_encoding"),
        transactions=await _transactions(conn),
        prepared=await _prepared(conn),
        slots=await _slots(conn),
    )


async def _skew_s(conn: "asyncpg.Connection") -> float:
    looks = []
    for _ in range(LOOKS_AT_THE_CLOCK):
        before = clock.now()
        there: datetime = await conn.fetchval("SELECT clock_timestamp()")
        took = clock.now() - before
        looks.append((took, (there - before - took / 2).total_seconds()))
    return min(looks)[1]


async def _transactions(conn: "asyncpg.Connection") -> list[Holdback]:
    """Returns the transactions in this database. Those in other databases do not block cleanup in this database."""
    rows = await conn.fetch(
        """SELECT a.pid, a.usename, a.application_name, a.state, extract(epoch FROM clock_timestamp() - a.xact_start)::float AS age_s
           FROM pg_stat_activity a
           WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.xact_start < clock_timestamp() - make_interval(secs => $1)
             AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL) AND a.backend_type = 'client backend'
           ORDER BY a.xact_start""",
        float(OPEN_S_MIN),
    )
    return [
        Holdback(
            what=f"a transaction of {row['usename']}{_of_program(row)} (process {row['pid']}, {row['state']})",
            age_s=row["age_s"],
            then=f"end it in its application, or: SELECT pg_terminate_backend({row['pid']})",
        )
        for row in rows
    ]


def _of_program(row: Any) -> str:
    return f" by {row['application_name']}" if row["application_name"] else ""


async def _prepared(conn: "asyncpg.Connection") -> list[Holdback]:
    rows = await conn.fetch(
        """SELECT p.gid, extract(epoch FROM clock_timestamp() - p.prepared)::float AS age_s FROM pg_prepared_xacts p
           WHERE p.database = current_database() ORDER BY p.prepared"""
    )
    return [
        Holdback(
            what=f"the prepared transaction {row['gid']}",
            age_s=row["age_s"],
            then="end it with COMMIT PREPARED or ROLLBACK PREPARED",
        )
        for row in rows
    ]


async def _slots(conn: "asyncpg.Connection") -> list[Holdback]:
    try:
        rows = await conn.fetch(
            """SELECT s.slot_name, s.active,
                   pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, s.restart_lsn)::bigint AS kept
               FROM pg_replication_slots s WHERE s.restart_lsn IS NOT NULL OR s.xmin IS NOT NULL ORDER BY 3 DESC NULLS LAST"""
        )
    except _REFUSED:
        return []
    return [
        Holdback(
            what=f"the {'active' if row['active'] else 'abandoned'} slot {row['slot_name']}",
            kept_bytes=row["kept"] or 0,
            then=f"restart its reader, or: SELECT pg_drop_replication_slot('{row['slot_name']}')",
        )
        for row in rows
    ]


async def read_schema(conn: "asyncpg.Connection") -> Schema:
    role = await conn.fetchval("SELECT current_user")
    missing = await missing_rights(conn)
    try:
        return Schema(role=role, pending=await pending(conn), missing=missing)
    except MigrationError as error:
        return Schema(role=role, trouble=str(error), missing=missing)
    except asyncpg.InsufficientPrivilegeError:
        return Schema(role=role, is_readable=False, missing=missing)


async def read_engine(
    store: Store,
    home: Path,
    *,
    unopenable: Sequence[str] = (),
    environment: Environment | None = None,
    service_pool: str = "default",
    own_workspace: str | None = None,
) -> Engine:
    """Reads the facts about engines. `own_workspace` is the operator's workspace, which may send through any pool."""
    facts = await read_facts(store)
    lineage, sees_identity = await lineage_of(store, home)
    return Engine(
        facts=facts,
        lineage=lineage,
        sees_identity=sees_identity,
        unopenable=unopenable,
        environment=environment,
        shut_out=[each.login for each in await applications(store) if not each.is_let_in],
        borrowers=[name for name in await workspaces.borrowers(store, service_pool) if name != own_workspace],
        service_pool=service_pool,
        domains=[
            CheckedDomain(
                workspace=each.workspace,
                domain=each.domain,
                findings=each.findings,
                is_own=each.workspace == own_workspace,
            )
            for each in await read_health(store)
        ],
    )
