"""Sessions of people who are signed in: creating, checking and ending them."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fairpost.model.auth import Session
from fairpost.model.ids import PersonId
from fairpost.model.tokens import hash_of
from fairpost.store import auth as rows

if TYPE_CHECKING:
    from fairpost.store.store import Store

SESSION_LIFE = timedelta(days=7)
SESSION_IDLE = timedelta(hours=12)
SEEN_EVERY = timedelta(minutes=1)
AGENT_CHARS_MAX = 200


async def session_of(store: "Store", token: str, *, now: datetime | None = None) -> Session | None:
    """Returns the session, or None if it is unknown, revoked or expired, or if the person was disabled."""
    return await rows.open_session(store, hash_of(token), idle=SESSION_IDLE, noted_every=SEEN_EVERY, now=now)


async def sign_out(store: "Store", token: str, *, now: datetime | None = None) -> bool:
    return await rows.revoke(store, hash_of(token), now=now)


async def sessions_of(store: "Store", person_id: PersonId, *, now: datetime | None = None) -> list[Session]:
    """Returns the open sessions, with the most recently used one first."""
    return await rows.open_sessions(store, person_id, idle=SESSION_IDLE, now=now)


async def still_open(store: "Store", token_hashes: Collection[bytes], *, now: datetime | None = None) -> set[bytes]:
    """Returns which of the sessions are still open. This check does not extend a session."""
    return await rows.still_open(store, token_hashes, idle=SESSION_IDLE, now=now)


async def revoke_session(store: "Store", person_id: PersonId, session_id: str, *, now: datetime | None = None) -> bool:
    """Ends a session by the ID that `sessions_of` lists. Returns False if the person has no session with this ID."""
    return await rows.revoke_named(store, person_id, session_id, now=now)


async def revoke_sessions(store: "Store", person_id: PersonId, *, now: datetime | None = None) -> int:
    """Ends all sessions and unfinished sign-ins."""
    async with store.together() as tx:
        await rows.lock(tx, person_id, now=now)
        return await rows.revoke_all(tx, person_id, now=now)


def agent_of(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text[:AGENT_CHARS_MAX])
