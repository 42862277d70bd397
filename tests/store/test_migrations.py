"""The schema is the same whether it is installed or upgraded from any version; a schema that does not match is left
alone."""

import asyncio
import json
import re
from typing import Any

import asyncpg
import pytest
from tests.simulation.world import draft

from fairpost.model.errors import MigrationError
from fairpost.model.reason import Reason
from fairpost.model.states import DoubtPolicy, EmailClass, State
from fairpost.model.urls import as_login
from fairpost.store import migrations
from fairpost.store.migrations import Migration, known_migrations, migrate, pending

# Everything in the schema that a program could notice, in a fixed order.
_CATALOG = {
    "columns": """SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull, pg_get_expr(d.adbin, d.adrelid) AS default
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'fairpost'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, 2""",
    "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'fairpost' ORDER BY 1",
    "constraints": """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'fairpost'::regnamespace ORDER BY 1, 2""",
    "functions": """SELECT p.oid::regprocedure::text, md5(pg_get_functiondef(p.oid)) FROM pg_proc p
        WHERE pronamespace = 'fairpost'::regnamespace ORDER BY 1""",
    "types": """SELECT t.typname, array_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid
        WHERE t.typnamespace = 'fairpost'::regnamespace GROUP BY 1 ORDER BY 1""",
    "storage": "SELECT relname, relkind, reloptions FROM pg_class WHERE relnamespace = 'fairpost'::regnamespace ORDER BY 1",
}


async def catalog(conn: Any) -> dict[str, list[tuple[Any, ...]]]:
    return {name: [tuple(row) for row in await conn.fetch(sql)] for name, sql in _CATALOG.items()}


@pytest.fixture
async def blank(blank_url: str) -> Any:
    conn = await asyncpg.connect(blank_url)
    yield conn
    await conn.close()


async def test_upgrading_version_by_version_gives_what_a_fresh_install_gives(blank: Any, conn: Any) -> None:
    """Each version is committed before the next one, so every one of them is upgraded from."""
    for migration in known_migrations():
        done = await migrate(blank, up_to=migration.version)
        assert done.migrations == (f"{migration.version:04} {migration.name}",)
    assert await catalog(blank) == await catalog(conn)


async def test_migrating_again_does_nothing(conn: Any) -> None:
    again = await migrate(conn)
    assert again.migrations == ()
    assert not again.functions
    assert await pending(conn) == []


async def test_before_the_first_migration_everything_is_pending(blank: Any) -> None:
    assert await pending(blank) == [f"{m.version:04} {m.name}" for m in known_migrations()]


async def test_four_processes_that_migrate_at_once_get_one_schema(blank_url: str) -> None:
    conns = [await asyncpg.connect(blank_url) for _ in range(4)]
    done = await asyncio.gather(*(migrate(conn) for conn in conns))
    assert sorted(len(d.migrations) for d in done) == [0, 0, 0, len(known_migrations())]
    for conn in conns:
        await conn.close()


