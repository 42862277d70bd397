"""Who may sign in: people who were invited, accepted, changed and disabled; and the first admin."""

import asyncio
import re
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from fairpost.auth import membership, passwords
from fairpost.auth.membership import INVITATION_LIFE, RESET_LIFE, SETUP_LIFE
from fairpost.auth.sessions import session_of
from fairpost.model.auth import Offered, Person, Refused, Role, SignInBegun
from tests.auth.conftest import PASSWORD, T0, Desk

SECOND = timedelta(seconds=1)


async def invited(desk: Desk, address: str = "new@example.com", **options: object) -> Offered:
    given = {"workspace": None, "role": Role.ADMIN, "now": T0, **options}
    offered = await membership.invite(desk.store, address=address, **given)  # type: ignore[arg-type]
    assert isinstance(offered, Offered), offered
    return offered


async def refused_invite(desk: Desk, **options: object) -> str:
    given = {"workspace": None, "address": "new@example.com", "role": Role.ADMIN, "now": T0, **options}
    refused = await membership.invite(desk.store, **given)  # type: ignore[arg-type]
    assert isinstance(refused, Refused)
    return refused.kind


async def test_an_invited_person_chooses_a_password_and_signs_in(desk: Desk) -> None:
    offered = await invited(desk, name="Ann Lee")
    assert offered.expires_at == T0 + INVITATION_LIFE
    assert not offered.person.has_password
    ann = await membership.accept_invitation(desk.store, offered.token, PASSWORD, name="Ann Smith", now=T0)
    assert isinstance(ann, Person)
    assert (ann.address, ann.name, ann.has_password, ann.workspace) == ("new@example.com", "Ann Smith", True, None)
    assert [each.address for each in await membership.people(desk.store, None)] == ["new@example.com"]
    await desk.signed_in("new@example.com")


async def test_an_invitation_works_once_for_48_hours(desk: Desk) -> None:
    token = (await invited(desk)).token
    late = await membership.accept_invitation(desk.store, token, PASSWORD, now=T0 + INVITATION_LIFE)
    assert late == membership.EXPIRED
    assert await desk.offered_to(token, now=T0 + INVITATION_LIFE - SECOND) is not None
    answers = await asyncio.gather(
        *(membership.accept_invitation(desk.store, token, PASSWORD, now=T0) for _ in range(4))
    )
    assert sum(isinstance(each, Person) for each in answers) == 1
    assert await desk.offered_to(token, now=T0) is None
    assert await membership.accept_invitation(desk.store, "no token", PASSWORD, now=T0) == membership.EXPIRED


async def test_a_second_invitation_replaces_the_first_and_its_details(desk: Desk) -> None:
    first = await invited(desk, workspace="acme", role=Role.VIEWER, name="Ann")
    second = await invited(desk, "NEW@example.com", workspace="acme", role=Role.SENDER)
    assert first.person.id == second.person.id
    assert (second.person.role, second.person.name) == (Role.SENDER, "Ann")
    assert await membership.accept_invitation(desk.store, first.token, PASSWORD, now=T0) == membership.EXPIRED
    assert isinstance(await membership.accept_invitation(desk.store, second.token, PASSWORD, now=T0), Person)
    assert await refused_invite(desk, workspace="acme", role=Role.MANAGER) == "known"


async def test_values_that_do_not_fit_are_refused(desk: Desk) -> None:
    assert await refused_invite(desk, address="not an address") == "bad_address"
    assert await refused_invite(desk, address="a\0b@example.com") == "bad_address"
    assert await refused_invite(desk, address="x" * 400 + "@example.com") == "bad_address"
    assert await refused_invite(desk, role=Role.MANAGER) == "bad_role"
    assert await refused_invite(desk, workspace="acme") == "bad_role"
    assert await refused_invite(desk, workspace="", role=Role.VIEWER) == "bad_workspace"
    assert await refused_invite(desk, workspace="*", role=Role.VIEWER) == "bad_workspace"
    assert await refused_invite(desk, workspace="fairpost", role=Role.VIEWER) == "bad_workspace"
    assert await refused_invite(desk, name="x" * 81) == "bad_name"
    assert await refused_invite(desk, name="two\nlines") == "bad_name"
    assert await membership.people(desk.store, None) == []


