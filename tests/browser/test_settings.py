"""The settings pages in a browser, as seen by managers, viewers and admins."""

import json
import re

import httpx2 as httpx
import pytest
from playwright.async_api import FrameLocator, Locator, Page, expect

from fairpost.model.auth import Role
from fairpost.model.webhook import Answered
from tests.api.conftest import Api
from tests.api.test_domain_keys import zone
from tests.browser.axe import check_accessibility
from tests.browser.chromium import Screen
from tests.browser.conftest import on_two_screens
from tests.browser.faults import Faults
from tests.browser.pages import fits, go
from tests.browser.signing_in import PASSWORD, Someone, add_admin, add_member, signed_in
from tests.browser.test_auth import button
from tests.providers.test_domain_proof import nameserver

HOSTILE = """<h1>Hi {{ first_name }}</h1><script>parent.document.title = "taken"</script>
<img src="https://elsewhere.example/pixel.png" onerror="parent.document.title = 'taken'"><iframe src="/v1/keys"></iframe>"""
IN_WORKSPACE = ("templates", "portals", "general", "suppressions", "schedule", "domains", "webhooks")
FOR_MANAGERS = ("keys", "people", "audit")
FOR_ADMINS = ("workspaces", "installation")


@pytest.fixture
async def bob(api: Api, page: Page) -> Someone:
    """A signed-in manager of acme."""
    await api.workspace("acme")
    bob = await add_member(api.store, "acme")
    await signed_in(page, api.store, bob)
    return bob


def panel(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True).and_(page.locator("section"))


def entry(place: Page | Locator, name: str) -> Locator:
    """Returns a field by the first words of its label, which a hint may follow."""
    return place.locator("label", has_text=re.compile(rf"^{name}")).locator("input, select, textarea")


def seen(page: Page) -> FrameLocator:
    """Returns the e-mail; another one may be on its way that is not visible yet."""
    return page.frame_locator("iframe:not(.coming)")


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog")


def refused(page: Page, field: str) -> Locator:
    """Returns the error at a field whose value the API rejects."""
    return page.locator(f'[data-field="{field}"] .refused')


# ── general ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_look_of_the_workspace_is_set_and_a_wrong_logo_refused(
    api: Api, page: Page, bob: Someone, faults: Faults
) -> None:
    faults.allow("status of 422")
    await page.goto("/settings/general")
    await entry(page, "Name for recipients").fill("Acme Ltd")
    await entry(page, "Colour").fill("#1D5FD1")
    await entry(page, "Logo").fill("http://acme.example/logo.png")
    await button(page, "Save").click()
    await expect(entry(page, "Logo")).to_have_attribute("aria-invalid", "true")
    await entry(page, "Logo").fill("https://acme.example/logo.png")
    await page.get_by_label("Refuse to launch campaigns").check()
    await button(page, "Save").click()
    await expect(page.get_by_text("Settings saved.")).to_be_visible()
    row = await api.store.row("SELECT * FROM fairpost.workspace_settings")
    assert tuple(row.values()) == ("acme", "Acme Ltd", "#1d5fd1", "https://acme.example/logo.png", True)
    await check_accessibility(page)


