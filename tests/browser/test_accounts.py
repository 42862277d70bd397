"""Accounts in a browser: what they are doing, and what people do with them."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Page, expect

from fairpost.inbox.server import InboxServer, ServerOptions
from fairpost.model.account import Limits, WarmUp
from fairpost.model.ids import EmailId
from fairpost.model.person import Role
from fairpost.model.transport import Security, SmtpSettings
from fairpost.observe.emails import show_email
from tests.api.conftest import Api
from tests.browser.axe import check_accessibility
from tests.browser.chromium import PHONE_DARK
from tests.browser.faults import Faults
from tests.browser.signing_in import add_admin, add_member, signed_in
from tests.deliver.test_runner import NO_SUCH_USER, deliver


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
    await page.get_by_label("Why?").fill("new password on Monday")
    await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("row", name="sales").get_by_text("new password on Monday")).to_be_visible()
    assert (await api.store.account_named("acme/sales")).status == "paused"

    email = await enqueue(api)
    assert (await deliver(api.store, account)).delivered == []
    assert await state(api, email) == "ready"

    await page.get_by_role("button", name="Resume sales").click()
    await expect(page.get_by_role("button", name="Pause sales")).to_be_visible()
    assert len((await deliver(api.store, account)).delivered) == 1
    assert await state(api, email) == "sent"
    await expect(page.get_by_text("today: 1, no limit")).to_be_visible()
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
    await expect(page.get_by_text("There is no such mailbox, or it is closed.")).to_be_visible()
    await expect(page.get_by_text("today: 1 of 10")).to_be_visible()
    await expect(page.get_by_role("img", name="What the account may send")).to_be_visible()
    await page.get_by_role("button", name="Change the limits").click()
    await page.get_by_label("E-mails an hour").fill("7")
    await page.get_by_label("first day").fill("25")
    await page.get_by_role("button", name="Change", exact=True).click()
    await expect(page.get_by_text("today: 1 of 25")).to_be_visible()
    await expect(page.get_by_text("this hour: 1 of 7")).to_be_visible()
    limits = (await api.store.account_named("acme/sales")).limits
    assert (limits.hourly_max, limits.daily_max, limits.warm_up) == (7, 50, WarmUp(start=25, step=10))
    await check_accessibility(page)
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_the_first_account_is_added_where_the_address_is_its_own(api: Api, page: Page, faults: Faults) -> None:
    faults.allow_status(422, "/api/accounts")
    await api.workspace()
    await signed_in(page, api.store, await add_member(api.store))
    await page.goto("/accounts")
    await page.get_by_role("button", name="Add the first account").click()
    await check_accessibility(page)
    await page.get_by_role("textbox", name="Name", exact=False).first.fill("news")
    await page.get_by_label("E-mail address").fill("news@elsewhere.example")
    await page.get_by_label("SMTP server").fill("smtp.acme.example")
    await page.get_by_label("Encryption").select_option("none")
    await page.get_by_role("button", name="Add", exact=True).click()
    await expect(page.get_by_role("alert")).to_contain_text("elsewhere.example is not a domain")
    await page.get_by_label("E-mail address").fill("news@acme.example")
    await page.get_by_role("spinbutton", name="Port").fill("587")
    await page.get_by_role("button", name="Add", exact=True).click()
    await expect(page.get_by_role("heading", name="news")).to_be_visible()
    account = await api.store.account_named("acme/news")
    assert (account.address, account.pool) == ("news@acme.example", "acme/default")


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
    await expect(page.get_by_role("status").filter(has_text="it can send")).to_be_visible()
    await page.get_by_role("link", name="own", exact=True).click()
    await expect(page.get_by_role("heading", name="own", exact=True)).to_be_visible()
    await page.goto("/accounts/acme/sales")
    await page.get_by_role("button", name="Pause acme/sales").click()
    await page.get_by_label("Why?").fill("complaints")
    await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    await expect(page.get_by_text("Nothing goes out through it")).to_be_visible()
    assert (await api.store.account_named("acme/sales")).status_reason == "complaints"


async def test_a_viewer_looks_and_changes_nothing(api: Api, page: Page, server: SmtpSettings) -> None:
    await api.workspace()
    await add(api, server)
    await signed_in(page, api.store, await add_member(api.store, role=Role.VIEWER))
    await page.goto("/accounts")
    await expect(page.get_by_role("link", name="sales")).to_be_visible()
    await expect(page.get_by_role("main").get_by_role("button")).to_have_text(["Search"])
