"""Sign-in links created on the server for an admin: they work once, for a short time, and only for that admin."""

import asyncio
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

from fairpost.auth import membership, signing_in
from fairpost.auth.membership import LOCAL_OPERATOR
from fairpost.auth.sessions import session_of
from fairpost.auth.signing_in import ENTRY_LIFE, NO_ENTRY
from fairpost.model.auth import Offered, Person, Refused, Role, SignedIn
from fairpost.store.workspaces import audit
from tests.auth.conftest import PASSWORD, T0, Desk

SECOND = timedelta(seconds=1)


async def offer(desk: Desk, person: Person) -> str:
    offered = await signing_in.offer_entry(desk.store, person.id, by="a test", now=T0)
    assert isinstance(offered, Offered), offered
    assert offered.expires_at == T0 + ENTRY_LIFE
    return offered.token


async def enter(desk: Desk, token: str, *, after: timedelta = SECOND) -> SignedIn | Refused:
    return await signing_in.enter(desk.store, token, agent="Firefox", now=T0 + after)


async def local_token(desk: Desk) -> str:
    link = await membership.local_operator_link(desk.store, "http://127.0.0.1:8080/", now=T0)
    assert link is not None
    assert link.startswith("http://127.0.0.1:8080/enter?token=")
    return parse_qs(urlsplit(link).query)["token"][0]


async def test_a_link_signs_in_once_also_when_many_try_at_once(desk: Desk) -> None:
    ann = await desk.admin()
    token = await offer(desk, ann)
    done = [each for each in await asyncio.gather(*(enter(desk, token) for _ in range(4))) if each != NO_ENTRY]
    (entered,) = done
    assert isinstance(entered, SignedIn)
    session = await session_of(desk.store, entered.session_token, now=T0 + SECOND)
    assert session is not None
    assert session.person.id == ann.id
    assert session.person.last_sign_in_at == T0 + SECOND
    assert await enter(desk, token) == NO_ENTRY
    (made,) = await audit(desk.store, None)
    assert (made.who, made.action, made.subject) == ("a test", "admin.link", "ann@example.com")


async def test_a_link_works_for_ten_minutes_and_ends_the_one_before(desk: Desk) -> None:
    ann = await desk.admin()
    old, new = await offer(desk, ann), await offer(desk, ann)
    assert await enter(desk, old) == NO_ENTRY
    assert await enter(desk, new, after=ENTRY_LIFE) == NO_ENTRY
    assert isinstance(await enter(desk, new, after=ENTRY_LIFE - SECOND), SignedIn)


async def test_a_disabled_person_cannot_sign_in(desk: Desk) -> None:
    ann, _ = await desk.admin(), await desk.admin("bob@example.com")
    token = await offer(desk, ann)
    await membership.disable_person(desk.store, ann.id, now=T0)
    assert await enter(desk, token) == NO_ENTRY
    refused = await signing_in.offer_entry(desk.store, ann.id, by="a test", now=T0)
    assert isinstance(refused, Refused)
    assert refused.kind == "disabled"
    await membership.enable_person(desk.store, ann.id, now=T0)
    assert await enter(desk, token) == NO_ENTRY  # it does not work again


async def test_members_are_not_signed_in_by_a_link(desk: Desk) -> None:
    bob = await desk.person("acme", "bob@example.com", Role.MANAGER)
    refused = await signing_in.offer_entry(desk.store, bob.id, by="a test", now=T0)
    assert isinstance(refused, Refused)
    assert refused.kind == "bad_role"


async def test_each_link_is_for_its_own_purpose_and_in_no_other_s_way(desk: Desk) -> None:
    ann = await desk.admin()
    token = await offer(desk, ann)
    reset = await membership.offer_reset(desk.store, ann.id, now=T0)
    assert isinstance(reset, Offered)
    assert await membership.accept_invitation(desk.store, token, PASSWORD, now=T0) == membership.EXPIRED
    assert await desk.offered_to(token, now=T0) is None
    assert await membership.set_up(desk.store, token, address="eve@example.com", password=PASSWORD, now=T0) == (
        membership.EXPIRED
    )
    assert await enter(desk, reset.token) == NO_ENTRY
    assert await desk.offered_to(reset.token, now=T0) == ann
    assert isinstance(await enter(desk, token), SignedIn)


async def test_another_password_ends_the_link(desk: Desk) -> None:
    ann = await desk.admin()
    token = await offer(desk, ann)
    await membership.change_password(desk.store, ann, old=PASSWORD, new="another good one", now=T0)
    assert await enter(desk, token) == NO_ENTRY


async def test_an_invalid_token_opens_nothing(desk: Desk) -> None:
    await offer(desk, await desk.admin())
    for token in ("", "x", "\0", "\ud800"):
        assert await enter(desk, token) == NO_ENTRY


async def test_the_local_link_signs_in_without_counting_as_the_first_admin(desk: Desk) -> None:
    tokens = [await local_token(desk), await local_token(desk)]
    assert await enter(desk, tokens[0]) == NO_ENTRY
    entered = await enter(desk, tokens[1])
    assert isinstance(entered, SignedIn)
    (operator,) = await membership.people(desk.store, None)
    assert (operator.address, operator.name, operator.role, operator.has_password) == (
        LOCAL_OPERATOR,
        "This machine",
        Role.ADMIN,
        False,
    )
    setup = await membership.first_admin_link(desk.store, "http://127.0.0.1:8080", now=T0)
    assert setup is not None
    token = parse_qs(urlsplit(setup).query)["token"][0]
    first = await membership.set_up(desk.store, token, address="ann@example.com", password=PASSWORD, now=T0)
    assert isinstance(first, Person)
    assert await session_of(desk.store, entered.session_token, now=T0 + SECOND) is not None


async def test_an_admin_without_a_password_does_not_count_as_the_last(desk: Desk) -> None:
    ann = await desk.admin()
    await local_token(desk)
    (operator,) = [each for each in await membership.people(desk.store, None) if not each.has_password]
    assert await membership.disable_person(desk.store, ann.id, now=T0) == membership.LAST_ADMIN
    assert isinstance(await membership.disable_person(desk.store, operator.id, now=T0), Person)
    assert await membership.local_operator_link(desk.store, "http://127.0.0.1:8080", now=T0) is None
    (still,) = [each for each in await membership.people(desk.store, None) if not each.has_password]
    assert still.disabled_at is not None