async def test_an_invitation_by_e_mail_has_the_link_and_ends_with_it(desk: Desk) -> None:
    for workspace, role in ((None, Role.ADMIN), ("acme", Role.MANAGER)):
        offered = await invited(desk, workspace=workspace, role=role, mail=desk.mail, inviter="Grace Hopper")
        (email, *_) = await desk.emails()
        link = f"https://post.example.com/invitation?token={offered.token}"
        assert link in email["text_body"]
        assert link in email["html_body"]
        assert "Grace Hopper" in email["text_body"]
        assert "2 days" in email["text_body"]
        assert (email["class"], email["expires_at"]) == ("bulk", T0 + INVITATION_LIFE)


# ── passwords ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("password", "facts"),
    [
        ("elevenchars", ["12", "256", "11"]),
        ("x1y2z3" * 43, ["12", "256", "258"]),
        ("ann.lee.long@example.com", ["e-mail address"]),
        ("Ann.Lee.Long@Example.com ", ["e-mail address"]),
        ("ann.lee.long", ["e-mail address"]),
        ("Password1234", []),
        ("aaaaaaaaaaaaaaaa", []),
        ("abababababab", []),
    ],
)
async def test_a_bad_password_is_refused_in_clear_words_and_the_link_still_works(
    desk: Desk, password: str, facts: list[str]
) -> None:
    token = (await invited(desk, "ann.lee.long@example.com")).token
    refused = await membership.accept_invitation(desk.store, token, password, now=T0)
    assert isinstance(refused, Refused)
    assert refused.kind == "bad_password"
    assert refused.message
    assert [fact for fact in facts if fact not in refused.message] == []
    assert password not in refused.message
    assert isinstance(await membership.accept_invitation(desk.store, token, "twelve chars", now=T0), Person)


def test_common_passwords_are_long_enough_to_matter_and_256_characters_may_be_chosen() -> None:
    assert all(len(each) >= passwords.CHARS_MIN and each == each.casefold() for each in passwords.COMMON)
    assert passwords.complaint_about("xyz " * 64, address="a@b.test") is None


async def test_the_old_password_is_needed_for_a_new_one_and_tries_are_counted(desk: Desk) -> None:
    ann = await desk.admin()
    for _ in range(10):
        refused = await membership.change_password(desk.store, ann, old="wrong", new="another good one", now=T0)
        assert refused == membership.WRONG_PASSWORD
    refused = await membership.change_password(desk.store, ann, old=PASSWORD, new="another good one", now=T0)
    assert isinstance(refused, Refused)
    assert refused.kind == "too_many"
    later = T0 + timedelta(minutes=15)
    bad = await membership.change_password(desk.store, ann, old=PASSWORD, new="short", now=later)
    assert isinstance(bad, Refused)
    assert bad.kind == "bad_password"
    done = await membership.change_password(desk.store, ann, old=PASSWORD, new="another good one", now=later)
    assert isinstance(done, Person)
    assert isinstance(await desk.begin(password="another good one", now=later), SignInBegun)
    assert isinstance(await desk.begin(now=later), Refused)


async def test_one_of_two_concurrent_changes_wins(desk: Desk) -> None:
    ann = await desk.admin()
    answers = await asyncio.gather(
        *(
            membership.change_password(desk.store, ann, old=PASSWORD, new=f"another good one {n}", now=T0)
            for n in range(2)
        )
    )
    assert sum(isinstance(each, Person) for each in answers) == 1


