"""What all pages have in common: unknown addresses, missing workspaces, returning to a page, and lists on a phone."""

import pytest
from playwright.async_api import Page, expect

from tests.api.conftest import Api
from tests.browser.chromium import PHONE, Screen
from tests.browser.faults import Faults
from tests.browser.signing_in import add_admin, signed_in

EMAIL = {"to": "a@b.example", "subject": "Hello", "text": "t"}


async def test_an_address_that_names_nothing_says_so_and_leads_on(api: Api, page: Page, faults: Faults) -> None:
    faults.allow_status(404, "/v1/live/now?workspace=nobody")
    await api.workspace("acme")
    await signed_in(page, api.store, await add_admin(api.store))
    for path in ("/campaigns/", "/inbox/", "/settings/"):
        await page.goto(path)
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await page.goto("/campaigns/%E0%A4%A?workspace=acme")
    await expect(page.locator(".empty")).to_contain_text("%E0%A4%A")
    await page.locator(".empty a").click()
    await expect(page.get_by_role("heading", name="Campaigns")).to_be_visible()
    await page.goto("/?workspace=nobody")
    await expect(page.locator("[role=alert][data-code=not_found]")).to_contain_text("nobody")
    await api.workspace("nobody")
    await expect(page.get_by_role("main").get_by_role("status")).to_be_visible()  # it was requested again


async def test_going_back_restores_the_position_and_the_menu_closes_automatically(api: Api, page: Page) -> None:
    await api.workspace("acme")
    await api.store.enqueue_many([{**EMAIL, "workspace": "acme"}] * 50)
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/emails?workspace=acme")
    await page.get_by_role("link", name="Hello").nth(40).click()
    await expect(page.get_by_role("heading", name="Hello")).to_be_visible()
    assert await page.evaluate("scrollY") == 0
    await page.go_back()
    await page.wait_for_function("() => scrollY > 500")
    await page.get_by_text("Ann Lee").click()
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Sign out")).to_be_hidden()
    await page.get_by_text("Ann Lee").click()
    await page.get_by_role("heading", name="E-mails").click()
    await expect(page.get_by_role("button", name="Sign out")).to_be_hidden()


@pytest.mark.parametrize("screen", [PHONE], ids=str)
async def test_on_a_phone_a_row_is_a_small_card_with_what_there_is(api: Api, page: Page, screen: Screen) -> None:
    await api.workspace("acme")
    await api.store.enqueue_many([{**EMAIL, "workspace": "acme", "user": "kim"}, {**EMAIL, "workspace": "acme"}])
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/emails?workspace=acme")
    rows = page.get_by_role("main").locator("tbody tr")
    await expect(rows).to_have_count(2)
    await expect(rows.locator("td[data-label=User]:visible")).to_have_text("kim")
    box = await rows.first.bounding_box()
    assert box is not None
    assert box["height"] < 110
