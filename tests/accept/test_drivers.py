"""The contract of `enqueue` over every supported connection: the caller's transaction decides, and stays usable."""

import ast
import asyncio
import importlib.metadata
import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, assert_type, get_type_hints
from urllib.parse import parse_qs, urlsplit

import asyncpg
import django
import django.conf
import django.db
import psycopg
import psycopg2
import psycopg2.extras
import pytest
import sqlalchemy
import sqlalchemy.ext.asyncio as sa
from psycopg.rows import class_row, dict_row, namedtuple_row, scalar_row
from psycopg.types.json import set_json_loads
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import fairpost
from fairpost import Email, Enqueued, InvalidEmail, Rejected, enqueue, enqueue_many, events, find, status
from fairpost.accept.enqueue import EmailFields
from fairpost.model.errors import MigrationError

DOCS = Path(__file__).parents[2] / "docs" / "enqueue.md"
HELLO: dict[str, Any] = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}


@dataclass
class Caller:
    """An application with an open connection. `run` awaits whatever its driver returns."""

    conn: Any
    execute: Callable[[str], Any]
    commit: Callable[[], Any]
    rollback: Callable[[], Any]
    run: Callable[[Any], Any] = field(default=lambda result: result)
    begin: Callable[[], Any] = field(default=lambda: None)

    def enqueue(self, **email: Any) -> Any:
        return self.run(enqueue(self.conn, **email))

    def enqueue_many(self, *emails: Any) -> Any:
        return self.run(enqueue_many(self.conn, emails))


Flavour = Callable[[str], AbstractContextManager[Caller]]
Others: TypeAlias = "psycopg.Connection[Any]"


@contextmanager
def over_psycopg(url: str, pick: Callable[[Any], Any] = lambda conn: conn, **options: Any) -> Iterator[Caller]:
    with closing(psycopg.connect(url, **options)) as conn:
        yield Caller(pick(conn), lambda sql: conn.execute(sql), conn.commit, conn.rollback)


@contextmanager
def over_psycopg_async(url: str, pick: Callable[[Any], Any] = lambda conn: conn, **options: Any) -> Iterator[Caller]:
    with asyncio.Runner() as runner:
        conn = runner.run(psycopg.AsyncConnection.connect(url, **options))
        yield Caller(
            pick(conn),
            execute=lambda sql: runner.run(conn.execute(sql)),
            commit=lambda: runner.run(conn.commit()),
            rollback=lambda: runner.run(conn.rollback()),
            run=runner.run,
        )
        runner.run(conn.close())


def with_odd_json(conn: Any) -> Any:
    set_json_loads(lambda text: "not what you think", conn)
    return conn


@contextmanager
def over_psycopg2(url: str, pick: Callable[[Any], Any] = lambda conn: conn, **options: Any) -> Iterator[Caller]:
    with closing(psycopg2.connect(url, **options)) as conn:
        yield Caller(pick(conn), lambda sql: conn.cursor().execute(sql), conn.commit, conn.rollback)


@contextmanager
def over_asyncpg(url: str, **options: Any) -> Iterator[Caller]:
    with asyncio.Runner() as runner:
        conn = runner.run(asyncpg.connect(url, **options))
        runner.run(
            conn.set_type_codec(
                "jsonb", encoder=json.dumps, decoder=lambda text: "not what you think", schema="pg_catalog"
            )
        )
        yield asyncpg_caller(runner, conn)
        runner.run(conn.close())


@contextmanager
def over_an_asyncpg_pool(url: str) -> Iterator[Caller]:
    with asyncio.Runner() as runner:
        pool = runner.run(open_pool(url))
        conn = runner.run(acquire(pool))
        yield asyncpg_caller(runner, conn)
        runner.run(pool.release(conn))
        runner.run(pool.close())


async def open_pool(url: str) -> Any:
    return await asyncpg.create_pool(url, min_size=1, max_size=1)


async def acquire(pool: Any) -> Any:
    return await pool.acquire()


def asyncpg_caller(runner: asyncio.Runner, conn: Any) -> Caller:
    def execute(sql: str) -> Any:
        return runner.run(conn.execute(sql))

    return Caller(
        conn,
        execute,
        commit=lambda: execute("COMMIT"),
        rollback=lambda: execute("ROLLBACK"),
        run=runner.run,
        begin=lambda: execute("BEGIN"),
    )


