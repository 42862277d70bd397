"""The second line of defence: what PostgreSQL itself shows a request and lets it do, whatever the query.

Tables and functions are read from the database, so that a new one that was not considered fails here.
"""

import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from fairpost.store.store import Store
from tests.api.neighbours import SHARED, A, B, Neighbours, neighbourhood, rows_of, tables
from tests.databases import Databases

pytestmark = pytest.mark.attack

ROOT = Path(__file__).parents[2]

# Rows that belong to a workspace by reference, and the column by which a row could be moved to another.
POINTS_TO = {
    "list_members": {"list_id": "lists", "prospect_id": "prospects"},
    "sequence_steps": {"sequence_id": "sequences", "template_id": "templates"},
    "campaigns": {"sequence_id": "sequences"},
    "opt_outs": {"prospect_id": "prospects"},
}

EMAIL = {"to": "x@example.com", "subject": "Hello", "text": "Hi"}
Call = tuple[str, list[Any]]


def _emails(**more: Any) -> str:
    return json.dumps([{**EMAIL, **more}])


# Every function that runs with its owner's privileges, and how a could call it to reach b's data.
ATTACKS: dict[str, Callable[[Neighbours], list[Call]]] = {
    "add_account": lambda n: [
        ("$1, $2, $3, '{}'", [f"{B}/y", "y@y.test", f"{B}/default"]),
        ("$1, $2, $3, '{}'", [f"{A}/y", "y@y.test", f"{B}/default"]),
        ("$1, $2, $3, '{}'", ["y", "y@y.test", f"{B}/default"]),
        ("$1, $2, $3, '{}', p_id => $4", [f"{A}/y", "y@y.test", f"{A}/default", n.b.account]),
        (
            "$1, $2, $3, '{}', $4",
            [f"{A}/y", "y@y.test", f"{A}/default", json.dumps({"pool": f"{B}/default", "name": f"{B}/y"})],
        ),
    ],
    "add_dkim_key": lambda n: [
        (f"{n.a.account + 1_000}, $1, $2, 'mine', 'rsa', 'public', 'sealed', '{{}}'", [whose, f"{B}.test"])
        for whose in (A, B)
    ],
    "add_webhook_secret": lambda n: [
        (f"{n.a.account + 1_000}, $1, $2, 'sealed', '{{}}', 0", [hook, whose])
        for hook in (n.a.webhook, n.b.webhook)
        for whose in (A, B, None)
    ],
    "dkim_key_checked": lambda n: [
        ("$1, $2, $3", [whose, id_, there]) for whose in (A, B) for id_ in range(1, 5) for there in (True, False)
    ],
    "remove_dkim_key": lambda n: [("$1, $2, 'key'", [whose, f"{B}.test"]) for whose in (A, B)],
    "address_hash": lambda n: [("$1", [marker]) for marker in n.b.markers],
    "cancel": lambda n: [("$1, 'mine'", [id_]) for id_ in n.b.emails.values()],
    "cancel_campaign": lambda n: [("$1, 'mine', 'me'", [id_]) for id_ in n.b.campaigns.values()],
    "change_account": lambda n: [
        ("$1, $2", [f"{B}/x", '{"address": "mine@mine.test"}']),
        ("$1, $2", [f"{A}/x", json.dumps({"pool": f"{B}/default"})]),
        ("$1, $2", [f"{A}/x", json.dumps({"name": f"{B}/z", "id": n.b.account, "workspace": B})]),
        ("$1, $2", ["house", '{"address": "mine@mine.test"}']),
    ],
    "enqueue": lambda n: [
        ("$1", [json.dumps(each)])
        for each in (
            {**EMAIL, "workspace": B},
            {**EMAIL, "workspace": A, "pool": f"{B}/default"},
            {**EMAIL, "workspace": A, "account": f"{B}/x"},
            {**EMAIL, "workspace": A, "account": "house"},
            {**EMAIL, "workspace": A, "follows": str(n.b.emails["sent"])},
            {"to": "x@example.com", "workspace": A, "content_id": n.b.emails["sent"]},
            EMAIL,
        )
    ],
    "enqueue_many": lambda n: [
        ("$1", [_emails(workspace=B)]),
        ("$1", [_emails(workspace=A, pool=f"{B}/default")]),
        ("$1", [_emails(workspace=A, account=f"{B}/x")]),
        ("$1", [_emails(workspace=A, follows=str(n.b.emails["sent"]))]),
        ("$1", [json.dumps([{"to": "x@example.com", "workspace": A, "content_id": n.b.emails["sent"]}])]),
        ("$1", [json.dumps([[{**EMAIL, "workspace": B}]])]),
    ],
    "events_after": lambda n: [("NULL, 1000, $1", [whose]) for whose in (A, B, None, "*")],
    "events_cursor_at": lambda n: [("now()", []), ("'-infinity'", [])],
    "events_end": lambda n: [("", [])],
    "hold": lambda n: [
        (f"$1, '{level}', '{key}', 'infinity', 'hold.by_hand', '{{}}'", [whose])
        for whose, level, key in ((B, "workspace", ""), (B, "user", "ann"), ("*", "workspace", ""))
    ],
    "launch_campaign": lambda n: [
        ("$1, '[]', '{}', '{}', false, 'me'", [id_]) for id_ in (*n.b.campaigns.values(), None)
    ],
    "materialize_calendar": lambda n: [("$1, $2, '{}', '[]', now(), now()", [B, revision]) for revision in range(4)],
    "list_emails": lambda n: [
        *(("$1, NULL, NULL, 50", [whose]) for whose in (B, None, "*")),
        *(("$1, NULL, NULL, NULL, NULL, $2", [whose, [*n.b.emails.values()]]) for whose in (A, B, None)),
    ],
    "pause_campaign": lambda n: [("$1, 'mine', 'me'", [id_]) for id_ in n.b.campaigns.values()],
    "pause_prospect": lambda n: [("$1, $2", [id_, paused]) for id_ in n.b.prospects for paused in (True, False)],
    "replan": lambda n: [("$1, '{}'", [id_]) for id_ in n.b.campaigns.values()],
    "plan_batch": lambda n: [("$1, 100", [id_]) for id_ in n.b.campaigns.values()],
    "private_id": lambda n: [("$1", ["em_0000000000000"]), ("$1", ["x"])],
    "public_id": lambda n: [("$1", [id_]) for id_ in n.b.emails.values()],
    "put_content": lambda n: [("$1", [json.dumps({"subject": "x", "text": "x"})])],
    "measured_since": lambda n: [
        ("$1", [datetime(2020, 1, 1, tzinfo=UTC)]),
        ("$1, $2", [datetime(2020, 1, 1, tzinfo=UTC), B]),
    ],
    "own_outcomes": lambda n: [("$1, $2, 100", [B, datetime(2020, 1, 1, tzinfo=UTC)])],
    "own_queue": lambda n: [("$1, 100", [B])],
    "receipts": lambda n: [
        ("$1, '{sent,failed,bounced,ready,scheduled,sending,in_doubt,cancelled}', 0, 100", [id_])
        for id_ in (*n.b.campaigns.values(), None)
    ],
    "release": lambda n: [("$1, 'user', $2", [B, f"ann-{B}"]), ("$1, 'workspace', ''", [B])],
    "remove_account": lambda n: [("$1", [f"{B}/x"]), ("$1", ["house"]), ("$1", [None])],
    "remove_prospects": lambda n: [
        ("$1", [n.b.prospects]),
        ("$1", [[n.a.prospects[0], n.b.prospects[0]]]),
        ("$1", [[None, n.b.prospects[0]]]),
    ],
    "resolve": lambda n: [
        ("$1, $2, 'me'", [id_, d]) for id_ in n.b.emails.values() for d in ("sent", "failed", "resend")
    ],
    "resume_campaign": lambda n: [("$1, 'me'", [id_]) for id_ in n.b.campaigns.values()],
    "retry": lambda n: [("$1", [id_]) for id_ in n.b.emails.values()],
    "search_emails": lambda n: [
        ("$1, $2, NULL, NULL, 50", [whose, json.dumps(wanted)])
        for whose in (A, B, None)
        for wanted in (
            {"to": f"sent@{n.b.secret}.test"},
            {"key": "order-sent"},
            {"user": f"ann-{B}"},
            {"stream": f"stream of {n.b.secret}"},
            {"campaign": "spring"},
            {"account": f"{B}/x"},
            {"since": "2020-01-01T00:00:00Z"},
        )
    ],
    "set_gates": lambda n: [("$1", [B]), ("$1, $2", [B, "campaign:spring"])],
    "set_sender": lambda n: [("$1, 'ann', 'free', NULL", [B])],
    "pictures_of": lambda n: [("$1, '{image/png}', 1000", [id_]) for id_ in n.b.emails.values()],
    "show_email": lambda n: [("$1", [id_]) for id_ in n.b.emails.values()],
    "status": lambda n: [("$1", [id_]) for id_ in n.b.emails.values()],
    "stop_prospect": lambda n: [
        ("$1, $2, 'mine'", [prospect, campaign])
        for prospect in n.b.prospects
        for campaign in (0, n.b.campaigns["spring"])
    ],
    "submit": lambda n: [
        ("$1, $2", [B, _emails()]),
        ("$1, $2", [A, _emails(workspace=B)]),
        ("$1, $2", [A, _emails(pool=f"{B}/default")]),
        ("$1, $2", [A, _emails(account=f"{B}/x")]),
        ("$1, $2", [A, _emails(account=f"../{B}/x")]),
        ("$1, $2", [A, _emails(follows=str(n.b.emails["sent"]))]),
        ("$1, $2", [A, _emails(**{"from": f"x@{B}.test"})]),
        ("$1, $2", [A, _emails(content_id=n.b.emails["sent"])]),
    ],
    "suppress": lambda n: [("$1, $2, 'mine'", [w, f"p0@{B}.test"]) for w in (B, "*", None)],
    "transport_of": lambda n: [("$1", [n.b.account])],
    "transports_of": lambda n: [("$1", [[n.b.account]])],
    "unsuppress": lambda n: [("$1, $2", [w, f"p3@{B}.test"]) for w in (B, "*", None)],
    "waiting_behind": lambda n: [("$1, NULL", [B]), ("$1, $2", [B, "u"])],
    "waiting_by_sender": lambda n: [("$1, 100", [B]), ("NULL, 100", [])],
}


