"""The first page: from signing in with a code to a sentence that says what is happening, and updates by itself."""

import pytest
from playwright.async_api import Locator, Page, expect

from fairpost.auth import sessions
from fairpost.model.account import Limits
from fairpost.model.auth import Role
from fairpost.transports.smtp.settings import SmtpSettings
from tests.api.conftest import Api
from tests.browser.axe import check_accessibility
from tests.browser.chromium import DESKTOP, PHONE, Screen
from tests.browser.conftest import on_two_screens
from tests.browser.faults import Faults
from tests.browser.pages import fits
from tests.browser.signing_in import add_admin, add_member, sign_in, signed_in

EMAIL = {"to": "a@b.example", "subject": "s", "text": "t"}
BAD = "<img src=x onerror=alert(1)>"


async def _enqueue(api: Api, workspace: str, n: int) -> None:
    await api.store.enqueue_many([{**EMAIL, "workspace": workspace}] * n)


def _waiting(page: Page) -> Locator:
    return page.locator(".figure").filter(has_text="Queued")


def reasons(page: Page, cause: str) -> Locator:
    """Returns why some mail is not being sent."""
    return page.locator(f'.reasons li[data-key^="{cause}"]')


@on_two_screens
async def test_signing_in_leads_to_what_is_happening_now(api: Api, page: Page, screen: Screen) -> None:
    ann = await add_admin(api.store)
    await sign_in(page, api.store, ann)
    said = page.get_by_role("main").get_by_role("status")
    await expect(said).to_be_visible()
    await expect(reasons(page, "account.none")).to_be_visible()
    server = SmtpSettings(host="mail.post.test", port=587)
    await api.store.add_account("sales", address="sales@post.test", limits=Limits(), pool="default", transport=server)
    await _enqueue(api, "acme", 1200)
    await expect(_waiting(page)).to_contain_text("1,201")  # and the code e-mail that was just sent
    await expect(reasons(page, "engine.none")).to_be_visible()
    await check_accessibility(page)
    assert await fits(page)


READABLE_PX = 11
TEXT_PX = """() => [...document.querySelectorAll(".chart text")].map((each) =>
    parseFloat(getComputedStyle(each).fontSize) * each.getScreenCTM().a)"""
OUTSIDE = """() => [...document.querySelectorAll(".chart text")].filter((each) => {
    const own = each.getBoundingClientRect(), all = each.ownerSVGElement.getBoundingClientRect();
    return own.left < all.left - 1 || own.right > all.right + 1 || own.top < all.top - 1 || own.bottom > all.bottom + 1;
}).map((each) => each.textContent)"""


@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=str)
async def test_chart_text_is_readable_and_redrawn_when_the_screen_is_rotated(
    api: Api, page: Page, screen: Screen
) -> None:
    await api.store.add_account("sales", address="sales@post.test", limits=Limits())
    await _enqueue(api, "acme", 1_234)
    await api.store.value(_A_DAY)
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/")
    await expect(page.locator(".chart text").filter(has_text="e-mails per hour")).to_be_visible()
    for width in (screen.width, 390, 1280, 900, 601):
        await page.set_viewport_size({"width": width, "height": screen.height})
        half, full = ("340", "340") if width <= 600 else ("640", "1080" if width >= 1000 else "640")
        expected = {half: 2} | {full: 3 if full == half else 1}
        for drawn, count in expected.items():
            await expect(page.locator(f".chart svg[viewBox^='0 0 {drawn} ']")).to_have_count(count)
        sizes = await page.evaluate(TEXT_PX)
        assert len(sizes) > 15
        assert READABLE_PX <= min(sizes) <= max(sizes) < 1.5 * READABLE_PX, (width, min(sizes), max(sizes))
        assert await page.evaluate(OUTSIDE) == []
        assert await fits(page)


_A_DAY = """
    INSERT INTO fairpost.activity (workspace, user_name, hour, writer, volume, sent, bounced)
    SELECT 'acme', 'kim', fairpost.hour_of(clock_timestamp()) - make_interval(hours => h), 'test', 1000 * h, 1000 * h, h
    FROM generate_series(1, 23) h"""


