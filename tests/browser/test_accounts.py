"""Accounts in a browser: their state, and the actions on them."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, Page, Route, expect

from fairpost.dev.emulate.server import GmailEmulator
from fairpost.dev.inbox.server import InboxServer, ServerOptions
from fairpost.model.account import Limits, WarmUp
from fairpost.model.auth import Role
from fairpost.model.fault import Bounces
from fairpost.model.ids import EmailId
from fairpost.model.reason import Reason
from fairpost.model.transport import Security
from fairpost.observe.emails import show_email
from fairpost.smtp.guard import NetworkGuard
from fairpost.store.blocks import block, read_blocks
from fairpost.transports.gmail.settings import GmailSettings
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.registry import KINDS
from fairpost.transports.smtp.settings import SmtpSettings
from tests.api.conftest import Api
from tests.api.test_account_topics import add_many
from tests.browser.axe import check_accessibility
from tests.browser.chromium import PHONE_DARK
from tests.browser.faults import Faults
from tests.browser.pages import fits
from tests.browser.signing_in import add_admin, add_member, signed_in
from tests.browser.test_settings import entry, refused
from tests.engine.test_runner import NO_SUCH_USER, deliver


@pytest.fixture
async def server(api: Api) -> AsyncIterator[SmtpSettings]:
    inbox = InboxServer(api.store, ServerOptions(port=0))
    await inbox.start()
    try:
        yield SmtpSettings(host="127.0.0.1", port=inbox.port, security=Security.NONE)
    finally:
        await inbox.stop()


async def add(api: Api, server: SmtpSettings, name: str = "acme/sales", limits: Limits | None = None) -> None:
    pool = "acme/default" if name.startswith("acme/") else "default"
    address = f"{name.rpartition('/')[2]}@acme.example"
    await api.store.add_account(name, address=address, pool=pool, limits=limits or Limits(), transport=server)


async def enqueue(api: Api) -> EmailId:
    email = {"workspace": "acme", "to": "ann@there.test", "subject": "s", "text": "t", "pool": "acme/default"}
    (row,) = await api.store.enqueue_many([email])
    return EmailId(row["id"])


async def state(api: Api, email: EmailId) -> str:
    return (await show_email(api.store, email)).state


async def test_a_manager_pauses_an_account_and_nothing_goes_out_until_it_is_resumed(
    api: Api, page: Page, server: SmtpSettings
) -> None:
    await api.workspace()
    await add(api, server)
    account = (await api.store.account_named("acme/sales")).id
    await signed_in(page, api.store, await add_member(api.store))
    await page.goto("/accounts")
    await page.get_by_role("button", name="Pause sales").click()
    await page.get_by_label("Reason").fill("new password")
    await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("row", name="sales").get_by_text("new password")).to_be_visible()
    assert (await api.store.account_named("acme/sales")).status == "paused"

    email = await enqueue(api)
    assert (await deliver(api.store, account)).delivered == []
    assert await state(api, email) == "ready"

    await page.get_by_role("button", name="Resume sales").click()
    await expect(page.get_by_role("button", name="Pause sales")).to_be_visible()
    assert len((await deliver(api.store, account)).delivered) == 1
    assert await state(api, email) == "sent"
    await expect(page.locator('[data-key="meter Today"]')).to_contain_text("1")
    await check_accessibility(page)


@pytest.mark.parametrize("screen", [PHONE_DARK], ids=str)
async def test_an_account_tells_what_it_was_told_and_its_limits_are_changed(
    api: Api, page: Page, server: SmtpSettings
) -> None:
    await api.workspace()
    await add(api, server, limits=Limits(daily_max=50, warm_up=WarmUp(start=10, step=10)))
    await enqueue(api)
    await deliver(api.store, (await api.store.account_named("acme/sales")).id, NO_SUCH_USER)
    await signed_in(page, api.store, await add_member(api.store))
    await page.goto("/accounts")
    await page.get_by_role("link", name="sales").click()
    failure = page.get_by_role("region", name="Recent failures").locator("tbody tr")
    await expect(failure).to_contain_text("550")
    await expect(failure.locator("td").last).not_to_have_class("nothing")  # the meaning of the reply
    await expect(used(page, "today", of=10)).to_have_attribute("aria-valuenow", "1")
    await expect(page.get_by_role("img", name="Daily limit")).to_be_visible()
    await page.get_by_role("button", name="Change limits").click()
    await page.get_by_label("E-mails per hour").fill("7")
    await page.get_by_label("first day").fill("25")
    await page.get_by_label("Minimum pause between two e-mails").fill("0.25")  # in seconds
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(used(page, "today", of=25)).to_have_attribute("aria-valuenow", "1")
    await expect(used(page, "this hour", of=7)).to_have_attribute("aria-valuenow", "1")
    limits = (await api.store.account_named("acme/sales")).limits
    assert limits == Limits(hourly_max=7, daily_max=50, warm_up=WarmUp(start=25, step=10), delay_ms=250)
    await check_accessibility(page)
    assert await fits(page)


def used(page: Page, limit: str, *, of: int) -> Locator:
    return page.get_by_role("meter", name=limit).and_(page.locator(f'[aria-valuemax="{of}"]'))


def verified(page: Page, *, is_well: bool = True) -> Locator:
    """Returns the result of testing a server."""
    return page.locator(f'[data-key="verified"].{"good" if is_well else "bad"}')


async def choose(page: Page, provider: str) -> None:
    await page.goto("/settings/accounts")
    await page.get_by_role("link", name=provider, exact=True).click()


def allow_here(api: Api, port: int) -> None:
    """Lets workspaces' accounts use the server at this port."""
    guard = NetworkGuard(allowed=(ip_network("127.0.0.0/8"),), ports=frozenset({port}))
    object.__setattr__(api.service, "guard", guard)