@pytest.fixture(scope="module")
def settled(databases: Databases) -> Iterator[tuple[str, Neighbours]]:
    with neighbourhood(databases) as it:
        yield it


@pytest.fixture
def url(settled: tuple[str, Neighbours]) -> str:
    """One database for all tests here, because their attempts must change nothing."""
    return settled[0]


@pytest.fixture
def neighbours(settled: tuple[str, Neighbours]) -> Neighbours:
    return settled[1]


@asynccontextmanager
async def as_tenant(store: Store, workspace: str | None) -> AsyncIterator["asyncpg.Connection"]:
    """In a transaction that is rolled back, and in which no foreign key gets in the way."""
    async with store.connection() as conn:
        transaction = conn.transaction()
        await transaction.start()
        try:
            await conn.execute("SET LOCAL session_replication_role = replica; SET LOCAL ROLE fairpost_tenant")
            if workspace is not None:
                await conn.execute(f"SET LOCAL fairpost.workspace = '{workspace}'")
            yield conn
        finally:
            await transaction.rollback()


async def refused(conn: "asyncpg.Connection", sql: str, *args: Any) -> str | None:
    """Returns why PostgreSQL refused, or None if it did not."""
    savepoint = conn.transaction()
    await savepoint.start()
    try:
        await conn.execute(sql, *args)
    except asyncpg.PostgresError as error:
        await savepoint.rollback()
        return str(error.sqlstate)
    await savepoint.rollback()
    return None