async def test_everything_is_paused_and_continues_from_the_page(api: Api, page: Page) -> None:
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/")
    await page.get_by_role("button", name="Pause everything").click()
    await page.get_by_role("dialog").get_by_role("button", name="Pause everything").click()
    await expect(reasons(page, "everything.paused")).to_be_visible()
    assert await api.store.value("SELECT reason FROM fairpost.pause_now(now())") is not None
    await page.get_by_role("button", name="Resume everything").click()
    await expect(reasons(page, "everything.paused")).to_have_count(0)
    assert await api.store.value("SELECT reason FROM fairpost.pause_now(now())") is None


async def test_a_member_sees_the_workspace_until_the_session_ends(api: Api, page: Page, faults: Faults) -> None:
    await api.workspace("acme")
    await _enqueue(api, "acme", 3)
    await _enqueue(api, "rival", 500)
    bob = await add_member(api.store, "acme", role=Role.VIEWER)
    await signed_in(page, api.store, bob)
    await page.goto("/")
    await expect(_waiting(page)).to_contain_text("3 urgent")
    await expect(page.get_by_text("rival")).to_have_count(0)
    await expect(page.get_by_role("button", name="Pause everything")).to_have_count(0)
    await expect(page.get_by_role("link", name="Inbox")).to_have_count(0)
    await sessions.revoke_sessions(api.store, bob.person.id)
    await page.wait_for_url("**/sign-in?next=%2F")


async def test_an_anonymous_visitor_is_sent_to_the_sign_in_page_and_back(api: Api, page: Page, faults: Faults) -> None:
    faults.allow_status(401, "/v1/auth/session")
    ann = await add_admin(api.store)
    await page.goto("/?workspace=acme")
    await page.wait_for_url("**/sign-in?next=*")
    await signed_in(page, api.store, ann)
    await page.goto("/sign-in?next=//elsewhere.example/")
    assert await page.evaluate("next") == "/"  # redirects to other sites are refused


async def test_a_workspace_is_chosen_and_words_of_strangers_stay_words(api: Api, page: Page) -> None:
    await api.workspace("acme")
    await _enqueue(api, "acme", 2)
    await _enqueue(api, "rival", 7)
    server = SmtpSettings(
        host="mail.post.test", port=587
    )  # otherwise the missing server would be reported instead of the hold
    await api.store.add_account("relay", address="relay@post.test", limits=Limits(), transport=server)
    await api.store.hold("acme", "workspace", "", reason=BAD)
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/")
    await expect(_waiting(page)).to_contain_text("9 urgent")
    await page.get_by_role("button", name="Workspace: all workspaces").click()
    await page.get_by_role("combobox", name="Workspace").select_option("acme")
    await page.get_by_role("button", name="Choose", exact=True).click()
    await page.wait_for_url("**/?workspace=acme")
    await expect(_waiting(page)).to_contain_text("2 urgent")
    await expect(page.get_by_text(BAD)).not_to_have_count(0)


async def test_a_database_that_does_not_answer_is_said_and_the_page_stays(api: Api, page: Page) -> None:
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/")
    await expect(page.locator("#live.is-live")).to_be_visible()
    await api.store.value("ALTER TABLE fairpost.leases RENAME TO gone")
    await expect(page.locator("#live.is-trouble")).not_to_be_empty()
    await expect(page.get_by_role("heading", name="Now")).to_be_visible()
    await api.store.value("ALTER TABLE fairpost.gone RENAME TO leases")
    await expect(page.locator("#live.is-live")).to_be_visible()


async def test_going_back_after_signing_out_shows_nothing(api: Api, page: Page, faults: Faults) -> None:
    faults.allow_status(401, "/v1/auth/session")
    ann = await add_admin(api.store)
    await signed_in(page, api.store, ann)
    await page.goto("/settings/installation")  # a page without live data, which would notice
    await expect(page.get_by_text("FAIRPOST_HOME").first).to_be_visible()
    await page.locator("#who").get_by_text("Ann Lee").click()
    await page.get_by_role("button", name="Sign out").click()
    await page.wait_for_url("**/sign-in")
    await page.evaluate("() => { setTimeout(() => history.back()) }")  # after the response, because the page is left
    await page.wait_for_url("**/sign-in?next=**")
