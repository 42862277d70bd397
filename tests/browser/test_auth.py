"""The sign-in pages in a browser."""

from urllib.parse import urlencode, urlsplit

from playwright.async_api import Locator, Page, Route, expect

from fairpost.auth import membership, signing_in
from fairpost.auth.codes import CODE_TRIES_MAX, CODES_MAX
from fairpost.model.auth import Offered, Role
from fairpost.regions.directory import MAIN
from tests.api.conftest import Api
from tests.auth.conftest import another
from tests.browser.axe import check_accessibility
from tests.browser.chromium import DESKTOP, PHONE_DARK, Screen
from tests.browser.conftest import on_every_screen, on_two_screens
from tests.browser.faults import Faults
from tests.browser.pages import fits
from tests.browser.signing_in import PASSWORD, add_admin, add_member, code_for, enter_password, sign_in


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name)


def wrong(page: Page, code: str) -> Locator:
    """Returns the error shown on the sign-in page."""
    return page.get_by_role("alert").and_(page.locator(f"[data-code={code}]"))


async def setup_path(api: Api) -> str:
    link = await membership.first_admin_link(api.store, api.url)
    assert link is not None
    return path_of(link)


def path_of(link: str) -> str:
    parts = urlsplit(link)
    return f"{parts.path}?{parts.query}"


@on_every_screen
async def test_pages_fit_their_screen_and_have_no_barriers(page: Page, screen: Screen) -> None:
    like_these = ("/invitation?token=a", "/reset?token=a") if screen in (DESKTOP, PHONE_DARK) else ()
    for path in ("/setup?token=a", "/sign-in", *like_these):
        await page.goto(path)
        await expect(page.locator("form")).to_be_visible()
        assert await fits(page), path
        await check_accessibility(page)


@on_two_screens
async def test_errors_are_accessible(api: Api, page: Page, faults: Faults, screen: Screen) -> None:
    faults.allow_status(401, "/v1/auth/sign-in")
    faults.allow_status(401, "/v1/auth/code")
    ann = await add_admin(api.store)
    await page.goto("/sign-in")
    await enter_password(page, ann, "not these four words")
    await expect(wrong(page, "wrong_credentials")).to_be_visible()
    await expect(page.get_by_label("Password")).to_be_focused()
    await check_accessibility(page)

    await enter_password(page, ann)
    await expect(page.get_by_role("alert")).to_be_empty()
    code = await code_for(api.store, ann.address)
    await page.get_by_label("Code").fill(another(code))
    await button(page, "Sign in").click()
    await expect(wrong(page, "wrong_credentials")).to_contain_text(str(CODE_TRIES_MAX - 1))  # there are tries left
    assert await fits(page)
    await check_accessibility(page)

    await page.get_by_label("Code").fill(f" {code[:3]} {code[3:]}")  # as people type it
    await button(page, "Sign in").click()
    await page.wait_for_url("**/")


async def test_a_member_signs_in_and_the_page_knows_the_session(api: Api, page: Page) -> None:
    await api.workspace("acme")
    bob = await add_member(api.store, "acme")
    await sign_in(page, api.store, bob)
    told = await page.evaluate("fetch('/v1/auth/session').then((answer) => answer.json())")
    assert told["data"]["address"] == bob.address
    signed_out = await page.request.post("/v1/auth/sign-out", headers={"X-CSRF-Token": told["data"]["csrf_token"]})
    assert signed_out.ok


async def test_the_keyboard_is_enough_to_become_the_first_admin_and_sign_in(api: Api, page: Page) -> None:
    await page.goto(await setup_path(api))
    for text in ("ann@example.com", "Ann Lee", PASSWORD):
        await page.keyboard.type(text)
        await page.keyboard.press("Tab")
    await expect(button(page, "Create admin")).to_be_focused()
    await page.keyboard.press("Enter")

    await expect(page.get_by_role("status")).not_to_be_empty()
    address = page.get_by_label("E-mail address")
    await expect(address).to_be_focused()
    await expect(address).to_have_value("ann@example.com")  # the address need not be typed again
    await page.keyboard.press("Tab")
    await page.keyboard.type(PASSWORD)
    await page.keyboard.press("Enter")

    await expect(page.get_by_label("Code")).to_be_focused()
    await page.keyboard.type(await code_for(api.store, "ann@example.com"))
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/")