class ShoutingRecord(asyncpg.Record):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        return self[name.lower()]


@contextmanager
def over_sqlalchemy(url: str, dialect: str, make: Callable[[Any], Any], **options: Any) -> Iterator[Caller]:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", f"postgresql+{dialect}:", 1), connect_args=options)
    with closing(make(engine)) as conn:
        yield Caller(
            conn,
            lambda sql: conn.execute(sqlalchemy.text(sql), execution_options={"stream_results": False}),
            conn.commit,
            conn.rollback,
        )
    engine.dispose()


def streaming(engine: sqlalchemy.Engine) -> sqlalchemy.Connection:
    return engine.connect().execution_options(stream_results=True)


@contextmanager
def over_sqlalchemy_async(url: str, dialect: str, make: Callable[[Any], Any], **options: Any) -> Iterator[Caller]:
    engine = sa.create_async_engine(url.replace("postgresql:", f"postgresql+{dialect}:", 1), connect_args=options)
    with asyncio.Runner() as runner:
        conn = make(engine)
        if isinstance(conn, sa.AsyncConnection):
            runner.run(started(conn))
        yield Caller(
            conn,
            execute=lambda sql: runner.run(conn.execute(sqlalchemy.text(sql))),
            commit=lambda: runner.run(conn.commit()),
            rollback=lambda: runner.run(conn.rollback()),
            run=runner.run,
        )
        runner.run(conn.close())
        runner.run(engine.dispose())


async def started(conn: sa.AsyncConnection) -> None:
    await conn.start()


def current_task() -> Any:
    return "the only one"


@contextmanager
def over_django(url: str, pick: Callable[[Any], Any]) -> Iterator[Caller]:
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    if not django.conf.settings.configured:
        django.conf.settings.configure(LOGGING_CONFIG=None)
        django.setup()
    connections = django.db.ConnectionHandler(
        {
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": parts.path[1:],
                "USER": parts.username,
                "HOST": query["host"][0] if "host" in query else parts.hostname,
                "PORT": query["port"][0] if "port" in query else parts.port,
            }
        }
    )
    wrapper = connections["default"]
    django.db.connections["default"] = wrapper

    def execute(sql: str) -> None:
        with wrapper.cursor() as cursor:
            cursor.execute(sql)

    with closing(wrapper):
        yield Caller(
            pick(wrapper),
            execute,
            wrapper.commit,
            wrapper.rollback,
            begin=lambda: wrapper.set_autocommit(False),
        )
    del django.db.connections["default"]