async def test_a_reset_ends_everything_that_was_and_forgives_failures(desk: Desk) -> None:
    ann = await desk.admin()
    done = await desk.signed_in()
    secret, code = await desk.begun()
    for _ in range(10):
        await desk.begin(password="forgotten")
    offered = await membership.offer_reset(desk.store, ann.id, mail=desk.mail, now=T0)
    assert isinstance(offered, Offered)
    assert offered.expires_at == T0 + RESET_LIFE
    (email, *_) = await desk.emails()
    assert f"https://post.example.com/reset?token={offered.token}" in email["text_body"]
    late = await membership.accept_invitation(desk.store, offered.token, "another good one", now=T0 + RESET_LIFE)
    assert late == membership.EXPIRED
    assert await session_of(desk.store, done.session_token, now=T0) is not None
    assert isinstance(await membership.accept_invitation(desk.store, offered.token, "another good one", now=T0), Person)
    assert await session_of(desk.store, done.session_token, now=T0) is None
    assert isinstance(await desk.finish(secret, code), Refused)
    assert isinstance(await desk.begin(), Refused)
    await desk.signed_in(password="another good one")


async def test_a_changed_password_ends_links_that_were_given_out(desk: Desk) -> None:
    ann = await desk.admin()
    offered = await membership.offer_reset(desk.store, ann.id, now=T0)
    assert isinstance(offered, Offered)
    await membership.change_password(desk.store, ann, old=PASSWORD, new="another good one", now=T0)
    assert await desk.offered_to(offered.token, now=T0) is None


# ── change and disable ────────────────────────────────────────────────────────────────────────────────────


async def test_the_last_admin_cannot_be_disabled(desk: Desk) -> None:
    ann = await desk.admin()
    await invited(desk)  # has not accepted, so cannot sign in
    assert await membership.disable_person(desk.store, ann.id, now=T0) == membership.LAST_ADMIN
    bob = await desk.admin("bob@example.com")
    disabled = await membership.disable_person(desk.store, ann.id, now=T0)
    assert isinstance(disabled, Person)
    assert disabled.disabled_at == T0
    assert await membership.disable_person(desk.store, bob.id, now=T0) == membership.LAST_ADMIN


async def test_admins_who_disable_each_other_at_once_leave_one(desk: Desk) -> None:
    admins = [await desk.admin(f"admin{n}@example.com") for n in range(4)]
    answers = await asyncio.gather(*(membership.disable_person(desk.store, each.id, now=T0) for each in admins))
    assert sum(isinstance(each, Refused) for each in answers) == 1


async def test_an_invited_person_can_be_disabled_and_the_link_stops_working(desk: Desk) -> None:
    offered = await invited(desk)
    assert isinstance(await membership.disable_person(desk.store, offered.person.id, now=T0), Person)
    assert await desk.offered_to(offered.token, now=T0) is None
    assert await membership.accept_invitation(desk.store, offered.token, PASSWORD, now=T0) == membership.EXPIRED
    assert await refused_invite(desk) == "disabled"
    refused = await membership.offer_reset(desk.store, offered.person.id, now=T0)
    assert isinstance(refused, Refused)
    assert refused.kind == "disabled"


async def test_a_role_can_be_changed_before_the_invitation_is_accepted(desk: Desk) -> None:
    offered = await invited(desk, workspace="acme", role=Role.VIEWER)
    changed = await membership.change_role(desk.store, offered.person.id, Role.MANAGER, now=T0)
    assert isinstance(changed, Person)
    come = await membership.accept_invitation(desk.store, offered.token, PASSWORD, now=T0)
    assert isinstance(come, Person)
    assert come.role is Role.MANAGER


async def test_no_member_becomes_an_admin_and_no_admin_a_member(desk: Desk) -> None:
    ann, bob = await desk.admin(), await desk.person("acme", "bob@example.com", Role.SENDER)
    for person, role in ((ann, Role.MANAGER), (bob, Role.ADMIN)):
        refused = await membership.change_role(desk.store, person.id, role, now=T0)
        assert isinstance(refused, Refused)
        assert refused.kind == "bad_role"


async def test_enabling_unlocks_a_person_with_too_many_failures(desk: Desk) -> None:
    ann = await desk.admin()
    for _ in range(10):
        await desk.begin(password="wrong")
    assert isinstance(await desk.begin(), Refused)
    await membership.enable_person(desk.store, ann.id, now=T0)
    assert isinstance(await desk.begin(), SignInBegun)


