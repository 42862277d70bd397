"""`fairpost doctor` on real servers: a healthy one, and some with problems."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from typer.testing import CliRunner

from fairpost.cli import app
from fairpost.observe.doctor import read_server
from fairpost.store.embedded import EmbeddedServer
from tests.cli.conftest import Cli, missing, new_home, send, until

Db = psycopg.Connection[Any]


def examined(cli: Cli) -> dict[str, dict[str, Any]]:
    """Returns each check by its name. If there are several, the last one counts."""
    result = CliRunner().invoke(app, ["doctor", "--json"], env=cli.environment)
    found = json.loads(result.stdout)
    assert result.exit_code == (0 if found["ok"] else 1)
    return {check["name"]: check for check in found["checks"]}


def grade(cli: Cli, name: str) -> str:
    found: str = examined(cli)[name]["grade"]
    return found


def test_a_server_without_fsync_is_a_problem_and_the_rest_is_well(cli: Cli) -> None:
    checks = examined(cli)
    assert checks["durability"]["grade"] == "problem"
    assert "fsync" in checks["durability"]["text"]
    assert "ALTER SYSTEM RESET fsync" in checks["durability"]["then"]
    for name in (
        "database",
        "version",
        "schema",
        "isolation",
        "clock",
        "autovacuum",
        "connection",
        "pause",
        "identity",
    ):
        assert checks[name]["grade"] == "ok", checks[name]


def test_people_get_a_line_a_check_and_what_to_type(cli: Cli) -> None:
    result = CliRunner().invoke(app, ["doctor"], env=cli.environment)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    (at,) = [n for n, line in enumerate(lines) if line.startswith("problem") and "durability" in line]
    assert "fsync" in lines[at]
    assert "ALTER SYSTEM RESET fsync" in lines[at + 1]


BAD = {
    "synchronous_commit": "off",
    "autovacuum": "off",
    "default_transaction_isolation": "repeatable read",
    "max_prepared_transactions": "1",
    "max_replication_slots": "1",
    "wal_level": "logical",
}


@pytest.mark.slow
def test_a_fresh_server_has_no_problem_and_a_badly_set_one_is_reported_in_every_point() -> None:
    with new_home() as home:
        home.chmod(0o700)
        cli = Cli({"FAIRPOST_HOME": str(home)})
        EmbeddedServer(home, settings={"shared_buffers": "16MB"}).start()
        cli.ok("db", "migrate")
        checks = examined(cli)
        assert {name for name, check in checks.items() if check["grade"] != "ok"} == {"engine", "accounts"}
        assert {checks[name]["grade"] for name in ("engine", "accounts")} == {"note"}

        EmbeddedServer(home).stop()
        url = EmbeddedServer(home, settings={"shared_buffers": "16MB", **BAD}).start()
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("SELECT pg_create_physical_replication_slot('forgotten', true)")
            db.execute("BEGIN; CREATE TABLE half (); PREPARE TRANSACTION 'lost'")
            checks = examined(cli)
            db.execute("ROLLBACK PREPARED 'lost'")
        for name in ("durability", "autovacuum", "isolation"):
            assert checks[name]["grade"] == "problem", checks[name]
        assert "lost" in checks["prepared transactions"]["text"]
        assert "forgotten" in checks["replication slots"]["text"]

        EmbeddedServer(home).stop()
        with standby(home) as url:
            checks = examined(Cli({"FAIRPOST_HOME": str(home), "FAIRPOST_DATABASE_URL": url}))
        assert checks["writes"]["grade"] == "problem", checks["writes"]
        assert "target_session_attrs=primary" in checks["writes"]["then"]
        assert grade(cli, "writes") == "ok", "promoted"


@contextmanager
def standby(home: Path) -> Iterator[str]:
    """Runs the server of that home as a standby, which is promoted at the end. Only a primary counts as ready, so
    starting takes until then."""
    server = EmbeddedServer(home, settings={"shared_buffers": "16MB", **BAD})
    (server.status().data_dir / "standby.signal").touch()
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(server.start)
        until(lambda: starting.done() or answers(server.url), "a standby that answers")
        yield server.url
        with psycopg.connect(server.url) as conn:
            conn.execute("SELECT pg_promote()")
        starting.result()


def answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def test_an_embedded_server_that_does_not_run_is_not_started(at_home: Cli, home: Path) -> None:
    checks = examined(at_home)
    assert checks["database"]["grade"] == "problem"
    assert "fairpost db start" in checks["database"]["then"]
    assert checks["disk"]["grade"] == "ok"
    assert not EmbeddedServer(home).status().running


def test_a_database_that_does_not_answer_is_a_problem_and_no_traceback(cli: Cli) -> None:
    away = Cli({**cli.environment, "FAIRPOST_DATABASE_URL": "postgresql://ann:secret@127.0.0.1:1/nothing"})
    found = examined(away)["database"]
    assert found["grade"] == "problem"
    assert "secret" not in found["text"]


def test_a_schema_that_does_not_exist_or_out_of_reach_is_a_problem(blank_url: str, url: str) -> None:
    assert examined(Cli({"FAIRPOST_DATABASE_URL": blank_url}))["schema"]["then"] == "fairpost db migrate"
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("CREATE ROLE stranger LOGIN")
        try:
            stranger = Cli({"FAIRPOST_DATABASE_URL": f"{url}&user=stranger".replace("//fairpost@", "//")})
            checks = examined(stranger)
            assert checks["schema"]["grade"] == "problem"
            assert checks["role"]["grade"] == "problem"
            assert checks["open transactions"]["grade"] == "note", "it cannot see others' sessions"
        finally:
            conn.execute("DROP ROLE stranger")


def test_mail_that_waits_while_no_engine_is_alive_is_a_problem_until_it_is_paused(cli: Cli) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test", "--smtp", "smtp://127.0.0.1:1")
    assert grade(cli, "engine") == "note"
    send(cli, "--due-at", "2130-01-01T00:00:00Z")
    assert examined(cli)["engine"] | {"grade": "problem", "then": "fairpost work"} == examined(cli)["engine"]
    cli.ok("pause", "--all", "--reason", "wrong prices")
    assert grade(cli, "engine") == "note"


def test_a_transaction_that_stays_open_is_found_with_its_process(cli: Cli, url: str) -> None:
    async def look() -> Any:
        idle = await asyncpg.connect(url, server_settings={"application_name": "forgotten shell"})
        conn = await asyncpg.connect(url)
        async with idle.transaction(isolation="repeatable_read"):
            await idle.execute("SELECT 1")
            found = (await read_server(conn)).transactions
        await idle.close()
        await conn.close()
        return found, idle.get_server_pid()

    from fairpost.observe import doctor

    young, _ = asyncio.run(look())
    assert young == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor, "OPEN_S_MIN", 0)
        (found,), pid = asyncio.run(look())
    assert missing(found.what, "forgotten shell", pid) == []
    assert f"pg_terminate_backend({pid})" in found.then


def test_a_pause_a_redirect_and_an_open_home_are_reported(cli: Cli, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o777)
    cli.ok("pause", "--all", "--reason", "wrong prices")
    checks = examined(Cli({**cli.environment, "FAIRPOST_REDIRECT_ALL": "team@example.com"}))
    assert (checks["pause"]["grade"], checks["pause"]["then"]) == ("note", "fairpost resume --all")
    assert (checks["redirect"]["grade"], "team@example.com" in checks["redirect"]["text"]) == ("note", True)
    assert checks["home"]["then"] == f"chmod go-w {home}"


def test_a_key_that_others_can_read_and_one_that_is_missing_are_reported(cli: Cli, tmp_path: Path, db: Db) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "secret.key").write_text("00" * 32)
    (home / "secret.key").chmod(0o644)
    assert "chmod 600" in examined(cli)["master key"]["text"]
    (home / "secret.key").chmod(0o600)
    assert grade(cli, "master key") == "ok"
    cli.ok("account", "add", "sales", "--from", "sales@post.test")
    sealed = json.dumps(
        {"kind": "smtp", "host": "h", "port": 25, "security": "none", "user": "u", "secret": "v1:abc:AA=="}
    )
    db.execute("UPDATE fairpost.accounts SET transport = %s", (sealed,))
    passwords = examined(cli)["passwords"]
    assert (passwords["grade"], "sales" in passwords["text"]) == ("problem", True)


def test_a_restored_database_is_reported_before_any_engine_starts(cli: Cli, db: Db) -> None:
    db.execute("SELECT fairpost.remember_identity(NULL)")
    assert grade(cli, "identity") == "ok"
    db.execute("UPDATE fairpost.identity SET system_identifier = 1")
    found = examined(cli)
    assert found["identity"]["grade"] == "problem"
    assert found["pause"]["grade"] == "ok", "it changes nothing"


def test_a_settings_file_with_a_secret_that_everyone_can_read_is_a_note(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "fairpost.toml"
    path.write_text(f'secret_key = "{"0" * 64}"')
    set_by_file = Cli({**cli.environment, "FAIRPOST_CONFIG": str(path)})
    path.chmod(0o644)
    assert examined(set_by_file)["settings file"]["then"] == f"chmod o-rwx {path}"
    assert "0" * 12 not in str(examined(set_by_file))
    path.chmod(0o640)
    assert grade(set_by_file, "settings file") == "ok"
    assert "settings file" not in examined(cli)


def test_workspaces_that_borrow_the_services_own_pool_are_named(cli: Cli) -> None:
    cli.ok("workspace", "add", "default")
    cli.ok("workspace", "add", "apart", "--pool", "relay")
    assert "workspaces" not in examined(cli)
    lent = Cli({**cli.environment, "FAIRPOST_SERVICE_POOL": "codes"})  # before the pool was used by the service
    lent.ok("workspace", "add", "acme", "--pool", "default")
    found = examined(cli)["workspaces"]
    assert found["grade"] == "note"
    assert "acme" in found["text"]
    assert "apart" not in found["text"]


def test_a_login_of_an_application_without_its_rights_is_named_and_migrating_mends_it(cli: Cli, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as root:
        root.execute("CREATE ROLE the_lost_shop LOGIN")
        try:
            cli.ok("db", "grant", "the_lost_shop", "--all-workspaces")
            assert "logins" not in examined(cli)
            root.execute("REVOKE fairpost_app FROM the_lost_shop")
            found = examined(cli)["logins"]
            assert found["grade"] == "problem"
            assert missing(found["text"] + found["then"], "the_lost_shop", "fairpost db migrate") == []
            cli.ok("db", "migrate")
            assert "logins" not in examined(cli)
        finally:
            root.execute("DROP OWNED BY the_lost_shop; DROP ROLE the_lost_shop")
