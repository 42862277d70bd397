"""Mails that attack their reader, in the real inbox page. None succeeds: the frame removes active content, and its
policy alone would also be enough."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from html import escape

import pytest
from playwright.async_api import BrowserContext, Frame, Page, Response, expect

from fairpost.dev.inbox import mails
from tests.api.conftest import Api
from tests.browser.chromium import Screen
from tests.browser.conftest import on_two_screens
from tests.browser.faults import Faults
from tests.browser.hostile_mails import PAYLOADS, Beacon, Payload, lit
from tests.browser.pages import GO, fits
from tests.browser.signing_in import add_admin, signed_in
from tests.thorough import IS_FREE

DWELL = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 200))))"
ACTS = (
    "script, iframe, object, embed, meta[http-equiv], base, link, template, [onerror], [onload], [ping], [formaction]"
)
IN_INBOX = PAYLOADS if IS_FREE else PAYLOADS[::10]  # the others are shown by the same function, next to each other
ALONE = (
    "onanimationstart",
    "onfocus",
    "link to the top",
    "the top moved",
)  # only one document has the focus, which is the top one
SHOW = """async (mails) => {
  const { mailFrame } = await import("/static/parts.js");
  document.body.append(...mails.map((html, n) => mailFrame(html, { key: `hostile ${n}` })));
}"""
COPY = """(number) => {
  const frame = document.querySelector("iframe.mail");
  document.body.append(...Array.from({ length: number }, () => frame.cloneNode()));
}"""
PUT_IN = "(html) => document.body.append(document.createRange().createContextualFragment(html))"
END = '<p id="the-end">the end</p>'
AGAIN = """<script>
const parsed = new DOMParser().parseFromString(document.currentScript.dataset.html, "text/html");
document.currentScript.replaceWith(document.createElement("main"));
document.querySelector("main").innerHTML = parsed.body.innerHTML;
</script>"""


@pytest.fixture
async def beacon() -> AsyncIterator[Beacon]:
    async with lit() as beacon:
        yield beacon


def page_of(payload: Payload, beacon: Beacon) -> str:
    """Returns the URL of a page on which everything is allowed."""
    html = payload.at(beacon)
    if payload.how == "reparsed":
        html = AGAIN.replace("<script", f'<script data-html="{escape(html)}"', 1)
    beacon.pages["/page" + payload.path] = f"<!doctype html><html>{html}"
    return f"{beacon.url}/page{payload.path}"


async def heard(beacon: Beacon, payload: Payload) -> None:
    try:
        await beacon.heard(payload.path)
    except TimeoutError:
        raise AssertionError(f"nothing stops {payload.name}, and yet it does nothing") from None


async def test_where_nothing_stops_them_they_get_their_way(
    context: BrowserContext, beacon: Beacon, faults: Faults
) -> None:
    """This shows that silence in the tests below means something."""
    faults.allow("")
    able = [each for each in PAYLOADS if each.how != "of old"]
    beside, alone = [each for each in able if each.name not in ALONE], [each for each in able if each.name in ALONE]
    frames = "".join(f'<iframe name="{each.path}" src="{page_of(each, beacon)}"></iframe>' for each in beside)
    beacon.pages["/all"] = f"<!doctype html><style>iframe {{ width: 99px; height: 99px }}</style>{frames}"
    page = await context.new_page()
    await page.goto(f"{beacon.url}/all", wait_until="commit")
    # Clicks come last: one may open a window, and nothing moves in a page behind it.
    for payload in sorted(beside, key=lambda each: each.how == "clicked"):
        if payload.how == "clicked":
            await page.bring_to_front()
            await page.frame_locator(f'[name="{payload.path}"]').locator("#go").click(no_wait_after=True)
        await heard(beacon, payload)
    for payload in alone:
        page = await context.new_page()
        opening = asyncio.create_task(page.goto(page_of(payload, beacon), wait_until="commit"))
        if payload.how == "clicked":
            await page.locator("#go").click(no_wait_after=True)
        await heard(beacon, payload)
        opening.cancel()


class Watch:
    """Collects everything a mail may have caused, in its frame or around it."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.seen: list[str] = []
        page.on("dialog", lambda dialog: self.seen.append(f"a dialog: {dialog.message}"))
        page.on("popup", lambda popup: self.seen.append(f"a window: {popup.url}"))
        page.on("download", lambda file: self.seen.append(f"a download: {file.url}"))
        page.on("response", self._answered)

    def _answered(self, answer: Response) -> None:
        if answer.frame != self._page.main_frame and not re.search(r"/static/frame(-images)?\.html$", answer.url):
            self.seen.append(f"the frame asked for {answer.url}")


async def add(api: Api, html: str, **headers: str) -> int:
    head = {"From": "Eve <eve@evil.example>", "Subject": "Hello", "Content-Type": "text/html; charset=utf-8", **headers}
    raw = "".join(f"{name}: {value}\r\n" for name, value in head.items()) + f"\r\n{html}"
    arrived = mails.Arrived(
        sender="eve@evil.example",
        recipients=("ann@example.com",),
        helo="evil",
        peer="127.0.0.1:9",
        tls=None,
        auth_user=None,
        raw=raw.encode(),
    )
    return (await mails.add_mail(api.store, arrived)).id


