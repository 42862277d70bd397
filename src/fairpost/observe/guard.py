"""Keeps a restored or copied database from sending e-mails twice, by pausing all sending and stating the reason.

An engine calls `guard` before it drives any account, and `remember` every few seconds. The records are in home/engines,
one file for each life of a database. policy/restored.py makes the decision. This module reads the data and acts on the
decision.
"""

import asyncio
import socket
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, assert_never
from uuid import UUID, uuid4

from fairpost.model.reason import Reason
from fairpost.policy.restored import (
    GUARD,
    FailedOver,
    First,
    Identity,
    Lineage,
    Memory,
    Restored,
    Sound,
    Statement,
    judge_identity,
    judge_newcomer,
    why_paused,
)
from fairpost.store import lives
from fairpost.store.store import Store
from fairpost.system import memory as notes

# Files that PostgreSQL creates only once in each data directory.
_LASTING = ("PG_VERSION", "base", "global", "pg_wal", "pg_xact")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """The result. `trouble` is set if this engine's memory cannot be written."""

    lineage: Lineage
    trouble: Reason | None = None

    @property
    def is_sound(self) -> bool:
        return not isinstance(self.lineage, Restored)

    def events(self) -> tuple[Reason, ...]:
        """Returns what to log, or nothing if all is well."""
        match self.lineage:
            case Restored(signs):
                return (Reason("database.restored", why=why_paused(signs)),)
            case _:
                return () if self.trouble is None else (self.trouble,)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """Three states to compare: the one in this machine's file, the one recorded in the database, and the current state
    of the database.
    """

    memories: dict[str, Memory]
    known: Identity | None
    seen: Identity

    @property
    def memory(self) -> Memory | None:
        return self.memories.get(self.known.life or "") if self.known else None


async def guard(store: Store, home: Path) -> Guarded:
    """Pauses everything if this is no longer the same database.

    Otherwise, only updates the database's record of its own identity.
    """
    look = await _look(store, home)
    lineage = await _judge(store, look)
    match lineage:
        case First():
            await lives.remember_identity(store, look.seen.folder)
        case Restored(signs):
            life = UUID(look.known.life) if look.known and look.known.life else None
            await store.pause_restored(why_paused(signs), GUARD, life=life)
        case FailedOver():
            pass  # the database keeps its old identity until the engines have confirmed the new one
        case Sound():
            await _update(store, look)
        case _:
            assert_never(lineage)
    return Guarded(lineage=lineage)


async def remember(store: Store, home: Path) -> Guarded:
    """Calls `guard`. If nothing is wrong, records this engine's activity in both the file and the database."""
    guarded = await guard(store, home)
    look = await _look(store, home)
    if not guarded.is_sound or look.known is None or look.known.life is None:
        return guarded
    life, engine = look.known.life, look.memory.engine if look.memory else str(uuid4())
    row = await lives.check_identity(store, life, engine, socket.gethostname())
    if row is None:
        return guarded  # sending was just resumed, which starts a new life of the database
    memory = Memory(
        life=life,
        engine=engine,
        beats=row["beats"],
        at=row["at"],
        system_identifier=look.seen.system_identifier,
        database_oid=look.seen.database_oid,
    )
    return replace(guarded, trouble=await asyncio.to_thread(_keep, home, memory))


async def lineage_of(store: Store, home: Path) -> tuple[Lineage, bool]:
    """Returns whether the database was restored or copied, and whether this role may identify its server. Changes
    nothing.
    """
    look = await _look(store, home)
    return await _judge(store, look), look.seen.system_identifier is not None


async def _look(store: Store, home: Path) -> _Look:
    # The file is read first. If another process then writes to both the file and the database, only the state read from
    # the database can be newer.
    memories = await asyncio.to_thread(_memories, home)
    row = await lives.known_identity(store)
    known = Identity(**{**{name: row[name] for name in Identity.__slots__}, "life": row["life_text"]}) if row else None
    now = await lives.identity_now(store)
    return _Look(memories=memories, known=known, seen=Identity(**now, folder=await _folder(store, home)))


async def _judge(store: Store, look: _Look) -> Lineage:
    if look.known is None:
        return judge_newcomer(look.seen, look.memories.values(), is_empty=await lives.is_empty(store))
    row = await lives.statement_about(store, look.memory.engine if look.memory else None)
    return judge_identity(look.known, look.seen, look.memory, Statement(**row))


async def _update(store: Store, look: _Look) -> None:
    known, seen = look.known, look.seen
    if known and known.life and (known.timeline, known.folder) != (seen.timeline, seen.folder):
        await lives.update_identity(store, known.life, seen.folder)


async def _folder(store: Store, home: Path) -> str | None:
    """Identifies the data directory of the embedded server. Returns None for other servers, whose files are on another
    machine.
    """
    data = home / "postgres" / "data"
    where = await lives.data_directory(store)
    if where is None or Path(where) != data:
        return None
    return await asyncio.to_thread(notes.inodes, [data / name for name in _LASTING])


def _memories(home: Path) -> dict[str, Memory]:
    found = {}
    for life, note in notes.read_notes(home / "engines").items():
        try:
            found[life] = Memory(**{**note, "life": life, "at": datetime.fromisoformat(note["at"])})
        except (KeyError, TypeError, ValueError):
            continue  # written by another version, or damaged, so treated as missing
    return found


def _keep(home: Path, memory: Memory) -> Reason | None:
    note: dict[str, Any] = {name: getattr(memory, name) for name in Memory.__slots__ if name != "life"}
    try:
        notes.write_note(home / "engines", memory.life, {**note, "at": memory.at.isoformat()})
    except OSError as error:
        return Reason("database.not_remembered", folder=str(home / "engines"), why=error.strerror)
    return None
