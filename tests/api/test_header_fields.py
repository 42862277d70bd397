"""Headers and Reply-To of templates and campaigns, from a request to the wire."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from fairpost.campaigns.applying import as_file, compare
from fairpost.campaigns.file import parse_campaign
from fairpost.campaigns.writer import to_toml
from fairpost.dev.inbox.mails import list_mails, open_mail
from fairpost.dev.inbox.server import InboxServer, ServerOptions
from fairpost.engine.runner import Runner
from fairpost.model.mailbox import Mailbox
from fairpost.model.prospect import ProspectLine
from fairpost.quality.reading import Reading, read
from fairpost.smtp.server import Security, Server
from fairpost.store.campaigns import find_campaign
from fairpost.store.prospects import import_prospects
from fairpost.system import clock
from fairpost.transports.smtp.send import SmtpTransport
from tests.api.conftest import Api
from tests.api.test_campaigns import add_account

TEMPLATE = {
    "subject": "Hi",
    "text": "Hello {{ first_name }}",
    "reply_to": "Desk <desk@ACME.example>",
    "headers": {"X-Team": "sales", "x-season": "winter"},
}
OWN = {
    "reply_to": {"address": "spring@acme.example"},
    "headers": {"X-Season": "spring", "List-Help": "<https://a.example>"},
}


@pytest.fixture
async def inbox(api: Api) -> AsyncIterator[InboxServer]:
    lines = [
        ProspectLine(line=1, address="ann@there.test", fields={"first_name": "Ann"}, timezone=None, external_id=None)
    ]
    async with api.store.connection() as conn:
        await import_prospects(conn, lines, workspace="acme", list_name="people", skip_bad=False)
    server = InboxServer(api.store, ServerOptions(port=0))
    await server.start()
    yield server
    await server.stop()


async def launched(client: httpx.AsyncClient, **more: object) -> None:
    sequence = {"steps": [{"template": "hello"}]}
    assert (await client.put("/v1/sequences/hello", json=sequence)).status_code in (200, 201)
    draft = {"lists": ["people"], "sequence": "hello", "account": "sales", "gap": None, **more}
    made = await client.put("/v1/campaigns/spring", json=draft)
    assert made.status_code in (200, 201), made.text
    answer = await client.post("/v1/campaigns/spring/launch")
    assert answer.status_code == 200, answer.text


async def arrived(api: Api, inbox: InboxServer) -> Reading:
    (account,) = await api.store.accounts(serving=["@acme/sales"])
    transport = SmtpTransport(Server(host="127.0.0.1", port=inbox.port, security=Security.NONE))
    runner = await Runner.start(api.store, transport, account.id, owner="test")
    assert runner is not None
    await runner.run_until_idle()
    await runner.stop()
    await transport.close()
    (mail,) = await list_mails(api.store)
    return read((await open_mail(api.store, mail.id))[1])


async def test_those_of_the_campaign_beat_those_of_its_template_on_the_wire(
    api: Api, client: httpx.AsyncClient, inbox: InboxServer
) -> None:
    await add_account(api, "acme/sales", "acme/default")
    put = await client.put("/v1/templates/hello", json=TEMPLATE)
    assert put.json()["data"]["reply_to"] == {"address": "desk@acme.example", "name": "Desk"}
    assert put.json()["data"]["headers"] == TEMPLATE["headers"]
    await launched(client, **OWN)
    shown = (await client.get("/v1/campaigns/spring")).json()["data"]
    assert (shown["reply_to"]["address"], shown["headers"]) == ("spring@acme.example", OWN["headers"])
    mail = await arrived(api, inbox)
    assert mail.header("Reply-To") == "spring@acme.example"
    assert (mail.header("X-Team"), mail.header("X-Season")) == ("sales", "spring")
    assert [name.lower() for name, _ in mail.headers].count("x-season") == 1
    assert mail.header("List-Help") == "<https://a.example>"


async def test_a_template_alone_gives_its_own_and_a_later_change_reaches_no_launched_campaign(
    api: Api, client: httpx.AsyncClient, inbox: InboxServer
) -> None:
    await add_account(api, "acme/sales", "acme/default")
    await client.put("/v1/templates/hello", json=TEMPLATE)
    await launched(client)
    await client.put("/v1/templates/hello", json={**TEMPLATE, "reply_to": None, "headers": None})
    mail = await arrived(api, inbox)
    assert mail.header("Reply-To") == "Desk <desk@acme.example>"
    assert mail.header("X-Team") == "sales"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"reply_to": "nonsense"}, "reply_to"),
        ({"reply_to": {"address": "a@b.example", "name": "A\nB"}}, "reply_to.name"),
        ({"headers": {"Subject": "x"}}, "headers.Subject"),
        ({"headers": {"X-A": "a\r\nBcc: b@c.example"}}, "headers.X-A"),
        ({"headers": {"DKIM-Signature": "x"}}, "headers.DKIM-Signature"),
    ],
)
async def test_they_are_checked_like_those_of_an_email(
    api: Api, client: httpx.AsyncClient, inbox: InboxServer, given: dict[str, Any], field: str
) -> None:
    await add_account(api, "acme/sales", "acme/default")
    plain = {"subject": "Hi", "text": "Hello"}
    draft = {"lists": ["people"], "steps": [plain], "account": "sales"}
    for path, body in (("/v1/templates/hello", plain), ("/v1/campaigns/spring", draft)):
        answer = await client.put(path, json={**body, **given})
        assert answer.status_code == 422, answer.text
        assert answer.json()["error"]["details"][0]["field"] == field
        assert (await client.get(path)).status_code == 404


async def test_a_file_of_the_campaign_has_them_and_changes_nothing(
    api: Api, client: httpx.AsyncClient, inbox: InboxServer
) -> None:
    await add_account(api, "acme/sales", "acme/default")
    step = {"subject": "Hi", "text": "Hello"}
    reply_to = {"address": "spring@acme.example", "name": 'Ann "the" Lee, \\ Ltd'}
    draft = {"lists": ["people"], "steps": [step], "account": "sales", **OWN, "reply_to": reply_to}
    assert (await client.put("/v1/campaigns/spring", json=draft)).status_code == 201
    campaign = await find_campaign(api.store, "acme", "spring")
    assert campaign is not None
    text = to_toml(await as_file(api.store, campaign)).replace("acme/sales", "sales")
    file = parse_campaign(text, where="spring.toml", folder=Path("/nonexistent"), now=clock.now())
    assert file.header_fields.reply_to == Mailbox(**reply_to)
    assert [change.field for change in (await compare(api.store, file)).changes] == ["account"]
