"""Preview, launch and the inbox's check agree about the content of a campaign."""

from typing import Any

import httpx2 as httpx
import pytest

from fairpost.dev.inbox.mails import list_mails, open_mail
from fairpost.dev.inbox.server import InboxServer
from fairpost.quality.check import check
from fairpost.quality.reading import read
from fairpost.store import workspaces
from tests.api.conftest import Api
from tests.api.test_campaigns import add_account
from tests.api.test_header_fields import arrived
from tests.api.test_header_fields import inbox as inbox

PUBLIC = "https://post.test"
FAULTY = (
    '<p><a href="https://other.example/x">https://acme.example</a> <img src="https://acme.example/a.png"></p>'
    f"<!--{'x' * 103_000}-->"
)
PICTURE = '<img src="https://acme.example/a.png" alt="All our offers"><p>{{ unsubscribe_url }}</p>'


async def launched(client: httpx.AsyncClient, **step: Any) -> list[dict[str, Any]]:
    """Returns the launch warnings."""
    draft = {"lists": ["people"], "steps": [{"subject": "Hi", **step}], "account": "sales"}
    assert (await client.put("/v1/campaigns/spring", json=draft)).status_code in (200, 201)
    answer = await client.post("/v1/campaigns/spring/launch")
    assert answer.status_code == 200, answer.text
    warnings: list[dict[str, Any]] = answer.json()["data"]["warnings"]
    return warnings


def bad_codes(checks: list[dict[str, Any]]) -> list[str]:
    return [each["code"] for each in checks if each["level"] == "bad"]


@pytest.mark.parametrize(
    ("public_url", "step", "codes"),
    [
        ("", {"text": "Hello {{ first_name }}"}, ["unsubscribe.missing"]),
        (PUBLIC, {"text": "Hello {{ first_name }}", "html": "<p>Hello {{ first_name }}, a word from us</p>"}, []),
        (PUBLIC, {"html": FAULTY}, ["size.clipped", "links.shows_another", "images.without_alt"]),
        (PUBLIC, {"html": PICTURE.replace("<p>{{ unsubscribe_url }}</p>", "")}, ["images.alone"]),
        (
            PUBLIC,
            {"text": "Dear *|FNAME|*, *|FNAME|* and ${company}: we hope this finds you well"},
            ["template_marks.unfilled"],
        ),
    ],
    ids=["no link", "well", "faulty", "an image alone", "fields of another program"],
)
async def test_preview_launch_and_inbox_say_the_same(
    api: Api, client: httpx.AsyncClient, inbox: InboxServer, public_url: str, step: dict[str, Any], codes: list[str]
) -> None:
    object.__setattr__(api.service.settings, "public_url", public_url)
    await add_account(api, "acme/sales", "acme/default")
    await workspaces.put_health(api.store, "acme", "acme.example", [])
    warnings = await launched(client, **step)
    shown = (await client.post("/v1/campaigns/spring/preview")).json()["data"]
    assert bad_codes(shown["checks"]) == codes
    told = {"campaign.no_unsubscribe_link": 1} if "unsubscribe.missing" in codes else {}
    about = len([code for code in codes if code != "unsubscribe.missing"])
    told |= {"campaign.content_faulty": about} if about else {}
    assert {code: [each["code"] for each in warnings].count(code) for code in told} == told
    assert len(warnings) == sum(told.values())
    await api.store.link_back(public_url, "main")
    await arrived(api, inbox)
    (mail,) = await list_mails(api.store)
    raw = (await open_mail(api.store, mail.id))[1]
    found = [each.code for each in check(raw, read(raw)).findings if each.level == "bad"]
    assert found == codes


async def test_a_launch_names_the_fields_that_recipients_lack_with_their_number(
    api: Api, client: httpx.AsyncClient, inbox: InboxServer
) -> None:
    await add_account(api, "acme/sales", "acme/default")
    step = {"subject": "Hi", "text": "{{ first_name }} of {{ company }} in {{ city }}"}
    draft = {"lists": ["people"], "steps": [step], "account": "sales"}
    assert (await client.put("/v1/campaigns/spring", json=draft)).status_code == 201
    refused = await client.post("/v1/campaigns/spring/launch")
    details = refused.json()["error"]["details"]
    assert (details["reason"], details["fields"]) == ("campaign.missing_fields", ["city (1)", "company (1)"])