# ── templates ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_template_is_written_while_it_is_seen(api: Api, page: Page, bob: Someone, faults: Faults) -> None:
    faults.allow("status of (404|422)")  # there is none yet, and one request has a mistake
    await page.goto("/settings")
    await expect(page.locator(".empty")).to_be_visible()
    await button(page, "New template").click()
    await entry(dialog(page), "Name").fill("spring")
    await button(page, "Continue").click()

    preview = panel(page, "Preview")
    mail = seen(page)
    await entry(page, "Subject").fill("Hello {{ first_name }}")
    await entry(page, "HTML").fill("<p>Of {{ company }}</p>")
    await expect(preview.get_by_text("Hello Ada")).to_be_visible()
    await expect(mail.get_by_text("Of Example Ltd")).to_be_visible()
    await entry(page, "HTML").press_sequentially("<p>and more</p>")
    await expect(mail.get_by_text("and more")).to_be_visible()

    await entry(page, "Subject").fill("Hello {{ first_name")
    await expect(preview.get_by_role("status")).to_contain_text("subject, line 1")
    await expect(mail.get_by_text("and more")).to_be_visible()  # the last preview stays
    await button(page, "Save").click()
    subject = entry(page, "Subject")
    await expect(subject).to_have_attribute("aria-invalid", "true")
    await expect(subject).to_have_value("Hello {{ first_name")
    await expect(panel(page, "Content").get_by_text("Line 1, column")).to_be_visible()

    await subject.fill("Hello {{ first_name }}")
    await entry(page, "Reply-To").fill("Desk <desk@example.com>")
    await entry(page, "Headers").fill("X-Team: sales\nX-Time: 10:30")
    await button(page, "Save").click()
    await expect(button(page, "Remove")).to_be_visible()  # there is one now
    stored = await api.store.value("SELECT header_fields FROM fairpost.templates WHERE name = 'spring'")
    assert json.loads(stored)["headers"] == {"X-Team": "sales", "X-Time": "10:30"}
    await expect(subject).not_to_have_attribute("aria-invalid", "true")
    assert (
        await api.store.value("SELECT subject FROM fairpost.templates WHERE name = 'spring'")
        == "Hello {{ first_name }}"
    )

    await button(page, "Remove").click()
    await dialog(page).get_by_role("button", name="Remove").click()
    await expect(page.locator(".empty")).to_be_visible()
    assert await api.store.value("SELECT count(*) FROM fairpost.templates") == 0


async def test_a_preview_says_what_a_prospect_lacks(api: Api, page: Page, bob: Someone, faults: Faults) -> None:
    faults.allow_status(422, "/preview")
    async with api.client() as client:
        await client.put("/v1/templates/spring", json={"subject": "Hi {{ first_name }}", "text": "Of {{ company }}"})
        people = [{"address": "ann@example.com", "fields": {"first_name": "Ann"}}]
        await client.post("/v1/lists/spring/prospects", json=people)
    await page.goto("/settings/templates/spring")
    preview = panel(page, "Preview")
    await expect(preview.get_by_text("Hi Ada")).to_be_visible()
    await entry(page, "Preview as").fill("ann@example.com")
    await expect(preview.get_by_role("status")).to_contain_text("no value for company")
    await entry(page, "Text").fill('Of {{ company or "yours" }}')
    await expect(preview.get_by_text("Hi Ann")).to_be_visible()
    await expect(preview.get_by_text("Of yours")).to_be_visible()


@on_two_screens
async def test_hostile_words_are_seen_and_do_nothing(
    api: Api, page: Page, bob: Someone, faults: Faults, screen: Screen
) -> None:
    faults.allow("Content Security Policy|policy: |elsewhere.example")  # the frame reports what it blocks
    async with api.client() as client:
        await client.put("/v1/templates/trap", json={"subject": "<b>Hi</b>", "html": HOSTILE})
    await page.goto("/settings/templates/trap")
    await page.get_by_title("HTML of the e-mail").scroll_into_view_if_needed()
    await expect(seen(page).get_by_role("heading", name="Hi Ada")).to_be_in_viewport()
    await expect(panel(page, "Preview").get_by_text("<b>Hi</b>")).to_be_visible()
    assert await page.title() == "Templates · Fairpost"
    assert await seen(page).locator("script, iframe").count() == 0
    assert "request: csp at https://elsewhere.example/pixel.png" in faults.seen  # nothing was requested