async def secret_of(api: Api, name: str) -> str:
    account = await api.store.account_named(name)
    assert isinstance(account.transport, SmtpSettings | GmailSettings)
    assert account.transport.secret is not None
    return api.service.vault.open(account.transport.secret, account_id=account.id, name=account.name)


async def test_the_first_account_is_added_and_tried_and_its_server_changed(
    api: Api, page: Page, server: SmtpSettings, faults: Faults
) -> None:
    faults.allow_status(422, "/v1/accounts")
    allow_here(api, server.port)
    await api.workspace()
    await signed_in(page, api.store, await add_member(api.store))
    await page.goto("/accounts")
    await page.get_by_role("button", name="Add your first account").click()
    await expect(page.get_by_role("link", name="Another SMTP server")).to_be_visible()
    await check_accessibility(page)
    await page.get_by_role("link", name="Another SMTP server").click()
    await entry(page, "Name").first.fill("news")
    await entry(page, "E-mail address").fill("news@elsewhere.example")
    await entry(page, "Server").fill("127.0.0.1")
    await entry(page, "Port").fill("5432")
    await entry(page, "Sign-in method").select_option("none")
    await expect(entry(page, "Password")).to_have_count(0)
    await expect(entry(page, "Name").first).to_have_value(
        "news"
    )  # fields that both sign-in methods have keep their input
    await entry(page, "Encryption").select_option("none")
    await entry(page, "E-mails per day").fill("70")
    await check_accessibility(page)
    await page.get_by_role("button", name="Add and verify").click()
    await expect(entry(page, "E-mail address")).to_have_attribute("aria-invalid", "true")
    await expect(refused(page, "address")).to_contain_text("elsewhere.example")
    await entry(page, "E-mail address").fill("news@acme.example")
    await page.get_by_role("button", name="Add and verify").click()
    await expect(entry(page, "Server")).to_have_attribute("aria-invalid", "true")
    await entry(page, "Port").fill(str(server.port))
    await page.get_by_role("button", name="Add and verify").click()
    await expect(verified(page)).to_be_visible()
    account = await api.store.account_named("acme/news")
    assert (account.address, account.pool, account.transport) == ("news@acme.example", "acme/default", server)
    assert (account.provider, account.limits.hourly_max, account.limits.daily_max) == ("custom", 200, 70)
    assert account.limits.delay_ms == 2000

    allow_here(api, 1)
    await page.get_by_role("link", name="Change server").click()
    await expect(entry(page, "Port")).to_have_value(str(server.port))
    await entry(page, "Display name").fill("The news")
    await entry(page, "Port").fill("1")
    await page.get_by_role("button", name="Save and verify").click()
    await expect(verified(page, is_well=False).locator(".badge.bad")).to_have_text("connect")
    changed = await api.store.account_named("acme/news")
    assert (changed.display_name, changed.transport) == ("The news", replace(server, port=1))
    assert changed.limits == account.limits


