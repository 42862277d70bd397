"""Conversations over HTTP: what was sent, what came back, labels, and an answer in the same thread from the same
account."""

import json
from typing import Any

import httpx2 as httpx
import pytest

from fairpost.api.shapes.privacy import PersonData
from fairpost.maintenance.returns import take_in
from fairpost.model.account import Limits, Usage
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.public_ids import Kind
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.verdict import Sent
from fairpost.model.workspace import Scope
from fairpost.store.privacy import SECTIONS
from fairpost.system import clock
from tests.api.conftest import Api
from tests.returns.mails import QUOTE, mail

ANN = "ann@people.example"
HERE = "acme"


class Post:
    """Sends an e-mail through an account of the workspace, and stores people's replies."""

    def __init__(self, api: Api, account: AccountId) -> None:
        self.api, self.account = api, account

    async def send(self, client: httpx.AsyncClient, to: str = ANN, **more: Any) -> EmailId:
        email = {"to": to, "subject": "An offer", "text": "Hello Ann", "account": "sales", **more}
        email = {name: value for name, value in email.items() if value is not None}
        sent = await client.post("/v1/emails", json=email)
        assert sent.status_code == 201, sent.text
        id_ = (await self.api.store.public_ids()).email_id(sent.json()["data"]["id"])
        assert id_ is not None
        await self.deliver(id_)
        return id_

    async def deliver(self, id_: EmailId) -> None:
        store = self.api.store
        lease = await store.take_lease(self.account, owner="a test", seconds=60)
        assert lease is not None
        assert (await store.claim(lease, limit=10)).ids == (id_,)
        assert (await store.begin(lease, id_, usage=Usage())).verdict == "begun"
        report = Report(reached=Reached.REPLIED, reply=Reply(250, "ok"), message_id=await self.message_id(id_))
        assert await store.settle(lease, id_, Sent(), report) == "settled"
        await store.drop_lease(lease)

    async def message_id(self, id_: EmailId) -> str:
        return f"<{(await self.api.store.public_ids()).name_in_headers(id_)}.0123456789abcdef@acme.test>"

    async def answered(self, id_: EmailId, text: str, *, name: str = "one", sender: str = f"Ann <{ANN}>") -> None:
        raw = mail(f"{text}\n\n{QUOTE}", sender=sender, subject="AW: An offer")
        raw = raw.replace(b"<answer@", f"<{name}@".encode()).replace(
            b"<one@sender.example>", (await self.message_id(id_)).encode()
        )
        taken = await take_in(self.api.store, raw, now=clock.now())
        assert [each.email_id for each in taken.findings] == [id_]


@pytest.fixture
async def post(api: Api, client: httpx.AsyncClient) -> Post:
    account = await api.store.add_account(
        f"{HERE}/sales", address="sales@acme.test", pool=f"{HERE}/default", limits=Limits(delay_ms=0)
    )
    return Post(api, account)


async def only(client: httpx.AsyncClient) -> dict[str, Any]:
    (found,) = (await client.get("/v1/conversations")).json()["data"]["items"]
    return dict(found)


async def test_a_conversation_has_what_was_sent_and_what_came_back_in_order(
    post: Post, client: httpx.AsyncClient
) -> None:
    id_ = await post.send(client)
    await post.answered(id_, "Sounds good.")
    await post.answered(id_, "When?", name="two")
    line = await only(client)
    assert (line["address"], line["replies"], line["last_kind"], line["labels"]) == (ANN, 2, "reply", [])
    shown = (await client.get(f"/v1/conversations/{line['id']}")).json()["data"]
    assert [(each["kind"], each["text"], each["account"]) for each in shown["messages"]] == [
        ("sent", "Hello Ann", "sales"),
        ("reply", "Sounds good.", "sales"),
        ("reply", "When?", "sales"),
    ]
    assert {each["email_id"] for each in shown["messages"]} == {(await post.api.store.public_ids()).email(id_)}


async def test_an_answer_goes_out_from_the_same_account_into_the_same_thread(
    post: Post, client: httpx.AsyncClient
) -> None:
    id_ = await post.send(client, user="carla")
    await post.answered(id_, "Sounds good.")
    path = f"/v1/conversations/{(await only(client))['id']}/answer"
    key = {"Idempotency-Key": "answer-1"}
    answer = await client.post(path, json={"text": "Tuesday at ten?"}, headers=key)
    assert answer.status_code == 201, answer.text
    again = await client.post(path, json={"text": "Tuesday at ten?"}, headers=key)
    assert (again.status_code, again.json()["data"]["id"]) == (200, answer.json()["data"]["id"])
    other = await client.post(path, json={"text": "Something else"}, headers=key)
    assert other.json()["error"]["code"] == "idempotency_key_reused"
    ids = await post.api.store.public_ids()
    queued = ids.email_id(answer.json()["data"]["id"])
    assert queued is not None
    row = await post.api.store.row("SELECT route, user_name, follows FROM fairpost.queue WHERE id = $1", queued)
    assert (row["route"], row["user_name"], row["follows"]) == (f"@{HERE}/sales", "carla", id_)
    (outgoing,) = await post.api.store.load([queued])
    assert outgoing.content.subject == "Re: An offer"
    assert outgoing.content.headers == {
        "In-Reply-To": "<one@people.example>",
        "References": f"{await post.message_id(id_)} <one@people.example>",
    }
    assert [each.address for each in outgoing.recipients] == [ANN]
    await post.deliver(queued)
    shown = (await client.get(path.removesuffix("/answer"))).json()["data"]["messages"]
    assert [each["kind"] for each in shown] == ["sent", "reply", "sent"]
    audit = await post.api.store.fetch("SELECT action, detail FROM fairpost.audit WHERE action LIKE 'conversation%'")
    assert [(each["action"], json.loads(each["detail"])["email"]) for each in audit] == [
        ("conversation.answer", queued)
    ]