async def test_a_product_email_is_put_into_own_words_and_back(api: Api, page: Page, bob: Someone) -> None:
    await page.goto("/settings/portals")
    await page.get_by_role("link", name="hub / welcome").click()
    subject = entry(page, "Subject")
    await expect(subject).not_to_be_empty()
    before = await subject.input_value()
    await subject.fill("Good to see")
    await expect(panel(page, "Preview").get_by_text("Good to see")).to_be_visible()
    await button(page, "Save").click()
    own = "SELECT count(*) FROM fairpost.portal_overrides"
    back = page.locator(".heading .danger")
    await expect(back).to_be_visible()
    assert await api.store.value(own) == 1
    await back.click()
    await dialog(page).locator("[type=submit]").click()
    await expect(entry(page, "Subject")).to_have_value(before)
    assert await api.store.value(own) == 0


# ── the workspace ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_key_is_shown_once_works_and_is_revoked(api: Api, page: Page, bob: Someone, faults: Faults) -> None:
    faults.allow_status(422, "/v1/keys")
    await page.goto("/settings/keys")
    await entry(page, "Name").fill("the shop")
    await entry(page, "Read").uncheck()
    await button(page, "Create key").click()
    await expect(page.get_by_role("group", name="Permissions").locator(".refused")).to_be_visible()
    await expect(entry(page, "Name")).to_have_value("the shop")

    await entry(page, "Read").check()
    await button(page, "Create key").click()
    shown = page.get_by_label("New key", exact=True).and_(page.locator("input"))
    key = await shown.input_value()
    async with httpx.AsyncClient(base_url=api.url, headers={"Authorization": f"Bearer {key}"}) as program:
        assert (await program.get("/v1/templates")).status_code == 200
        assert (await program.put("/v1/domains/a.example")).status_code == 403

        await page.reload()
        await expect(page.get_by_role("row", name="the shop")).to_be_visible()
        assert key not in await page.content()
        await expect(shown).to_have_count(0)

        await button(page, "Revoke the shop").click()
        await dialog(page).get_by_role("button", name="Revoke").click()
        await expect(page.get_by_text("revoked", exact=True)).to_be_visible()
        assert (await program.get("/v1/templates")).status_code == 401


async def test_a_member_is_invited_given_a_role_and_kept_out(
    api: Api, page: Page, bob: Someone, faults: Faults
) -> None:
    faults.allow_status(409, "/v1/members")
    await page.goto("/settings/people")
    invite = panel(page, "Invite a member")
    await entry(invite, "Address").fill("eve@example.com")
    await entry(invite, "Name").fill("Eve Hall")
    await entry(invite, "Role").select_option("sender")
    await button(page, "Invite").click()
    row = page.get_by_role("row", name="eve@example.com")
    await expect(row.get_by_text("invited")).to_be_visible()
    queued = "SELECT count(*) FROM fairpost.queue WHERE recipients -> 0 ->> 'address' = 'eve@example.com'"
    assert await api.store.value(queued) == 1

    await entry(invite, "Address").fill("bob@example.com")
    await button(page, "Invite").click()
    await expect(invite.get_by_role("alert")).to_be_visible()
    await expect(entry(invite, "Address")).to_have_value("bob@example.com")

    await button(page, "Change role: eve@example.com").click()
    await entry(dialog(page), "Role").select_option("viewer")
    await dialog(page).get_by_role("button", name="Save").click()
    await expect(row.get_by_role("cell", name="viewer")).to_be_visible()
    await button(page, "Reset password: eve@example.com").click()
    await dialog(page).get_by_role("button", name="Send link").click()
    await expect(dialog(page)).to_have_count(0)
    assert await api.store.value(queued) == 2
    await button(page, "Disable: eve@example.com").click()
    await dialog(page).get_by_role("button", name="Disable").click()
    await expect(row.get_by_text("disabled")).to_be_visible()
    await button(page, "Enable: eve@example.com").click()
    await expect(row.get_by_text("invited")).to_be_visible()


