"""Sessions: how long they last, and how they end."""

from datetime import timedelta

import pytest

from fairpost.auth import codes, membership, sessions
from fairpost.auth.sessions import SESSION_IDLE, SESSION_LIFE, session_of
from fairpost.model.auth import Person, Refused, Role
from tests.auth.conftest import PASSWORD, T0, Desk

SECOND = timedelta(seconds=1)


async def test_a_session_ends_after_twelve_idle_hours(desk: Desk) -> None:
    await desk.admin()
    token = (await desk.signed_in()).session_token
    assert await session_of(desk.store, token, now=T0 + SESSION_IDLE) is None
    at = T0 + SESSION_IDLE - SECOND
    assert await session_of(desk.store, token, now=at) is not None
    assert await session_of(desk.store, token, now=at + SESSION_IDLE - SECOND) is not None


async def test_a_session_ends_after_seven_days_however_busy_it_is(desk: Desk) -> None:
    await desk.admin()
    done = await desk.signed_in()
    assert done.expires_at == T0 + SESSION_LIFE
    at = T0
    while at < T0 + SESSION_LIFE:
        assert await session_of(desk.store, done.session_token, now=at) is not None
        at += timedelta(hours=11)
    assert await session_of(desk.store, done.session_token, now=T0 + SESSION_LIFE - SECOND) is not None
    assert await session_of(desk.store, done.session_token, now=T0 + SESSION_LIFE) is None


async def test_that_it_was_seen_is_noted_once_a_minute(desk: Desk) -> None:
    await desk.admin()
    token = (await desk.signed_in()).session_token
    noted = []
    for second in (0, 30, 59, 60, 90, 119, 120):
        assert await session_of(desk.store, token, now=T0 + second * SECOND) is not None
        noted.append((await desk.store.value("SELECT seen_at FROM fairpost.sessions") - T0).total_seconds())
    assert noted == [0, 0, 0, 60, 60, 60, 120]


async def test_without_a_stated_time_the_database_s_own_counts(desk: Desk) -> None:
    await desk.person(None, "ann@example.com", Role.ADMIN)
    done = await desk.signed_in(now=None)
    assert await session_of(desk.store, done.session_token) is not None
    assert await session_of(desk.store, done.session_token, now=done.expires_at) is None


@pytest.mark.parametrize("token", ["", "x", "\0", "\ud800", "é" * 10_000])
async def test_an_invalid_token_opens_nothing(desk: Desk, token: str) -> None:
    assert await session_of(desk.store, token, now=T0) is None
    assert not await sessions.sign_out(desk.store, token, now=T0)


async def test_the_hash_in_the_database_opens_nothing(desk: Desk) -> None:
    await desk.admin()
    await desk.signed_in()
    kept = await desk.store.value("SELECT token_hash FROM fairpost.sessions")
    for token in (kept.hex(), kept.decode("latin-1")):
        assert await session_of(desk.store, token, now=T0) is None


async def test_signing_out_ends_this_session_alone(desk: Desk) -> None:
    await desk.admin()
    one, other = await desk.signed_in(), await desk.signed_in()
    assert await sessions.sign_out(desk.store, one.session_token, now=T0)
    assert not await sessions.sign_out(desk.store, one.session_token, now=T0)
    assert await session_of(desk.store, one.session_token, now=T0) is None
    assert await session_of(desk.store, other.session_token, now=T0) is not None


async def test_sessions_are_listed_and_revoked_by_their_id(desk: Desk) -> None:
    ann, bob = await desk.admin(), await desk.admin("bob@example.com")
    one, other = await desk.signed_in(), await desk.signed_in(now=T0 + SECOND)
    listed = await sessions.sessions_of(desk.store, ann.id, now=T0 + SECOND)
    assert [each.created_at for each in listed] == [T0 + SECOND, T0]
    assert not await sessions.revoke_session(desk.store, bob.id, listed[0].id, now=T0)
    assert await sessions.revoke_session(desk.store, ann.id, listed[0].id, now=T0)
    assert not await sessions.revoke_session(desk.store, ann.id, listed[0].id, now=T0)
    assert await session_of(desk.store, other.session_token, now=T0) is None
    assert await session_of(desk.store, one.session_token, now=T0) is not None
    assert len(await sessions.sessions_of(desk.store, ann.id, now=T0)) == 1
    assert await sessions.sessions_of(desk.store, ann.id, now=T0 + SESSION_LIFE) == []


async def test_all_sessions_of_a_person_can_be_revoked_at_once(desk: Desk) -> None:
    ann = await desk.admin()
    await desk.admin("bob@example.com")
    done = [await desk.signed_in() for _ in range(3)]
    bob = await desk.signed_in("bob@example.com")
    secret, code = await desk.begun()
    assert await sessions.revoke_sessions(desk.store, ann.id, now=T0) == 3
    assert [await session_of(desk.store, each.session_token, now=T0) for each in done] == [None] * 3
    assert isinstance(await desk.finish(secret, code), Refused)
    assert await session_of(desk.store, bob.session_token, now=T0) is not None


async def test_a_csrf_token_fits_its_own_session(desk: Desk) -> None:
    await desk.admin()
    one, other = await desk.signed_in(), await desk.signed_in()
    assert codes.is_csrf_token(one.session_token, one.csrf_token)
    assert codes.csrf_token_of(one.session_token) == one.csrf_token  # the same again after a reload
    for wrong in (other.csrf_token, one.session_token, "", "é", "\ud800"):
        assert not codes.is_csrf_token(one.session_token, wrong)


async def test_another_password_ends_all_sessions_but_the_one_it_is_changed_in(desk: Desk) -> None:
    ann = await desk.admin()
    mine, other = await desk.signed_in(), await desk.signed_in()
    changed = await membership.change_password(
        desk.store, ann, old=PASSWORD, new="another good one", session_token=mine.session_token, now=T0
    )
    assert isinstance(changed, Person)
    assert await session_of(desk.store, mine.session_token, now=T0) is not None
    assert await session_of(desk.store, other.session_token, now=T0) is None


async def test_a_person_who_is_disabled_is_out_at_once_and_comes_back_by_signing_in(desk: Desk) -> None:
    bob = await desk.person("acme", "bob@example.com", Role.SENDER)
    done = await desk.signed_in("bob@example.com", workspace="acme")
    await desk.store.value("UPDATE fairpost.people SET disabled_at = $1", T0)
    assert await session_of(desk.store, done.session_token, now=T0) is None
    assert await sessions.sessions_of(desk.store, bob.id, now=T0) == []
    await membership.disable_person(desk.store, bob.id, now=T0)
    await membership.enable_person(desk.store, bob.id, now=T0)
    assert await session_of(desk.store, done.session_token, now=T0) is None
    await desk.signed_in("bob@example.com", workspace="acme")


async def test_another_role_ends_the_sessions_of_the_one_before(desk: Desk) -> None:
    bob = await desk.person("acme", "bob@example.com", Role.MANAGER)
    done = await desk.signed_in("bob@example.com", workspace="acme")
    await membership.change_role(desk.store, bob.id, Role.MANAGER, now=T0)
    assert await session_of(desk.store, done.session_token, now=T0) is not None
    await membership.change_role(desk.store, bob.id, Role.VIEWER, now=T0)
    assert await session_of(desk.store, done.session_token, now=T0) is None


async def test_a_user_agent_is_shortened_and_made_printable(desk: Desk) -> None:
    assert sessions.agent_of("Firefox\x00\x1b[31m\n" + "x" * 1000) == ("Firefox  [31m " + "x" * 1000)[:200]