async def test_workspaces_see_their_own_members(desk: Desk) -> None:
    await desk.admin()
    await desk.person("acme", "bob@example.com", Role.SENDER)
    await desk.person("other", "bob@example.com", Role.MANAGER)
    assert [(p.address, p.role) for p in await membership.people(desk.store, "acme")] == [
        ("bob@example.com", Role.SENDER)
    ]
    assert await membership.people(desk.store, "nobody") == []
    assert await membership.people(desk.store, "") == []
    assert await membership.person_named(desk.store, "", "ann@example.com") is None
    found = await membership.person_named(desk.store, "other", "BOB@example.com")
    assert found is not None
    assert found.role is Role.MANAGER


# ── the first admin ───────────────────────────────────────────────────────────────────────────────────────


async def setup_token(desk: Desk) -> str:
    link = await membership.first_admin_link(desk.store, "http://127.0.0.1:8080", now=T0)
    assert link is not None
    assert re.fullmatch(r"http://127\.0\.0\.1:8080/setup\?token=[\w-]{43}", link)
    return parse_qs(urlsplit(link).query)["token"][0]


async def set_up(desk: Desk, token: str, address: str = "ann@example.com", **options: object) -> Person | Refused:
    given = {"password": PASSWORD, "now": T0, **options}
    return await membership.set_up(desk.store, token, address=address, **given)  # type: ignore[arg-type]


async def test_the_first_admin_comes_by_a_link_that_works_once(desk: Desk) -> None:
    token = await setup_token(desk)
    assert await membership.is_setup_token(desk.store, token, now=T0)
    answers = await asyncio.gather(*(set_up(desk, token, f"ann{n}@example.com") for n in range(4)))
    assert sum(isinstance(each, Person) for each in answers) == 1
    assert len(await membership.people(desk.store, None)) == 1
    assert await set_up(desk, token) == membership.EXPIRED
    assert await membership.first_admin_link(desk.store, "http://127.0.0.1:8080", now=T0) is None


async def test_only_the_newest_link_works_for_a_day(desk: Desk) -> None:
    old = await setup_token(desk)
    new = await setup_token(desk)
    assert await set_up(desk, old) == membership.EXPIRED
    assert await set_up(desk, new, now=T0 + SETUP_LIFE) == membership.EXPIRED
    assert isinstance(await set_up(desk, new, now=T0 + SETUP_LIFE - SECOND), Person)


async def test_links_made_at_once_leave_one(desk: Desk) -> None:
    tokens = await asyncio.gather(*(setup_token(desk) for _ in range(4)))
    working = [await membership.is_setup_token(desk.store, token, now=T0) for token in tokens]
    assert sum(working) == 1


async def test_setting_up_refuses_what_does_not_fit_and_can_be_tried_again(desk: Desk) -> None:
    token = await setup_token(desk)
    kinds = [
        await set_up(desk, token, "no address"),
        await set_up(desk, token, password="short"),
        await set_up(desk, token, name="x" * 81),
    ]
    assert [each.kind for each in kinds if isinstance(each, Refused)] == ["bad_address", "bad_password", "bad_name"]
    assert isinstance(await set_up(desk, token), Person)


async def test_a_setup_link_is_no_invitation_and_the_other_way_round(desk: Desk) -> None:
    token, offered = await setup_token(desk), await invited(desk)
    assert await membership.accept_invitation(desk.store, token, PASSWORD, now=T0) == membership.EXPIRED
    assert await set_up(desk, offered.token) == membership.EXPIRED


async def test_when_an_invited_admin_comes_the_setup_link_ends(desk: Desk) -> None:
    token, offered = await setup_token(desk), await invited(desk)
    await membership.accept_invitation(desk.store, offered.token, PASSWORD, now=T0)
    assert await set_up(desk, token) == membership.EXPIRED


async def test_an_invited_person_can_also_use_the_setup_link(desk: Desk) -> None:
    offered = await invited(desk, "ann@example.com")
    ann = await set_up(desk, await setup_token(desk), "ANN@example.com", name="Ann")
    assert isinstance(ann, Person)
    assert (ann.id, ann.name) == (offered.person.id, "Ann")
    assert await desk.offered_to(offered.token, now=T0) is None
    await desk.signed_in()
