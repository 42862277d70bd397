"""Signed-in people, by a session stored directly in the database. Signing in itself is tested in test_sign_in.py and
tests/auth."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx2 as httpx

from fairpost.api.access import SESSION_COOKIE
from fairpost.model.auth import Person, Role
from fairpost.model.tokens import hash_of
from fairpost.regions.directory import HOME, MAIN
from fairpost.store import auth as rows
from fairpost.store.store import Store
from fairpost.system import chance, clock
from tests.api.conftest import Api

ANSWER_S_MAX = 60.0


async def session_of(store: Store, person: Person, *, agent: str = "a test") -> str:
    """Returns the value of the session cookie."""
    token, now = chance.secret_token(), clock.now()
    await rows.add_session(
        store,
        person.id,
        token_hash=hash_of(token),
        created_at=now,
        expires_at=now + timedelta(hours=1),
        agent=agent,
    )
    return f"{HOME if person.workspace is None else MAIN}.{token}"


@asynccontextmanager
async def signed_in(
    api: Api, workspace: str | None = None, role: Role = Role.ADMIN
) -> AsyncIterator[httpx.AsyncClient]:
    """A new person in this role, with the headers that changes require. Without a workspace, an admin."""
    person = await rows.add_invited(
        api.store, workspace=workspace, address=f"{role}@example.com", name="", role=role, now=None
    )
    assert person is not None
    async with httpx.AsyncClient(
        base_url=api.url,
        cookies={SESSION_COOKIE: await session_of(api.store, person)},
        timeout=ANSWER_S_MAX,
        limits=httpx.Limits(max_connections=None),
    ) as client:
        client.headers["X-CSRF-Token"] = (await client.get("/v1/auth/session")).json()["data"]["csrf_token"]
        yield client