FLAVOURS: dict[str, Flavour] = {
    "psycopg": over_psycopg,
    "psycopg-cursor": lambda url: over_psycopg(url, lambda conn: conn.cursor()),
    "psycopg-dict-rows": lambda url: over_psycopg(url, row_factory=dict_row),
    "psycopg-namedtuple-rows": lambda url: over_psycopg(url, row_factory=namedtuple_row),
    "psycopg-class-rows": lambda url: over_psycopg(url, row_factory=class_row(Caller)),
    "psycopg-scalar-rows": lambda url: over_psycopg(url, row_factory=scalar_row),
    "psycopg-raw-cursors": lambda url: over_psycopg(url, cursor_factory=psycopg.RawCursor),
    "psycopg-client-cursors": lambda url: over_psycopg(url, cursor_factory=psycopg.ClientCursor),
    "psycopg-odd-json": lambda url: over_psycopg(url, with_odd_json),
    "psycopg-async": over_psycopg_async,
    "psycopg-async-cursor": lambda url: over_psycopg_async(url, lambda conn: conn.cursor()),
    "psycopg-async-dict-rows": lambda url: over_psycopg_async(url, row_factory=dict_row),
    "psycopg-async-raw-cursors": lambda url: over_psycopg_async(url, cursor_factory=psycopg.AsyncRawCursor),
    "psycopg-async-odd-json": lambda url: over_psycopg_async(url, with_odd_json),
    "psycopg2": over_psycopg2,
    "psycopg2-cursor": lambda url: over_psycopg2(url, lambda conn: conn.cursor()),
    "psycopg2-dict-rows": lambda url: over_psycopg2(url, cursor_factory=psycopg2.extras.RealDictCursor),
    "psycopg2-logging": lambda url: over_psycopg2(
        url, connection_factory=psycopg2.extras.LoggingConnection, pick=quiet
    ),
    "asyncpg": over_asyncpg,
    "asyncpg-record-class": lambda url: over_asyncpg(url, record_class=ShoutingRecord),
    "asyncpg-pool": over_an_asyncpg_pool,
    "sqlalchemy-psycopg-connection": lambda url: over_sqlalchemy(url, "psycopg", lambda e: e.connect()),
    "sqlalchemy-psycopg-streaming": lambda url: over_sqlalchemy(url, "psycopg", streaming),
    "sqlalchemy-psycopg-session": lambda url: over_sqlalchemy(url, "psycopg", Session),
    "sqlalchemy-psycopg2-connection": lambda url: over_sqlalchemy(url, "psycopg2", lambda e: e.connect()),
    "sqlalchemy-psycopg2-streaming": lambda url: over_sqlalchemy(url, "psycopg2", streaming),
    "sqlalchemy-psycopg2-session": lambda url: over_sqlalchemy(url, "psycopg2", Session),
    "sqlalchemy-scoped-session": lambda url: over_sqlalchemy(
        url, "psycopg2", lambda e: scoped_session(sessionmaker(e))
    ),
    "sqlalchemy-asyncpg-connection": lambda url: over_sqlalchemy_async(url, "asyncpg", lambda e: e.connect()),
    "sqlalchemy-asyncpg-session": lambda url: over_sqlalchemy_async(url, "asyncpg", sa.AsyncSession),
    "sqlalchemy-psycopg-async-connection": lambda url: over_sqlalchemy_async(url, "psycopg", lambda e: e.connect()),
    "sqlalchemy-psycopg-async-session": lambda url: over_sqlalchemy_async(url, "psycopg", sa.AsyncSession),
    "sqlalchemy-async-scoped-session": lambda url: over_sqlalchemy_async(
        url, "asyncpg", lambda e: sa.async_scoped_session(sa.async_sessionmaker(e), current_task)
    ),
    "django-connection": lambda url: over_django(url, lambda wrapper: django.db.connection),
    "django-wrapper": lambda url: over_django(url, lambda wrapper: wrapper),
}


def quiet(conn: Any) -> Any:
    conn.initialize(logging.getLogger("psycopg2"))
    return conn


@pytest.fixture(scope="module")
def others(file_url: str) -> Iterator[Others]:
    """A second session, which only sees what is committed."""
    with psycopg.connect(file_url, autocommit=True) as conn:
        conn.execute("CREATE TABLE notes (word text)")
        yield conn


def queued(others: Others, *ids: int) -> list[int]:
    rows = others.execute("SELECT id FROM fairpost.queue WHERE id = ANY (%s) ORDER BY id", [list(ids)])
    return [row[0] for row in rows]


def an_email_appears_when_the_caller_commits(caller: Caller, others: Others, name: str) -> None:
    sent = caller.enqueue(**HELLO)
    assert sent == Enqueued(id=sent.id, new=True)
    assert queued(others, sent.id) == []
    caller.commit()
    assert queued(others, sent.id) == [sent.id]


def an_email_is_forgotten_when_the_caller_rolls_back(caller: Caller, others: Others, name: str) -> None:
    sent = caller.enqueue(**HELLO)
    caller.rollback()
    assert queued(others, sent.id) == []


def a_known_key_gives_the_first_id(caller: Caller, others: Others, name: str) -> None:
    first = caller.enqueue(**HELLO, idempotency_key=name)
    assert caller.enqueue(**HELLO, idempotency_key=name) == Enqueued(first.id, new=False)
    caller.commit()
    caller.begin()
    assert caller.enqueue(**HELLO, idempotency_key=name) == Enqueued(first.id, new=False)


def a_refused_email_leaves_the_transaction_usable(caller: Caller, others: Others, name: str) -> None:
    caller.execute(f"INSERT INTO notes VALUES ('{name}')")
    with pytest.raises(InvalidEmail, match='"nobody"') as refused:
        caller.enqueue(to="nobody", subject="Hello", text="Hi")
    assert refused.value.field == "to"
    with pytest.raises(InvalidEmail, match="NUL") as refused:
        caller.enqueue(to="ann@example.com", subject="Hel\0lo", text="Hi")
    assert refused.value.field == "subject"
    sent = caller.enqueue(**HELLO)
    caller.execute(f"INSERT INTO notes VALUES ('{name}')")
    caller.commit()
    assert others.execute("SELECT count(*) FROM notes WHERE word = %s", [name]).fetchone() == (2,)
    assert queued(others, sent.id) == [sent.id]


