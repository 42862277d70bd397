"""One SQL statement, sent over whatever connection the caller has: his transaction stays his.

Nothing here commits, rolls back, changes a setting of the connection, or imports a driver the caller does not
use. What the e-mails say, and what the answers mean, does not belong here.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

# Text in, plain columns out: json codecs and row factories that the caller has set have nothing to bite on.
_SQL = """
SELECT id, new, error ->> 'field', error ->> 'message', error ->> 'until'
FROM fairpost.enqueue_many(CAST(CAST({} AS text) AS jsonb)) ORDER BY ord
"""
_FORMAT_SQL = _SQL.format("%s")
_ASYNCPG_SQL = _SQL.format("$1")
_SQLALCHEMY_SQL = _SQL.format(":emails")


class Row(Protocol):
    """id, new, and where the e-mail is refused: field, message, and until when if it was one too many."""

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


# What type checkers can tell apart without knowing any driver; at run time the class decides.
SyncConnection: TypeAlias = _Commits | _Cursor
AsyncConnection: TypeAlias = _CommitsAsync | _CursorAsync | _Asyncpg


@dataclass(frozen=True, slots=True)
class SyncLink:
    call: Callable[[str], Sequence[Row]]


@dataclass(frozen=True, slots=True)
class AsyncLink:
    call: Callable[[str], Awaitable[Sequence[Row]]]


def link_to(conn: object) -> SyncLink | AsyncLink:
    """How to send e-mails, as JSON, over this connection: known by its class or one that it inherits from."""
    for cls in conn.__class__.__mro__:
        name = f"{cls.__module__}.{cls.__qualname__}"
        if sync := _SYNC.get(name):
            return SyncLink(lambda emails: sync(conn, emails))
        if asynchronous := _ASYNC.get(name):
            return AsyncLink(lambda emails: asynchronous(conn, emails))
    raise TypeError(f"cannot enqueue over a {type(conn).__module__}.{type(conn).__qualname__}; give {_SUPPORTED}")


def _psycopg(conn: Any, emails: str) -> Sequence[Row]:
    from psycopg import Cursor

    # Not conn.cursor(): its class may be one that knows no %s. Not prepared, as psycopg would after a few times: behind a
    # pooler the next transaction may run in a session that does not know the statement.
    with Cursor(conn, row_factory=_plain_rows) as cursor:
        return cursor.execute(_FORMAT_SQL, (emails,), prepare=False).fetchall()


def _psycopg_cursor(cursor: Any, emails: str) -> Sequence[Row]:
    return _psycopg(cursor.connection, emails)


async def _psycopg_async(conn: Any, emails: str) -> Sequence[Row]:
    from psycopg import AsyncCursor

    async with AsyncCursor(conn, row_factory=_plain_rows) as cursor:
        await cursor.execute(_FORMAT_SQL, (emails,), prepare=False)
        return await cursor.fetchall()


async def _psycopg_async_cursor(cursor: Any, emails: str) -> Sequence[Row]:
    return await _psycopg_async(cursor.connection, emails)


def _plain_rows(cursor: object) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    return tuple


def _psycopg2(conn: Any, emails: str) -> Sequence[Row]:
    from psycopg2.extensions import cursor as plain_cursor

    with plain_cursor(conn) as cursor:
        cursor.execute(_FORMAT_SQL, (emails,))
        rows: list[Row] = cursor.fetchall()
        return rows


def _psycopg2_cursor(cursor: Any, emails: str) -> Sequence[Row]:
    return _psycopg2(cursor.connection, emails)


async def _asyncpg(conn: Any, emails: str) -> Sequence[Row]:
    rows: list[Row] = await conn.fetch(_ASYNCPG_SQL, emails)
    return rows


def _sqlalchemy(conn: Any, emails: str) -> Sequence[Row]:
    from sqlalchemy import text

    rows: list[Row] = conn.execute(text(_SQLALCHEMY_SQL), {"emails": emails}).all()
    return rows


def _sqlalchemy_session(session: Any, emails: str) -> Sequence[Row]:
    return _sqlalchemy(session.connection(), emails)


async def _sqlalchemy_async(conn: Any, emails: str) -> Sequence[Row]:
    from sqlalchemy import text

    rows: list[Row] = (await conn.execute(text(_SQLALCHEMY_SQL), {"emails": emails})).all()
    return rows


async def _sqlalchemy_async_session(session: Any, emails: str) -> Sequence[Row]:
    return await _sqlalchemy_async(await session.connection(), emails)


def _django(connection: Any, emails: str) -> Sequence[Row]:
    with connection.cursor() as cursor:
        cursor.execute(_FORMAT_SQL, (emails,))
        rows: list[Row] = cursor.fetchall()
        return rows


_SYNC: dict[str, Callable[[Any, str], Sequence[Row]]] = {
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

_ASYNC: dict[str, Callable[[Any, str], Awaitable[Sequence[Row]]]] = {
    "psycopg.AsyncConnection": _psycopg_async,
    "psycopg.AsyncCursor": _psycopg_async_cursor,
    "asyncpg.connection.Connection": _asyncpg,
    "asyncpg.pool.PoolConnectionProxy": _asyncpg,
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": _sqlalchemy_async,
    "sqlalchemy.ext.asyncio.session.AsyncSession": _sqlalchemy_async_session,
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": _sqlalchemy_async_session,
}

_SUPPORTED = (
    "a connection or cursor of psycopg (sync or async) or psycopg2, a connection of asyncpg, "
    "a Connection, Session, AsyncConnection or AsyncSession of SQLAlchemy, or a connection of Django"
)