async def test_a_link_is_out_of_sight_at_once_and_works_once(api: Api, page: Page, faults: Faults) -> None:
    await api.workspace("acme")
    offered = await membership.invite(
        api.store, workspace="acme", address="bob@example.com", role=Role.SENDER, mail=api.service.mail_of(MAIN)
    )
    assert isinstance(offered, Offered)
    path = path_of(api.service.mail_of(MAIN).link("invitation", offered.token))
    await page.goto(path)
    assert urlsplit(page.url).query == ""
    await page.get_by_label("Name").fill("Bob Ray")
    await page.get_by_label("Password").fill(PASSWORD)
    await button(page, "Set password").click()
    await page.wait_for_url("**/")  # and is signed in

    faults.allow_status(401, "/v1/auth/accept")
    await page.goto(path)
    await page.get_by_label("Password").fill(PASSWORD)
    await button(page, "Set password").click()
    await expect(wrong(page, "wrong_credentials")).to_be_visible()


async def test_a_workspace_is_asked_for_only_where_the_password_fits_several(
    api: Api, page: Page, faults: Faults
) -> None:
    faults.allow_status(409, "/v1/auth/sign-in")
    for name in ("acme", "globex"):
        await api.workspace(name)
    await add_member(api.store, "acme")
    bob = await add_member(api.store, "globex")
    await page.goto("/sign-in")
    await expect(page.get_by_label("Workspace")).to_be_hidden()
    await enter_password(page, bob, is_right=False)
    await page.get_by_label("Workspace").select_option("globex")
    await check_accessibility(page)
    await button(page, "Continue").click()
    await expect(
        page.get_by_text(f"fairpost member code --workspace globex {bob.address}")
    ).to_be_visible()  # there is no account to send it
    await page.get_by_label("Code").fill(await code_for(api.store, bob.address))
    await button(page, "Sign in").click()
    await page.wait_for_url("**/")


async def test_another_password_counts_from_then_on(api: Api, page: Page) -> None:
    ann = await add_admin(api.store)
    offered = await membership.offer_reset(api.store, ann.person.id)
    assert isinstance(offered, Offered)
    await page.goto(f"/reset?token={offered.token}")
    await page.get_by_label("Password").fill("short")
    await button(page, "Set password").click()  # the browser itself rejects the input
    await expect(page.get_by_role("heading", name="Choose a new password")).to_be_visible()
    await page.get_by_label("Password").fill("four other words now")
    await button(page, "Set password").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    await enter_password(page, ann, "four other words now")
    await expect(page.get_by_label("Code")).to_be_visible()


async def test_without_its_link_a_page_says_so(page: Page) -> None:
    for path in ("/setup", "/invitation", "/reset"):
        await page.goto(path)
        await expect(wrong(page, "link_missing")).to_be_visible()
        await expect(button(page, "Continue")).to_be_visible()


async def test_another_code_ends_the_one_before_and_after_the_last_the_password_is_asked_for(
    api: Api, page: Page, faults: Faults
) -> None:
    faults.allow_status(401, "/v1/auth/code")
    faults.allow_status(401, "/v1/auth/resend")
    ann = await add_admin(api.store)
    await page.goto("/sign-in")
    await enter_password(page, ann)
    first = await code_for(api.store, ann.address)
    await button(page, "Send another code").click()
    await expect(page.get_by_role("status")).not_to_be_empty()
    if first != await code_for(api.store, ann.address):
        await page.get_by_label("Code").fill(first)
        await button(page, "Sign in").click()
        await expect(wrong(page, "wrong_credentials")).to_be_visible()
    for _ in range(CODES_MAX - 1):
        async with page.expect_response("**/v1/auth/resend"):
            await button(page, "Send another code").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    await expect(wrong(page, "wrong_credentials")).to_be_visible()


async def test_after_the_last_wrong_code_the_password_is_asked_for(api: Api, page: Page, faults: Faults) -> None:
    faults.allow_status(401, "/v1/auth/code")
    ann = await add_admin(api.store)
    await page.goto("/sign-in")
    await enter_password(page, ann)
    code = await code_for(api.store, ann.address)
    for by in range(CODE_TRIES_MAX):
        await page.get_by_label("Code").fill(another(code, by + 1))
        async with page.expect_response("**/v1/auth/code"):
            await button(page, "Sign in").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    await expect(wrong(page, "wrong_credentials")).to_be_visible()