async def test_a_migration_that_was_edited_after_it_was_applied_is_refused(
    conn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await catalog(conn)
    first = known_migrations()[0]
    monkeypatch.setattr(
        migrations, "known_migrations", lambda: (Migration(first.version, first.name, first.sql + "\n-- edited"),)
    )
    with pytest.raises(MigrationError, match=f"{first.version:04} {first.name} .*pip install --force-reinstall"):
        await migrate(conn)
    assert await catalog(conn) == before


async def test_a_database_of_a_newer_fairpost_is_left_alone(conn: Any) -> None:
    await conn.execute("INSERT INTO fairpost.migrations (version, name, checksum) VALUES (9999, 'future', 'x')")
    before = await catalog(conn)
    with pytest.raises(MigrationError, match=r"9999.*pip install --upgrade"):
        await migrate(conn)
    assert await catalog(conn) == before


async def test_a_migration_that_fails_leaves_nothing_behind(blank: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = (known_migrations()[0], Migration(9998, "broken", "CREATE TABLE fairpost.half (); SELECT 1 / 0;"))
    monkeypatch.setattr(migrations, "known_migrations", lambda: broken)
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(blank)
    assert await blank.fetchval("SELECT to_regnamespace('fairpost')") is None


async def test_the_states_in_sql_are_those_in_python(conn: Any) -> None:
    async def labels(name: str) -> set[str]:
        return set(await conn.fetchval(f"SELECT enum_range(NULL::fairpost.{name})::text[]"))

    assert await labels("email_state") == (set(State) - {State.SCHEDULED, State.READY}) | {"waiting"}
    assert await labels("email_class") == set(EmailClass)
    assert await labels("doubt_policy") == set(DoubtPolicy)


async def test_the_constraints_refuse_states_that_cannot_be(conn: Any) -> None:
    await conn.execute("""SELECT fairpost.enqueue('{"to": "a@b.test", "subject": "", "text": ""}')""")
    for change in (
        "state = 'sent'",
        "state = 'claimed'",
        "state = 'claimed', waiting = false",
        "state = 'sending', waiting = false, account_id = 1, epoch = 1",
    ):
        with pytest.raises(asyncpg.CheckViolationError):
            await conn.execute(f"UPDATE fairpost.queue SET {change}")


async def test_history_has_a_partition_for_now_and_none_is_missing_next_month(conn: Any) -> None:
    month = "date_trunc('month', now() + interval '1 month')"
    for table in ("emails", "attempts", "contents", "attachments", "labels", "tag_marks"):
        name = await conn.fetchval(f"SELECT '{table}' || to_char({month}, '_YYYY_MM')")
        assert await conn.fetchval("SELECT to_regclass('fairpost.' || $1)", name), f"{name} is missing"
    await conn.execute("SELECT fairpost.make_partitions()")


@pytest.fixture
def wider(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more migration, which changes a table that everyone writes to."""
    known = (*known_migrations(), Migration(9998, "wider", "ALTER TABLE fairpost.queue ADD COLUMN width integer"))
    monkeypatch.setattr(migrations, "known_migrations", lambda: known)


async def test_concurrent_writers_are_let_through_and_no_transaction_is_cancelled(
    conn: Any, url: str, wider: None
) -> None:
    """A caller's transaction stays open for long while others come and go: the migration waits, and they do not."""
    slow, quick = await asyncpg.connect(url), await asyncpg.connect(url)
    async with slow.transaction():
        await slow.execute("LOCK TABLE fairpost.queue IN ROW EXCLUSIVE MODE")
        migrating = asyncio.create_task(migrate(conn))
        await waits_for_a_lock(quick)
        for _ in range(3):
            async with quick.transaction():
                await quick.execute("SET LOCAL lock_timeout = '20s'")
                await quick.execute("LOCK TABLE fairpost.queue IN ROW EXCLUSIVE MODE")
        assert not migrating.done()
    assert (await migrating).functions
    assert await pending(quick) == []
    await slow.close()
    await quick.close()


async def waits_for_a_lock(conn: Any) -> None:
    async with asyncio.timeout(60):
        while not await conn.fetchval(  # noqa: ASYNC110 (it is the database that changes)
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
        ):
            await asyncio.sleep(0.01)


async def test_a_session_that_holds_the_tables_for_too_long_is_named(conn: Any, url: str, wider: None) -> None:
    before = await catalog(conn)
    slow = await asyncpg.connect(url)
    async with slow.transaction():
        await slow.execute("LOCK TABLE fairpost.queue IN ROW EXCLUSIVE MODE")
        with pytest.raises(MigrationError, match=f"process {slow.get_server_pid()}") as refused:
            await migrate(conn, patience_s=0)
        assert refused.value.next_step == Reason("step.migrate")
    await slow.close()
    assert await catalog(conn) == before


async def test_logins_that_could_enqueue_before_act_for_all_workspaces(blank: Any, blank_url: str) -> None:
    """Granted through a role, but not because the login may read everything on the server."""
    roles = ["old_shop", "old_group", "old_member", "old_reader", "old_stranger"]
    await migrate(blank, up_to=27)
    await blank.execute("; ".join(f"CREATE ROLE {name} LOGIN" for name in roles))
    try:
        await blank.execute("GRANT USAGE ON SCHEMA fairpost TO old_shop, old_group; GRANT old_group TO old_member")
        await blank.execute("GRANT pg_read_all_data TO old_reader")
        await migrate(blank)
        named = await blank.fetch("SELECT role_name, workspace FROM fairpost.applications ORDER BY 1")
        assert [tuple(row) for row in named] == [("old_group", "*"), ("old_member", "*"), ("old_shop", "*")]
        for name in roles:
            login = await asyncpg.connect(as_login(blank_url, name))
            call = login.fetchval("SELECT id FROM fairpost.enqueue($1)", json.dumps(draft(workspace="any")))
            if name in ("old_reader", "old_stranger"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await call
            else:
                assert await call
            await login.close()
    finally:
        for name in roles:
            await blank.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


async def test_existing_data_keeps_its_meaning(blank: Any) -> None:
    """Suspended accounts are waited for from the upgrade on, sequences keep their subjects, and only an unsubscribe
    stops bulk mail alone."""
    await migrate(blank, up_to=21)
    await blank.execute(
        """INSERT INTO fairpost.accounts (id, name, address, transport, status, created_at) OVERRIDING SYSTEM VALUE
               VALUES (1, 'lost', 'a@x.test', '{}', 'suspended', now()), (2, 'well', 'b@x.test', '{}', 'active', now());
           INSERT INTO fairpost.leases (account_id) VALUES (1), (2);
           INSERT INTO fairpost.templates (workspace, name, subject, text_body, created_at, changed_at) VALUES ('w', 't', 's', 't', now(), now());
           INSERT INTO fairpost.sequences (workspace, name, created_at) VALUES ('w', 'old', now());
           INSERT INTO fairpost.sequence_steps (sequence_id, step, template_id) SELECT s.id, 1, t.id FROM fairpost.sequences s, fairpost.templates t;
           INSERT INTO fairpost.suppressions (workspace, address, kind, reason, created_at)
               VALUES ('w', 'u@x.test', 'unsubscribe', 'r', now()), ('w', 'h@x.test', 'hard_bounce', 'r', now())"""
    )
    await migrate(blank)
    waited_for = await blank.fetch(
        "SELECT account_id, suspended_at IS NOT NULL AS is_set FROM fairpost.leases ORDER BY 1"
    )
    assert [tuple(row) for row in waited_for] == [(1, True), (2, False)]
    assert await blank.fetchval("SELECT own_subject FROM fairpost.sequence_steps") is True
    addresses = ["u@x.test", "h@x.test"]
    assert await blank.fetchval("SELECT fairpost.suppressed('w', $1)", addresses) == addresses
    assert await blank.fetchval("SELECT fairpost.suppressed('w', $1, 'urgent')", addresses) == ["h@x.test"]


async def test_existing_loans_are_kept(blank: Any) -> None:
    await migrate(blank, up_to=27)
    await blank.execute(
        "INSERT INTO fairpost.workspaces (name, pools, created_at) VALUES ('acme', '{default,fast}', now()), ('none', '{}', now())"
    )
    await migrate(blank)
    loans = await blank.fetch(
        "SELECT workspace, pool, senders FROM fairpost.loans WHERE workspace <> 'default' ORDER BY 1, 2"
    )
    as_before = ["proven", "account"]
    assert [tuple(row) for row in loans] == [("acme", "default", as_before), ("acme", "fast", as_before)]
    email = '[{"to": "a@x.test", "subject": "Hello", "text": "Hi"}]'
    for workspace, is_taken in (("acme", True), ("none", False)):
        error = await blank.fetchval("SELECT s.error FROM fairpost.submit($1, $2) s", workspace, email)
        assert (error is None) == is_taken, error


async def test_the_default_workspace_is_there_from_the_start(blank: Any) -> None:
    await migrate(blank)
    lent = "SELECT l.pool FROM fairpost.workspaces w LEFT JOIN fairpost.loans l ON l.workspace = w.name WHERE w.name = 'default'"
    assert await blank.fetchval(lent) == "default"


async def test_a_default_workspace_of_before_keeps_its_pools(blank: Any) -> None:
    await migrate(blank, up_to=37)
    await blank.execute("INSERT INTO fairpost.workspaces (name, created_at) VALUES ('default', now())")
    await migrate(blank)
    assert await blank.fetch("SELECT FROM fairpost.loans") == []


async def test_a_limit_and_a_throttle_outlive_the_folding_of_names(blank: Any) -> None:
    await migrate(blank, up_to=27)
    await blank.execute(
        """INSERT INTO fairpost.senders (workspace, level, name, daily_max, throttled_since, throttled_until, is_enforced, tier)
               VALUES ('w', 'user', 'Ann', 5, now(), now() + interval '2 hours', true, -1), ('w', 'user', 'ann', 9, NULL, NULL, false, 1),
                      ('w', 'user', 'ANN', NULL, NULL, NULL, false, 1), ('w', 'user', 'Bob ', 7, NULL, NULL, false, 1);
           INSERT INTO fairpost.rules (workspace, level, key, throttled_until, tier) VALUES ('w', 'user', 'Ann', now() + interval '2 hours', -1);
           INSERT INTO fairpost.homes (workspace, user_name, is_given, domain, is_proven) VALUES ('w', 'Ann', false, 'a.test', true);
           INSERT INTO fairpost.submissions (workspace, user_name, hour, n)
               VALUES ('w', 'Ann', date_trunc('hour', now()), 3), ('w', 'ann', date_trunc('hour', now()), 2);
           INSERT INTO fairpost.activity (workspace, user_name, hour, writer, volume) VALUES ('w', 'Ann', date_trunc('hour', now()), 'default', 8);
           INSERT INTO fairpost.activity_days (workspace, user_name, day, volume) VALUES ('w', 'Ann', '2030-01-01', 8), ('w', 'ann', '2030-01-01', 1)"""
    )
    await migrate(blank)
    ann = await blank.fetchrow("SELECT * FROM fairpost.senders WHERE name = 'ann'")
    assert (ann["daily_max"], ann["is_enforced"], ann["throttled_until"] is not None) == (5, True, True)
    assert await blank.fetchval("SELECT daily_max FROM fairpost.senders WHERE name = 'bob'") == 7
    assert await blank.fetchval("SELECT tier FROM fairpost.sender_rules WHERE key = 'ann'") == -1
    assert await blank.fetchval("SELECT domain FROM fairpost.homes WHERE user_name = 'ann'") == "a.test"
    assert await blank.fetchval("SELECT sum(n) FROM fairpost.submissions WHERE user_name = 'ann'") == 5
    assert await blank.fetchval("SELECT sum(volume) FROM fairpost.activity WHERE user_name = 'ann'") == 8
    assert await blank.fetchval("SELECT volume FROM fairpost.activity_days WHERE user_name = 'ann'") == 9


async def test_no_further_migration_alters_what_open_transactions_of_callers_hold(conn: Any) -> None:
    """It would wait for the last of them, and forever if there always is one. New data is in separate tables."""
    async with conn.transaction():
        await conn.fetch("SELECT * FROM fairpost.enqueue_many($1)", json.dumps([draft(idempotency_key="k")]))
        rows = await conn.fetch(
            """SELECT DISTINCT 'fairpost.' || c.relname AS name FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
               WHERE l.pid = pg_backend_pid() AND c.relnamespace = 'fairpost'::regnamespace AND c.relkind IN ('r', 'p')"""
        )
    text = "\n".join(migration.sql for migration in known_migrations() if migration.version > 27)
    old_names = {
        f"fairpost.{new}": old for old, new in re.findall(r"ALTER TABLE (fairpost\.\w+) RENAME TO (\w+)", text)
    }
    held = {old_names.get(row["name"], row["name"]) for row in rows}
    assert {"fairpost.queue", "fairpost.contents", "fairpost.senders"} <= held
    made = set(re.findall(r"CREATE TABLE (fairpost\.\w+)", text))
    altered = set(re.findall(r"(?:ALTER TABLE|POLICY \w+ ON) (fairpost\.\w+)", text)) - made
    assert altered & held == set()


async def test_sentences_about_accounts_become_codes(blank: Any) -> None:
    said = {
        "its server refused the login: 535 5.7.8 no": ("account.authentication_failed", {"reply": "535 5.7.8 no"}),
        "3 of 20 e-mails bounced on this day, more than 5 %": (
            "account.too_many_bounces",
            {"bounced": 3, "sent": 20, "percent_max": 5},
        ),
        "refused 5 times in a row: 550 go\naway": (
            "account.refused_in_a_row",
            {"refused": 5, "reply": "550 go\naway"},
        ),
        "its worker died 3 times in a row": ("account.worker_died", {"times": 3}),
        "daily limit reached: 7 sent": ("account.daily_limit_reached", {"sent": 7}),
        "daily limit of the warm-up reached: 8 sent": ("account.warm_up_limit_reached", {"sent": 8}),
        "Kim is on leave": ("legacy.text", {"text": "Kim is on leave"}),
    }
    await migrate(blank, up_to=31)
    for number, text in enumerate(said):
        await blank.execute(
            "INSERT INTO fairpost.accounts (name, address, transport, status, status_reason, created_at) VALUES ($1, 'a@x.test', '{}', 'paused', $2, now())",
            *(f"a{number}", text),
        )
    await blank.execute(
        "INSERT INTO fairpost.leases (account_id, rest_until, rest_reason) SELECT id, now(), 'its server could not be reached' FROM fairpost.accounts WHERE name = 'a0'"
    )
    await migrate(blank)
    rows = await blank.fetch("SELECT status_reason, status_params FROM fairpost.accounts ORDER BY name")
    assert [(row[0], json.loads(row[1])) for row in rows] == list(said.values())
    assert await blank.fetchval("SELECT rest_reason FROM fairpost.leases") == "account.server_unreachable"
    with pytest.raises(asyncpg.CheckViolationError):
        await blank.execute("UPDATE fairpost.accounts SET status_reason = 'a sentence'")


async def test_sentences_about_campaigns_holds_and_pauses_become_codes(blank: Any) -> None:
    await migrate(blank, up_to=33)
    await blank.execute(
        """INSERT INTO fairpost.rules (workspace, level, key, held_until, hold_reason, throttled_until, throttle_reason) VALUES
               ('w', 'stream', 'campaign:a', 'infinity', 'campaign a is paused', now() + interval '1 hour', 'the daily quota is used up: 3 of 4'),
               ('w', 'user', 'ann', 'infinity', 'too many complaints', now() + interval '1 hour', 'a bought list');
           INSERT INTO fairpost.stops (prospect_id, campaign_id, reason, at) VALUES (1, 0, 'has replied', now());
           INSERT INTO fairpost.pauses (since, until, reason, paused_by, restored) VALUES (now(), 'infinity', 'wrong prices', 'me', false)"""
    )
    await migrate(blank)
    stream, user = await blank.fetch("SELECT * FROM fairpost.sender_rules ORDER BY level DESC")
    assert (stream["hold_reason"], json.loads(stream["hold_params"])) == ("hold.campaign_paused", {"campaign": "a"})
    assert (stream["throttled_until"], stream["throttle_reason"]) == (None, None), "a window is not a throttle"
    assert (stream["closed_reason"], json.loads(stream["closed_params"])) == (
        "schedule.quota_used_up",
        {"used": 3, "allowed": 4},
    )
    assert (user["hold_reason"], json.loads(user["hold_params"])) == ("hold.by_hand", {"note": "too many complaints"})
    assert (user["throttle_reason"], user["closed_until"]) == ("legacy.text", None)
    stop = await blank.fetchrow("SELECT reason, params FROM fairpost.opt_outs")
    assert (stop["reason"], json.loads(stop["params"])) == ("prospect.stopped_by_hand", {"note": "has replied"})
    pause = await blank.fetchrow("SELECT reason, params FROM fairpost.pauses")
    assert (pause["reason"], json.loads(pause["params"])) == ("everything.paused_by_hand", {"note": "wrong prices"})


async def test_sessions_can_enqueue_while_functions_are_replaced(url: str) -> None:
    email = json.dumps([{"to": "ann@there.test", "subject": "s", "text": "t"}])
    is_over = False

    async def call() -> int:
        calls, caller = 0, await asyncpg.connect(url)
        try:
            while not is_over:
                (row,) = await caller.fetch("SELECT * FROM fairpost.enqueue_many($1)", email)
                assert row["error"] is None
                calls += 1
        finally:
            await caller.close()
        return calls

    callers = [asyncio.create_task(call()) for _ in range(3)]
    owner = await asyncpg.connect(url)
    try:
        for _ in range(2):
            await owner.execute("UPDATE fairpost.migrations SET checksum = 'older' WHERE version = 0")
            assert (await migrate(owner)).functions
    finally:
        is_over = True
        await owner.close()
        calls = await asyncio.gather(*callers)
    assert min(calls) > 0


def test_no_function_inside_an_index_is_dropped() -> None:
    """A session keeps index expressions with their functions, and would look for a dropped function until it ends."""
    inside = {"address_mark", "address_marks", "own_mark", "normalize_address", "normalize_letters", "normalize_local"}
    inside |= {"normalize_domain", "fold", "fold_letters", "fold_local", "fold_domain"}
    sql = "\n".join([*(m.sql for m in known_migrations() if m.version > 28), migrations.functions().sql])
    dropped = set(re.findall(r"DROP FUNCTION (?:IF EXISTS )?fairpost\.(\w+)", sql))
    dropped |= {name for names in re.findall(r"proname IN \(([^)]*)\)", sql) for name in re.findall(r"'(\w+)'", names)}
    assert dropped & inside == set()


async def test_a_database_that_was_migrated_before_a_correction_is_taken_as_it_is(conn: Any) -> None:
    (version, checksum), *_ = migrations.CORRECTED.items()
    await conn.execute("UPDATE fairpost.migrations SET checksum = $1 WHERE version = $2", checksum, version)
    assert await pending(conn) == []