async def frame_of(page: Page) -> Frame:
    """Returns the frame of the open mail, once it is shown."""
    element = await page.locator("iframe.mail").element_handle()
    frame = await element.content_frame()
    assert frame is not None
    return frame


def forbidden_things_are_told(faults: Faults) -> None:
    """Chromium logs to the console what the policy blocks."""
    faults.allow("policy: ")
    faults.allow(
        "violates the following Content Security Policy|violates the document's Content Security Policy|Blocked |csp"
    )


async def opened(page: Page, selector: str, number: int) -> list[Frame]:
    """Returns this many frames, in order, each with its document."""
    places = page.locator(selector)
    await expect(places).to_have_count(number, timeout=60_000)
    frames = []
    for handle in await places.element_handles():
        frame = await handle.content_frame()
        assert frame is not None
        await frame.wait_for_load_state()
        frames.append(frame)
    return frames


async def clicked(page: Page, frames: Iterable[tuple[Payload, Frame]]) -> None:
    """Waits until all had their time, and clicks those that need a click."""
    await page.evaluate(DWELL)
    for payload, frame in frames:
        if payload.how == "clicked" and payload.name != "link to the top":  # that one is meant to lead away; see below
            await frame.locator("#go").click(force=True)
    await page.evaluate(DWELL)


async def test_no_mail_gets_its_way(api: Api, page: Page, beacon: Beacon, faults: Faults) -> None:
    """Opens all of them at once, in frames created like those of our pages."""
    forbidden_things_are_told(faults)
    await signed_in(page, api.store, await add_admin(api.store))
    watch = Watch(page)
    await page.goto("/inbox")
    await expect(page.locator("#live.is-live")).to_be_visible()
    await page.evaluate(SHOW, [payload.at(beacon) for payload in PAYLOADS])
    frames = await opened(page, "body > iframe.mail[style]", len(PAYLOADS))  # as high as their content
    await clicked(page, zip(PAYLOADS, frames, strict=True))
    assert (watch.seen, beacon.asked) == ([], [])
    assert (page.url, await page.title()) == (f"{api.url}/inbox", "Inbox · Fairpost")
    left = {payload.name: await frame.locator(ACTS).count() for payload, frame in zip(PAYLOADS, frames, strict=True)}
    assert {name: count for name, count in left.items() if count} == {}


@pytest.mark.thorough
async def test_nor_does_it_where_it_is_read(api: Api, page: Page, beacon: Beacon, faults: Faults) -> None:
    forbidden_things_are_told(faults)
    ids = {await add(api, payload.at(beacon)): payload for payload in IN_INBOX}
    await signed_in(page, api.store, await add_admin(api.store))
    watch = Watch(page)
    await page.goto("/inbox")
    await expect(page.locator(".letters li").first).to_be_visible()
    for id_, payload in ids.items():
        await page.evaluate(GO, f"/inbox/{id_}")
        (frame,) = await opened(page, f'[data-key="letter {id_}"] iframe.mail[style]', 1)
        await clicked(page, [(payload, frame)])
        assert page.url == f"{api.url}/inbox/{id_}", payload.name
        assert (watch.seen, beacon.asked) == ([], []), payload.name
        assert await page.title() == "Inbox · Fairpost"
        assert await frame.locator(ACTS).count() == 0, payload.name


async def test_the_policy_alone_stops_them_as_well(api: Api, page: Page, beacon: Beacon, faults: Faults) -> None:
    """Puts each into a frame unchanged, with nothing removed and scripts allowed."""
    faults.allow("")  # the browser complains about each of them
    id_ = await add(api, END)
    await signed_in(page, api.store, await add_admin(api.store))
    watch = Watch(page)
    await page.goto(f"/inbox/{id_}")
    await page.locator("iframe.mail").wait_for()
    own = Payload("a script of ours", '<script src="/static/auth.js"></script>')
    payloads = (*PAYLOADS, own)
    await page.evaluate(COPY, len(payloads))
    frames = list(zip(payloads, await opened(page, "body > iframe.mail", len(payloads)), strict=True))
    for payload, frame in frames:
        await frame.evaluate(PUT_IN, payload.at(beacon))
    await clicked(page, frames)
    assert (watch.seen, beacon.asked) == ([], [])
    assert page.url == f"{api.url}/inbox/{id_}"


async def test_a_link_opens_beside_and_its_page_knows_nothing_of_us(api: Api, page: Page, beacon: Beacon) -> None:
    beacon.pages["/there"] = "<!doctype html><title>There</title>"
    id_ = await add(api, f'<a target="_top" rel="opener" href="{beacon.url}/there">there</a>')
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto(f"/inbox/{id_}")
    async with page.expect_popup() as opened:
        await page.frame_locator("iframe.mail").get_by_text("there").click()
    there = await opened.value
    await expect(there).to_have_title("There")
    assert await there.evaluate("[opener, document.referrer]") == [None, ""]
    assert page.url == f"{api.url}/inbox/{id_}"


