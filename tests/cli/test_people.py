"""`fairpost admin` and `fairpost member`: from a link to a session, with the code that the server shows."""

import asyncio
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from argon2 import PasswordHasher

from fairpost.model.person import Person, SignedIn, SignInBegun
from fairpost.model.workspace import Scope
from fairpost.people import membership, passwords, signing_in
from fairpost.people.mails import ServiceMail
from fairpost.postgres import workspaces
from fairpost.postgres.store import Store
from fairpost.templates.portals import BUILT_IN, load_portals
from tests.cli.conftest import Cli

Db = psycopg.Connection[Any]

PASSWORD = "four words that fit"


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


def on_store(url: str, work: Any) -> Any:
    async def run() -> Any:
        async with Store.open(url) as store:
            return await work(store)

    return asyncio.run(run())


def accept(url: str, link: str) -> None:
    token = parse_qs(urlsplit(link).query)["token"][0]
    assert isinstance(on_store(url, lambda store: membership.accept_invitation(store, token, PASSWORD)), Person)


def begin(url: str, address: str, workspace: str | None = None) -> str:
    mail = ServiceMail(portals=load_portals(BUILT_IN), pool="default", public_url="http://x.test")
    begun = on_store(
        url,
        lambda store: signing_in.begin_sign_in(
            store, workspace=workspace, address=address, password=PASSWORD, client="192.0.2.7", mail=mail
        ),
    )
    assert isinstance(begun, SignInBegun), begun
    return begun.browser_secret


def finish(url: str, secret: str, code: str) -> None:
    done = on_store(
        url, lambda store: signing_in.finish_sign_in(store, browser_secret=secret, code=code, agent="Firefox\x1b[31m")
    )
    assert isinstance(done, SignedIn), done


def test_an_admin_is_invited_comes_and_signs_in_without_any_e_mail(cli: Cli, url: str) -> None:
    assert cli.ok("admin", "list") == "there is no admin; see: fairpost admin invite --help\n"
    words, link = cli.ok("admin", "invite", "Ann@Example.com", "--name", "Ann Lee").splitlines()
    assert words.startswith("admin Ann@example.com chooses a password here, once, until 2")
    assert re.fullmatch(r"http://127\.0\.0\.1:8080/invitation\?token=[\w-]{43}", link)
    assert [each["state"] for each in cli.json("admin", "list")] == ["invited"]
    accept(url, link)
    assert "No sign-in of ann@example.com waits for a code" in cli.error("admin", "code", "ann@example.com")
    secret = begin(url, "ann@example.com")
    code, about = cli.ok("admin", "code", "ann@example.com").splitlines()
    assert re.fullmatch("[0-9]{6}", code)
    assert about.startswith("for the sign-in begun at 2")
    finish(url, secret, code)
    assert re.search(r"Ann@example.com +Ann Lee +admin +active +2\d{3}-", cli.ok("admin", "list"))


def test_an_admin_is_signed_in_by_a_link(cli: Cli, url: str) -> None:
    assert "There is no admin ann@example.com" in cli.error("admin", "link", "ann@example.com")
    accept(url, cli.json("admin", "invite", "ann@example.com")["link"])
    words, link = cli.ok("admin", "link", "ann@example.com").splitlines()
    assert words.startswith("admin ann@example.com is signed in here, once, until 2")
    assert re.fullmatch(r"http://127\.0\.0\.1:8080/enter\?token=[\w-]{43}", link)
    newest = cli.json("admin", "link", "ann@example.com")["link"]
    for each, is_newest in ((link, False), (newest, True)):
        token = parse_qs(urlsplit(each).query)["token"][0]
        entered = on_store(url, lambda store, token=token: signing_in.enter(store, token, agent="Firefox"))
        assert isinstance(entered, SignedIn) == is_newest


def test_the_newest_code_of_the_server_counts(cli: Cli, url: str) -> None:
    accept(url, cli.json("admin", "invite", "ann@example.com")["link"])
    secret = begin(url, "ann@example.com")
    cli.json("admin", "code", "ann@example.com")
    finish(url, secret, cli.json("admin", "code", "ann@example.com")["code"])


def test_sessions_are_listed_and_revoked(cli: Cli, url: str) -> None:
    accept(url, cli.json("admin", "invite", "ann@example.com")["link"])
    assert cli.ok("admin", "sessions", "ann@example.com") == "ann@example.com is not signed in\n"
    for _ in range(2):
        secret = begin(url, "ann@example.com")
        finish(url, secret, cli.json("admin", "code", "ann@example.com")["code"])
    assert [each["agent"] for each in cli.json("admin", "sessions", "ann@example.com")] == ["Firefox [31m"] * 2
    assert "Firefox [31m" in cli.ok("admin", "sessions", "ann@example.com")
    assert cli.ok("admin", "sessions", "ann@example.com", "--revoke") == "ended 2 sessions of ann@example.com\n"
    assert cli.json("admin", "sessions", "ann@example.com") == []


def test_the_last_admin_stays_and_others_come_and_go(cli: Cli, url: str) -> None:
    accept(url, cli.json("admin", "invite", "ann@example.com")["link"])
    assert "the last admin" in cli.error("admin", "disable", "ann@example.com")
    accept(url, cli.json("admin", "invite", "bob@example.com")["link"])
    assert cli.ok("admin", "disable", "bob@example.com") == "disabled: admin bob@example.com; all sessions are ended\n"
    assert [each["state"] for each in cli.json("admin", "list")] == ["active", "disabled"]
    assert "bob@example.com is disabled" in cli.error("admin", "invite", "bob@example.com")
    assert "bob@example.com is disabled" in cli.error("admin", "reset", "bob@example.com")
    assert cli.ok("admin", "enable", "BOB@example.com") == "enabled: admin bob@example.com\n"


