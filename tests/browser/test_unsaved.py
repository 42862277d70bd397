"""Leaving a page with unsaved input asks first, however you leave; otherwise it never asks."""

import asyncio
import re

import pytest
from playwright.async_api import Dialog, Locator, Page, Response, Route, expect

from tests.api.conftest import Api
from tests.browser.axe import check_accessibility
from tests.browser.signing_in import add_member, signed_in
from tests.browser.test_auth import button
from tests.browser.test_campaigns import prepare
from tests.browser.test_settings import dialog, entry

HERE = re.compile("/settings/templates/spring$")
LIST = re.compile("/settings/templates$")


@pytest.fixture
async def closing(page: Page) -> list[Dialog]:
    """The browser's own question before a page is closed or reloaded. The answer is always to stay."""
    asked = list[Dialog]()

    async def stay(each: Dialog) -> None:
        asked.append(each)
        await each.dismiss()

    page.on("dialog", stay)
    return asked


def is_put(answer: Response) -> bool:
    return answer.request.method == "PUT"


def asks(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Leave without saving?")


async def test_words_that_are_not_saved_are_not_left_by_mistake(api: Api, page: Page, closing: list[Dialog]) -> None:
    await api.workspace()
    async with api.client() as client:
        await client.put("/v1/templates/spring", json={"subject": "Spring", "text": "It is here."})
    await signed_in(page, api.store, await add_member(api.store))
    await page.goto("/settings/templates")
    await page.get_by_role("link", name="spring").click()
    text, templates = entry(page, "Text"), page.get_by_role("link", name="Templates", exact=True)
    await expect(text).to_have_value("It is here.")
    await text.fill("It is")
    await text.fill("It is here.")  # the original text
    await templates.click()
    await expect(page).to_have_url(LIST)
    await page.get_by_role("link", name="spring").click()

    await text.fill("It is late.")
    await templates.click()
    await expect(asks(page)).to_be_visible()
    await check_accessibility(page)
    await button(page, "Stay").click()
    await expect(page).to_have_url(HERE)
    await page.evaluate("() => { setTimeout(() => history.back()) }")
    await expect(asks(page)).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(asks(page)).to_have_count(0)
    await expect(page).to_have_url(HERE)
    await expect(text).to_have_value("It is late.")
    assert closing == []
    async with page.expect_event("dialog"):
        await page.evaluate("void setTimeout(() => location.reload())")
    assert [each.type for each in closing] == ["beforeunload"]
    await expect(text).to_have_value("It is late.")

    await page.evaluate("() => { setTimeout(() => history.back()) }")
    await button(page, "Leave without saving").click()
    await expect(page).to_have_url(LIST)
    await page.evaluate("history.forward()")
    await expect(page).to_have_url(HERE)
    await expect(text).to_have_value("It is here.")

    await text.fill("It is over.")
    async with page.expect_response(is_put):
        await button(page, "Save").click()
    await expect(button(page, "Save")).not_to_have_attribute("aria-busy", "true")
    await templates.click()
    await expect(page).to_have_url(LIST)
    await page.get_by_role("link", name="spring").click()
    await expect(text).to_have_value("It is over.")
    await text.fill("Nothing.")
    await button(page, "Remove").click()
    await dialog(page).get_by_role("button", name="Remove").click()
    await expect(page.locator(".empty")).to_be_visible()
    await page.goto("/settings/portals")
    assert len(closing) == 1


async def test_own_words_for_a_product_email_and_a_refused_save_are_asked_about_too(
    api: Api, page: Page, closing: list[Dialog]
) -> None:
    await api.workspace()
    await signed_in(page, api.store, await add_member(api.store))
    await page.goto("/settings/portals")
    await page.get_by_role("link", name="hub / welcome").click()
    await entry(page, "Subject").fill("Good to see")
    left = asyncio.Event()

    async def hold(route: Route) -> None:
        if route.request.method == "GET":
            await left.wait()
        await route.continue_()

    await page.route(WELCOME, hold)
    async with page.expect_request(lambda request: request.method == "GET" and request.url.endswith("/hub/welcome")):
        await button(page, "Save").click()
    await page.get_by_role("link", name="Domains").click()  # saved, although the page has not been reloaded yet
    await entry(page, "Domain").fill("not long")  # short forms do not ask
    left.set()
    await page.get_by_role("link", name="Product e-mails").click()
    await page.get_by_role("link", name="hub / welcome").click()
    await entry(page, "Subject").fill("See you")
    await page.route(WELCOME, lambda route: route.fulfill(status=200, json=REFUSED))
    await button(page, "Save").click()
    await expect(page.get_by_text("Not today.")).to_be_visible()
    await page.get_by_role("link", name="Domains").click()
    await expect(asks(page)).to_be_visible()
    await button(page, "Leave without saving").click()
    await expect(entry(page, "Domain")).to_be_visible()
    assert closing == []


WELCOME = "**/v1/portals/hub/welcome"
REFUSED = {"success": False, "error": {"code": "conflict", "message": "Not today.", "details": None}}


async def test_a_draft_in_progress_is_not_lost_by_a_key_press(api: Api, page: Page, closing: list[Dialog]) -> None:
    await prepare(api, ["ann@there.test"])
    await signed_in(page, api.store, await add_member(api.store))
    await page.goto("/emails")
    await page.get_by_role("link", name="Campaigns", exact=True).click()
    draft = page.get_by_role("dialog", name="New campaign")
    begin = page.get_by_role("button", name=re.compile("campaign")).first
    await begin.click()
    await expect(draft).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(draft).to_have_count(0)

    await begin.click()
    await entry(draft, "Name").fill("spring")
    await page.keyboard.press("Escape")
    await expect(asks(page)).to_be_visible()
    await button(page, "Stay").click()
    await expect(entry(draft, "Name")).to_have_value("spring")
    await draft.get_by_role("button", name="Cancel").click()
    await button(page, "Leave without saving").click()
    await expect(draft).to_have_count(0)

    await begin.click()
    await entry(draft, "Name").fill("spring")
    await page.evaluate("() => { setTimeout(() => history.back()) }")
    await button(page, "Leave without saving").click()
    await expect(page).to_have_url(re.compile("/emails$"))
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.evaluate("history.forward()")
    await begin.click()
    await entry(draft, "Name").fill("spring")
    await button(page, "Create draft").click()
    await expect(page.get_by_role("heading", name="spring")).to_be_visible()
    assert closing == []
