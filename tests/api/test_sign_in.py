"""Signing in from end to end: once through the real queue, an engine, SMTP and the capture server, and back over HTTP;
then with codes read from the queue."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2 as httpx
import pytest
from argon2 import PasswordHasher

from fairpost.auth import membership, passwords
from fairpost.dev.inbox.mails import Mail, open_mail
from fairpost.dev.inbox.server import InboxServer, ServerOptions
from fairpost.model.account import Limits
from fairpost.model.auth import Offered, Person, Role
from fairpost.model.transport import Security
from fairpost.portals.folder import BUILT_IN
from fairpost.settings import read_settings
from fairpost.startup.parts import service_mail
from fairpost.transports.smtp.settings import SmtpSettings
from tests.api.conftest import Api
from tests.chaos.processes import Engine

ADDRESS, PASSWORD = "ann@example.com", "four words that fit"
MAIL_S_MAX = 60.0


@dataclass
class Post:
    """The mailbox of the person who signs in."""

    api: Api
    arrived: "asyncio.Queue[Mail]"

    async def code(self) -> str:
        """Returns the code in the next mail that arrives."""
        mail = await asyncio.wait_for(self.arrived.get(), MAIL_S_MAX)
        assert mail.recipients == (ADDRESS,)
        text = (await open_mail(self.api.store, mail.id))[1].decode()
        found = re.search(r"^ +(\d{6})\r?$", text, re.MULTILINE)
        assert found, text
        return found[1]


@pytest.fixture
async def post(api: Api, tmp_path: Path, url: str) -> AsyncIterator[Post]:
    arrived: asyncio.Queue[Mail] = asyncio.Queue()
    inbox = InboxServer(api.store, ServerOptions(port=0), on_mail=arrived.put_nowait)
    await inbox.start()
    transport = SmtpSettings(host="127.0.0.1", port=inbox.port, security=Security.NONE)
    await api.store.add_account("service", address="service@post.example", limits=Limits(), transport=transport)
    engine = Engine.start(url, None, tmp_path)
    try:
        yield Post(api, arrived)
    finally:
        engine.end()
        await inbox.stop()


@pytest.fixture
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


@asynccontextmanager
async def browser(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    """A client that keeps cookies and has no key."""
    async with httpx.AsyncClient(base_url=api.url, timeout=120) as client:
        yield client


async def begin(client: httpx.AsyncClient, password: str = PASSWORD, **more: str) -> httpx.Response:
    return await client.post("/v1/auth/sign-in", json={"address": ADDRESS, "password": password, **more})


async def enter(client: httpx.AsyncClient, code: str) -> httpx.Response:
    return await client.post("/v1/auth/code", json={"code": code})


@pytest.mark.slow
async def test_from_the_first_link_to_a_session_and_nothing_before(api: Api, post: Post) -> None:
    link = await membership.first_admin_link(api.store, "http://post.example")
    assert link is not None
    token = link.partition("token=")[2]
    async with browser(api) as client, browser(api) as other:
        made = await client.post("/v1/auth/setup", json={"token": token, "address": ADDRESS, "password": PASSWORD})
        assert made.status_code == 200, made.text
        assert made.json()["data"]["role"] == "admin"
        again = await client.post(
            "/v1/auth/setup", json={"token": token, "address": "eve@example.com", "password": PASSWORD}
        )
        assert again.json()["error"]["code"] == "wrong_credentials"
        assert await membership.first_admin_link(api.store, "http://post.example") is None

        wrong = await begin(client, "not these four words")
        unknown = await client.post("/v1/auth/sign-in", json={"address": "bob@example.com", "password": PASSWORD})
        assert wrong.json() == unknown.json()
        assert wrong.status_code == 401

        begun = await begin(client)
        assert begun.status_code == 202, begun.text
        cookie = begun.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        for path in ("/v1/auth/session", "/v1/admin/workspaces", "/v1/emails"):  # nothing is allowed before the code
            assert (await client.get(path)).status_code == 401

        code = await post.code()
        guess = "000000" if code != "000000" else "111111"
        refused = await enter(client, guess)
        assert refused.json()["error"]["details"] == {"kind": "wrong", "tries_left": 4}
        assert (await enter(other, code)).status_code == 401  # another browser
        entered = await enter(client, code)
        assert entered.status_code == 200, entered.text
        csrf = entered.json()["data"]["csrf_token"]
        reloaded = await client.get("/v1/auth/session", headers={"Origin": "https://evil.example"})
        assert reloaded.json()["data"]["address"] == ADDRESS
        assert reloaded.json()["data"]["csrf_token"] == csrf
        assert reloaded.json()["data"]["expires_at"] == entered.json()["data"]["expires_at"]
        assert reloaded.json()["data"]["workspace_choice"] is True
        assert not [
            name for name in reloaded.headers if name.startswith("access-control-")
        ]  # other sites cannot read it
        assert (await enter(client, code)).status_code == 401  # already used

        put = {"pools": ["relay"]}
        assert (await client.put("/v1/admin/workspaces/acme", json=put)).json()["error"]["code"] == "csrf"
        foreign = {"X-CSRF-Token": csrf, "Origin": "https://evil.example"}
        assert (await client.put("/v1/admin/workspaces/acme", json=put, headers=foreign)).json()["error"][
            "code"
        ] == "csrf"
        ours = {"X-CSRF-Token": csrf, "Origin": api.url}
        assert (await client.put("/v1/admin/workspaces/acme", json=put, headers=ours)).status_code == 201
        assert (await client.get("/v1/emails")).json()["error"]["code"] == "bad_request"  # no workspace was chosen
        assert (await client.get("/v1/emails", headers={"X-Workspace": "acme"})).status_code == 200

        (session,) = (await client.get("/v1/auth/sessions")).json()["data"]
        assert session["is_this"] is True
        nowhere = await client.delete("/v1/auth/sessions/nowhere", headers=ours)
        assert nowhere.json()["error"]["details"]["reason"] == "session.unknown"
        assert (await client.post("/v1/auth/sign-out", headers=ours)).status_code == 200
        assert (await client.get("/v1/auth/session")).status_code == 401
    audit = await api.store.fetch("SELECT who, action FROM fairpost.audit WHERE workspace IS NULL ORDER BY id")
    assert [tuple(row) for row in audit] == [(f"admin {ADDRESS}", "admin.setup"), (f"admin {ADDRESS}", "session.end")]


async def test_a_link_made_on_the_server_begins_a_session_once(api: Api) -> None:
    link = await membership.local_operator_link(api.store, api.url)
    assert link is not None
    token = link.partition("token=")[2]
    async with browser(api) as client:
        assert (await client.post("/v1/auth/enter", json={"token": "x" * 43})).json()["error"]["code"] == (
            "wrong_credentials"
        )
        entered = await client.post("/v1/auth/enter", json={"token": token})
        assert entered.status_code == 200, entered.text
        cookie = entered.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert (await client.get("/v1/auth/session")).json()["data"]["address"] == "operator@localhost"
        headers = {"X-CSRF-Token": entered.json()["data"]["csrf_token"]}
        added = await client.put("/v1/admin/workspaces/acme", json={"pools": ["relay"]}, headers=headers)
        assert added.status_code == 201, added.text
        assert (await client.post("/v1/auth/enter", json={"token": token})).status_code == 401
        audit = (await client.get("/v1/admin/audit")).json()["data"]["items"]
        assert [each["action"] for each in audit] == ["person.enter", "admin.link"]
        assert token not in str(audit)


@pytest.mark.usefixtures("cheap_passwords")
async def test_five_guesses_end_it_also_at_the_same_moment_and_so_does_time(api: Api) -> None:
    await _admin(api)
    async with browser(api) as client:
        await begin(client)
        code = await queued_code(api)
        guesses = [f"{n:06}" for n in range(30) if f"{n:06}" != code]
        answers = await asyncio.gather(*(enter(client, guess) for guess in guesses))
        judged = [a for a in answers if a.status_code == 401 and a.json()["error"]["details"].get("kind") == "wrong"]
        assert len(judged) <= 5
        assert (await enter(client, code)).status_code in (401, 429)  # correct, but too late
        assert (await client.get("/v1/auth/session")).status_code == 401
        await api.store.value("DELETE FROM fairpost.sign_in_attempts")

        await begin(client)
        code = await queued_code(api)
        await api.store.value("UPDATE fairpost.sign_ins SET expires_at = clock_timestamp() - interval '1 second'")
        assert (await enter(client, code)).json()["error"]["details"]["kind"] == "expired"

        await begin(client)
        first = await queued_code(api)
        assert (await client.post("/v1/auth/resend")).status_code == 202
        second = await queued_code(api)
        if first != second:
            assert (await enter(client, first)).status_code == 401  # the previous one has ended
        assert (await enter(client, second)).status_code == 200


@pytest.mark.usefixtures("cheap_passwords")
async def test_members_sign_in_alike_and_see_their_own(api: Api) -> None:
    await api.workspace("acme")
    await api.workspace("other")
    for role, may_send, may_manage in (("viewer", 403, 403), ("sender", 201, 403), ("manager", 201, 200)):
        await api.store.value("DELETE FROM fairpost.people")
        async with api.client("acme") as manager, browser(api) as client:
            invited = await manager.post("/v1/members", json={"address": ADDRESS, "role": role})
            assert invited.status_code == 201, invited.text
            token = await queued(api, r"invitation\?token=([\w.-]+)")
            accepted = await client.post("/v1/auth/accept", json={"token": token, "password": PASSWORD})
            assert accepted.status_code == 200, accepted.text
            assert (await begin(client, workspace="")).status_code == 401  # not an admin
            assert (await begin(client, workspace="other")).status_code == 401
            assert (await begin(client, workspace="acme")).status_code == 202
            entered = await enter(client, await queued_code(api))
            headers = {"X-CSRF-Token": entered.json()["data"]["csrf_token"]}
            assert (await client.get("/v1/workspace", headers=headers)).json()["data"]["name"] == "acme"
            email = {"to": "x@example.com", "subject": "Hello", "text": "Hi", "due_at": "2100-01-01T00:00:00Z"}
            assert (await client.post("/v1/emails", json=email, headers=headers)).status_code == may_send
            assert (await client.get("/v1/keys")).status_code == may_manage
            assert (await client.get("/v1/admin/workspaces")).json()["error"]["code"] == "forbidden"
            assert (await manager.post(f"/v1/members/{ADDRESS}/disable")).status_code == 200
            assert (await client.get("/v1/workspace")).status_code == 401  # immediately


async def invited(api: Api, workspace: str | None, role: Role = Role.SENDER) -> str:
    """Returns the token of the link."""
    offered = await membership.invite(api.store, workspace=workspace, address=ADDRESS, role=role)
    assert isinstance(offered, Offered)
    return offered.token


async def come(api: Api, workspace: str | None, password: str = PASSWORD, role: Role = Role.SENDER) -> None:
    await membership.accept_invitation(api.store, await invited(api, workspace, role), password)


@pytest.mark.usefixtures("cheap_passwords")
@pytest.mark.parametrize("workspace", ["acme", None])
async def test_accepting_an_invitation_signs_in(api: Api, workspace: str | None) -> None:
    await api.workspace("acme")
    token = await invited(api, workspace, Role.ADMIN if workspace is None else Role.MANAGER)
    async with browser(api) as client:
        told = await client.post("/v1/auth/accept", json={"token": token, "password": PASSWORD})
        session = (await client.get("/v1/auth/session")).json()["data"]
        assert (session["address"], session["workspace"]) == (ADDRESS, workspace)
        assert session["csrf_token"] == told.json()["data"]["csrf_token"]
        assert session["last_sign_in_at"] is not None


@pytest.mark.usefixtures("cheap_passwords")
async def test_a_new_password_works_for_signing_in(api: Api) -> None:
    await api.workspace("acme")
    await come(api, "acme")
    person = await membership.person_named(api.store, "acme", ADDRESS)
    assert person is not None
    offered = await membership.offer_reset(api.store, person.id)
    assert isinstance(offered, Offered)
    async with browser(api) as client:
        told = await client.post("/v1/auth/accept", json={"token": offered.token, "password": "four other words now"})
        assert (told.status_code, told.json()["data"]["csrf_token"]) == (200, None)
        assert (await client.get("/v1/auth/session")).status_code == 401


@pytest.mark.usefixtures("cheap_passwords")
async def test_a_workspace_is_asked_for_only_where_the_password_fits_several(api: Api) -> None:
    for name in ("acme", "globex", "initech"):
        await api.workspace(name)
    async with browser(api) as client:
        await come(api, "acme")
        assert (await begin(client)).status_code == 202
        await come(api, "globex", "four other words now")
        for password, workspace in ((PASSWORD, "acme"), ("four other words now", "globex")):
            assert (await begin(client, password)).status_code == 202
            done = (await enter(client, await queued_code(api))).json()["data"]
            assert done["person"]["workspace"] == workspace
        await come(api, "initech")
        await come(api, None, role=Role.ADMIN)
        asked = await begin(client)
        assert (asked.status_code, asked.json()["error"]["code"]) == (409, "workspace_needed")
        assert sorted(asked.json()["error"]["details"]["workspaces"]) == ["", "acme", "initech"]
        for workspace in ("", "acme", "initech"):
            assert (await begin(client, workspace=workspace)).status_code == 202
            done = (await enter(client, await queued_code(api))).json()["data"]
            assert done["person"]["workspace"] == (workspace or None)
        unknown = await client.post("/v1/auth/sign-in", json={"address": "bob@example.com", "password": PASSWORD})
        wrong = await begin(client, "not these four words")
        assert unknown.status_code == 401
        assert wrong.json() == unknown.json()


@pytest.mark.usefixtures("cheap_passwords")
async def test_a_code_is_on_its_way_only_where_an_account_can_carry_it(api: Api) -> None:
    await api.workspace("acme")
    await come(api, "acme")

    async def told(client: httpx.AsyncClient) -> tuple[bool, str | None]:
        data = (await begin(client)).json()["data"]
        again = (await client.post("/v1/auth/resend")).json()["data"]
        assert again["is_on_its_way"] == data["is_on_its_way"]
        return data["is_on_its_way"], data["then"]

    by_hand = False, f"fairpost member code --workspace acme {ADDRESS}"
    async with browser(api) as client:
        assert await told(client) == by_hand
        server = SmtpSettings(host="127.0.0.1", port=9, security=Security.NONE)
        await api.store.add_account("service", address="service@post.example", limits=Limits(), transport=server)
        assert await told(client) == by_hand  # no engine drives it
        sql = "INSERT INTO fairpost.engines VALUES ('here', clock_timestamp(), false, clock_timestamp())"
        await api.store.value(sql)
        assert await told(client) == (True, None)
        await api.store.change_account("service", {"status": "suspended"})
        assert await told(client) == by_hand


@pytest.mark.parametrize("portal", ["hub", "admin"])
def test_a_code_carries_the_name_of_the_installation(tmp_path: Path, portal: str) -> None:
    def code_mail(**given: str) -> str:
        mail = service_mail(read_settings({"FAIRPOST_HOME": str(tmp_path), **given}))
        told = mail.portals.preview(portal, "tfa")
        return f"{told.subject} {told.text} {told.html}"

    assert "Fairpost" in code_mail()
    named = code_mail(FAIRPOST_NAME="Acme Mail & Co")
    assert named.count("Acme Mail &") > 1
    assert not re.search(r"\b(Hub|Admin Console)\b", named)
    own = (BUILT_IN / portal / "portal.toml").read_text()
    (tmp_path / "templates" / portal).mkdir(parents=True)
    (tmp_path / "templates" / portal / "portal.toml").write_text(
        re.sub(r'^name = ".*"', 'name = "Ours"', own, flags=re.M)
    )
    assert "Ours" in code_mail(FAIRPOST_NAME="Acme Mail")


async def queued(api: Api, pattern: str) -> str:
    """Returns the code in the service's newest queued e-mail."""
    text = await api.store.value(
        """SELECT c.text_body FROM fairpost.queue q JOIN fairpost.contents c ON c.id = q.content_id
           WHERE q.workspace = 'fairpost' ORDER BY q.id DESC LIMIT 1"""
    )
    found = re.search(pattern, text, re.MULTILINE)
    assert found, text
    return found[1]


async def queued_code(api: Api) -> str:
    return await queued(api, r"^ +(\d{6})$")


async def _admin(api: Api) -> None:
    link = await membership.first_admin_link(api.store, "http://post.example")
    assert link is not None
    made = await membership.set_up(api.store, link.partition("token=")[2], address=ADDRESS, password=PASSWORD)
    assert isinstance(made, Person), made
