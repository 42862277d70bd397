"""The identity of a database and its lives: what it says about itself, and which engines have written to it."""

from typing import Any
from uuid import UUID

from fairpost.store.database import Database


async def known_identity(store: Database) -> Any:
    """Return the identity that the database has recorded, or None."""
    return await store.row("SELECT i.*, i.life::text AS life_text FROM fairpost.identity i")


async def identity_now(store: Database) -> Any:
    return await store.row("SELECT * FROM fairpost.identity_now()")


async def remember_identity(store: Database, folder: str | None) -> None:
    await store.value("SELECT fairpost.remember_identity($1)", folder)


async def update_identity(store: Database, life: str, folder: str | None) -> None:
    await store.value("SELECT fairpost.update_identity($1, $2)", UUID(life), folder)


async def check_identity(store: Database, life: str, engine: str, host: str) -> Any:
    """Record that this engine is still running. Return None if the database has started a new life in the meantime."""
    return await store.row("SELECT * FROM fairpost.check_identity($1, $2, $3)", UUID(life), UUID(engine), host)


async def statement_about(store: Database, engine: str | None) -> Any:
    """Return what the database has recorded about an engine's writes."""
    return await store.row(_STATEMENT, UUID(engine) if engine else None)


async def is_empty(store: Database) -> bool:
    return bool(await store.value("SELECT NOT EXISTS (SELECT FROM fairpost.queue)"))


async def data_directory(store: Database) -> str | None:
    """Return the server's data directory, or None if this role may not know it."""
    found: str | None = await store.value("SELECT setting FROM pg_settings WHERE name = 'data_directory'")
    return found


_STATEMENT = """
    SELECT w.beats, w.at, (SELECT max(o.at) FROM fairpost.identity_checks o) AS last_at,
           EXISTS (SELECT FROM fairpost.engines e WHERE e.asked IS NOT NULL) AS is_asked
    FROM (SELECT) one LEFT JOIN fairpost.identity_checks w ON w.engine = $1"""