async def test_remote_images_come_when_they_are_wanted_and_tell_nothing_more(
    api: Api, page: Page, beacon: Beacon, faults: Faults
) -> None:
    forbidden_things_are_told(faults)
    image = f'<img src="{beacon.url}/pixel" referrerpolicy="unsafe-url" onload="fetch(`{beacon.url}/ran`)">'
    id_ = await add(api, f"{image}<script>fetch(`{beacon.url}/ran`)</script>")
    other = await add(api, image)
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto(f"/inbox/{id_}")
    await (await frame_of(page)).locator("img").wait_for(state="attached")
    await page.evaluate(DWELL)
    assert beacon.asked == []
    await page.get_by_role("button", name="Load remote images").click()
    await beacon.heard("/pixel")
    await page.evaluate(DWELL)
    assert beacon.asked == ["/pixel"]
    assert not re.search(r"^(referer:|cookie:|origin: (?!null))", beacon.heads["/pixel"], re.IGNORECASE | re.MULTILINE)
    await page.keyboard.press("k")  # the next one is requested again
    await page.wait_for_url(f"**/inbox/{other}")
    await expect(page.get_by_role("button", name="Load remote images")).to_be_visible()
    await page.evaluate(DWELL)
    assert beacon.asked == ["/pixel"]


async def test_names_in_a_mail_stand_in_for_nothing(api: Api, page: Page, faults: Faults) -> None:
    """Elements named `body` or `remove` hide the properties that a script reads from a document or a form."""
    forbidden_things_are_told(faults)
    names = ("attributes", "localName", "remove", "removeAttributeNode", "childNodes", "body", "head", "images", "documentElement", "querySelectorAll", "createTreeWalker", "adoptNode")  # fmt: skip
    inputs = "".join(f'<input name="{name}">' for name in names)
    images = "".join(f'<img name="{name}"><form name="{name}"></form>' for name in names)
    id_ = await add(api, f'{images}<form onclick="x()" action="/x">{inputs}</form><p id="the-end">the end</p>')
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto(f"/inbox/{id_}")
    frame = await frame_of(page)
    await expect(frame.locator("#the-end")).to_be_visible()
    assert await frame.locator("[onclick], [action]").count() == 0


@on_two_screens
async def test_words_of_strangers_are_words(api: Api, page: Page, screen: Screen, beacon: Beacon) -> None:
    tag = f"<img src='{beacon.url}/x' onerror=alert(1)>"
    boundary = 'Content-Disposition: attachment; filename="<svg onload=alert(1)>\u202egpj.exe"'
    body = f'--b\r\nContent-Type: text/plain\r\n\r\n{tag} javascript:alert(1) https://a.example/"onclick=x data:text/html,x\r\n--b\r\n{boundary}\r\n\r\nx\r\n--b--'
    headers = {
        "From": f"{tag} <eve@evil.example>",
        "Subject": f"</title><script>alert(1)</script>{tag}",
        "X-<script>alert(1)</script>": f"</td>{tag}",
        "List-Unsubscribe": "<javascript:alert(1)>",
        "Content-Type": 'multipart/mixed; boundary="b"',
    }
    id_ = await add(api, body, **headers)
    await signed_in(page, api.store, await add_admin(api.store))
    watch = Watch(page)
    await page.goto("/inbox")
    await expect(page.locator(".letters .subject")).to_contain_text("</title><script>alert(1)</script>")
    for part in ("text", "headers", "source", "files", "checks"):
        await page.goto(f"/inbox/{id_}/{part}")
        await expect(page.locator(f'[data-key="part {part}"]')).to_be_visible()
        await expect(page.get_by_role("heading", name=f"</title><script>alert(1)</script>{tag}")).to_be_visible()
        for each in await page.locator("main a[href]").all():
            assert re.match(r"/|https://a\.example/$|http://127\.0\.0\.1:", str(await each.get_attribute("href"))), part
        assert await page.locator("main :is(img, script, svg)").count() == 0
        assert await fits(page), part
    assert (watch.seen, beacon.asked) == ([], [])


async def test_a_huge_mail_is_shown(api: Api, page: Page) -> None:
    deep = "<div>" * 10_000 + "deep" + "</div>" * 10_000
    many = "<p>paragraph of many</p>" * 4_000
    id_ = await add(api, deep + many + END, Subject="x" * 15_000)
    await signed_in(page, api.store, await add_admin(api.store))
    await page.goto(f"/inbox/{id_}")
    frame = await frame_of(page)
    await frame.locator("#the-end").wait_for(state="attached", timeout=60_000)
    await expect(page.locator("iframe.mail")).to_have_css("height", "20000px", timeout=60_000)
    assert await fits(page)