DENIED = "42501"


async def granted(store: Store, right: str) -> dict[str, list[str]]:
    """Returns the tables on which a request has this privilege at all, and the columns."""
    rows = await store.fetch(
        """SELECT c.relname, array_agg(a.attname ORDER BY a.attnum) AS columns FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
           WHERE c.relnamespace = 'fairpost'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
           AND CASE WHEN $1 = 'DELETE' THEN has_table_privilege('fairpost_tenant', c.oid, $1) ELSE has_column_privilege('fairpost_tenant', c.oid, a.attnum, $1) END
           GROUP BY 1""",
        right,
    )
    return {row["relname"]: row["columns"] for row in rows}


async def test_every_table_that_a_request_can_read_has_a_policy(store: Store) -> None:
    bare = await store.fetch(
        "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'fairpost'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relrowsecurity"
    )
    readable = await granted(store, "SELECT")
    assert {row["relname"] for row in bare} & set(readable) == SHARED
    for right in ("INSERT", "UPDATE", "DELETE"):
        assert not set(await granted(store, right)) & SHARED
    others = await store.fetch(
        """SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'fairpost'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
           AND (has_table_privilege('fairpost_tenant', c.oid, 'TRUNCATE') OR has_table_privilege('fairpost_tenant', c.oid, 'TRIGGER'))"""
    )
    assert others == []
    loose = await store.fetch(
        """SELECT p.polrelid::regclass::text, p.polname FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid WHERE c.relnamespace = 'fairpost'::regnamespace
           AND coalesce(pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid), 'true') = 'true'"""
    )
    assert loose == []


