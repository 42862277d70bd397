"""`fairpost admin` and `fairpost member`: from a link to a session, with the code shown on the server."""

import asyncio
import re
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from argon2 import PasswordHasher

from fairpost.auth import membership, passwords, signing_in
from fairpost.auth.mails import ServiceMail
from fairpost.model.auth import Person, SignedIn, SignInBegun
from fairpost.model.workspace import Scope
from fairpost.portals.loading import built_in_portals
from fairpost.store import workspaces
from fairpost.store.store import Store
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


@cache
def service_mail() -> ServiceMail:
    return ServiceMail(portals=built_in_portals(), pool="default", public_url="http://x.test")


def begin(url: str, address: str, workspace: str | None = None) -> str:
    begun = on_store(
        url,
        lambda store: signing_in.begin_sign_in(
            store, workspace=workspace, address=address, password=PASSWORD, client="192.0.2.7", mail=service_mail()
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
    assert "fairpost admin invite --help" in cli.ok("admin", "list")
    words, link = cli.ok("admin", "invite", "Ann@Example.com", "--name", "Ann Lee").splitlines()
    assert re.search(r"Ann@example\.com .*\b2\d{3}-", words)
    assert re.fullmatch(r"http://127\.0\.0\.1:8080/invitation\?token=[\w-]{43}", link)
    assert [each["state"] for each in cli.json("admin", "list")] == ["invited"]
    accept(url, link)
    assert "ann@example.com" in cli.error("admin", "code", "ann@example.com")
    secret = begin(url, "ann@example.com")
    code, about = cli.ok("admin", "code", "ann@example.com").splitlines()
    assert re.fullmatch("[0-9]{6}", code)
    assert re.search(r"\b2\d{3}-", about)
    finish(url, secret, code)
    assert re.search(r"Ann@example.com +Ann Lee +admin +active +2\d{3}-", cli.ok("admin", "list"))


def test_an_admin_is_signed_in_by_a_link(cli: Cli, url: str) -> None:
    assert "ann@example.com" in cli.error("admin", "link", "ann@example.com")
    accept(url, cli.json("admin", "invite", "ann@example.com")["link"])
    words, link = cli.ok("admin", "link", "ann@example.com").splitlines()
    assert re.search(r"ann@example\.com .*\b2\d{3}-", words)
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
    assert cli.json("admin", "sessions", "ann@example.com") == []
    assert "ann@example.com" in cli.ok("admin", "sessions", "ann@example.com")
    for _ in range(2):
        secret = begin(url, "ann@example.com")
        finish(url, secret, cli.json("admin", "code", "ann@example.com")["code"])
    assert [each["agent"] for each in cli.json("admin", "sessions", "ann@example.com")] == ["Firefox [31m"] * 2
    assert "Firefox [31m" in cli.ok("admin", "sessions", "ann@example.com")
    assert " 2 " in cli.ok("admin", "sessions", "ann@example.com", "--revoke")
    assert cli.json("admin", "sessions", "ann@example.com") == []
    audit = cli.json("audit")
    assert [each["action"] for each in audit[:3]] == ["admin.sign_out", "admin.code", "admin.code"]
    assert all(each["who"].startswith("cli ") and each["subject"] == "ann@example.com" for each in audit[:3])


def test_sessions_of_a_member_are_listed_and_revoked(cli: Cli, url: str) -> None:
    cli.ok("workspace", "add", "acme")
    accept(url, cli.json("member", "add", "--workspace", "acme", "bob@example.com")["link"])
    secret = begin(url, "bob@example.com", "acme")
    finish(url, secret, cli.json("member", "code", "--workspace", "acme", "bob@example.com")["code"])
    assert len(cli.json("member", "sessions", "--workspace", "acme", "bob@example.com")) == 1
    assert " 1 " in cli.ok("member", "sessions", "--workspace", "acme", "bob@example.com", "--revoke")
    assert cli.json("member", "sessions", "--workspace", "acme", "bob@example.com") == []
    assert [each["action"] for each in cli.json("audit", "acme")[:2]] == ["member.sign_out", "member.code"]


def test_the_last_admin_stays_and_others_come_and_go(cli: Cli, url: str) -> None:
    accept(url, cli.json("admin", "invite", "ann@example.com")["link"])
    cli.error("admin", "disable", "ann@example.com")
    accept(url, cli.json("admin", "invite", "bob@example.com")["link"])
    assert [each["state"] for each in cli.json("admin", "list")] == ["active", "active"]
    assert "bob@example.com" in cli.ok("admin", "disable", "bob@example.com")
    assert [each["state"] for each in cli.json("admin", "list")] == ["active", "disabled"]
    assert "bob@example.com" in cli.error("admin", "invite", "bob@example.com")
    assert "bob@example.com" in cli.error("admin", "reset", "bob@example.com")
    assert "bob@example.com" in cli.ok("admin", "enable", "BOB@example.com")
    assert [each["state"] for each in cli.json("admin", "list")] == ["active", "active"]


def test_an_active_member_gets_a_link_for_a_new_password(cli: Cli, url: str) -> None:
    accept(url, cli.json("admin", "invite", "ann@example.com")["link"])
    assert "fairpost admin reset ann@example.com" in cli.error("admin", "invite", "ann@example.com")
    link = cli.json("admin", "reset", "ann@example.com")["link"]
    assert "/reset?token=" in link
    accept(url, link)


def test_an_unknown_person_is_named_with_the_command_to_type(cli: Cli) -> None:
    for command in ("code", "reset", "disable", "enable", "sessions"):
        error = cli.error("admin", command, "x@y.test")
        assert "x@y.test" in error, command
        assert "fairpost admin list" in error, command
    for command in ("reset", "disable", "enable"):
        error = cli.error("member", command, "acme", "x@y.test")
        assert "x@y.test" in error, command
        assert "fairpost member list --workspace acme" in error, command
    cli.error("admin", "invite", "nobody")
    assert cli.json("admin", "list") == []


def test_an_invitation_can_be_sent_by_e_mail_from_the_pool_and_to_the_url_that_are_set(cli: Cli, db: Db) -> None:
    cli.environment.update({"FAIRPOST_SERVICE_POOL": "ours", "FAIRPOST_PUBLIC_URL": "https://post.test/fair/"})
    link = cli.json("member", "add", "--workspace", "acme", "bob@example.com", "--send")["link"]
    assert link.startswith("https://post.test/fair/invitation?token=")
    rows = db.execute(
        "SELECT q.route, q.workspace, c.text_body FROM fairpost.queue q JOIN fairpost.contents c ON c.id = q.content_id"
    ).fetchall()
    assert [(route, workspace) for route, workspace, _ in rows] == [("ours", "fairpost")]
    assert link in rows[0][2]
    cli.ok("admin", "invite", "ann@example.com")
    assert db.execute("SELECT count(*) FROM fairpost.queue").fetchone() == (1,)


def test_members_are_added_listed_changed_and_disabled(cli: Cli, url: str) -> None:
    assert "acme" in cli.ok("member", "list", "--workspace", "acme")
    accept(
        url,
        cli.json("member", "add", "--workspace", "acme", "bob@example.com", "--role", "sender", "--name", "Bob")[
            "link"
        ],
    )
    cli.ok("member", "add", "--workspace", "acme", "carla@example.com")
    assert [
        (each["address"], each["role"], each["state"]) for each in cli.json("member", "list", "--workspace", "acme")
    ] == [
        ("bob@example.com", "sender", "active"),
        ("carla@example.com", "viewer", "invited"),
    ]
    assert cli.json("member", "list", "--workspace", "other") == []
    begin(url, "bob@example.com", "acme")

    def bob() -> tuple[str, str]:
        (found,) = [
            each for each in cli.json("member", "list", "--workspace", "acme") if each["address"] == "bob@example.com"
        ]
        return found["role"], found["state"]

    changes = {
        ("role", "manager"): ("manager", "active"),
        ("disable",): ("manager", "disabled"),
        ("enable",): ("manager", "active"),
    }
    for (command, *role), after in changes.items():
        said = cli.ok("member", command, "--workspace", "acme", "bob@example.com", *role)
        assert all(part in said for part in ("bob@example.com", "manager", "acme")), said
        assert bob() == after
    accept(url, cli.json("member", "reset", "--workspace", "acme", "bob@example.com")["link"])


def test_a_member_is_no_admin_and_the_service_has_no_members(cli: Cli) -> None:
    assert "manager, sender, viewer" in cli.error(
        "member", "add", "--workspace", "acme", "b@x.test", "--role", "admin", code=2
    )
    assert "manager, sender, viewer" in cli.error("member", "role", "--workspace", "acme", "b@x.test", "king", code=2)
    assert "fairpost" in cli.error("member", "add", "--workspace", "fairpost", "b@x.test")
    assert cli.json("member", "list", "--workspace", "fairpost") == []


def _key_of(url: str, who: str, name: str) -> str:
    async def make(store: Store) -> str:
        key, _ = await workspaces.add_key(store, "acme", region="main", name=name, scopes=[Scope.READ], by=who)
        return key.id

    made: str = on_store(url, make)
    return made


def test_keys_of_a_disabled_member_are_listed_and_revoked_on_demand(cli: Cli, url: str) -> None:
    cli.ok("workspace", "add", "acme")
    for address in ("ann@example.com", "bob@example.com"):
        cli.ok("member", "add", "--workspace", "acme", address, "--role", "manager")
    anns, bobs = _key_of(url, "manager ann@example.com", "ann"), _key_of(url, "manager bob@example.com", "bob")
    another = _key_of(url, f"key {bobs}", "")
    said = cli.ok("member", "role", "--workspace", "acme", "bob@example.com", "viewer")
    assert f"fairpost key revoke --workspace acme {bobs}" in said
    assert another in said
    assert anns not in said
    assert "viewer" in cli.ok("key", "list", "--workspace", "acme")
    gone = cli.json("member", "disable", "--workspace", "acme", "bob@example.com", "--revoke-keys")
    assert (gone["person"]["state"], gone["keys"]) == ("disabled", [])
    assert sorted(gone["keys_revoked"]) == sorted([bobs, another])
    known = {key["id"]: key for key in cli.json("key", "list", "--workspace", "acme")}
    assert [bool(known[id_]["revoked_at"]) for id_ in (anns, bobs, another)] == [False, True, True]
    assert (known[another]["maker"], known[another]["is_maker_member"]) == ("bob@example.com", False)
    assert (known[anns]["maker"], known[anns]["is_maker_member"]) == ("ann@example.com", True)
    actions = [entry["action"] for entry in cli.json("audit", "acme")]
    assert actions[:4] == ["key.revoke", "key.revoke", "member.disable", "member.role"]