async def test_an_answer_is_refused_where_a_new_email_would_be(post: Post, client: httpx.AsyncClient) -> None:
    id_ = await post.send(client)
    await post.answered(id_, "Yes.")
    path = f"/v1/conversations/{(await only(client))['id']}/answer"
    empty = await client.post(path, json={})
    assert (empty.status_code, empty.json()["error"]["code"]) == (422, "invalid")
    async with post.api.client(HERE, scopes=(Scope.READ,)) as reader:
        assert (await reader.post(path, json={"text": "x"})).status_code == 403
    await post.api.store.value("DELETE FROM fairpost.accounts WHERE id = $1", post.account)
    gone = await client.post(path, json={"text": "x"})
    assert (gone.status_code, gone.json()["error"]["details"]["reason"]) == (409, "conversation.account_removed")


async def test_labels_are_set_found_and_checked(post: Post, client: httpx.AsyncClient) -> None:
    await post.answered(await post.send(client), "Yes.")
    await post.answered(await post.send(client, "bob@people.example"), "No.", sender="bob@people.example")
    items = (await client.get("/v1/conversations", params={"limit": "1"})).json()["data"]
    more = (await client.get("/v1/conversations", params={"limit": "1", "cursor": items["next"]})).json()["data"]
    assert [each["address"] for each in (*items["items"], *more["items"])] == ["bob@people.example", ANN]
    path = f"/v1/conversations/{more['items'][0]['id']}/labels"
    labelled = await client.put(path, json={"labels": ["interested", "call", "call"]})
    assert labelled.json()["data"]["labels"] == ["call", "interested"]
    found = (await client.get("/v1/conversations", params={"label": "call"})).json()["data"]["items"]
    assert [each["address"] for each in found] == [ANN]
    assert (await client.put(path, json={"labels": ["Not A Label"]})).status_code == 422
    assert (await client.put(path, json={"labels": []})).json()["data"]["labels"] == []


async def test_another_workspace_sees_and_changes_nothing(api: Api, post: Post, client: httpx.AsyncClient) -> None:
    await post.answered(await post.send(client), "Yes.")
    id_ = (await only(client))["id"]
    await api.workspace("other", domains=())
    async with api.client("other") as other:
        assert (await other.get("/v1/conversations")).json()["data"]["items"] == []
        asked = [
            await other.get(f"/v1/conversations/{id_}"),
            await other.put(f"/v1/conversations/{id_}/labels", json={"labels": ["mine"]}),
            await other.post(f"/v1/conversations/{id_}/answer", json={"text": "x"}),
            await client.get("/v1/conversations/1"),
            await client.get(f"/v1/conversations/{(await api.store.public_ids()).public(Kind.CONVERSATION, 999)}"),
        ]
    assert [each.status_code for each in asked] == [404] * 5
    assert (await only(client))["labels"] == []


async def test_an_answer_through_a_lent_account_needs_the_loan_still(api: Api, client: httpx.AsyncClient) -> None:
    lent = await api.store.add_account("shared", address="post@operator.test", limits=Limits(delay_ms=0))
    shared = Post(api, lent)
    await shared.answered(await shared.send(client, account=None, pool="default"), "Yes.")
    path = f"/v1/conversations/{(await only(client))['id']}/answer"
    answer = await client.post(path, json={"text": "Gladly."})
    assert answer.status_code == 201, answer.text
    queued = (await api.store.public_ids()).email_id(answer.json()["data"]["id"])
    assert await api.store.value("SELECT route FROM fairpost.queue WHERE id = $1", queued) == "@shared"
    await api.store.value("DELETE FROM fairpost.loans WHERE workspace = $1", HERE)
    refused = await client.post(path, json={"text": "Gladly."})
    assert (refused.status_code, refused.json()["error"]["details"]["reason"]) == (403, "conversation.sender_forbidden")


async def test_replies_are_part_of_the_export_and_go_with_the_person(post: Post, client: httpx.AsyncClient) -> None:
    await post.answered(await post.send(client), "Sounds good.")
    exported = (await client.get(f"/v1/persons/{ANN}")).json()["data"]
    assert [each["text"] for each in exported["replies"]] == ["Sounds good."]
    assert list(exported)[-len(SECTIONS) :] == list(SECTIONS)
    assert tuple(PersonData.model_fields) == SECTIONS
    assert (await client.delete(f"/v1/persons/{ANN}")).status_code == 200
    assert (await client.get("/v1/conversations")).json()["data"]["items"] == []