def many_emails_give_a_result_each(caller: Caller, others: Others, name: str) -> None:
    first, bad, unsayable, last = caller.enqueue_many(
        Email(**HELLO), {**HELLO, "from": "x"}, {**HELLO, "text": "\ud800"}, {**HELLO, "from_": "b@x.org"}
    )
    assert isinstance(bad, Rejected)
    assert (bad.field, '"x"' in bad.message) == ("from", True)
    assert isinstance(unsayable, Rejected)
    assert (unsayable.field, "surrogates" in unsayable.message) == ("text", True)
    caller.commit()
    assert queued(others, first.id, last.id) == [first.id, last.id]


def what_became_of_it_is_asked_within_the_transaction(caller: Caller, others: Others, flavour: str) -> None:
    tags = {"flavour": f"{flavour} ü=%s:x"}
    first, last = caller.enqueue_many({**HELLO, "tags": tags}, {**HELLO, "tags": tags, "metadata": {"a": [None]}})
    found = caller.run(status(caller.conn, last.id))
    assert (found.id, found.state, found.attempts, found.finished_at) == (last.id, "ready", 0, None)
    assert (found.tags, found.metadata, found.due_at.utcoffset() is not None) == (tags, {"a": [None]}, True)
    assert caller.run(find(caller.conn, tag=f"flavour={tags['flavour']}", limit=1)) == [found]
    older = caller.run(find(caller.conn, tag=f"flavour={tags['flavour']}", before=last.id))
    assert [each.id for each in older] == [first.id]
    assert caller.run(find(caller.conn, tag="flavour=none")) == []
    for unknown in (1, -1, 2**80):
        assert caller.run(status(caller.conn, unknown)) is None
    for no_tag in ("flavour", "=x", "a b=c", "a=\0", "a=\ud800"):
        with pytest.raises(ValueError):
            find(caller.conn, tag=no_tag)
    caller.rollback()
    caller.begin()
    assert caller.run(status(caller.conn, last.id)) is None


def events_are_read_by_cursor(caller: Caller, others: Others, flavour: str) -> None:
    kind = f"test.{flavour}"
    for n in range(2):
        others.execute(
            "INSERT INTO fairpost.outbox (at, kind, params) VALUES (now(), %s, jsonb_build_object('n', %s::int))",
            (kind, n),
        )
    others.execute("SELECT fairpost.take_turn()")
    first = caller.run(events(caller.conn, kinds=[kind], limit=1))
    rest = caller.run(events(caller.conn, kinds=[kind], after=first.cursor))
    assert [each.params for each in (*first, *rest)] == [{"n": 0}, {"n": 1}]
    assert next(iter(first)).at.utcoffset() is not None
    assert caller.run(events(caller.conn, after=rest.cursor)).is_end
    caller.rollback()


CONTRACT = (
    events_are_read_by_cursor,
    what_became_of_it_is_asked_within_the_transaction,
    an_email_appears_when_the_caller_commits,
    an_email_is_forgotten_when_the_caller_rolls_back,
    a_known_key_gives_the_first_id,
    a_refused_email_leaves_the_transaction_usable,
    many_emails_give_a_result_each,
)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_contract_holds_over_every_connection(flavour: str, file_url: str, others: Others) -> None:
    with FLAVOURS[flavour](file_url) as caller:
        for promise in CONTRACT:
            caller.begin()
            promise(caller, others, flavour)
            caller.rollback()


def test_a_missing_schema_names_the_command_that_creates_it_over_every_connection(blank_url: str) -> None:
    silent = []
    for flavour, connect in FLAVOURS.items():
        with connect(blank_url) as caller:
            caller.begin()
            try:
                caller.enqueue(**HELLO)
            except MigrationError as error:
                silent += [flavour] if "fairpost db migrate" not in str(error) else []
            caller.rollback()
    assert silent == []


def test_autocommit_stays_what_it_was(file_url: str, others: Others) -> None:
    with closing(psycopg.connect(file_url, autocommit=True)) as conn:
        sent = enqueue(conn, **HELLO)
        assert conn.autocommit
        assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert queued(others, sent.id) == [sent.id]


