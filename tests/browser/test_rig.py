"""What the other tests of this folder rely on: faults in a page are noticed."""

import pytest
from playwright.async_api import Error, Page

from tests.api.conftest import Api
from tests.browser.axe import check_accessibility
from tests.browser.faults import Faults
from tests.browser.signing_in import add_admin, signed_in


async def test_a_session_made_at_once_is_one_of_the_service(api: Api, page: Page) -> None:
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/sign-in")
    told = await page.evaluate("fetch('/v1/auth/session').then((answer) => answer.json())")
    assert told["data"]["address"] == "ann@example.com"


async def test_every_kind_of_fault_is_seen(page: Page, faults: Faults) -> None:
    faults.allow("")
    await page.goto("/sign-in")
    assert faults.seen == []
    await page.evaluate("fetch('/nothing-here')")
    await page.evaluate("fetch('https://elsewhere.example/').catch(() => {})")
    await page.evaluate("document.body.append(Object.assign(new Image(), { src: 'https://elsewhere.example/a.png' }))")
    async with page.expect_event("pageerror"):
        await page.evaluate("setTimeout(() => { throw new Error('no one caught this') })")
    async with page.expect_event("console", lambda message: message.text == "the last one"):
        await page.evaluate("console.error('the last one')")
    for url in ("http://127.0.0.1:9/", "https://elsewhere.example/"):
        with pytest.raises(Error):
            await page.goto(url)
    for fault in (
        "console: the last one",
        "status of 404",
        "policy: connect-src forbids https://elsewhere.example/",
        "policy: img-src forbids",
        "exception: no one caught this",
        "request: net::ERR_UNSAFE_PORT at http://127.0.0.1:9/",
        "request: to another host, https://elsewhere.example/",
    ):
        assert any(fault in seen for seen in faults.seen), (fault, faults.seen)


async def test_a_barrier_is_told_in_words(page: Page) -> None:
    await page.goto("/sign-in")
    await page.evaluate("document.querySelector('main').append(document.createElement('input'))")
    with pytest.raises(AssertionError, match=r"critical: .* \(label\)"):
        await check_accessibility(page)
