"""Each part of Fairpost runs as a role with exactly the rights in docs/deployment.md, and the doctor reports each
missing one.

All databases of a server share their roles, so these tests rename the tenants' role of the others until they are done.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2 as httpx
import psycopg
import pytest
from typer.testing import CliRunner

import fairpost
from fairpost.cli import app
from fairpost.dev.inbox.mails import list_mails
from fairpost.dev.inbox.server import InboxServer, ServerOptions
from fairpost.model.urls import as_login
from fairpost.settings import read_settings
from fairpost.store.store import Store
from tests.api.served import served
from tests.chaos.driver import eventually
from tests.chaos.processes import Engine
from tests.cli.conftest import Cli, missing
from tests.conftest import at_database
from tests.deploy.recipes import PAGE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PASSWORD = "change me"
ADMINISTRATOR = "administrator"
ASIDE = "tenants_of_the_others"
BARE, PLAIN = "bare", "plain"
MIGRATE = "fairpost db migrate"
LET_IN = "fairpost db grant shop --all-workspaces"
TENANT = "fairpost_tenant"


def sql_blocks() -> dict[str, str]:
    """Returns the statements of the page, by their first words."""
    section = PAGE.read_text("utf-8").split("## Roles and rights")[1].split("\n## ")[0]
    return {block.split(";")[0].strip(): block for block in re.findall(r"```sql\n(.*?)```", section, re.DOTALL)}


def statements(block: str) -> list[str]:
    return [statement.strip() for statement in block.split(";") if statement.strip()]


@dataclass(frozen=True, slots=True)
class Managed:
    """A server whose administrator is not a superuser, with the database created as described on the page."""

    server_url: str
    home: Path

    def url(self, login: str, database: str = "mail") -> str:
        return as_login(at_database(self.server_url, database), login, PASSWORD)

    def cli(self, login: str = "fairpost_owner", database: str = "mail") -> Cli:
        return Cli({"FAIRPOST_DATABASE_URL": self.url(login, database), "FAIRPOST_HOME": str(self.home)})

    def run(self, *sql: str, login: str | None = None, database: str = "mail") -> None:
        """Connects as that role, or as the superuser."""
        url = self.url(login, database) if login else at_database(self.server_url, database)
        with psycopg.connect(url, autocommit=True) as conn:
            for statement in sql:
                conn.execute(statement.encode())  # not a literal, because it comes from the page

    def doctor(self, login: str = "fairpost_owner", database: str = "mail") -> dict[str, dict[str, Any]]:
        """Returns the failed checks by name. The tests' server is fast instead of durable."""
        result = CliRunner().invoke(app, ["doctor", "--json"], env=self.cli(login, database).environment)
        found = json.loads(result.stdout)
        assert result.exit_code == (0 if found["ok"] else 1)
        return {c["name"]: c for c in found["checks"] if c["grade"] == "problem" and c["name"] != "durability"}


