"""Every kind of login calls every function of the schema, with everything of another workspace."""

from collections.abc import Iterator

import asyncpg
import psycopg
import pytest

from fairpost.model.urls import as_login
from fairpost.store.store import Store
from tests.api.neighbours import B, Neighbours, neighbourhood
from tests.api.test_walls import ATTACKS
from tests.attack.logins import LOGINS, READS_EVERYTHING
from tests.databases import Databases

pytestmark = [pytest.mark.attack, pytest.mark.slow]

DENIED = "42501"
NO_SUCH_FUNCTION = "42883"
FOR_APPLICATIONS = {
    "events_after",
    "events_end",
    "enqueue",
    "enqueue_many",
    "put_content",
    "status",
    "find",
    "cancel",
    "set_sender",
    "public_id",
    "private_id",
}
ARGUMENTS_MAX = 20


@pytest.fixture(scope="module")
def settled(databases: Databases) -> Iterator[tuple[str, Neighbours]]:
    """One database for all logins, because their attempts must change nothing."""
    with neighbourhood(databases) as (url, neighbours), psycopg.connect(url, autocommit=True) as conn:
        for name, workspaces in LOGINS.items():
            conn.execute(f"CREATE ROLE {name} LOGIN")
            if name in READS_EVERYTHING:
                conn.execute(f"GRANT pg_read_all_data TO {name}")
            if workspaces is not None:
                conn.execute("SELECT fairpost.let_in(%s)", [name])
                for workspace in workspaces:
                    conn.execute("INSERT INTO fairpost.applications VALUES (%s, %s, now())", [name, workspace])
        neighbours.of_b["applications"].clear()
        try:
            yield url, neighbours
        finally:
            for name in LOGINS:
                conn.execute(f"DROP OWNED BY {name}")
                conn.execute(f"DROP ROLE {name}")


@pytest.fixture
def url(settled: tuple[str, Neighbours]) -> str:
    return settled[0]


@pytest.fixture
def neighbours(settled: tuple[str, Neighbours]) -> Neighbours:
    return settled[1]


async def tried(conn: "asyncpg.Connection", sql: str, *args: object) -> str:
    """Returns the rows, or the error and its code."""
    try:
        return " ".join(str(row[0]) for row in await conn.fetch(sql, *args))
    except asyncpg.PostgresError as error:
        return f"{error.sqlstate} {error} {error.detail}"


@pytest.mark.parametrize("name", [name for name, workspaces in LOGINS.items() if workspaces != ("*",)])
async def test_no_function_gives_a_login_anything_of_another_workspace(
    store: Store, neighbours: Neighbours, url: str, name: str
) -> None:
    markers = [*neighbours.b.markers, neighbours.b.secret]
    conn = await asyncpg.connect(as_login(url, name))
    for function, calls in ATTACKS.items():
        for arguments, values in calls(neighbours):
            said = await tried(conn, f"SELECT r::text FROM fairpost.{function}({arguments}) r", *values)
            assert not [m for m in markers if m in said and m not in str(values)], (function, values, said)
            assert not said.startswith(NO_SUCH_FUNCTION), (function, arguments)
            if LOGINS[name] is None or function not in FOR_APPLICATIONS:
                assert said.startswith(DENIED), (function, said)
    await conn.close()
    assert await neighbours.lost(store) == {}


@pytest.mark.parametrize("name", LOGINS)
async def test_a_login_can_call_what_is_for_applications_and_nothing_else(
    store: Store, neighbours: Neighbours, url: str, name: str
) -> None:
    rows = await store.fetch(
        """SELECT p.oid, p.proname, p.pronargs FROM pg_proc p
           WHERE p.pronamespace = 'fairpost'::regnamespace AND p.prorettype <> 'trigger'::regtype"""
    )
    assert len(rows) > 100
    granted = await store.fetch(
        "SELECT p.oid FROM unnest($1::oid[]) p(oid) WHERE has_function_privilege($2, p.oid, 'EXECUTE')",
        [row["oid"] for row in rows],
        name,
    )
    may_call = {row["oid"] for row in granted}
    names = {row["proname"] for row in rows if row["oid"] in may_call}
    assert names == (set() if LOGINS[name] is None else FOR_APPLICATIONS)


async def test_a_login_for_all_workspaces_reads_no_table(store: Store, neighbours: Neighbours, url: str) -> None:
    conn = await asyncpg.connect(as_login(url, "attack_operator"))
    for table in neighbours.of_b:
        said = await tried(conn, f"SELECT t::text FROM fairpost.{table} t")
        assert said.startswith(DENIED), (table, said)
    assert B not in await tried(conn, "SELECT current_setting('search_path')")
    await conn.close()
