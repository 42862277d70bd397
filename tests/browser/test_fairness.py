"""Fairness in a browser: each sender's share, and how an operator holds and releases senders."""

import pytest
from playwright.async_api import Page, expect

from fairpost.model.account import Limits
from fairpost.model.auth import Role
from fairpost.model.sender import SenderId
from fairpost.observe.emails import stops_on
from fairpost.reasons.rendering import brief, brief_or_none
from fairpost.store import senders
from tests.api.conftest import Api
from tests.api.test_fairness_topic import BURST, enqueue, throttle
from tests.browser.axe import check_accessibility
from tests.browser.chromium import PHONE_DARK
from tests.browser.faults import Faults
from tests.browser.pages import fits
from tests.browser.signing_in import add_admin, add_member, signed_in
from tests.engine.test_runner import deliver


async def at_work(api: Api) -> None:
    """Ann was served three times, bob once, and mallory of another workspace four times. Two of ann's e-mails wait
    behind a throttle."""
    await api.workspace()
    account = await api.store.add_account("own", address="own@acme.example", limits=Limits())
    for workspace, user, n in (("acme", "ann", 3), ("acme", "bob", 1), ("neighbour", "mallory", 4)):
        await enqueue(api, workspace, user, n)
    await deliver(api.store, account)
    await enqueue(api, "acme", "ann", 2)
    await throttle(api, "acme", "ann")


async def stopped(api: Api, user: str) -> list[str | None]:
    return [brief_or_none(stop.reason) for stop in await stops_on(api.store, "acme", user=user)]


async def test_an_operator_lifts_a_throttle_and_the_mail_behind_it_goes_out(api: Api, page: Page) -> None:
    await at_work(api)
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/fairness")
    row = page.get_by_role("region", name="Throttled", exact=True).get_by_role("row", name="user ann")
    await expect(row).to_contain_text(brief(BURST))
    await expect(row).to_contain_text("77")
    await expect(page.get_by_role("img", name="Gini and Jain")).to_be_visible()
    await expect(page.get_by_role("region", name="Sent in the last 24 hours")).to_contain_text("neighbour")
    await check_accessibility(page)
    account = (await api.store.account_named("own")).id
    assert (await deliver(api.store, account)).delivered == []

    await row.get_by_role("button", name="Unthrottle").click()
    await page.get_by_role("dialog").get_by_role("button", name="Unthrottle").click()
    await expect(row).to_have_count(0)
    (active,) = await senders.with_activity(api.store, [SenderId(workspace="acme", name="ann")])
    assert active.sender.throttle is None
    assert len((await deliver(api.store, account)).delivered) == 2


async def test_an_operator_holds_a_user_and_releases_it(api: Api, page: Page, faults: Faults) -> None:
    faults.allow_status(422, "/v1/admin/senders/hold")
    await at_work(api)
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/fairness?workspace=acme")
    await page.get_by_role("button", name="Hold a sender").click()
    await expect(page.get_by_label("Workspace", exact=True)).to_have_value("acme")
    await page.get_by_label("Reason").fill("a complaint")
    await page.get_by_role("button", name="Hold", exact=True).click()
    await expect(page.get_by_role("alert")).to_contain_text("name")
    await page.get_by_role("textbox", name="Name").fill("bob")
    await page.get_by_role("button", name="Hold", exact=True).click()
    row = page.get_by_role("region", name="Held", exact=True).get_by_role("row", name="user bob")
    await expect(row).to_be_visible()
    assert await stopped(api, "bob") == ["a complaint"]
    await row.get_by_role("button", name="Release").click()
    await expect(row).to_have_count(0)
    assert await stopped(api, "bob") == []


@pytest.mark.parametrize("screen", [PHONE_DARK], ids=str)
async def test_a_member_sees_the_users_of_its_workspace_and_no_others(api: Api, page: Page) -> None:
    await at_work(api)
    await signed_in(page, api.store, await add_member(api.store, role=Role.VIEWER))
    await page.goto("/fairness")
    await expect(page.get_by_role("region", name="Sent in the last 24 hours")).to_contain_text("bob")
    await expect(page.get_by_role("region", name="Throttled", exact=True)).to_contain_text(brief(BURST))
    main = page.get_by_role("main")
    await expect(main.get_by_role("button")).to_have_count(0)
    await expect(main).not_to_contain_text("mallory")
    await expect(main).not_to_contain_text("77")
    await check_accessibility(page)
    assert await fits(page)
