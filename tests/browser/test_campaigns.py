"""Campaign pages, with a real engine that sends to the development inbox: launch, progress, completion, and retries."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Locator, Page, expect

from fairpost.dev.inbox.server import InboxServer, ServerOptions
from fairpost.model.account import Limits
from fairpost.model.auth import Role
from fairpost.model.prospect import ProspectLine
from fairpost.model.transport import Security
from fairpost.store.prospects import import_prospects
from fairpost.transports.smtp.settings import SmtpSettings
from tests.api.conftest import Api
from tests.browser.axe import check_accessibility
from tests.browser.chromium import DESKTOP, PHONE, PHONE_DARK, Screen
from tests.browser.conftest import on_two_screens
from tests.browser.faults import Faults
from tests.browser.pages import fits
from tests.browser.sending import send
from tests.browser.signing_in import add_admin, add_member, signed_in
from tests.chaos.driver import eventually, until
from tests.chaos.processes import Engine

SENT_S_MAX = 60_000  # for an engine on a busy machine, in milliseconds as Playwright expects
HELLO = {
    "subject": "Hello {{ first_name }}",
    "text": "Dear {{ first_name }}",
    "html": "<h1>Dear {{ first_name }}</h1><script>parent.document.title = 'taken'</script>",
}


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def badge(page: Page) -> Locator:
    """Returns the state of the open campaign."""
    return page.locator(".heading .badge")


def headline(page: Page, tone: Literal["good", "wait", "bad"]) -> Locator:
    return page.locator(f".headline.{tone}")


def figure(page: Page, name: str) -> Locator:
    return page.locator("div.figure", has=page.locator("dt", has_text=name)).locator("dd")


async def prepare(
    api: Api, addresses: list[str], *, workspace: str = "acme", pace_ms: int = 200, port: int = 9
) -> None:
    """Creates a workspace with a template, a list of these people, and an account that sends to this port."""
    await api.workspace(workspace)
    if not await api.store.accounts():
        await api.store.add_account(
            "relay",
            address="news@acme.example",
            limits=Limits(delay_ms=pace_ms),
            transport=SmtpSettings(host="127.0.0.1", port=port, security=Security.NONE),
        )
    lines = [
        ProspectLine(line=n, address=address, fields={"first_name": f"Ann{n}"}, timezone=None, external_id=None)
        for n, address in enumerate(addresses, 1)
    ]
    async with api.store.connection() as conn:
        await import_prospects(conn, lines, workspace=workspace, list_name="customers", skip_bad=False)
    async with api.client(workspace) as client:
        assert (await client.put("/v1/templates/hello", json=HELLO)).status_code == 201


async def draft(api: Api, name: str, *, workspace: str = "acme", launch: bool = False) -> None:
    async with api.client(workspace) as client:
        made = {"steps": [{"template": "hello"}], "lists": ["customers"]}
        assert (await client.put(f"/v1/campaigns/{name}", json=made)).status_code == 201
        if launch:
            assert (await client.post(f"/v1/campaigns/{name}/launch")).status_code == 200


@asynccontextmanager
async def inbox(api: Api) -> AsyncIterator[InboxServer]:
    server = InboxServer(api.store, ServerOptions(port=0))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def engine(url: str, folder: Path) -> AsyncIterator[Engine]:
    running = Engine.start(url, None, folder)
    try:
        await until(running.is_ready, "the engine is ready", s_max=60)
        yield running
    finally:
        running.end()


@on_two_screens
async def test_a_campaign_is_made_and_launched(api: Api, page: Page, screen: Screen) -> None:
    await prepare(api, [f"p{n}@there.test" for n in range(10)])
    await signed_in(page, api.store, await add_member(api.store, role=Role.MANAGER))
    await page.goto("/campaigns")
    await expect(page.locator(".empty")).to_be_visible()
    await check_accessibility(page)
    await page.evaluate("globalThis.never_reloaded = true")

    await button(page, "New campaign").click()
    await page.get_by_role("textbox", name="Name").fill("spring")
    await page.get_by_label("Content").select_option("template hello")
    await check_accessibility(page)
    await button(page, "Create draft").click()
    await expect(page.get_by_role("heading", name="spring")).to_be_visible()
    await expect(figure(page, "Recipients")).to_contain_text("10")

    await button(page, "Launch").click()
    asked = page.get_by_role("dialog")
    await expect(asked).to_contain_text("10 e-mails")
    await check_accessibility(page)
    await asked.get_by_role("button", name="Launch").click()
    await expect(figure(page, "Queued")).to_contain_text("10")
    await expect(headline(page, "bad")).to_contain_text("engine")  # there is no account
    assert await fits(page)
    await check_accessibility(page)
    assert await page.evaluate("globalThis.never_reloaded")


async def test_a_campaign_is_watched_until_it_is_done_and_what_failed_is_tried_again(
    api: Api, page: Page, url: str, tmp_path: Path
) -> None:
    people = [*(f"p{n}@there.test" for n in range(8)), "q1+dot-reject@there.test", "q2+dot-reject@there.test"]
    async with inbox(api) as server:
        await prepare(api, people, port=server.port)
        await draft(api, "spring", launch=True)
        await signed_in(page, api.store, await add_member(api.store, role=Role.MANAGER))
        await page.goto("/campaigns/spring")
        await expect(figure(page, "Queued")).to_contain_text("10")
        async with engine(url, tmp_path):
            await expect(headline(page, "good")).to_be_visible(timeout=SENT_S_MAX)
            await expect(badge(page)).to_have_text("completed", timeout=SENT_S_MAX)
            await expect(figure(page, "Sent").first).to_contain_text("8")
            await expect(figure(page, "Failed")).to_contain_text("2")
            forecast = page.locator(".facts dt", has_text="Forecast at launch")
            await expect(forecast).to_be_visible()  # compared with the actual progress
            await on_both_screens(page)
            assert await api.store.value("SELECT count(*) FROM fairpost.inbox") == 8

            await figure(page, "Failed").get_by_role("link").click()
            rows = page.locator("tbody tr")
            await expect(rows).to_have_count(2)
            await expect(rows.first.locator("td[data-label=Reason]")).not_to_have_class("nothing")
            await on_both_screens(page)
            await button(page, "Retry failed e-mails").click()
            await expect(page.get_by_role("dialog")).to_contain_text("2 e-mails in spring")
            await button(page, "Retry").click()
            twice = "SELECT count(*) = 2 FROM fairpost.emails WHERE state = 'failed' AND attempts = 2 AND addresses[1] LIKE 'q%'"
            await eventually(lambda: api.store.value(twice), "those that failed are tried again", s_max=60)
            await expect(badge(page)).to_have_text("completed", timeout=SENT_S_MAX)
            await page.get_by_role("link", name="Failed (2)").click()
            await expect(rows).to_have_count(2)
        assert await api.store.value("SELECT count(*) FROM fairpost.inbox") == 8  # no recipient got anything twice


async def on_both_screens(page: Page) -> None:
    """Also checks a state that takes long to reach on a narrow and a dark screen."""
    for screen in (PHONE_DARK, DESKTOP):
        await page.set_viewport_size({"width": screen.width, "height": screen.height})
        await page.emulate_media(color_scheme=screen.scheme, reduced_motion="reduce")
        assert await fits(page), screen
        await check_accessibility(page)


async def test_a_paused_campaign_stays_paused_until_resumed_and_one_prospect_can_be_stopped(
    api: Api, page: Page
) -> None:
    async with inbox(api) as server:
        await prepare(api, [f"p{n}@there.test" for n in range(5)], pace_ms=0, port=server.port)
        relay = (await api.store.account_named("relay")).id
        await draft(api, "spring", launch=True)
        await signed_in(page, api.store, await add_member(api.store, role=Role.SENDER))
        await page.goto("/campaigns")
        await page.get_by_role("link", name="spring").click()
        await expect(figure(page, "Sent").first).to_have_text(re.compile("^0"))
        assert await send(api.store, relay, most=1) == 1
        await expect(figure(page, "Sent").first).to_have_text(re.compile("^1"))
        await button(page, "Pause").click()
        await expect(badge(page)).to_have_text("paused")
        assert await send(api.store, relay) == 0

        await page.get_by_role("link", name="Recipients").click()
        await page.locator("input[name=address]").fill("p4@there.test")
        await button(page, "Find").click()
        await expect(page.locator("tbody tr")).to_have_count(1)
        await button(page, "Stop for p4@there.test").click()
        await page.get_by_role("dialog").get_by_role("button", name="Stop").click()
        await expect(page.locator("tbody tr")).to_contain_text("cancelled")

        await button(page, "Resume").click()
        await expect(badge(page)).to_have_text("running")
        assert await send(api.store, relay, most=2) == 2
        await page.get_by_role("link", name="Progress").click()
        await expect(figure(page, "Sent").first).to_have_text(re.compile("^3"))
        await button(page, "Cancel campaign").click()
        await page.get_by_role("dialog").get_by_role("button", name="Cancel campaign").click()
        await expect(badge(page)).to_have_text("cancelled")
        assert await send(api.store, relay) == 0
        assert await api.store.value("SELECT count(*) FROM fairpost.emails WHERE state = 'sent'") == 3


@pytest.mark.parametrize("screen", [PHONE], ids=str)
async def test_a_viewer_sees_everything_and_can_do_nothing(
    api: Api, page: Page, faults: Faults, screen: Screen
) -> None:
    await prepare(api, ["ann@there.test", "bob@there.test"])
    await draft(api, "spring")
    await signed_in(page, api.store, await add_member(api.store, role=Role.VIEWER))
    await page.goto("/campaigns")
    await expect(page.get_by_role("link", name="spring")).to_be_visible()
    assert await page.get_by_role("main").get_by_role("button").count() == 0
    await page.get_by_role("link", name="spring").click()
    await expect(badge(page)).to_have_text("draft")
    assert await page.get_by_role("main").get_by_role("button").count() == 0
    await page.get_by_role("link", name="Preview").click()
    mail = page.frame_locator("iframe.mail")
    await expect(mail.get_by_role("heading", name="Dear Ann1")).to_be_visible()
    await expect(page.get_by_role("heading", name="Problems")).to_be_visible()
    await expect(page.get_by_text("There is no List-Unsubscribe")).to_be_visible()
    faults.allow("script-src")  # the mail's script, which does not run
    await page.get_by_label("Recipient").fill("nobody@there.test")
    faults.allow_status(404, "/preview")
    await button(page, "Show").click()
    await expect(page.get_by_role("alert")).to_contain_text("nobody@there.test")
    assert await fits(page)
    await check_accessibility(page)
    faults.allow_status(403, "/launch")
    refused = """fetch('/v1/auth/session').then((answer) => answer.json()).then(({ data }) =>
        fetch('/v1/campaigns/spring/launch', { method: 'POST', headers: { 'X-CSRF-Token': data.csrf_token } })).then((answer) => answer.status)"""
    assert await page.evaluate(refused) == 403


async def test_a_draft_is_changed_and_removed_and_an_admin_finds_it_among_those_of_all(api: Api, page: Page) -> None:
    await prepare(api, ["ann@there.test"])
    await prepare(api, ["bob@there.test"], workspace="rival")
    await draft(api, "spring")
    await draft(api, "theirs", workspace="rival")
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/campaigns")
    await expect(page.locator("tbody tr")).to_have_count(2)
    await page.get_by_role("link", name="spring").click()
    await expect(page).to_have_url(f"{api.url}/campaigns/spring?workspace=acme")
    await button(page, "Edit").click()
    await page.locator("input[name=their_clock]").check()
    await page.get_by_label("List customers").uncheck()
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("list")
    await page.get_by_label("List customers").check()
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    assert await api.store.value("SELECT by_recipients_clock FROM fairpost.campaigns WHERE workspace = 'acme'")
    await expect(page.locator(".facts dt").get_by_text("Sending window", exact=True)).to_be_visible()
    await button(page, "Remove").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(page.locator(".empty")).to_be_visible()
    assert await api.store.value("SELECT string_agg(name, ' ') FROM fairpost.campaigns") == "theirs"
    await page.goto("/campaigns/spring?workspace=acme")
    await expect(page.locator(".empty")).to_contain_text("spring")