async def test_an_address_is_suppressed_found_and_removed(api: Api, page: Page, bob: Someone, faults: Faults) -> None:
    faults.allow_status(422, "/v1/suppressions/ann%40example.com")
    for number in range(60):
        await api.store.value("SELECT fairpost.suppress('acme', $1, 'asked for it')", f"p{number:02}@example.com")
    await page.goto("/settings/suppressions")
    await expect(page.get_by_role("row")).to_have_count(51)
    await button(page, "Show more").click()
    await expect(page.get_by_role("row")).to_have_count(61)

    await entry(page, "Address").fill("ann@example.com")
    await button(page, "Suppress").click()
    await expect(entry(page, "Reason")).to_have_attribute(
        "aria-invalid", "true"
    )  # otherwise the reason would be unknown later
    await entry(page, "Reason").fill("asked by telephone")
    await button(page, "Suppress").click()
    await expect(page.get_by_role("row", name="ann@example.com")).to_be_visible()

    await page.get_by_label("Address or reason").fill("ann@example.com")
    await button(page, "Search").click()
    await expect(page.get_by_role("row")).to_have_count(2)
    await expect(page.get_by_text("asked by telephone")).to_be_visible()
    await entry(page, "Address").fill("ann2@example.com")
    await entry(page, "Reason").fill("not with ann@example.com")
    await button(page, "Suppress").click()
    await expect(page.get_by_role("row")).to_have_count(3)  # the list shows the search results
    await button(page, "Remove ann2@example.com").click()
    await dialog(page).get_by_role("button", name="Remove").click()
    await expect(page.get_by_role("row")).to_have_count(2)
    await button(page, "Remove ann@example.com").click()
    await dialog(page).get_by_role("button", name="Remove").click()
    await expect(page.locator(".empty")).to_be_visible()
    assert await api.store.value("SELECT count(*) FROM fairpost.suppressions") == 60


async def test_a_schedule_is_set_and_the_days_follow(api: Api, page: Page, bob: Someone, faults: Faults) -> None:
    faults.allow_status(422, "/v1/schedule")
    await page.goto("/settings/schedule")
    await entry(page, "Time zone").fill("Europe/Nowhere")
    await entry(page, "E-mails per day").fill("1000")
    await entry(page, "Ramp-up in days").fill("10")
    await entry(page, "Sunday").uncheck()
    await entry(page, "From").fill("08:00")
    await entry(page, "To").fill("18:00")
    await button(page, "Save").click()
    await expect(entry(page, "Time zone")).to_have_attribute("aria-invalid", "true")
    await expect(entry(page, "E-mails per day")).to_have_value("1000")
    await entry(page, "Time zone").fill("Europe/Berlin")
    await button(page, "Save").click()
    days = page.get_by_role("region", name="Next 14 days").and_(page.locator(".table"))
    await expect(days.get_by_role("row", name=re.compile("Sun.*closed"))).to_have_count(2)
    await expect(days.get_by_role("row").nth(1)).to_contain_text("100")


async def test_a_domain_is_claimed_with_its_record(api: Api, page: Page, bob: Someone, faults: Faults) -> None:
    faults.allow_status(422, "/v1/domains/nonsense")
    await page.goto("/settings/domains")
    await entry(page, "Domain").fill("nonsense")
    await button(page, "Add").click()
    await expect(entry(page, "Domain")).to_have_attribute("aria-invalid", "true")
    await entry(page, "Domain").fill("shop.example")
    await button(page, "Add").click()
    record = panel(page, "shop.example").locator(".copied input").last
    await expect(record).to_have_value(re.compile("^fairpost-domain="))
    await button(page, "Remove shop.example").click()
    await dialog(page).get_by_role("button", name="Remove").click()
    await expect(record).to_have_count(0)


