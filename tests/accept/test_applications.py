"""What an application can do over SQL with its own login: act for its workspaces, and nothing else."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg
import pytest

from fairpost import find
from fairpost.model.urls import as_login

Login: TypeAlias = "Callable[..., psycopg.Connection[Any]]"

pytestmark = pytest.mark.attack

OPERATOR = "the_shop"  # acts for all
PARTNER = "partner_of_acme"
STRANGER = "new_login"  # has access, but is granted no workspace
NAMED = {OPERATOR: ["*"], PARTNER: ["acme"]}

HELLO = {"to": "ann@there.test", "subject": "Hello", "text": "Hi"}
DENIED = "42501"
FOREIGN = "FP004"
WRONG = "FP001"


@pytest.fixture
def login(url: str) -> Iterator[Login]:
    """Connections of these roles; the roles are gone afterwards."""
    with psycopg.connect(url, autocommit=True) as owner:
        for name in (OPERATOR, PARTNER, STRANGER):
            owner.execute(f"CREATE ROLE {name} LOGIN".encode())
            owner.execute("SELECT fairpost.let_in(%s)", [name])
            for workspace in NAMED.get(name, []):
                owner.execute("INSERT INTO fairpost.applications VALUES (%s, %s, now())", [name, workspace])
        owner.execute(
            """INSERT INTO fairpost.workspaces (name, created_at) SELECT w, now() FROM unnest('{acme,victim}'::text[]) w;
               INSERT INTO fairpost.domains (workspace, domain, token, created_at, proven_at)
               SELECT w, w || '.test', '', now(), now() FROM unnest('{acme,victim}'::text[]) w;
               SELECT fairpost.add_account(w || '/mail', 'x@' || w || '.test', w || '/default', '{}') FROM unnest('{acme,victim}'::text[]) w"""
        )
        try:
            yield lambda name: psycopg.connect(as_login(url, name), autocommit=True)
        finally:
            for name in (OPERATOR, PARTNER, STRANGER):
                owner.execute(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}".encode())


def enqueue(conn: "psycopg.Connection[Any]", **email: Any) -> int:
    row = conn.execute("SELECT id FROM fairpost.enqueue(%s::text::jsonb)", [json.dumps({**HELLO, **email})]).fetchone()
    assert row
    return int(row[0])


@contextmanager
def refused(sqlstate: str, field: str | None = None) -> Iterator[None]:
    with pytest.raises(psycopg.DatabaseError) as error:
        yield
    assert error.value.sqlstate == sqlstate
    if field:
        assert json.loads(error.value.diag.message_detail or "{}")["field"] == field


def test_a_login_acts_for_its_workspace_without_naming_it(login: Login, url: str) -> None:
    with login(PARTNER) as conn:
        id_ = enqueue(conn)
        assert conn.execute("SELECT state, attempts FROM fairpost.status(%s)", [id_]).fetchone() == ("ready", 0)
        conn.execute("SELECT fairpost.set_sender('acme', 'ann', 'team', NULL)")
        assert conn.execute("SELECT fairpost.cancel(%s)::text", [id_]).fetchone() == ("cancelled",)
        assert conn.execute("SELECT state FROM fairpost.status(%s)", [id_]).fetchone() == ("cancelled",)
    with psycopg.connect(url) as owner:
        found = owner.execute("SELECT workspace, route FROM fairpost.emails WHERE id = %s", [id_]).fetchone()
        assert found == ("acme", "acme/default")


@pytest.mark.parametrize(
    ("email", "field"),
    [
        ({"workspace": "victim"}, "workspace"),
        ({"workspace": "default"}, "workspace"),
        ({"workspace": ["acme"]}, "workspace"),
        ({"workspace": "*"}, "workspace"),
        ({"from": "ceo@victim.test"}, "from"),
        ({"from": "Ceo <ceo@VICTIM.test>"}, "from"),
        ({"account": "victim/mail"}, "account"),
        ({"account": "house"}, "account"),
        ({"pool": "victim/default"}, "pool"),
        ({"pool": "house"}, "pool"),
    ],
)
def test_resources_of_another_workspace_are_refused_as_over_http(
    login: Login, email: dict[str, Any], field: str
) -> None:
    with login(PARTNER) as conn:
        with refused(WRONG, field):
            enqueue(conn, **email)
        many = json.dumps([{**HELLO, **email}, HELLO])
        rows = conn.execute("SELECT error ->> 'field', new FROM fairpost.enqueue_many(%s::text::jsonb)", [many])
        assert rows.fetchall() == [(field, False), (None, True)]


def test_its_own_domain_account_and_pool_are_fine(login: Login) -> None:
    with login(PARTNER) as conn:
        assert enqueue(conn, **{"from": "news@acme.test", "account": "mail"})
        assert enqueue(conn, workspace="acme", pool="default")


def test_content_and_conversation_of_another_workspace_are_out_of_reach(login: Login) -> None:
    with login(OPERATOR) as conn:
        secret = enqueue(conn, workspace="victim", text="secret")
        put = "SELECT fairpost.put_content(%s::text::jsonb)"
        contents = [
            conn.execute(put, [json.dumps({"subject": "s", "text": "t", **whose})]).fetchone()
            for whose in ({"workspace": "victim"}, {})
        ]
    foreign = [secret, *(row[0] for row in contents if row)]
    assert len(foreign) == 3
    with login(PARTNER) as conn:
        enqueue_shared = "SELECT id FROM fairpost.enqueue(%s::text::jsonb)"
        for content in (*foreign, 1):
            with refused(WRONG, "content_id"):
                conn.execute(enqueue_shared, [json.dumps({"to": "me@there.test", "content_id": content})])
        with refused(WRONG, "follows"):
            enqueue(conn, follows=secret)
        with refused(WRONG, "workspace"):  # the error reveals nothing about the existing e-mail
            enqueue(conn, workspace="victim", follows=secret)
        with refused(WRONG, "workspace"):
            conn.execute(put, [json.dumps({"workspace": "victim", "subject": "s", "text": "t"})])
        own = conn.execute(put, [json.dumps({"subject": "s", "text": "t"})]).fetchone()
        assert own
        assert conn.execute(enqueue_shared, [json.dumps({"to": "me@there.test", "content_id": own[0]})]).fetchone()


def test_emails_of_another_workspace_are_neither_seen_nor_cancelled(login: Login) -> None:
    with login(OPERATOR) as conn:
        theirs = enqueue(conn, workspace="victim", tags={"order": "7"})
        assert [each.id for each in find(conn, tag="order=7", workspace="victim")] == [theirs]
    with login(PARTNER) as conn:
        mine = enqueue(conn, tags={"order": "7"})
        assert [each.id for each in find(conn, tag="order=7")] == [mine]
        with refused(FOREIGN):
            find(conn, tag="order=7", workspace="victim")
        for id_ in (theirs, 1):
            found = conn.execute("SELECT * FROM fairpost.status(%s)", [id_]).fetchone()
            assert found
            assert set(found) == {None}
            with refused(FOREIGN):
                conn.execute("SELECT fairpost.cancel(%s)", [id_])
        with refused(FOREIGN):
            conn.execute("SELECT fairpost.set_sender('victim', 'ann', 'free', NULL)")
    with login(OPERATOR) as conn:
        assert conn.execute("SELECT state FROM fairpost.status(%s)", [theirs]).fetchone() == ("ready",)
        assert conn.execute("SELECT fairpost.cancel(%s)::text", [theirs]).fetchone() == ("cancelled",)


def test_an_operator_s_own_login_may_use_any_name_and_way(login: Login) -> None:
    with login(OPERATOR) as conn:
        assert enqueue(conn, **{"from": "ceo@anybody.test", "workspace": "victim"})
        assert enqueue(conn, account="house", workspace="acme")
        assert enqueue(conn, pool="anything")


def test_a_new_login_acts_for_the_default_workspace(login: Login) -> None:
    with login(STRANGER) as conn:
        assert enqueue(conn)
        with refused(WRONG, "workspace"):
            enqueue(conn, workspace="acme")


def test_settings_of_the_session_change_nothing(login: Login, url: str) -> None:
    with login(PARTNER) as conn:
        conn.execute("SET fairpost.workspace = 'victim'")
        conn.execute(f"SET ROLE {PARTNER}".encode())
        with refused(WRONG, "workspace"):
            enqueue(conn, workspace="victim")
        for role in ("fairpost_tenant", OPERATOR):
            with refused(DENIED):
                conn.execute(f"SET ROLE {role}".encode())
        id_ = conn.execute(
            "SELECT id FROM fairpost.enqueue(%s::text::jsonb, '2001-01-01Z')", [json.dumps(HELLO)]
        ).fetchone()
    with psycopg.connect(url) as owner:
        made = owner.execute("SELECT created_at > now() - interval '1 hour' FROM fairpost.queue WHERE id = %s", id_)
        assert made.fetchone() == (True,)


def test_members_of_a_role_act_for_what_it_acts_for(login: Login, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"GRANT {PARTNER} TO {STRANGER}".encode())
    with login(STRANGER) as conn:
        assert enqueue(conn)
        with refused(WRONG, "workspace"):
            enqueue(conn, workspace="victim")


def test_a_login_can_read_no_table_and_call_no_other_function(login: Login, url: str) -> None:
    with psycopg.connect(url) as owner:
        tables = owner.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'fairpost'::regnamespace AND relkind IN ('r', 'p')"
        )
        names = [name for (name,) in tables]
    calls = [
        "retry(1)",
        "suppress('acme', 'a@b.test', 'x')",
        "unsuppress('acme', 'a@b.test')",
        "show_email(1)",
        "normalize_address('x')",
    ]
    calls += ["submit('acme', '[]')", "let_in('partner_of_acme')", "spoken_for()", "workspaces_of('postgres')"]
    for name in (PARTNER, OPERATOR, STRANGER):
        with login(name) as conn:
            for table in names:
                for statement in ("SELECT FROM", "DELETE FROM"):
                    with refused(DENIED):
                        conn.execute(f"{statement} fairpost.{table}".encode())
            for call in calls:
                with refused(DENIED):
                    conn.execute(f"SELECT fairpost.{call}".encode())


def test_a_caller_s_key_and_a_campaign_s_never_meet(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(
            "INSERT INTO fairpost.idempotency_keys (key_hash, email_id) VALUES (fairpost.key_hash('default', '8:1:2'), 7)"
        )
        sql = "SELECT id, new FROM fairpost.enqueue(%s::text::jsonb)"
        email = json.dumps({**HELLO, "idempotency_key": "8:1:2"})
        first = owner.execute(sql, [email]).fetchone()
        assert first
        assert first[1]
        assert owner.execute(sql, [email]).fetchone() == (first[0], False)


def test_a_key_that_a_caller_used_when_both_had_one_space_is_still_known(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as owner:
        sql = "SELECT id, new FROM fairpost.enqueue(%s::text::jsonb)"
        before = owner.execute(sql, [json.dumps({**HELLO, "idempotency_key": "then"})]).fetchone()
        assert before
        owner.execute("UPDATE fairpost.idempotency_keys SET key_hash = fairpost.key_hash('default', '8:1:2')")
        again = owner.execute(sql, [json.dumps({**HELLO, "idempotency_key": "8:1:2"})]).fetchone()
        assert again == (before[0], False)