def test_a_psycopg_pipeline_is_no_obstacle(file_url: str, others: Others) -> None:
    with psycopg.connect(file_url) as conn, conn.pipeline():
        conn.execute("SELECT 1")
        sent = enqueue(conn, **HELLO)
    assert queued(others, sent.id) == [sent.id]


def test_a_refused_email_does_not_break_an_atomic_block_of_django(file_url: str, others: Others) -> None:
    with FLAVOURS["django-connection"](file_url) as caller, django.db.transaction.atomic():
        with pytest.raises(InvalidEmail):
            caller.enqueue(to="nobody", subject="Hello", text="Hi")
        sent = caller.enqueue(**HELLO)
    assert queued(others, sent.id) == [sent.id]


def test_every_example_in_the_docs_works(file_url: str, others: Others) -> None:
    others.execute("CREATE TABLE orders (customer text)")
    examples = re.findall(r"```(\w+)\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    assert len(examples) > 10
    with FLAVOURS["django-connection"](file_url):
        for language, code in examples:
            before = enqueued_so_far(others)
            if language == "sql":
                others.execute(code)
            else:
                run_example(code.replace("://localhost/shop", file_url.removeprefix("postgresql")))
            assert enqueued_so_far(others) > before or "InvalidEmail" in code or "public_id" in code, code


def run_example(code: str) -> None:
    names: dict[str, Any] = {}
    with asyncio.Runner() as runner:
        result = eval(compile(code, DOCS, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if result:
            runner.run(result)
        if engine := names.get("engine"):
            disposed = engine.dispose()
            if disposed:
                runner.run(disposed)


def enqueued_so_far(others: Others) -> int:
    row = others.execute("SELECT count(*) FROM fairpost.queue").fetchone()
    assert row
    return int(row[0])


@pytest.mark.parametrize("thing", [None, "postgresql://localhost", object(), sqlalchemy])
def test_anything_else_is_refused_with_the_list_of_what_is_supported(thing: Any) -> None:
    with pytest.raises(TypeError, match=r"psycopg .* psycopg2 .* asyncpg .* SQLAlchemy .* Django"):
        enqueue(thing, **HELLO)


def test_importing_fairpost_loads_no_driver() -> None:
    code = "import sys, fairpost; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    drivers = {"asyncpg", "psycopg", "psycopg2", "sqlalchemy", "django", "greenlet"}
    assert "fairpost" in loaded.stdout.split()
    assert drivers.isdisjoint(loaded.stdout.split())


def test_the_version_is_the_one_that_is_installed() -> None:
    assert fairpost.__version__ == importlib.metadata.version("fairpost")


def test_the_keywords_of_enqueue_are_the_fields_of_email() -> None:
    assert get_type_hints(EmailFields) == get_type_hints(Email)


if TYPE_CHECKING:  # checked by mypy, which tests the types that users see
    Results = list[Enqueued | Rejected]

    async def _types(
        conn: "psycopg.Connection[Any]",
        cursor: "psycopg.Cursor[Any]",
        a_conn: "psycopg.AsyncConnection[Any]",
        a_cursor: "psycopg.AsyncCursor[Any]",
        connection: sqlalchemy.Connection,
        session: Session,
        scoped: scoped_session[Session],
        a_connection: sa.AsyncConnection,
        a_session: sa.AsyncSession,
        a_scoped: sa.async_scoped_session[sa.AsyncSession],
    ) -> None:
        assert_type(enqueue(conn, to="a@example.com"), Enqueued)
        assert_type(enqueue(cursor, to=("Ann", "a@example.com")), Enqueued)
        assert_type(enqueue(connection, to=["a@example.com", ("Ann", "a@example.com")]), Enqueued)
        assert_type(enqueue(session, to="a@example.com"), Enqueued)
        assert_type(enqueue(scoped, to="a@example.com"), Enqueued)
        assert_type(await enqueue(a_conn, to="a@example.com"), Enqueued)
        assert_type(await enqueue(a_cursor, to="a@example.com"), Enqueued)
        assert_type(await enqueue(a_connection, to="a@example.com"), Enqueued)
        assert_type(await enqueue(a_session, to="a@example.com"), Enqueued)
        assert_type(await enqueue(a_scoped, to="a@example.com"), Enqueued)
        assert_type(enqueue_many(conn, [Email(to="a@example.com"), {"to": "a@example.com"}]), Results)
        assert_type(await enqueue_many(a_session, [{"to": "a@example.com"}]), Results)