async def test_a_webhook_is_added_tested_edited_and_removed(
    api: Api, page: Page, bob: Someone, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answered(*_: object) -> Answered:
        return Answered(status=200, answer="thanks", duration_ms=3)

    monkeypatch.setattr("fairpost.actions.webhooks.Endpoint.post", answered)
    faults.allow_status(422, "/v1/webhooks")
    url = "https://9.9.9.9/hook"
    await page.goto("/settings/webhooks")
    await entry(page, "URL").fill("https://10.0.0.1/")
    await button(page, "Add").click()
    await expect(entry(page, "URL")).to_have_attribute("aria-invalid", "true")
    await entry(page, "URL").fill(url)
    await entry(page, "email.bounced").check()
    await button(page, "Add").click()
    await expect(panel(page, "Secret").locator(".copied input")).to_have_value(re.compile("^whsec_"))
    await button(page, f"Send a test event to {url}").click()
    await button(page, f"Log for {url}").click()
    row = page.get_by_role("row", name=re.compile("webhook.test"))
    await expect(row).to_contain_text("delivered")
    await row.get_by_role("button").click()
    await expect(dialog(page)).to_contain_text("thanks")
    await dialog(page).get_by_role("button", name="Close").click()
    await button(page, f"Pause {url}").click()
    await expect(panel(page, url)).to_contain_text("paused")
    await button(page, f"Resume {url}").click()
    await expect(panel(page, url)).to_contain_text("active")
    await button(page, f"Remove {url}").click()
    await dialog(page).get_by_role("button", name="Remove").click()
    await expect(panel(page, url)).to_have_count(0)


async def test_a_domain_shows_what_receivers_find_and_what_to_publish(api: Api, page: Page, bob: Someone) -> None:
    async with nameserver(zone({"_dmarc.acme.example": "v=DMARC1; p=none"})) as server:
        object.__setattr__(api.service, "resolver", server.resolver)
        await page.goto("/settings/domains")
        await button(page, "Check acme.example").click()
        acme = panel(page, "acme.example")
        await expect(acme).to_contain_text("SPF: bad")
        await expect(acme).to_contain_text("DMARC: bad")
        spf = acme.get_by_role("textbox", name="SPF record value for acme.example")
        await expect(spf).to_have_value("v=spf1 ~all")
        await button(page, "Add a DKIM key to acme.example").click()
        await expect(acme.get_by_role("textbox", name="DKIM record value for acme.example")).to_have_value(
            re.compile("^v=DKIM1; k=rsa; p=")
        )
    await page.reload()
    await expect(acme.get_by_role("textbox", name="DKIM record name for acme.example")).to_have_value(
        re.compile("_domainkey.acme.example$")
    )
    await check_accessibility(page)


async def test_a_password_is_changed_and_a_session_ended(api: Api, page: Page, bob: Someone, faults: Faults) -> None:
    faults.allow_status(401, "/v1/auth/password")
    other = await page.context.browser.new_context(base_url=api.url)  # type: ignore[union-attr]
    elsewhere = await other.new_page()
    await signed_in(elsewhere, api.store, bob)
    await page.goto("/settings/you")
    await button(page, "End").click()
    await button(page, "End session").click()
    await expect(page.get_by_role("row")).to_have_count(2)
    assert (await elsewhere.request.get("/v1/auth/session")).status == 401
    await other.close()

    await entry(page, "Current password").fill("not this one")
    await entry(page, "New password").fill("five words that fit better")
    await button(page, "Change password").click()
    await expect(entry(page, "Current password")).to_have_attribute("aria-invalid", "true")
    await expect(entry(page, "New password")).to_have_value("five words that fit better")
    await entry(page, "Current password").fill(PASSWORD)
    await button(page, "Change password").click()
    await expect(entry(page, "New password")).to_have_value("")


# ── permissions ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_viewer_looks_and_changes_nothing(api: Api, page: Page) -> None:
    await api.workspace("acme")
    async with api.client() as client:
        await client.put("/v1/templates/spring", json={"subject": "Hi", "text": "Hello"})
        await client.put("/v1/suppressions/ann@example.com", json={"reason": "asked for it"})
        await client.post("/v1/webhooks", json={"url": "https://9.9.9.9/hook"})
    await signed_in(page, api.store, await add_member(api.store, "acme", role=Role.VIEWER))
    await page.goto("/settings")
    tabs = page.locator(".groups")
    await expect(tabs.get_by_role("link")).to_have_count(len(IN_WORKSPACE) + 1)
    for path in (*IN_WORKSPACE, "templates/spring", "portals/hub/welcome"):
        shown = await go(page, f"/settings/{path}", "acme")
        await expect(shown.locator("section").first).to_be_visible()
        names = [(await each.inner_text()).strip() for each in await page.locator("main button").all()]
        assert set(names) <= {"Search", "Copy", "Show log"}, (path, names)
    await go(page, "/settings/keys", "acme")
    await expect(page.locator(".empty")).to_be_visible()
    await expect(page.locator("form, table")).to_have_count(0)


async def test_an_admin_adds_and_suspends_a_workspace(api: Api, page: Page) -> None:
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/settings/templates")
    await page.locator(".empty a").click()  # the list of workspaces, because templates belong to one
    await entry(page, "Name").fill("acme")
    await button(page, "Add").click()
    await button(page, "Suspend acme").click()
    await entry(dialog(page), "Reason").fill("unpaid")
    await dialog(page).get_by_role("button", name="Suspend").click()
    await expect(page.get_by_role("row", name="acme").get_by_text("unpaid")).to_be_visible()
    await button(page, "Readmit acme").click()
    await expect(page.get_by_role("row", name="acme").get_by_text("active")).to_be_visible()
    await page.get_by_role("link", name="Open acme").click()
    await expect(page.locator(".empty")).to_be_visible()
    await page.get_by_role("link", name="Audit log").click()
    await expect(page.get_by_text("workspace suspend")).to_be_visible()


async def test_settings_tell_where_they_come_from_and_no_secret(
    api: Api, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRPOST_SECRET_KEY", "c2VjcmV0" * 5 + "c2U=")
    monkeypatch.setenv("FAIRPOST_DATABASE_URL", "postgresql://me:verysecret@127.0.0.1/post")
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto("/settings/installation")
    await expect(page.get_by_role("row", name="FAIRPOST_SECRET_KEY set environment")).to_be_visible()
    await expect(page.get_by_role("row", name="FAIRPOST_DATABASE_URL postgresql://")).to_contain_text("environment")
    await expect(page.get_by_role("row", name="FAIRPOST_PRIORITY")).to_contain_text("default")
    await expect(page.get_by_role("row", name="main up")).to_be_visible()
    shown = await page.content()
    assert "verysecret" not in shown
    assert "c2VjcmV0" not in shown
    await page.get_by_role("link", name="Changed").click()
    await expect(page.get_by_role("row", name="FAIRPOST_PRIORITY")).to_have_count(0)
    await expect(page.get_by_role("row", name="FAIRPOST_SECRET_KEY")).to_be_visible()


@on_two_screens
async def test_every_part_fits_its_screen_and_has_no_barriers(api: Api, page: Page, screen: Screen) -> None:
    await api.workspace("acme")
    await add_member(api.store, "acme", "a.person.with.a.long.name@subdomain.example.com")
    async with api.client() as client:
        await client.put("/v1/templates/spring", json={"subject": "Hi {{ first_name }}", "html": "<p>Hello</p>"})
        await client.put("/v1/suppressions/ann@example.com", json={"reason": "asked for it " * 10})
        await client.put("/v1/domains/a-rather-long-name-of-a-domain.example.org")
        await client.put("/v1/schedule", json={"quota": {"daily_max": 1000, "ramp_up_days": 10}})
    await signed_in(page, api.store, await add_admin(api.store))
    chosen = [*IN_WORKSPACE, *FOR_MANAGERS, "templates/spring", "portals/hub/tfa"]
    alone = ["people", *FOR_ADMINS, "audit", "you", "templates", "no-such-part"]
    await page.goto("/settings/you")
    for path, workspace in [*((path, "acme") for path in chosen), *((path, None) for path in alone)]:
        shown = await go(page, f"/settings/{path}", workspace)
        await expect(shown.locator("section, .empty").first).to_be_visible()
        assert await fits(page), path
        await check_accessibility(page)