def test_who_has_come_gets_a_link_for_another_password(cli: Cli, url: str) -> None:
    accept(url, cli.json("admin", "invite", "ann@example.com")["link"])
    error = cli.error("admin", "invite", "ann@example.com")
    assert "ann@example.com has come already. For another password: fairpost admin reset ann@example.com" in error
    link = cli.json("admin", "reset", "ann@example.com")["link"]
    assert "/reset?token=" in link
    accept(url, link)


def test_who_is_not_there_is_named_with_what_to_type(cli: Cli) -> None:
    for command in ("code", "reset", "disable", "enable", "sessions"):
        assert "There is no admin x@y.test. See: fairpost admin list" in cli.error("admin", command, "x@y.test")
    for command in ("reset", "disable", "enable"):
        error = cli.error("member", command, "acme", "x@y.test")
        assert "Workspace acme has no member x@y.test. See: fairpost member list acme" in error
    assert "This is not an e-mail address." in cli.error("admin", "invite", "nobody")


def test_an_invitation_can_be_sent_by_e_mail_from_the_pool_and_to_the_url_that_are_set(cli: Cli, db: Db) -> None:
    cli.environment.update({"FAIRPOST_SERVICE_POOL": "ours", "FAIRPOST_PUBLIC_URL": "https://post.test/fair/"})
    link = cli.json("member", "add", "acme", "bob@example.com", "--send")["link"]
    assert link.startswith("https://post.test/fair/invitation?token=")
    rows = db.execute(
        "SELECT q.route, q.workspace, c.text_body FROM fairpost.queue q JOIN fairpost.contents c ON c.id = q.content_id"
    ).fetchall()
    assert [(route, workspace) for route, workspace, _ in rows] == [("ours", "fairpost")]
    assert link in rows[0][2]
    cli.ok("admin", "invite", "ann@example.com")
    assert db.execute("SELECT count(*) FROM fairpost.queue").fetchone() == (1,)


def test_members_are_added_listed_changed_and_disabled(cli: Cli, url: str) -> None:
    assert cli.ok("member", "list", "acme") == "workspace acme has no members\n"
    accept(url, cli.json("member", "add", "acme", "bob@example.com", "--role", "sender", "--name", "Bob")["link"])
    cli.ok("member", "add", "acme", "carla@example.com")
    assert [(each["address"], each["role"], each["state"]) for each in cli.json("member", "list", "acme")] == [
        ("bob@example.com", "sender", "active"),
        ("carla@example.com", "viewer", "invited"),
    ]
    assert cli.json("member", "list", "other") == []
    begin(url, "bob@example.com", "acme")
    changed = cli.ok("member", "role", "acme", "bob@example.com", "manager")
    assert changed == "bob@example.com is manager of workspace acme\n"
    assert cli.ok("member", "disable", "acme", "bob@example.com").startswith(
        "disabled: manager bob@example.com of workspace acme"
    )
    assert cli.ok("member", "enable", "acme", "bob@example.com").startswith("enabled: manager bob@example.com")
    accept(url, cli.json("member", "reset", "acme", "bob@example.com")["link"])


def test_a_member_is_no_admin_and_the_service_has_no_members(cli: Cli) -> None:
    assert "manager, sender, viewer" in cli.error("member", "add", "acme", "b@x.test", "--role", "admin", code=2)
    assert "manager, sender, viewer" in cli.error("member", "role", "acme", "b@x.test", "king", code=2)
    assert "has no members" in cli.error("member", "add", "fairpost", "b@x.test")


def _key_of(url: str, who: str, name: str) -> str:
    async def make(store: Store) -> str:
        key, _ = await workspaces.add_key(store, "acme", region="main", name=name, scopes=[Scope.READ], by=who)
        return key.id

    made: str = on_store(url, make)
    return made


def test_keys_of_a_member_are_named_when_he_goes_and_revoked_on_demand(cli: Cli, url: str) -> None:
    cli.ok("workspace", "add", "acme")
    for address in ("ann@example.com", "bob@example.com"):
        cli.ok("member", "add", "acme", address, "--role", "manager")
    anns, bobs = _key_of(url, "manager ann@example.com", "hers"), _key_of(url, "manager bob@example.com", "his")
    another = _key_of(url, f"key {bobs}", "")
    said = cli.ok("member", "role", "acme", "bob@example.com", "viewer")
    assert f"key {bobs} his still opens; to end it: fairpost key revoke acme {bobs}" in said
    assert another in said
    assert anns not in said
    assert "bob@example.com (now viewer)" in cli.ok("key", "list", "acme")
    gone = cli.json("member", "disable", "acme", "bob@example.com", "--revoke-keys")
    assert (gone["person"]["state"], gone["keys"]) == ("disabled", [])
    assert sorted(gone["keys_revoked"]) == sorted([bobs, another])
    known = {key["id"]: key for key in cli.json("key", "list", "acme")}
    assert [bool(known[id_]["revoked_at"]) for id_ in (anns, bobs, another)] == [False, True, True]
    assert (known[another]["maker"], known[another]["is_maker_member"]) == ("bob@example.com", False)
    assert (known[anns]["maker"], known[anns]["is_maker_member"]) == ("ann@example.com", True)
    assert "(no member any more)" in cli.ok("key", "list", "acme")
    actions = [entry["action"] for entry in cli.json("audit", "acme")]
    assert actions[:4] == ["key.revoke", "key.revoke", "member.disable", "member.role"]
