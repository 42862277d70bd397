"""The development inbox in a browser."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Locator, Page, expect

from fairpost.dev.inbox import mails
from fairpost.dev.inbox.server import InboxServer, ServerOptions
from fairpost.model.account import Limits
from fairpost.model.auth import Role
from fairpost.model.ids import AccountId
from fairpost.model.transport import Security
from fairpost.transports.smtp.settings import SmtpSettings
from tests.api.conftest import Api
from tests.browser.axe import check_accessibility
from tests.browser.chromium import Screen
from tests.browser.conftest import on_two_screens
from tests.browser.faults import Faults
from tests.browser.pages import fits
from tests.browser.sending import send
from tests.browser.signing_in import add_admin, add_member, signed_in


@pytest.fixture
async def shop(api: Api) -> AsyncIterator[AccountId]:
    """Adds an account that sends to the inbox."""
    inbox = InboxServer(api.store, ServerOptions(port=0))
    await inbox.start()
    server = SmtpSettings(host="127.0.0.1", port=inbox.port, security=Security.NONE)
    try:
        yield await api.store.add_account("shop", address="shop@post.example", limits=Limits(), transport=server)
    finally:
        await inbox.stop()


async def add(api: Api, subject: str, *, to: str = "ann@example.com", text: str = "Hello") -> int:
    raw = f"From: Shop <shop@post.example>\r\nTo: {to}\r\nSubject: {subject}\r\n\r\n{text}".encode()
    arrived = mails.Arrived(
        sender="shop@post.example", recipients=(to,), helo="shop", peer="127.0.0.1:9", tls=None, auth_user=None, raw=raw
    )
    return (await mails.add_mail(api.store, arrived)).id


def nothing(page: Page) -> Locator:
    """Returns the text for an empty inbox, with the command that starts the server."""
    return page.locator(".letter .empty", has_text="fairpost inbox serve")


@on_two_screens
async def test_an_email_is_sent_arrives_in_the_open_page_is_read_and_deleted(
    api: Api, page: Page, screen: Screen, shop: AccountId
) -> None:
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/inbox")
    await expect(nothing(page)).to_be_visible()
    await check_accessibility(page)
    await page.evaluate("globalThis.isTheSamePage = true")

    text = "Hello Ann, see https://shop.example/orders/1."
    html = "<h1>Hello Ann</h1><p>It is <b>on its way</b>.</p>"
    await api.store.enqueue_many(
        [{"workspace": "acme", "to": "ann@example.com", "subject": "Your order 1", "text": text, "html": html}]
    )
    assert await send(api.store, shop) == 1
    mail = page.get_by_role("link", name="Your order 1")
    await expect(mail).to_be_visible()
    await expect(page.locator(".letters .unread")).to_have_count(1)
    assert await fits(page)
    await check_accessibility(page)

    await mail.click()
    frame = page.frame_locator("iframe.mail")
    await expect(frame.get_by_role("heading", name="Hello Ann")).to_be_visible()
    assert await fits(page)
    await check_accessibility(page)
    parts = page.get_by_role("navigation", name="Parts of the e-mail")
    await parts.get_by_role("link", name="Text").click()
    link = page.get_by_role("link", name="https://shop.example/orders/1", exact=True)
    await expect(link).to_have_attribute("rel", "noopener noreferrer")
    await parts.get_by_role("link", name="Headers").click()
    await expect(page.get_by_text("Message-ID", exact=True)).to_be_visible()
    await parts.get_by_role("link", name="Checks").click()
    await expect(page.locator(".findings").first).to_be_visible()
    await check_accessibility(page)
    await parts.get_by_role("link", name="Source").click()
    await expect(page.get_by_text("Subject: Your order 1")).to_be_visible()
    async with page.expect_download() as saved:
        await page.get_by_role("link", name="Download .eml").click()
    assert (await saved.value).suggested_filename.endswith(".eml")

    await page.get_by_role("button", name="Delete", exact=True).click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(nothing(page)).to_be_visible()
    assert await mails.list_mails(api.store) == []
    assert await page.evaluate("globalThis.isTheSamePage")  # the page was never reloaded


async def test_the_keyboard_reads_searches_marks_and_deletes(api: Api, page: Page) -> None:
    ids = [await add(api, f"Letter {n}", to=f"{'ann' if n % 2 else 'bob'}@example.com") for n in range(60)]
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/inbox")
    unread = page.locator(".letters .unread")
    await expect(unread).to_have_count(50)
    for key, n in (("j", 59), ("j", 58), ("k", 59), ("ArrowDown", 58)):
        await page.keyboard.press(key)
        await expect(page.get_by_role("heading", name=f"Letter {n}", exact=True)).to_be_visible()
    await expect(page).to_have_url(f"{api.url}/inbox/{ids[58]}")
    await expect(unread).to_have_count(48)

    await page.get_by_role("button", name="Show more").click()
    await expect(page.locator(".letters li")).to_have_count(60)
    await add(api, "The newest")  # older e-mails that were loaded stay below it
    await expect(page.get_by_role("link", name="The newest")).to_be_visible()
    await expect(page.locator(".letters li")).to_have_count(61)

    await page.keyboard.press("/")
    await page.keyboard.type("letter 5 to:ann@example.com")
    await page.keyboard.press("Enter")
    await expect(page.locator(".letters li")).to_have_count(10)  # 5, 15, 25, 35, 45, 51, 53, 55, 57, 59
    await page.get_by_role("link", name="Letter 15").click()
    await expect(page.get_by_role("heading", name="Letter 15")).to_be_visible()
    await page.keyboard.press("Delete")
    await page.keyboard.press("Enter")  # it asks for confirmation first
    await expect(page.get_by_role("heading", name="Letter 5", exact=True)).to_be_visible()
    await expect(page.locator(".letters li")).to_have_count(9)
    assert await api.store.value("SELECT count(*) FROM fairpost.inbox WHERE id = $1", ids[15]) == 0

    await page.get_by_role("button", name="Mark all as read").click()
    await page.goto("/inbox")
    await expect(page.locator(".letters li")).to_have_count(50)
    await expect(unread).to_have_count(0)  # the browser remembers it

    await page.get_by_role("button", name="Delete all").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete all").click()
    await expect(nothing(page)).to_be_visible()


async def test_the_inbox_is_only_for_admins(api: Api, page: Page, faults: Faults) -> None:
    await add(api, "The secret")
    await api.workspace("acme")
    await signed_in(page, api.store, await add_member(api.store, "acme", role=Role.MANAGER))
    await page.goto("/inbox")
    await expect(page.locator(".empty")).to_be_visible()
    await expect(page.get_by_role("link", name="Inbox")).to_have_count(0)
    assert "secret" not in await page.content()


async def test_without_the_inbox_no_link_leads_to_it_and_its_page_says_how_to_install_it(
    api: Api, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpost.api.routes.auth.is_installed", lambda extra: False)
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/inbox")
    await expect(page.locator(".empty", has_text="pip install 'fairpost[local]'")).to_be_visible()
    nav = page.locator("#nav")
    await expect(nav.get_by_role("link", name="Now")).to_be_visible()
    await expect(nav.get_by_role("link", name="Inbox")).to_have_count(0)