async def test_an_account_of_the_gmail_api_is_added_with_a_key_file_and_tried(
    api: Api, page: Page, faults: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults.allow_status(422, "/v1/accounts")
    await api.workspace()
    await signed_in(page, api.store, await add_member(api.store))
    async with GmailEmulator(users=["ann@acme.example"]) as google:
        monkeypatch.setattr("fairpost.transports.oauth.public.GOOGLE_URI", google.token_url)
        monkeypatch.setattr("fairpost.transports.oauth.public.GOOGLES_TOKEN_SERVERS", {google.token_url})
        for module in ("client", "kind"):  # the emulator replaces Google
            monkeypatch.setattr(f"fairpost.transports.gmail.{module}.GOOGLE", google.url)
        key = json.dumps(google.service_account_info())
        await choose(page, "Gmail API")
        await check_accessibility(page)
        await entry(page, "Name").first.fill("ann")
        await entry(page, "E-mail address").fill("ann@acme.example")
        file = {"name": "key.json", "mimeType": "application/json", "buffer": b"{}"}
        await entry(page, "Key file").set_input_files(file)  # type: ignore[arg-type]
        await page.get_by_role("button", name="Add and verify").click()
        await expect(entry(page, "Key file")).to_have_attribute("aria-invalid", "true")
        (tmp_path / "key.json").write_text(key)
        await entry(page, "Key file").set_input_files(tmp_path / "key.json")
        await page.get_by_role("button", name="Add and verify").click()
        await expect(verified(page)).to_be_visible()
        account = await api.store.account_named("acme/ann")
        assert isinstance(account.transport, GmailSettings)
        assert account.transport.oauth.kind is OauthKind.GOOGLE_SERVICE_ACCOUNT
        assert (account.provider, account.limits.daily_max) == ("workspace", 2000)
        assert await secret_of(api, "acme/ann") == key

        # Its key is kept until another is given; a personal token replaces it.
        await page.goto("/settings/accounts/ann")
        await entry(page, "Display name").fill("Ann Lee")
        await page.get_by_role("button", name="Save and verify").click()
        await expect(verified(page)).to_be_visible()
        assert (await api.store.account_named("acme/ann")).display_name == "Ann Lee"
        assert await secret_of(api, "acme/ann") == key
        token = google.refresh_token("ann@acme.example")
        await entry(page, "Sign-in method").select_option("google-refresh-token")
        await entry(page, "Client ID").fill(token["client_id"])
        await entry(page, "Client secret").fill(token["client_secret"])
        await entry(page, "Refresh token").fill(token["refresh_token"])
        await page.get_by_role("button", name="Save and verify").click()
        await expect(entry(page, "Refresh token")).to_have_value("")
        await expect(verified(page)).to_be_visible()
        assert token["refresh_token"] in await secret_of(api, "acme/ann")
        assert token["refresh_token"] not in await page.content()


@pytest.mark.parametrize("screen", [PHONE_DARK], ids=str)
async def test_each_provider_fills_in_what_is_known_of_it_and_asks_for_the_rest(
    api: Api, page: Page, faults: Faults
) -> None:
    faults.allow_status(422, "/v1/accounts")
    await api.workspace()
    await signed_in(page, api.store, await add_member(api.store))
    asked = list[Any]()

    async def hear(route: Route) -> None:
        asked.append(route.request.post_data_json)
        await route.fulfill(
            status=422,
            json={
                "success": False,
                "error": {
                    "code": "invalid",
                    "message": "no",
                    "details": [{"field": "smtp.oauth.client_secret", "message": "expired"}],
                },
            },
        )

    await choose(page, "Microsoft")
    await entry(page, "Name").first.fill("ann")
    await entry(page, "E-mail address").fill("ann@acme.example")
    await expect(entry(page, "Server")).to_have_value("smtp.office365.com")
    await expect(entry(page, "E-mails per day")).to_have_value("10000")
    await entry(page, "Directory").fill("acme.example")
    await entry(page, "Application").fill(" client-1 ")  # with spaces, as pasted
    await entry(page, "Client secret").fill("very secret")
    await page.route("**/v1/accounts", hear)
    await page.get_by_role("button", name="Add and verify").click()
    await expect(refused(page, "smtp.oauth.client_secret")).to_contain_text("expired")
    assert await fits(page)
    await check_accessibility(page)
    oauth = {
        "kind": "microsoft-client",
        "tenant": "acme.example",
        "client_id": "client-1",
        "client_secret": "very secret",
    }
    smtp = {"host": "smtp.office365.com", "port": 587, "security": "starttls", "oauth": oauth, "read": "false"}
    account = {"name": "ann", "address": "ann@acme.example", "display_name": None, "pool": "default"}
    assert asked == [{**account, "provider": "microsoft365", "smtp": smtp}]
    await page.unroute("**/v1/accounts")
    await page.route("**/verify", lambda route: route.abort())  # it would ask Microsoft
    faults.allow("/verify|net::ERR_FAILED")
    await page.get_by_role("button", name="Add and verify").click()
    await expect(page.get_by_role("heading", name="ann added")).to_be_visible()
    stored = (await api.store.account_named("acme/ann")).transport
    assert isinstance(stored, SmtpSettings)
    assert stored.oauth == OauthSettings(kind=OauthKind.MICROSOFT_CLIENT, client_id="client-1", tenant="acme.example")
    assert (stored.host, stored.user) == ("smtp.office365.com", "ann@acme.example")
    assert await secret_of(api, "acme/ann") == "very secret"

    await choose(page, "Google by SMTP")
    await expect(entry(page, "E-mails per day")).to_have_value("500")
    await entry(page, "Default limits").select_option("workspace")
    await expect(entry(page, "E-mails per day")).to_have_value("2000")
    await expect(entry(page, "E-mails per hour")).to_have_value("")
    await expect(page.get_by_text("myaccount.google.com/apppasswords")).to_be_visible()
    await choose(page, "Another SMTP server")
    await entry(page, "E-mail address").fill("ann@hotmail.com")
    await expect(entry(page, "Server")).to_have_value("smtp-mail.outlook.com")
    await expect(entry(page, "E-mails per day")).to_have_value("300")


async def test_a_kind_that_the_page_does_not_know_is_asked_for_as_it_describes_itself(
    api: Api, page: Page, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "pigeon", "tests.transports.pigeon.kind")
    faults.allow_status(422, "/v1/accounts")
    await api.workspace()
    await signed_in(page, api.store, await add_member(api.store))
    asked = list[Any]()

    async def hear(route: Route) -> None:
        asked.append(route.request.post_data_json)
        details = [{"field": "pigeon.whistle", "message": "unheard of"}]
        error = {"code": "invalid", "message": "no", "details": details}
        await route.fulfill(status=422, json={"success": False, "error": error})

    await page.route("**/v1/accounts", hear)
    await choose(page, "Carrier pigeons")
    await expect(entry(page, "Sign-in method")).to_have_count(0)
    await entry(page, "Name").first.fill("ann")
    await entry(page, "E-mail address").fill("ann@acme.example")
    await entry(page, "Loft").fill("North")
    await entry(page, "Whistle").fill(" three short ")
    await page.get_by_role("button", name="Add and verify").click()
    assert asked == [], '"loft" is spelled in lower case'
    await entry(page, "Loft").fill(" north ")
    await page.get_by_role("button", name="Add and verify").click()
    await expect(refused(page, "pigeon.whistle")).to_contain_text("unheard of")
    assert [each["pigeon"] for each in asked] == [{"loft": "north", "whistle": " three short "}]
    await check_accessibility(page)


async def test_an_admin_sees_all_accounts_finds_one_and_tries_its_server(
    api: Api, page: Page, server: SmtpSettings
) -> None:
    await api.workspace()
    for name in ("acme/sales", "acme/news", "own"):
        await add(api, server, name)
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/accounts")
    await expect(page.get_by_role("row")).to_have_count(4)
    await page.get_by_role("searchbox").fill("own")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("row")).to_have_count(2)
    await page.get_by_role("button", name="Verify own").click()
    await expect(verified(page)).to_be_visible()
    await page.get_by_role("link", name="own", exact=True).click()
    await expect(page.get_by_role("heading", name="own", exact=True)).to_be_visible()
    await page.goto("/accounts/acme/sales")
    await page.get_by_role("button", name="Pause acme/sales").click()
    await page.get_by_label("Reason").fill("complaints")
    await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    await expect(page.locator(".headline")).to_contain_text("complaints")
    assert (await api.store.account_named("acme/sales")).status_reason == Reason(
        "account.paused_by_hand", note="complaints"
    )


