"""Run one SQL statement over the caller's connection, inside the caller's transaction.

This module never commits, rolls back, changes connection settings or imports a driver that the caller does not use. It
does not interpret the content of e-mails or results.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from fairpost.model.errors import MigrationError

# Passes text in and gets plain columns out, so the caller's JSON codecs and row factories have no effect.
_SQL = """
SELECT id, new, error ->> 'field', error ->> 'message', error ->> 'until'
FROM fairpost.enqueue_many(CAST(CAST({} AS text) AS jsonb)) ORDER BY ord
"""
_NO_SCHEMA = {"3F000", "42883"}  # the error codes for a missing schema and a missing function


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement with one text parameter, written in each of the placeholder styles that drivers use."""

    percent: str
    dollar: str
    colon: str


def statement(sql: str) -> Statement:
    """Build a statement from SQL in which `{}` marks the parameter."""
    return Statement(sql.format("%s"), sql.format("$1"), sql.format(":given"))


_ENQUEUE = statement(_SQL)


class Row(Protocol):
    """A result row. After enqueueing, the row contains the e-mail's ID and whether the e-mail is new. For a refused
    e-mail, the row contains the field and the message. If a quota was exceeded, the row also contains the time at which
    e-mails will be accepted again.
    """

    def __getitem__(self, place: int, /) -> Any: ...


class _Commits(Protocol):
    def commit(self) -> None: ...


class _CommitsAsync(Protocol):
    def commit(self) -> Awaitable[None]: ...


class _Cursor(Protocol):
    @property
    def connection(self) -> _Commits: ...


class _CursorAsync(Protocol):
    @property
    def connection(self) -> _CommitsAsync: ...


class _Asyncpg(Protocol):
    def is_in_transaction(self) -> bool: ...


# Lets type checkers distinguish these connections without any driver.
# At run time, the connection's class determines the driver.
SyncConnection: TypeAlias = _Commits | _Cursor
AsyncConnection: TypeAlias = _CommitsAsync | _CursorAsync | _Asyncpg


@dataclass(frozen=True, slots=True)
class SyncLink:
    call: Callable[[str], Sequence[Row]]


@dataclass(frozen=True, slots=True)
class AsyncLink:
    call: Callable[[str], Awaitable[Sequence[Row]]]


def link_to(conn: object, sql: Statement = _ENQUEUE) -> SyncLink | AsyncLink:
    """Return a callable that runs the statement over this connection. By default, the statement enqueues e-mails.

    The driver is recognized by the connection's class or one of its base classes.
    """
    for cls in conn.__class__.__mro__:
        name = f"{cls.__module__}.{cls.__qualname__}"
        if sync := _SYNC.get(name):
            return SyncLink(lambda given: _called(sync, conn, sql, given))
        if asynchronous := _ASYNC.get(name):
            return AsyncLink(lambda given: _awaited(asynchronous, conn, sql, given))
    raise TypeError(f"unsupported connection type {type(conn).__module__}.{type(conn).__qualname__}; pass {_SUPPORTED}")


def _called(
    send: Callable[[Any, Statement, str], Sequence[Row]], conn: Any, sql: Statement, given: str
) -> Sequence[Row]:
    try:
        return send(conn, sql, given)
    except Exception as error:
        _require_schema(error)
        raise


async def _awaited(
    send: Callable[[Any, Statement, str], Awaitable[Sequence[Row]]], conn: Any, sql: Statement, given: str
) -> Sequence[Row]:
    try:
        return await send(conn, sql, given)
    except Exception as error:
        _require_schema(error)
        raise


def _require_schema(error: Exception) -> None:
    """Raise MigrationError if the driver's error, or the error that it wraps, means that the schema is missing."""
    if codes_of(error) & _NO_SCHEMA:
        raise MigrationError(
            "This database does not have the schema that Fairpost requires. Run: fairpost db migrate"
        ) from error


def codes_of(error: Exception) -> set[str]:
    """Return the database's error code from the driver's error, or from the error that it wraps."""
    wrapped = (error, getattr(error, "orig", None), error.__cause__)
    return {code for each in wrapped if (code := getattr(each, "sqlstate", None) or getattr(each, "pgcode", None))}