async def test_a_request_sees_nothing_of_another_workspace(store: Store, neighbours: Neighbours) -> None:
    readable = await granted(store, "SELECT")
    every = await tables(store)
    async with as_tenant(store, A) as conn:
        for table in every:
            if table not in readable:
                assert await refused(conn, f"SELECT FROM fairpost.{table}") == DENIED
                continue
            columns = ", ".join(f"t.{name}" for name in readable[table])
            seen = [row[0] for row in await conn.fetch(f"SELECT ROW({columns})::text FROM fairpost.{table} t")]
            if table in SHARED:
                assert not [
                    row
                    for row in seen
                    if any(marker in row for marker in (*neighbours.a.markers, *neighbours.b.markers))
                ]
                continue
            assert neighbours.of_b[table], f"b has nothing in {table}: put something there, or this test proves nothing"
            assert seen, f"a sees nothing of its own in {table}"
            for row in seen:
                assert not [marker for marker in neighbours.b.markers if marker in row], (table, row)
            if len(readable[table]) == len(await _columns(store, table)):
                assert not set(seen) & set(neighbours.of_b[table]), table


async def _columns(store: Store, table: str) -> list[str]:
    rows = await store.fetch(
        "SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped",
        f"fairpost.{table}",
    )
    return [row["attname"] for row in rows]


async def test_a_transaction_without_a_workspace_sees_no_rows(store: Store, neighbours: Neighbours) -> None:
    readable = await granted(store, "SELECT")
    for workspace in (None, "", "*", "nobody"):
        async with as_tenant(store, workspace) as conn:
            for table, columns in readable.items():
                seen = await conn.fetch(
                    f"SELECT ROW({', '.join(f't.{name}' for name in columns)})::text FROM fairpost.{table} t"
                )
                words = " ".join(row[0] for row in seen)
                assert not [m for m in (*neighbours.a.markers, *neighbours.b.markers) if m in words], table
                if table not in SHARED | {"accounts", "leases", "charges"}:  # the operator's rows are visible to all
                    assert seen == [], table
            for name, calls in ATTACKS.items():
                for arguments, values in calls(neighbours):
                    assert await _told(conn, name, arguments, values, neighbours.b.markers) == []
    assert await neighbours.lost(store) == {}


async def test_a_request_changes_nothing_of_another_workspace(store: Store, neighbours: Neighbours) -> None:
    for table in await granted(store, "DELETE"):
        async with as_tenant(store, A) as conn:
            gone = [row[0] for row in await conn.fetch(f"DELETE FROM fairpost.{table} t RETURNING t::text")]
            assert gone
            assert not set(gone) & set(neighbours.of_b[table]), table
    for table, columns in (await granted(store, "UPDATE")).items():
        async with as_tenant(store, A) as conn:
            column = next(name for name in columns if name != "id")
            changed = await conn.fetch(f"UPDATE fairpost.{table} t SET {column} = {column} RETURNING t::text")
            assert changed
            assert not {row[0] for row in changed} & set(neighbours.of_b[table]), table


async def test_a_request_puts_nothing_into_another_workspace(store: Store, neighbours: Neighbours) -> None:
    written = await granted(store, "INSERT")
    assert written
    for table in written:
        copies = await store.fetch(f"SELECT to_jsonb(t)::text AS copy, t::text AS row FROM fairpost.{table} t")
        async with as_tenant(store, A) as conn:
            for each in copies:
                if each["row"] in neighbours.of_b[table]:
                    sql = f"INSERT INTO fairpost.{table} OVERRIDING SYSTEM VALUE SELECT * FROM jsonb_populate_record(NULL::fairpost.{table}, $1)"
                    assert await refused(conn, sql, each["copy"]) == DENIED, each


async def test_nothing_is_moved_to_another_workspace_or_hung_onto_it(store: Store, neighbours: Neighbours) -> None:
    for table, columns in (await granted(store, "UPDATE")).items():
        assert "workspace" in columns or table in POINTS_TO, f"how could a row of {table} be given to another?"
        async with as_tenant(store, A) as conn:
            if "workspace" in columns:
                assert await refused(conn, f"UPDATE fairpost.{table} SET workspace = $1", B) == DENIED, table
            for column, target in POINTS_TO.get(table, {}).items():
                (theirs,) = getattr(neighbours.b, target)[:1]
                assert await refused(conn, f"UPDATE fairpost.{table} SET {column} = $1", theirs) == DENIED, (
                    table,
                    column,
                )
    async with as_tenant(store, A) as conn:
        for route in (f"{B}/default", f"@{B}/x", "@house"):
            assert await refused(conn, "UPDATE fairpost.campaigns SET route = $1", route) == DENIED, route