@pytest.fixture(scope="module")
def managed(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    it = Managed(server_url, tmp_path_factory.mktemp("home"))
    with psycopg.connect(server_url, autocommit=True) as root:
        root.execute(f"ALTER ROLE {TENANT} RENAME TO {ASIDE}")
        root.execute(f"CREATE ROLE {ADMINISTRATOR} LOGIN CREATEROLE CREATEDB PASSWORD '{PASSWORD}'")
        try:
            blocks = sql_blocks()
            it.run(*statements(blocks["CREATE ROLE fairpost_tenant NOLOGIN"]), login=ADMINISTRATOR, database="postgres")
            assert it.cli().json("db", "migrate")["missing"] == []
            assert LET_IN in PAGE.read_text("utf-8")
            it.cli().ok(*LET_IN.split()[1:])
            part = next(block for first, block in blocks.items() if "fairpost_work" in first)
            it.run(*statements(part), login=ADMINISTRATOR)
            yield it
        finally:
            for database in ("mail", BARE):
                root.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
            for role in ("shop", "fairpost_work", "fairpost_owner", PLAIN, TENANT, ADMINISTRATOR):
                root.execute(f"DROP ROLE IF EXISTS {role}")
            root.execute(f"ALTER ROLE {ASIDE} RENAME TO {TENANT}")


def test_the_roles_of_the_page_are_no_superusers_and_the_doctor_has_nothing_to_say(managed: Managed) -> None:
    with psycopg.connect(managed.server_url) as conn:
        roles = "('administrator', 'fairpost_owner', 'fairpost_work', 'fairpost_tenant', 'shop')"
        found = conn.execute(f"SELECT rolsuper, rolbypassrls, rolreplication FROM pg_roles WHERE rolname IN {roles}")
        assert found.fetchall() == [(False, False, False)] * 5
    assert managed.doctor() == {}
    assert managed.doctor("fairpost_work") == {}


async def test_an_application_enqueues_the_engine_sends_and_the_service_answers(
    managed: Managed, tmp_path: Path
) -> None:
    with psycopg.connect(managed.url("shop")) as conn:
        fairpost.enqueue(conn, to="ann@there.test", subject="Hello", text="Hi")
    async with Store.open(managed.url("fairpost_owner")) as store, inbox(store) as server:
        said = {"FAIRPOST_SMTP_HOST": "127.0.0.1", "FAIRPOST_SMTP_PORT": str(server.port)}
        said |= {"FAIRPOST_SMTP_FROM_ADDRESS": "shop@here.test", "FAIRPOST_SMTP_TLS": "none"}
        engine = Engine.start(managed.url("fairpost_owner"), None, tmp_path, env=said)
        try:

            async def has_arrived() -> bool:
                return any(mail.recipients == ("ann@there.test",) for mail in await list_mails(store))

            await eventually(has_arrived, "the e-mail has arrived", s_max=120)
        finally:
            engine.end()
    await asyncio.to_thread(ask_the_service, managed.cli(), workspace="shop")


def test_objects_created_by_a_member_login_belong_to_the_owner(managed: Managed) -> None:
    with psycopg.connect(managed.url("fairpost_work"), autocommit=True) as conn:
        conn.execute("SELECT fairpost.make_partitions(clock_timestamp() + interval '3 months')")
        owners = conn.execute("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'fairpost'").fetchall()
    assert owners == [("fairpost_owner",)]


@asynccontextmanager
async def inbox(store: Store) -> "AsyncIterator[InboxServer]":
    server = InboxServer(store, ServerOptions(port=0))
    await server.start()
    yield server
    await server.stop()


def ask_the_service(cli: Cli, *, workspace: str) -> None:
    cli.ok("workspace", "add", workspace)
    key = cli.json("key", "add", "--workspace", workspace, "--scope", "read", "--scope", "manage")["key"]
    with served(read_settings(cli.environment)) as it, httpx.Client(base_url=it.url, timeout=60) as client:
        client.headers["Authorization"] = f"Bearer {key}"
        assert client.get("/v1/emails").json()["data"]["items"] == []
        made = client.post("/v1/suppressions", json={"addresses": ["gone@there.test"], "reason": "manual"})
        assert made.is_success, made.text


def test_an_application_can_read_and_change_nothing(managed: Managed) -> None:
    for statement in ("SELECT FROM fairpost.queue", "DELETE FROM fairpost.queue", "SELECT fairpost.show_email(1)"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            managed.run(statement, login="shop")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        managed.run(f"SET ROLE {TENANT}", login="shop")
    assert managed.doctor("shop").keys() == {"schema", "role", "tenant role"}


# The right that is revoked, the check that reports it, and its next step. A member also has the tenants' rights.
MEMBERSHIP = (
    f"REVOKE {TENANT} FROM fairpost_owner"  # since PostgreSQL 16, of the memberships that this administrator granted
)
BOTH = f"fairpost_owner, {TENANT}"
TAKEN = [
    (f"REVOKE USAGE ON SCHEMA fairpost FROM {BOTH}", "rights", "GRANT USAGE ON SCHEMA fairpost TO fairpost_owner"),
    ("REVOKE CREATE ON SCHEMA fairpost FROM fairpost_owner", "rights", "GRANT CREATE ON SCHEMA fairpost TO"),
    (f"REVOKE SELECT ON fairpost.queue FROM {BOTH}", "rights", "GRANT SELECT ON fairpost.queue TO fairpost_owner"),
    ("REVOKE USAGE ON SEQUENCE fairpost.accounts_id_seq FROM fairpost_owner", "rights", "fairpost.accounts_id_seq TO"),
    (
        f"REVOKE EXECUTE ON FUNCTION fairpost.prepare_months FROM {BOTH}",
        "rights",
        "GRANT EXECUTE ON FUNCTION fairpost.prepare_months",
    ),
    (f"REVOKE TEMPORARY ON DATABASE mail FROM {BOTH}", "rights", "TEMPORARY ON DATABASE mail TO fairpost_owner"),
    ("ALTER TABLE fairpost.queue OWNER TO shop", "rights", "ALTER TABLE fairpost.queue OWNER TO fairpost_owner"),
    (MEMBERSHIP, "tenant role", f"GRANT {TENANT} TO fairpost_owner"),
    (f"REVOKE SELECT ON fairpost.queue FROM {TENANT}", "tenant role", MIGRATE),
    (f"REVOKE SELECT (name) ON fairpost.accounts FROM {TENANT}", "tenant role", MIGRATE),
    (f"REVOKE EXECUTE ON FUNCTION fairpost.submit FROM {TENANT}", "tenant role", MIGRATE),
    (f"REVOKE TEMPORARY ON DATABASE mail FROM {TENANT}", "tenant role", f"TEMPORARY ON DATABASE mail TO {TENANT}"),
    ("ALTER DATABASE mail SET default_transaction_read_only = on", "writes", "ALTER DATABASE mail RESET"),
    ("ALTER ROLE fairpost_owner SET default_transaction_read_only = on", "writes", "ALTER ROLE fairpost_owner RESET"),
]


@pytest.mark.parametrize(("taken", "name", "fact"), TAKEN, ids=[taken for taken, _, _ in TAKEN])
def test_a_revoked_privilege_is_named_and_the_suggested_fix_works(
    managed: Managed, taken: str, name: str, fact: str
) -> None:
    managed.run(taken, login=ADMINISTRATOR if taken == MEMBERSHIP else None)
    found = managed.doctor()
    assert missing(found[name]["then"], fact) == []
    for _ in range(2):  # the first fix reveals problems that were hidden before
        for problem in found.values():
            if problem["name"] != "schema":
                follow(managed, problem["then"])
        if not (found := managed.doctor()):
            break
    assert found == {}


def follow(managed: Managed, then: str, login: str = "fairpost_owner", database: str = "mail") -> None:
    """Does what the doctor says: runs SQL as a superuser, and commands as they are."""
    steps = [step.removeprefix("then: ") for step in then.split("; ")]
    managed.run(*(step for step in steps if step != MIGRATE), database=database)
    if MIGRATE in steps:
        managed.cli(login, database).ok("db", "migrate")


def test_a_member_that_may_not_become_the_role_gets_an_error(managed: Managed) -> None:
    with psycopg.connect(managed.server_url) as conn:
        if conn.info.server_version < 160_000:
            pytest.skip("before PostgreSQL 16, each member may")
    managed.run(MEMBERSHIP, login=ADMINISTRATOR)
    managed.run(f"GRANT {TENANT} TO fairpost_owner WITH SET FALSE")
    follow(managed, managed.doctor()["tenant role"]["then"])
    assert managed.doctor() == {}


def test_without_the_right_to_make_roles_the_migration_says_what_an_administrator_must_run(managed: Managed) -> None:
    managed.run(f"CREATE ROLE {PLAIN} LOGIN PASSWORD '{PASSWORD}'", f"CREATE DATABASE {BARE}")
    plain = managed.cli(PLAIN, BARE)
    refused = plain.error("db", "migrate")
    sql = f"CREATE SCHEMA fairpost AUTHORIZATION {PLAIN}"
    assert missing(refused, sql) == []
    assert missing(managed.doctor(PLAIN, BARE)["rights"]["then"], sql) == []
    managed.run(sql, database=BARE)

    managed.run(f"ALTER ROLE {TENANT} RENAME TO {TENANT}_of_mail")
    try:
        done = plain.json("db", "migrate")
        assert done["functions"]
        (lacks,) = done["missing"]
        assert lacks["sql"] == f"CREATE ROLE {TENANT} NOLOGIN; GRANT {TENANT} TO {PLAIN}"
        assert missing(plain.ok("db", "migrate"), lacks["sql"]) == []
        assert missing(plain.error("api", "--listen", "127.0.0.1:0"), lacks["sql"], MIGRATE) == []
        found = managed.doctor(PLAIN, BARE)
        assert found.keys() == {"tenant role"}
        follow(managed, found["tenant role"]["then"], PLAIN, BARE)
        assert managed.doctor(PLAIN, BARE) == {}
        ask_the_service(plain, workspace="acme")
    finally:
        managed.run(f"DROP DATABASE {BARE} WITH (FORCE)", database="postgres")
        managed.run(f"DROP ROLE {PLAIN}", f"DROP ROLE IF EXISTS {TENANT}")
        managed.run(f"ALTER ROLE {TENANT}_of_mail RENAME TO {TENANT}")


def test_a_login_that_may_make_roles_is_granted_one_that_is_there(managed: Managed) -> None:
    """A second database on the same server, with a different owner."""
    with psycopg.connect(managed.server_url) as conn:
        if conn.info.server_version >= 160_000:
            pytest.skip("from PostgreSQL 16 on, CREATEROLE is not enough for roles of others")
    managed.run(f"CREATE ROLE {PLAIN} LOGIN CREATEROLE PASSWORD '{PASSWORD}'", f"CREATE DATABASE {BARE} OWNER {PLAIN}")
    assert managed.cli(PLAIN, BARE).json("db", "migrate")["missing"] == []