def _psycopg(conn: Any, sql: Statement, given: str) -> Sequence[Row]:
    from psycopg import Cursor

    # Creates its own cursor, because conn.cursor() may return a class that does not support %s.
    # The statement is never prepared, because behind a pooler, the next transaction may run in another session.
    with Cursor(conn, row_factory=_plain_rows) as cursor:
        return cursor.execute(sql.percent, (given,), prepare=False).fetchall()


def _psycopg_cursor(cursor: Any, sql: Statement, given: str) -> Sequence[Row]:
    return _psycopg(cursor.connection, sql, given)


async def _psycopg_async(conn: Any, sql: Statement, given: str) -> Sequence[Row]:
    from psycopg import AsyncCursor

    async with AsyncCursor(conn, row_factory=_plain_rows) as cursor:
        await cursor.execute(sql.percent, (given,), prepare=False)
        return await cursor.fetchall()


async def _psycopg_async_cursor(cursor: Any, sql: Statement, given: str) -> Sequence[Row]:
    return await _psycopg_async(cursor.connection, sql, given)


def _plain_rows(cursor: object) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    return tuple


def _psycopg2(conn: Any, sql: Statement, given: str) -> Sequence[Row]:
    from psycopg2.extensions import cursor as plain_cursor

    with plain_cursor(conn) as cursor:
        cursor.execute(sql.percent, (given,))
        rows: list[Row] = cursor.fetchall()
        return rows


def _psycopg2_cursor(cursor: Any, sql: Statement, given: str) -> Sequence[Row]:
    return _psycopg2(cursor.connection, sql, given)


async def _asyncpg(conn: Any, sql: Statement, given: str) -> Sequence[Row]:
    rows: list[Row] = await conn.fetch(sql.dollar, given)
    return rows


def _sqlalchemy(conn: Any, sql: Statement, given: str) -> Sequence[Row]:
    from sqlalchemy import text

    rows: list[Row] = conn.execute(text(sql.colon), {"given": given}).all()
    return rows


def _sqlalchemy_session(session: Any, sql: Statement, given: str) -> Sequence[Row]:
    return _sqlalchemy(session.connection(), sql, given)


async def _sqlalchemy_async(conn: Any, sql: Statement, given: str) -> Sequence[Row]:
    from sqlalchemy import text

    rows: list[Row] = (await conn.execute(text(sql.colon), {"given": given})).all()
    return rows


async def _sqlalchemy_async_session(session: Any, sql: Statement, given: str) -> Sequence[Row]:
    return await _sqlalchemy_async(await session.connection(), sql, given)


def _django(connection: Any, sql: Statement, given: str) -> Sequence[Row]:
    with connection.cursor() as cursor:
        cursor.execute(sql.percent, (given,))
        rows: list[Row] = cursor.fetchall()
        return rows


_SYNC: dict[str, Callable[[Any, Statement, str], Sequence[Row]]] = {
    "psycopg.Connection": _psycopg,
    "psycopg.Cursor": _psycopg_cursor,
    "psycopg2.extensions.connection": _psycopg2,
    "psycopg2.extensions.cursor": _psycopg2_cursor,
    "sqlalchemy.engine.base.Connection": _sqlalchemy,
    "sqlalchemy.orm.session.Session": _sqlalchemy_session,
    "sqlalchemy.orm.scoping.scoped_session": _sqlalchemy_session,
    "django.db.backends.base.base.BaseDatabaseWrapper": _django,
    "django.utils.connection.ConnectionProxy": _django,
}

_ASYNC: dict[str, Callable[[Any, Statement, str], Awaitable[Sequence[Row]]]] = {
    "psycopg.AsyncConnection": _psycopg_async,
    "psycopg.AsyncCursor": _psycopg_async_cursor,
    "asyncpg.connection.Connection": _asyncpg,
    "asyncpg.pool.PoolConnectionProxy": _asyncpg,
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": _sqlalchemy_async,
    "sqlalchemy.ext.asyncio.session.AsyncSession": _sqlalchemy_async_session,
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": _sqlalchemy_async_session,
}

_SUPPORTED = "a psycopg (sync or async) or psycopg2 connection or cursor, an asyncpg connection, an SQLAlchemy Connection, Session, AsyncConnection or AsyncSession, or a Django connection"
