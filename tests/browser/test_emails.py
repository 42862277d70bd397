"""E-mails in a browser: finding one, following its timeline, and resolving one in doubt."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from fairpost.model.account import Lease, Limits, Usage
from fairpost.model.auth import Role
from fairpost.model.ids import EmailId
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.verdict import Bounced, Failed, InDoubt, Retry, Sent, Verdict
from tests.api.conftest import Api
from tests.browser.axe import check_accessibility
from tests.browser.chromium import Screen
from tests.browser.conftest import on_two_screens
from tests.browser.faults import Faults
from tests.browser.pages import fits
from tests.browser.signing_in import add_admin, add_member, signed_in

DOT = "R0lGODlhAQABAIAAAP8AAAAAACwAAAAAAQABAAACAkQBADs="
HOSTILE = '<img src=x onerror="document.title=1"><b>"&amp;'
TAKEN = Report(
    reached=Reached.REPLIED, reply=Reply(250, "2.0.0 Ok: queued as 4F1"), message_id="<of-the-test@acme.example>"
)
LATER = Report(reached=Reached.REPLIED, reply=Reply(451, "4.3.0 Try later"))
NO_USER = Report(reached=Reached.REPLIED, reply=Reply(550, f"5.1.1 No such user {HOSTILE}"))
CUT = Report(reached=Reached.REPLIED, reply=Reply(451, "the connection was lost"))


@dataclass
class Office:
    """The workspace acme and its account sales, which the test sends with."""

    api: Api
    lease: Lease

    @classmethod
    async def open(cls, api: Api) -> "Office":
        await api.workspace("acme")
        account = await api.store.add_account(
            "acme/sales",
            address="sales@acme.example",
            pool="acme/default",
            limits=Limits(delay_ms=0, units_per_minute=60_000),
        )
        lease = await api.store.take_lease(account, owner="a test", seconds=3600)
        assert lease is not None
        return cls(api, lease)

    async def accept(self, **more: Any) -> EmailId:
        given = {
            "workspace": "acme",
            "to": "ann@example.com",
            "subject": "Hello",
            "text": "Hi",
            "account": "acme/sales",
        }
        (row,) = await self.api.store.enqueue_many([given | more])
        assert row["error"] is None, row
        return EmailId(row["id"])

    async def begin(self, id_: EmailId) -> None:
        while id_ not in (await self.api.store.claim(self.lease, limit=50)).ids:
            pass
        assert (await self.api.store.begin(self.lease, id_, usage=Usage())).verdict == "begun"

    async def settle(self, id_: EmailId, verdict: Verdict, report: Report = TAKEN) -> EmailId:
        await self.api.store.settle(self.lease, id_, verdict, report)
        return id_

    async def deliver(self, verdict: Verdict, report: Report = TAKEN, **more: Any) -> EmailId:
        id_ = await self.accept(**more)
        await self.begin(id_)
        return await self.settle(id_, verdict, report)

    async def public_id(self, id_: EmailId) -> str:
        return (await self.api.store.public_ids()).email(id_)

    async def state_of(self, id_: EmailId) -> str:
        return str(await self.api.store.value("SELECT state FROM fairpost.show_email($1)", id_))


@pytest.fixture
async def office(api: Api) -> Office:
    return await Office.open(api)


async def enter(page: Page, api: Api, role: Role = Role.MANAGER) -> None:
    await signed_in(page, api.store, await add_member(api.store, "acme", role=role))


async def looks_right(page: Page) -> None:
    assert await fits(page)
    assert await page.evaluate("document.title") != "1"
    assert await page.locator("#page img").count() == 0
    await check_accessibility(page)


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def rows(page: Page) -> Locator:
    return page.locator("tbody tr")


def moments(page: Page, kind: str = "") -> Locator:
    """Returns the moments of its timeline: all of them, or those of one kind."""
    return page.locator(f'.timeline li[data-key$=" {kind}"]' if kind else ".timeline li")


def obstacles(page: Page, kind: str) -> Locator:
    return page.locator(f'[data-key="obstacles"] li[data-key^="{kind}"]')


async def confirm(page: Page, name: str) -> None:
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name=name).click()
    await expect(dialog).to_have_count(0)


async def search(page: Page, text: str) -> None:
    await page.locator("input[name=q]").fill(text)
    await button(page, "Search").click()


@on_two_screens
async def test_an_email_is_found_by_whatever_is_known_of_it(office: Office, page: Page, screen: Screen) -> None:
    labels: dict[str, Any] = {"type": "receipt", "tags": {"order": HOSTILE}, "metadata": {"cart": [1]}}
    known: dict[str, Any] = {"to": "bob@example.com", "subject": HOSTILE, "idempotency_key": "order 7", "user": "till"}
    order = await office.deliver(Sent(), **known, **labels)
    await office.accept(to="carl@example.com", due_at="2100-01-01T00:00:00Z")
    async with office.api.client() as client:
        await client.post("/v1/lists/all/prospects", json=[{"address": "dora@example.com"}])
        draft = {
            "lists": ["all"],
            "steps": [{"subject": "Spring of {{ email }}", "text": "It is here."}],
            "account": "sales",
        }
        assert (await client.put("/v1/campaigns/spring", json=draft)).status_code == 201
        assert (await client.post("/v1/campaigns/spring/launch")).status_code == 200
    await enter(page, office.api)
    await page.goto("/emails")
    await expect(rows(page)).to_have_count(3)
    await expect(rows(page).first).to_contain_text("dora@example.com")  # the newest
    await expect(page.get_by_role("link", name="Spring of dora@example.com")).to_be_visible()
    await looks_right(page)
    for text, understood, found in (
        (await office.public_id(order), "id", "bob@example.com"),
        ("BOB@example.com", "address", "bob@example.com"),
        ("order 7", "key", "bob@example.com"),
        ("spring", "campaign", "dora@example.com"),
    ):
        await search(page, text)
        await expect(page.locator(f"[role=status][data-code={understood}]")).to_be_visible()
        await expect(rows(page)).to_have_count(1)
        await expect(rows(page)).to_contain_text(found)
    await page.reload()  # the search is part of the URL
    await expect(rows(page)).to_contain_text("dora@example.com")
    await search(page, "nobody@example.com")
    await expect(page.locator(".empty")).to_contain_text("nobody@example.com")
    await looks_right(page)
    await page.get_by_role("link", name="Show all e-mails").click()
    await expect(rows(page)).to_have_count(3)
    await page.get_by_label("State").select_option("sent")
    await page.get_by_text("More filters").click()
    await page.get_by_label("User").fill("till")
    await page.get_by_label("Account").fill("sales")
    await page.get_by_label("Type").fill("receipt")
    await page.get_by_label("Tag").fill(f"order={HOSTILE}")
    await page.get_by_label("Accepted from").fill("2020-01-01T00:00")
    await button(page, "Search").click()
    await expect(rows(page)).to_have_count(1)
    await expect(page.get_by_label("Accepted from")).to_have_value("2020-01-01T00:00")
    await page.get_by_role("link", name=HOSTILE).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    await expect(page.get_by_role("main")).to_contain_text("Tag order")
    await page.go_back()
    await page.get_by_label("Accepted before").fill("2020-01-02T00:00")
    await search(page, "bob@example.com")
    await expect(page.locator(".empty")).to_be_visible()
    await page.get_by_role("link", name="Clear").click()
    await expect(rows(page)).to_have_count(3)


async def test_a_newcomer_is_told_what_to_do_and_pages_lead_on(office: Office, page: Page) -> None:
    await enter(page, office.api)
    await page.goto("/emails")
    await expect(page.locator(".empty")).to_contain_text("fairpost email send")
    given = {"workspace": "acme", "subject": "Hello", "text": "Hi", "due_at": "2100-01-01T00:00:00Z"}
    await office.api.store.enqueue_many([given | {"to": f"n{n}@example.com"} for n in range(70)])
    await button(page, "Reload").click()
    await expect(rows(page)).to_have_count(50)
    await button(page, "Show more").click()
    await expect(rows(page)).to_have_count(70)
    await expect(button(page, "Show more")).to_have_count(0)


@on_two_screens
async def test_the_life_of_an_email_is_told_in_words(office: Office, page: Page, screen: Screen) -> None:
    dot = {"filename": "dot.gif", "data": DOT, "content_type": "image/gif", "inline_id": "dot"}
    html = '<h1>Hello</h1><script>document.title=1</script><img src="cid:dot" alt="A dot">'
    sent = await office.deliver(Sent(), subject="Taken", html=html, attachments=[dot])
    again = datetime.now(UTC) + timedelta(hours=2)
    retried = await office.deliver(Retry(again, ("ann@example.com",)), LATER, subject="Later")
    bounced = await office.deliver(
        Bounced((f"x@{'long' * 14}.example",)), NO_USER, to=f"x@{'long' * 14}.example", subject="Nobody"
    )
    waiting = await office.accept(
        subject="Waits", idempotency_key=HOSTILE, headers={"X-Order": HOSTILE}, fields={"name": HOSTILE}
    )
    await office.api.store.hold("acme", "workspace", "", reason=f"of {HOSTILE}")
    await enter(page, office.api)

    await page.goto(f"/emails/{await office.public_id(sent)}")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Taken")
    await expect(moments(page, "ended")).to_contain_text("250 2.0.0 Ok: queued as 4F1")
    await expect(moments(page, "ended")).to_have_class("good")
    await expect(moments(page).last).to_have_attribute("data-key", re.compile(" sent$"))
    await expect(page.get_by_text("<of-the-test@acme.example>")).to_be_visible()
    frame = page.frame_locator("iframe.mail")
    await expect(frame.get_by_role("heading", name="Hello")).to_be_visible()
    await expect(frame.get_by_role("img", name="A dot")).to_have_js_property("naturalWidth", 1)  # it is shown
    await expect(page.locator("#live")).to_have_text("")  # nothing more becomes of it
    await looks_right(page)

    await page.goto(f"/emails/{await office.public_id(retried)}")
    await expect(moments(page, "ended")).to_have_class("wait")
    await expect(moments(page, "ended").locator(".reply .mono")).to_have_text("451 4.3.0 Try later")
    await expect(moments(page, "ended").locator(".reply .quiet")).to_be_visible()  # the meaning of the reply
    await expect(obstacles(page, "due").locator("time")).to_have_text(re.compile(r"in 1 h 5\d min"))
    await expect(page.locator("#live")).to_have_text("Live")
    await looks_right(page)

    await page.goto(f"/emails/{await office.public_id(bounced)}")
    await expect(moments(page, "ended").locator(".reply .mono")).to_have_text(f"550 5.1.1 No such user {HOSTILE}")
    await expect(button(page, "Retry")).to_be_visible()
    await looks_right(page)

    await page.goto(f"/emails/{await office.public_id(waiting)}")
    await expect(moments(page)).to_have_count(2)
    await expect(moments(page, "accepted")).to_contain_text(HOSTILE)  # its idempotency key
    await expect(moments(page, "ready")).to_be_visible()
    await expect(obstacles(page, "hold")).to_contain_text(f"of {HOSTILE}")
    for part in ("Fields (1)", "Headers (1)"):
        await page.get_by_text(part).click()
    await expect(page.get_by_text(HOSTILE, exact=True)).to_have_count(3)  # in the key, a field and a header
    await looks_right(page)


async def test_a_page_moves_on_with_its_email(office: Office, page: Page) -> None:
    id_ = await office.accept()
    await enter(page, office.api, Role.SENDER)
    await page.goto(f"/emails/{await office.public_id(id_)}")
    badge = page.locator(".summary .badge")
    await expect(badge).to_have_text("ready")
    await office.begin(id_)
    await expect(badge).to_have_text("sending")
    await office.settle(id_, Failed(), NO_USER)
    await expect(badge).to_have_text("failed")
    await expect(moments(page).last).to_have_attribute("data-key", re.compile(" failed$"))
    await button(page, "Retry").click()
    await confirm(page, "Retry")
    await expect(badge).to_have_text("ready")
    await expect(moments(page, "retried")).to_have_count(1)
    await button(page, "Cancel").click()
    await confirm(page, "Cancel e-mail")
    await expect(badge).to_have_text("cancelled")
    assert await office.state_of(id_) == "cancelled"
    other = await office.accept()
    await page.goto(f"/emails/{await office.public_id(other)}")
    await expect(badge).to_have_text("ready")
    await office.begin(other)
    await office.settle(other, Sent())
    await expect(page.get_by_text("<of-the-test@acme.example>")).to_be_visible()


@on_two_screens
async def test_a_person_resolves_an_email_in_doubt(office: Office, page: Page, screen: Screen) -> None:
    doubts = [await office.deliver(InDoubt(), CUT, subject=f"Doubt {n}", on_doubt="hold") for n in range(3)]
    await enter(page, office.api)
    await page.goto("/")
    await page.locator(".figure", has_text="in doubt").get_by_role("link").click()
    await expect(rows(page)).to_have_count(3)
    for n, choice, state in ((0, "Mark as sent", "sent"), (1, "Send again", "ready"), (2, "Mark as failed", "failed")):
        await page.get_by_role("link", name=f"Doubt {n}").click()
        panel = page.get_by_role("region", name="In doubt")
        await expect(panel).to_contain_text(f"<{await office.public_id(doubts[n])}.")
        means = await panel.locator(".decisions li", has_text=choice).locator("span").inner_text()
        assert means
        await looks_right(page)
        await button(page, choice).click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text(means)
        await dialog.get_by_role("button", name="Cancel").click()  # only asked, nothing done
        assert await office.state_of(doubts[n]) == "in_doubt"
        await button(page, choice).click()
        await confirm(page, choice)
        await expect(page.locator(".summary .badge")).to_have_text(state)
        await expect(panel).to_have_count(0)
        assert await office.state_of(doubts[n]) == state
        await expect(moments(page, "decided")).to_contain_text("manager bob@example.com")
        await page.go_back()
    await expect(page.locator(".empty")).to_be_visible()


async def test_a_viewer_sees_no_buttons(office: Office, page: Page) -> None:
    doubt = await office.deliver(InDoubt(), CUT, on_doubt="hold")
    failed = await office.deliver(Failed(), NO_USER)
    waiting = await office.accept()
    await enter(page, office.api, Role.VIEWER)
    for id_, state in ((doubt, "in_doubt"), (failed, "failed"), (waiting, "ready")):
        await page.goto(f"/emails/{await office.public_id(id_)}")
        await expect(moments(page).last).to_have_attribute("data-key", re.compile(f" {state}$"))
        names = await page.locator("#page").get_by_role("button").all_text_contents()
        assert set(names) == {"Copy"}


async def test_an_admin_opens_emails_of_all_workspaces(office: Office, page: Page, faults: Faults) -> None:
    faults.allow(r"status of 404 .*/(v1/admin/emails|v1/emails)/(em_[0-9a-z]{13}|\d+)(/life|\?pictures=true)?$")
    own = await office.accept(to="bob@example.com", subject="Of acme")
    (row,) = await office.api.store.enqueue_many(
        [{"workspace": "other", "to": "bob@example.com", "subject": "Of the other", "text": "Hi"}]
    )
    other, unknown = row["id"], own - (1 << 40)  # just before this one; the next number may belong to the next e-mail
    await office.api.store.enqueue_many(
        [{"workspace": "fairpost", "to": "x@example.com", "subject": "Your code", "text": "123456"}]
    )
    await signed_in(page, office.api.store, await add_admin(office.api.store))
    await page.goto("/emails")
    await expect(rows(page)).to_have_count(3)
    await expect(page.get_by_role("link", name="Your code")).to_have_count(0)
    await looks_right(page)
    box = page.get_by_label("ID or address")
    await box.fill("bob@example.com")
    await button(page, "Search").click()
    await expect(rows(page)).to_have_count(2)
    await box.fill(str(unknown))
    await button(page, "Search").click()
    await expect(page.locator(".empty")).to_contain_text(str(unknown))
    for given in (str(own), await office.public_id(own)):
        await box.fill(given)
        await button(page, "Search").click()
        await expect(rows(page)).to_have_count(1)
    await page.get_by_role("link", name="Of acme").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Of acme")
    await page.goto(f"/emails/{other}")  # from a shared link
    await page.wait_for_url("**/emails/*?workspace=other")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Of the other")
    await page.goto(f"/emails/{own}?workspace=other")
    await page.wait_for_url("**/emails/*?workspace=acme")
    await button(page, "Cancel").click()
    await confirm(page, "Cancel e-mail")
    await expect(page.locator(".summary .badge")).to_have_text("cancelled")
    code = await office.api.store.value("SELECT max(id) FROM fairpost.queue WHERE workspace = 'fairpost'")
    await page.goto(f"/emails/{code}")
    await expect(page.get_by_role("alert")).to_be_visible()
    assert "123456" not in await page.content()
    await page.goto(f"/emails/{unknown}?workspace=acme")
    await expect(page.locator("[role=alert][data-code=not_found]")).to_contain_text(str(unknown))
