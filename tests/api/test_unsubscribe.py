"""People unsubscribe from campaign mail with the link in it: through their provider with one click, or on a page. A
scanner never does."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from email.policy import default
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2 as httpx
import pytest

from fairpost.compose import compose, prepare
from fairpost.engine.personalize import personalize
from fairpost.model.email import Mailbox, Outgoing
from fairpost.model.prospect import ProspectLine
from fairpost.model.suppression import SuppressionKind
from fairpost.store import suppressions, workspaces
from fairpost.store.events import all_events, take_turn
from fairpost.store.prospects import import_prospects
from fairpost.store.store import Store
from fairpost.system import clock
from tests.api.conftest import Api
from tests.api.test_campaigns import add_account

PUBLIC = "https://post.test"
ONE_CLICK = {"List-Unsubscribe": "One-Click"}


@dataclass
class Campaign:
    """Launches a campaign, and returns what an engine would send."""

    api: Api
    client: httpx.AsyncClient  # in its workspace
    anyone: httpx.AsyncClient  # without a key
    url: str

    async def launch(self, name: str = "spring", **more: object) -> dict[str, object]:
        step = {"subject": "Hi", "text": "Hello {{ first_name }}", "html": "<html><body><p>Hi</p></body></html>"}
        draft = {"lists": ["people"], "steps": [step], "account": "sales", **more}
        made = await self.client.put(f"/v1/campaigns/{name}", json=draft)
        assert made.status_code in (200, 201), made.text
        launched = await self.client.post(f"/v1/campaigns/{name}/launch")
        assert launched.status_code == 200, launched.text
        data: dict[str, object] = launched.json()["data"]
        return data

    async def emails(self, public_url: str = PUBLIC) -> dict[str, Outgoing]:
        """Returns the e-mails by address, loaded and rendered as by an engine."""
        async with Store.open(self.url) as engine:
            await engine.link_back(public_url, "main")
            rows = await engine.fetch("SELECT id FROM fairpost.queue ORDER BY id")
            loaded = await engine.load([row["id"] for row in rows])
        return {email.recipients[0].address: personalize(email) for email in loaded}

    async def path(self, address: str = "ann@there.test") -> str:
        email = (await self.emails())[address]
        assert email.bulk is not None
        assert email.bulk.unsubscribe_url is not None
        return urlsplit(email.bulk.unsubscribe_url).path

    async def kinds(self, address: str = "ann@there.test") -> list[str]:
        found, _ = await suppressions.known_of(self.api.store, address)
        return [each.kind for each in found]

    async def entries(self) -> int:
        sql = "SELECT count(*) FROM fairpost.audit WHERE action LIKE 'recipient.%'"
        return int(await self.api.store.value(sql))


@pytest.fixture
async def campaign(api: Api, client: httpx.AsyncClient, url: str) -> AsyncIterator[Campaign]:
    lines = [
        ProspectLine(
            line=n, address=f"{name.lower()}@there.test", fields={"first_name": name}, timezone=None, external_id=None
        )
        for n, name in enumerate(("Ann", "Bob"))
    ]
    async with api.store.connection() as conn:
        await import_prospects(conn, lines, workspace="acme", list_name="people", skip_bad=False)
    await add_account(api, "acme/sales", "acme/default")
    async with httpx.AsyncClient(base_url=api.url) as anyone:
        yield Campaign(api, client, anyone, url)


def written(email: Outgoing) -> Message:
    sender = Mailbox(address="sales@acme.example")
    return message_from_bytes(
        compose(email, prepare(email.content), sender=sender, date=clock.now()).data, policy=default
    )


async def test_every_mail_of_a_campaign_has_a_link_of_its_own(campaign: Campaign) -> None:
    await campaign.launch()
    emails = await campaign.emails()
    links = set()
    for address, email in emails.items():
        message = written(email)
        link = str(message["List-Unsubscribe"])
        assert link.startswith(f"<{PUBLIC}/u/main/acme/pr_")
        assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
        assert message["Precedence"] == "bulk"
        assert str(message["List-Id"]) == "<spring.acme.acme.example>"
        assert message["Feedback-ID"]
        assert "there.test" not in link, "it does not contain the address"
        assert "ann" not in link
        assert email.content.text is not None
        assert email.content.html is not None
        assert link[1:-1] in email.content.text, address
        assert f'href="{link[1:-1]}"' in email.content.html
        assert email.content.html.endswith("</body></html>")
        links.add(link)
    assert len(links) == 2


async def test_a_template_that_has_the_link_gets_no_second_one(campaign: Campaign) -> None:
    step = {"subject": "Hi", "text": "Leave: {{ unsubscribe_url }}"}
    object.__setattr__(campaign.api.service.settings, "public_url", PUBLIC)
    await campaign.launch(steps=[step])
    for email in (await campaign.emails()).values():
        assert email.content.text is not None
        assert email.content.text.count(PUBLIC) == 1


async def test_a_link_that_the_recipient_would_not_see_does_not_count(campaign: Campaign) -> None:
    object.__setattr__(campaign.api.service.settings, "public_url", PUBLIC)
    text = "Hello{# unsubscribe_url #}{% if first_name == 'Ann' %} Leave: {{ unsubscribe_url }}{% endif %}"
    html = '<a href="https://track.test/?to={{ unsubscribe_url | urlencode }}">Leave</a>'
    await campaign.launch(steps=[{"subject": "Hi", "text": text, "html": html}])
    for address, email in (await campaign.emails()).items():
        assert email.content.text is not None
        assert email.content.html is not None
        assert email.content.text.count(PUBLIC) == 1, address
        assert ("Unsubscribe:" in email.content.text) is (address == "bob@there.test")
        assert email.content.html.count("post.test") == 1, "a link with the link in it is enough"


async def test_one_click_acts_at_once_and_doing_it_again_changes_nothing(campaign: Campaign) -> None:
    await campaign.launch()
    path = await campaign.path()
    for _ in range(3):
        answer = await campaign.anyone.post(path, data=ONE_CLICK)
        assert answer.status_code == 200
        assert "set-cookie" not in answer.headers
    assert await campaign.kinds() == ["unsubscribe"]
    assert await campaign.kinds("bob@there.test") == []
    assert await campaign.entries() == 1
    assert set(await campaign.emails()) == {"bob@there.test"}, "queued mail is cancelled"
    await take_turn(campaign.api.store)
    told = [event async for event in all_events(campaign.api.store)]
    assert [event.kind for event in told if event.address == "ann@there.test"] == [
        "suppression.created",
        "email.unsubscribed",
    ]


async def test_requests_at_once_count_once(campaign: Campaign) -> None:
    await campaign.launch()
    path = await campaign.path()
    answers = await asyncio.gather(*[campaign.anyone.post(path, data=ONE_CLICK) for _ in range(8)])
    assert {answer.status_code for answer in answers} == {200}
    assert await campaign.entries() == 1
    await asyncio.gather(*[campaign.anyone.post(f"{path}/undo") for _ in range(8)])
    assert await campaign.entries() == 2


async def test_a_scanner_that_follows_the_link_unsubscribes_no_one(campaign: Campaign) -> None:
    await campaign.launch()
    path = await campaign.path()
    page = await campaign.anyone.get(path)
    assert page.status_code == 200
    assert "acme" in page.text
    assert (await campaign.anyone.head(path)).status_code == 200
    for method in ("HEAD", "OPTIONS", "PUT", "DELETE"):
        await campaign.anyone.request(method, path, headers={"Sec-Purpose": "prefetch"})
    for below in ("confirm", "undo"):
        assert (await campaign.anyone.get(f"{path}/{below}")).status_code in (404, 405)
    assert await campaign.kinds() == []
    assert "set-cookie" not in page.headers
    assert "script" not in page.text


async def test_a_person_unsubscribes_by_the_button_and_takes_it_back(campaign: Campaign) -> None:
    await campaign.launch()
    path = await campaign.path()
    assert (await campaign.anyone.post(f"{path}/confirm")).status_code == 200
    assert await campaign.kinds() == ["unsubscribe"]
    undone = await campaign.anyone.post(f"{path}/undo")
    assert undone.status_code == 200
    assert await campaign.kinds() == []
    await campaign.anyone.post(f"{path}/undo")
    assert await campaign.entries() == 2


async def test_the_buttons_work_below_another_path_of_a_proxy(campaign: Campaign) -> None:
    await campaign.launch()
    path = await campaign.path()
    pages = (
        (await campaign.anyone.get(path), path, "confirm"),
        (await campaign.anyone.post(f"{path}/confirm"), f"{path}/confirm", "undo"),
        (await campaign.anyone.post(f"{path}/undo"), f"{path}/undo", "confirm"),
    )
    for page, at, leads_to in pages:
        action = page.text.partition('action="')[2].partition('"')[0]
        assert urljoin(f"{PUBLIC}/mail{at}", action) == f"{PUBLIC}/mail{path}/{leads_to}"


async def test_one_click_takes_any_body(campaign: Campaign) -> None:
    """RFC 8058 allows a form and multipart; receivers also send nothing, and browsers an Origin of null."""
    await campaign.launch()
    path = await campaign.path()
    bodies: tuple[dict[str, Any], ...] = (
        {"data": ONE_CLICK},
        {"files": {"List-Unsubscribe": (None, "One-Click")}},
        {"content": b""},
        {"content": b"{", "headers": {"Content-Type": "application/json"}},
        {"content": b"--x", "headers": {"Content-Type": "multipart/form-data"}},
        {"data": ONE_CLICK, "headers": {"Origin": "null", "Sec-Fetch-Site": "cross-site"}},
        {"data": ONE_CLICK, "headers": {"Authorization": "Bearer wrong", "Cookie": "a=b", "X-Workspace": "other"}},
    )
    for body in bodies:
        assert (await campaign.anyone.post(path, **body)).status_code == 200, body
        assert await campaign.kinds() == ["unsubscribe"], body
        await campaign.anyone.post(f"{path}/undo")


async def test_taking_it_back_lifts_no_bounce_and_no_complaint(campaign: Campaign) -> None:
    await campaign.launch()
    path = await campaign.path()
    for kind in (SuppressionKind.HARD_BOUNCE, SuppressionKind.COMPLAINT):
        await suppressions.suppress(campaign.api.store, "acme", "ann@there.test", reason="a test", kind=kind)
        await campaign.anyone.post(path)
        await campaign.anyone.post(f"{path}/undo")
        assert await campaign.kinds() != []


async def test_a_link_that_was_changed_does_nothing_and_shows_nothing(campaign: Campaign) -> None:
    await campaign.launch()
    ann, bob = await campaign.path(), await campaign.path("bob@there.test")
    await campaign.api.workspace("other")
    wrong = (
        ann[:-1] + ("A" if ann[-1] != "A" else "B"),
        ann.rpartition("/")[0] + "/" + bob.rpartition("/")[2],
        ann.replace("/acme/", "/other/"),
        ann.replace("/acme/", "/nowhere/"),
        ann.replace("/main/", "/elsewhere/"),
        ann.replace("pr_", "em_"),
        "/u/preview",
        "/u/main/acme/%00/%ff",
        "/u/main/acme/pr_0/" + "a" * 100,
    )
    answers = [(path, (await campaign.anyone.post(path)).status_code) for path in wrong]
    assert [path for path, code in answers if code != 404] == []
    pages = {(await campaign.anyone.get(path)).text for path in wrong[:4]}
    assert len(pages) == 1, "they all have the same link"
    assert await campaign.entries() == 0


async def test_the_link_of_a_recipient_who_is_gone_is_answered_like_any_other(campaign: Campaign) -> None:
    await campaign.launch()
    path = await campaign.path()
    await campaign.client.request("DELETE", "/v1/prospects/ann@there.test")
    await campaign.api.store.value("DELETE FROM fairpost.prospects WHERE address = 'ann@there.test'")
    assert (await campaign.anyone.post(path)).status_code == 200
    assert await campaign.entries() == 0


async def test_without_a_public_address_there_is_no_link_and_the_launch_says_so(campaign: Campaign) -> None:
    launched = await campaign.launch()
    codes = [each["code"] for each in launched["warnings"]]  # type: ignore[attr-defined]
    assert codes == ["campaign.no_unsubscribe_link", "campaign.domain_unchecked"]
    for url in ("http://127.0.0.1:8080", ""):
        for email in (await campaign.emails(url)).values():
            message = written(email)
            assert message["List-Unsubscribe"] is None
            assert message["List-Unsubscribe-Post"] is None
            assert email.content.text in ("Hello Ann", "Hello Bob")


async def test_a_one_to_one_sequence_goes_without_the_line_and_the_launch_warns(campaign: Campaign) -> None:
    object.__setattr__(campaign.api.service.settings, "public_url", PUBLIC)
    launched = await campaign.launch(footer=False)
    codes = [each["code"] for each in launched["warnings"]]  # type: ignore[attr-defined]
    assert codes == ["campaign.no_footer", "campaign.domain_unchecked"]
    for email in (await campaign.emails()).values():
        assert email.content.text in ("Hello Ann", "Hello Bob")
        message = written(email)
        assert message["List-Unsubscribe"]
        assert message["Precedence"] is None


async def test_a_launch_from_a_domain_that_was_found_bad_is_warned_of(campaign: Campaign) -> None:
    findings = [{"what": "spf", "grade": "bad"}, {"what": "mx", "grade": "warning"}]
    await workspaces.put_health(campaign.api.store, "acme", "acme.example", findings)
    launched = await campaign.launch()
    codes = [each["code"] for each in launched["warnings"]]  # type: ignore[attr-defined]
    assert codes == ["campaign.no_unsubscribe_link", "campaign.domain_unhealthy"]


async def test_a_workspace_can_refuse_to_launch_from_a_domain_that_was_found_bad(campaign: Campaign) -> None:
    await workspaces.put_health(campaign.api.store, "acme", "acme.example", [{"what": "dmarc", "grade": "bad"}])
    step = {"subject": "Hi", "text": "Hello"}
    draft = {"lists": ["people"], "steps": [step], "account": "sales"}
    assert (await campaign.client.put("/v1/campaigns/spring", json=draft)).status_code == 201
    strict = await campaign.client.patch("/v1/workspace", json={"refuses_bad_domains": True})
    assert strict.json()["data"]["refuses_bad_domains"] is True
    refused = await campaign.client.post("/v1/campaigns/spring/launch")
    assert refused.status_code == 409
    assert refused.json()["error"]["details"]["reason"] == "campaign.domain_refused", refused.text
    assert await campaign.emails() == {}
    await workspaces.put_health(campaign.api.store, "acme", "acme.example", [{"what": "dmarc", "grade": "good"}])
    assert (await campaign.client.post("/v1/campaigns/spring/launch")).status_code == 200
    assert len(await campaign.emails()) == 2


async def test_the_page_has_the_name_colour_and_logo_of_the_workspace(campaign: Campaign) -> None:
    await campaign.launch()
    path = await campaign.path()
    look = {"title": "Acme & Söhne <b>", "accent": "#ffe600", "logo_url": "https://cdn.acme.example/a.png?x=1&y=2"}
    assert (await campaign.client.patch("/v1/workspace", json=look)).status_code == 200
    assert (await campaign.client.get("/v1/workspace")).json()["data"]["settings"] == {
        **look,
        "refuses_bad_domains": False,
    }
    for answer in (await campaign.anyone.get(path), await campaign.anyone.post(f"{path}/confirm")):
        assert "Acme &amp; Söhne &lt;b&gt;" in answer.text
        assert "background: #ffe600; color: #000000" in answer.text
        assert 'src="https://cdn.acme.example/a.png?x=1&amp;y=2"' in answer.text
        assert "img-src https://cdn.acme.example" in answer.headers["Content-Security-Policy"].split("; ")
    await campaign.client.patch("/v1/workspace", json={"logo_url": None, "title": None})
    plain = await campaign.anyone.get(path)
    assert "<img" not in plain.text
    assert "img-src" not in plain.headers["Content-Security-Policy"]
    assert "Unsubscribe from acme" in plain.text
    assert "#ffe600" in plain.text, "omitted settings are not changed"


@pytest.mark.parametrize(
    "wrong",
    [
        {"title": ""},
        {"title": "a\nb"},
        {"title": "x" * 101},
        {"accent": "red"},
        {"accent": "#12345"},
        {"accent": "#12345g"},
        {"logo_url": "http://acme.example/a.png"},
        {"logo_url": "https://acme.example"},
        {"logo_url": "https://acme.example/a.png; script-src *"},
        {"logo_url": "https://acme.example;x/a.png"},
        {"logo_url": 'https://acme.example/"><script>'},
        {"logo_url": "https://ann:secret@acme.example/a.png"},
        {"name": "other"},
    ],
)
async def test_a_look_that_could_break_the_page_is_refused(campaign: Campaign, wrong: dict[str, str]) -> None:
    answer = await campaign.client.patch("/v1/workspace", json=wrong)
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["details"][0]["field"] == next(iter(wrong))


async def test_the_preview_shows_the_line_with_a_link_that_leads_nowhere(campaign: Campaign) -> None:
    object.__setattr__(campaign.api.service.settings, "public_url", PUBLIC)
    step = {"subject": "Hi", "text": "Hello"}
    await campaign.client.put("/v1/campaigns/spring", json={"lists": ["people"], "steps": [step], "account": "sales"})
    shown = (await campaign.client.post("/v1/campaigns/spring/preview")).json()["data"]
    assert f"{PUBLIC}/u/preview" in shown["text"]
    assert (await campaign.anyone.post("/u/preview")).status_code == 404
