"""Reads the facts for `fairpost doctor` about the machine, the server, the schema and the engines.

It changes nothing. If one query fails, for example for lack of privileges or because the schema is missing, the other
queries still run.
"""

import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg

from fairpost.model.errors import MigrationError
from fairpost.observe.domains import read_health
from fairpost.observe.guard import lineage_of
from fairpost.observe.status import read_facts
from fairpost.policy.findings import CheckedDomain, Disk, Engine, Environment, Holdback, Schema, Server
from fairpost.store import server_facts, workspaces
from fairpost.store.applications import applications
from fairpost.store.connections import leads_through_pooler
from fairpost.store.migrations import pending
from fairpost.store.rights import missing_rights
from fairpost.store.store import Store
from fairpost.system import clock

SETTINGS = (
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "autovacuum",
    "track_counts",
    "default_transaction_isolation",
    "default_transaction_read_only",
)
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
    rows = await server_facts.settings(conn, SETTINGS)
    return Server(
        version=await server_facts.version(conn),
        major=version.major,
        settings={row["name"]: row["setting"] for row in rows},
        resets={row["name"]: row["reset"] for row in rows},
        skew_s=await _skew_s(conn),
        is_pooled=await leads_through_pooler(conn),
        sees_sessions=await server_facts.sees_sessions(conn),
        is_standby=await server_facts.is_standby(conn),
        encoding=await server_facts.encoding(conn),
        transactions=await _transactions(conn),
        prepared=await _prepared(conn),
        slots=await _slots(conn),
    )


async def _skew_s(conn: "asyncpg.Connection") -> float:
    looks = []
    for _ in range(LOOKS_AT_THE_CLOCK):
        before = clock.now()
        there = await server_facts.time(conn)
        took = clock.now() - before
        looks.append((took, (there - before - took / 2).total_seconds()))
    return min(looks)[1]


async def _transactions(conn: "asyncpg.Connection") -> list[Holdback]:
    """Returns the transactions in this database. Those in other databases do not block cleanup in this database."""
    rows = await server_facts.transactions(conn, older_than_s=OPEN_S_MIN)
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
    rows = await server_facts.prepared(conn)
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
        rows = await server_facts.slots(conn)
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
    role = await server_facts.role(conn)
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