async def test_a_code_that_cannot_be_one_is_not_sent(api: Api, page: Page) -> None:
    ann = await add_admin(api.store)
    await page.goto("/sign-in")
    await enter_password(page, ann)
    await page.get_by_label("Code").fill("12345")
    await button(page, "Sign in").click()
    assert await page.get_by_label("Code").evaluate("(input) => input.validity.patternMismatch")
    assert await api.store.value("SELECT tries FROM fairpost.sign_ins") == 0


async def test_a_double_click_is_one_attempt(api: Api, page: Page) -> None:
    ann = await add_admin(api.store)
    await page.goto("/sign-in")
    await page.get_by_label("E-mail address").fill(ann.address)
    await page.get_by_label("Password").fill(PASSWORD)
    await button(page, "Continue").dblclick()
    await expect(page.get_by_label("Code")).to_be_visible()
    assert await api.store.value("SELECT count(*) FROM fairpost.sign_ins") == 1


async def test_a_service_that_does_not_answer_is_named(page: Page, faults: Faults) -> None:
    faults.allow("ERR_INTERNET_DISCONNECTED")
    await page.goto("/sign-in")
    await page.get_by_label("E-mail address").fill("ann@example.com")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.context.set_offline(True)
    await button(page, "Continue").click()
    await expect(wrong(page, "unreachable")).to_be_visible()


@on_two_screens
async def test_all_that_the_api_can_do_is_shown_without_barriers_and_found_by_its_words(
    page: Page, screen: Screen
) -> None:
    await page.goto("/docs")
    await expect(page.locator("h2").last).to_be_visible()
    paths = page.locator("#paths > section > details")
    assert await paths.count() > 100
    assert "`" not in (await page.locator("#paths").text_content() or "")
    bulk = paths.filter(has_text="bulk").first
    await bulk.locator("> summary").press("Enter")
    await expect(bulk.locator("> pre").first).to_be_visible()
    assert await fits(page)

    find = page.get_by_role("searchbox", name="Search paths")
    await find.fill("bulk")
    await expect(paths.filter(visible=True)).to_have_count(1)
    await find.fill("nothing-like-it")
    await expect(page.get_by_role("status")).not_to_be_empty()
    await expect(paths.filter(visible=True)).to_have_count(0)

    await page.route("**/openapi.json", _tenth_of_the_paths)  # all are drawn alike, and axe takes 10 s for them
    await page.goto("/docs")
    await bulk.locator("> summary").press("Enter")
    await expect(bulk.locator("> pre").first).to_be_visible()
    await check_accessibility(page)


async def _tenth_of_the_paths(route: Route) -> None:
    document = await (await route.fetch()).json()
    paths = {path: how for n, (path, how) in enumerate(document["paths"].items()) if n % 10 == 0 or "bulk" in path}
    await route.fulfill(json={**document, "paths": paths})


async def test_descriptions_in_the_document_are_plain_text_with_backticks_for_code(page: Page) -> None:
    bad = "<img src=x onerror=alert(1)>"
    told = {
        "summary": "Say",
        "description": f"Give `limit`, or `{bad}`.\n\nOf {bad} a lone ` stays.",
        "responses": {"409": {"description": "`conflict`: No.\n\n`quota_reached`: Later."}},
    }
    document = {"paths": {"/say": {"get": told}}}
    await page.route("**/openapi.json", lambda route: route.fulfill(json=document))
    await page.goto("/docs")
    await page.get_by_text("/say").click()
    await expect(page.locator("section > details > p > code")).to_have_text(["limit", bad])
    await expect(page.get_by_text(f"Of {bad} a lone ` stays.")).to_be_visible()
    await page.get_by_text("409").click()
    await expect(page.locator("details details code")).to_have_text(["conflict", "quota_reached"])
    await expect(page.locator("img")).to_have_count(0)


async def test_signing_in_never_redirects_to_another_site(api: Api, page: Page) -> None:
    ann = await add_admin(api.store)
    for elsewhere in ("//evil.example", "/\\evil.example", "/\t/evil.example", "/\n\\evil.example"):
        link = await signing_in.offer_entry(api.store, ann.person.id, by="a test")
        assert isinstance(link, Offered)
        await page.goto(f"/enter?{urlencode({'token': link.token, 'next': elsewhere})}")
        await expect(page.locator("#nav").get_by_role("link", name="Now")).to_be_visible()
        assert page.url.startswith(f"{api.url}/"), elsewhere