async def test_a_campaign_never_reads_the_lists_of_another(store: Store, neighbours: Neighbours) -> None:
    """Includes those that lists contain as numbers."""
    campaign = neighbours.a.campaigns["spring"]
    async with as_tenant(store, A) as conn:
        await conn.execute(
            "UPDATE fairpost.campaigns SET lists = $1, required = '{nothing}' WHERE id = $2",
            neighbours.b.lists,
            campaign,
        )
        await conn.execute("SELECT fairpost.replan($1, '{}')", campaign)
        planned = await conn.fetchrow("SELECT * FROM fairpost.plan_batch($1, 100)", campaign)
        assert (planned["prospects"], planned["left_out"]) == (0, [])


async def definers(store: Store, role: str) -> set[str]:
    rows = await store.fetch(
        "SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'fairpost'::regnamespace AND p.prosecdef AND has_function_privilege($1, p.oid, 'EXECUTE')",
        role,
    )
    return {row["proname"] for row in rows}


async def _told(
    conn: "asyncpg.Connection", name: str, arguments: str, values: list[Any], markers: list[str]
) -> list[str]:
    """Calls it, and returns which of the markers came back, in the result or in the error."""
    savepoint = conn.transaction()
    await savepoint.start()
    try:
        rows = await conn.fetch(f"SELECT r::text FROM fairpost.{name}({arguments}) r", *values)
    except asyncpg.PostgresError as error:
        await savepoint.rollback()
        words = f"{error} {error.detail}"
    else:
        await savepoint.commit()
        words = " ".join(str(row[0]) for row in rows)
    said = json.dumps(values, default=str)
    return [marker for marker in markers if marker in words and marker not in said]


async def test_functions_with_their_owners_rights_do_nothing_to_another_workspace(
    store: Store, neighbours: Neighbours
) -> None:
    assert await definers(store, "fairpost_tenant") == set(ATTACKS), "add to ATTACKS how it could be misused"
    before = await rows_of(store)
    for name, calls in ATTACKS.items():
        for arguments, values in calls(neighbours):
            async with store.connection() as conn, conn.transaction():
                await conn.execute(f"SET LOCAL ROLE fairpost_tenant; SET LOCAL fairpost.workspace = '{A}'")
                assert await _told(conn, name, arguments, values, [*neighbours.b.markers, neighbours.b.secret]) == [], (
                    name,
                    values,
                )
        assert await neighbours.lost(store) == {}, name
    new = {table: found - before[table] for table, found in (await rows_of(store)).items()}
    assert [row for row in new["queue"] if f"{B}/" in row or "@house" in row] == []


async def test_nothing_may_be_called_or_read_by_everyone(store: Store) -> None:
    public = await store.fetch(
        """SELECT p.oid::regprocedure::text FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) g
           WHERE p.pronamespace = 'fairpost'::regnamespace AND g.grantee = 0
           UNION ALL
           SELECT c.oid::regclass::text FROM pg_class c, aclexplode(c.relacl) g WHERE c.relnamespace = 'fairpost'::regnamespace AND g.grantee = 0"""
    )
    assert [row[0] for row in public] == []


async def test_the_page_names_everything_that_the_roles_may_do(store: Store) -> None:
    """Nothing else is granted: describe new privileges there."""
    functions = "SELECT p.proname AS name FROM pg_proc p WHERE p.pronamespace = 'fairpost'::regnamespace AND {} AND has_function_privilege($1, p.oid, 'EXECUTE')"
    told = rights_of_the_page()
    for role in ("fairpost_app", "fairpost_tenant"):
        called = {row["name"] for row in await store.fetch(functions.format("p.prosecdef"), role)}
        assert called == told[role, "call"], role
        for right in ("SELECT", "INSERT", "UPDATE", "DELETE"):
            rows = await store.fetch(
                """SELECT DISTINCT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                   WHERE c.relnamespace = 'fairpost'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND CASE WHEN $2 = 'DELETE' THEN has_table_privilege($1, c.oid, $2)
                   ELSE has_column_privilege($1, c.oid, a.attnum, $2) END""",
                role,
                right,
            )
            assert {row["relname"] for row in rows} == told[role, right.lower()], (role, right)
    with_own_rights = await store.fetch(functions.format("NOT p.prosecdef"), "fairpost_app")
    assert with_own_rights == []


def rights_of_the_page() -> dict[tuple[str, str], set[str]]:
    """Returns the rows `| role | right | names |` of docs/security.md."""
    text = (ROOT / "docs" / "security.md").read_text("utf-8")
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for role, right, names in re.findall(r"^\| `(fairpost_\w+)` \| (\w+) \| (.*?) \|$", text, re.MULTILINE):
        found[role, right] |= set(re.findall(r"`(\w+)`", names))
    return found
