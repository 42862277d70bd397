"""Kinds of HTTP callers, each with its credentials. All of them try to reach what belongs to `berta`."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

from fairpost.api.access import SESSION_COOKIE
from fairpost.auth.codes import csrf_token_of
from fairpost.model.auth import Role
from fairpost.model.workspace import Scope
from fairpost.regions.directory import MAIN
from fairpost.store import auth as people
from fairpost.store import workspaces
from fairpost.store.store import Store
from fairpost.system import clock
from tests.api.neighbours import A, B, Neighbours
from tests.api.signed_in import session_of

Headers = Mapping[str, str]
Caller = Callable[[Store, Neighbours], Awaitable[Headers]]


async def _key(store: Store, workspace: str, *scopes: Scope) -> tuple[str, Headers]:
    key, text = await workspaces.add_key(
        store, workspace, region=MAIN, name="attack", scopes=scopes or tuple(Scope), by="an attack", per_minute=100_000
    )
    return key.id, {"Authorization": f"Bearer {text}"}


async def stranger(store: Store, neighbours: Neighbours) -> Headers:
    return {}


async def made_up_key(store: Store, neighbours: Neighbours) -> Headers:
    return {"Authorization": f"Bearer {neighbours.b.key[:-1]}{'0' if neighbours.b.key[-1] != '0' else '1'}"}


async def revoked_key(store: Store, neighbours: Neighbours) -> Headers:
    id_, headers = await _key(store, B)
    await store.value("UPDATE fairpost.api_keys SET revoked_at = now() WHERE id = $1", id_)
    return headers


async def expired_key(store: Store, neighbours: Neighbours) -> Headers:
    id_, headers = await _key(store, B)
    await store.value(
        "UPDATE fairpost.api_keys SET expires_at = $2 WHERE id = $1", id_, clock.now() - timedelta(seconds=1)
    )
    return headers


async def key_of_a_neighbour(store: Store, neighbours: Neighbours) -> Headers:
    return (await _key(store, A))[1]


async def key_of_a_neighbour_that_names_the_victim(store: Store, neighbours: Neighbours) -> Headers:
    return {**(await _key(store, A))[1], "X-Workspace": B}


async def key_that_may_only_send(store: Store, neighbours: Neighbours) -> Headers:
    return (await _key(store, A, Scope.SEND))[1]


async def member_of_a_neighbour(store: Store, neighbours: Neighbours) -> Headers:
    person = await people.add_invited(
        store, workspace=A, address="mallory@anton.test", name="", role=Role.MANAGER, now=None
    )
    assert person is not None
    session = await session_of(store, person)
    return {"Cookie": f"{SESSION_COOKIE}={session}", "X-CSRF-Token": csrf_token_of(session.partition(".")[2])}


SHUT_OUT: Mapping[str, Caller] = {
    each.__name__: each for each in (stranger, made_up_key, revoked_key, expired_key)
}  # only public paths respond to them
NEIGHBOURS: Mapping[str, Caller] = {
    each.__name__: each
    for each in (
        key_of_a_neighbour,
        key_of_a_neighbour_that_names_the_victim,
        key_that_may_only_send,
        member_of_a_neighbour,
    )
}