MANY = 300  # more accounts than the list shows, and more workspaces than the menu offers


async def test_one_of_very_many_is_found_quickly(api: Api, page: Page) -> None:
    """Finds accounts by a search, and workspaces by the start of their names."""
    await add_many(api.store, MANY)
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/accounts")
    await expect(page.get_by_role("heading", name=f"100 of {MANY:,} accounts")).to_be_visible()
    await expect(page.get_by_role("main").locator("tbody tr")).to_have_count(100)
    await page.get_by_role("searchbox").fill("mail234@")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("main").locator("tbody tr")).to_have_count(1)
    await page.get_by_role("button", name="Workspace: all workspaces").click()
    name = page.get_by_role("combobox", name="Workspace")
    await name.fill("w12")
    await expect(page.locator("#fitting option")).to_have_count(11)
    await check_accessibility(page)
    await name.fill("w234")
    await page.get_by_role("button", name="Choose", exact=True).click()
    await page.wait_for_url("**/accounts?workspace=w234")
    await expect(page.get_by_role("heading", name="1 account")).to_be_visible()


async def test_a_viewer_looks_and_changes_nothing(api: Api, page: Page, server: SmtpSettings) -> None:
    await api.workspace()
    await add(api, server)
    await signed_in(page, api.store, await add_member(api.store, role=Role.VIEWER))
    await page.goto("/accounts")
    await expect(page.get_by_role("link", name="sales")).to_be_visible()
    await expect(page.get_by_role("main").get_by_role("button")).to_have_text(["Search"])


async def test_an_admin_sees_who_is_blocked_on_an_account_and_lets_it_go(
    api: Api, page: Page, server: SmtpSettings
) -> None:
    await add(api, server, "own")
    lease = await api.store.take_lease((await api.store.account_named("own")).id, owner="test", seconds=60)
    assert lease is not None
    assert await block(api.store, lease, "acme", Bounces(sent=40, bounced=7, percent_max=5.0))
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/accounts/own")
    row = page.get_by_role("row").filter(has_text="acme")
    await expect(row).to_contain_text("7 of 40")
    await check_accessibility(page)
    await page.get_by_role("button", name="Unblock acme").click()
    await expect(row).to_have_count(0)
    assert await read_blocks(api.store, now=await api.store.now()) == []
