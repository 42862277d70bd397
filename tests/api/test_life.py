"""Finding e-mails and their timelines over HTTP: what is shown, and what is hidden about other workspaces and the
operator."""

import base64
from typing import Any

import httpx2 as httpx
import pytest

from fairpost.api import rendering
from fairpost.model.account import Limits, Usage
from fairpost.model.ids import EmailId
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.states import State
from fairpost.model.verdict import Failed
from fairpost.observe.emails import fields_of
from tests.api.conftest import ANSWER_S_MAX, Api
from tests.api.neighbours import settle_in
from tests.api.signed_in import signed_in

DOT = base64.b64decode("R0lGODlhAQABAIAAAP8AAAAAACwAAAAAAQABAAACAkQBADs=")  # a GIF with one red dot
HELLO = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}


async def ids(client: httpx.AsyncClient, path: str = "/v1/emails", **params: str) -> list[str]:
    answer = await client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return [each["id"] for each in answer.json()["data"]["items"]]


async def test_each_filter_finds_its_emails(api: Api, client: httpx.AsyncClient) -> None:
    async def send(**more: str) -> str:
        return str((await client.post("/v1/emails", json={**HELLO, **more})).json()["data"]["id"])

    plain = await send()
    other = await send(to="bob@example.com", user="u1", stream="news", idempotency_key="order 7")
    assert await ids(client, to="ANN@example.com") == [plain]
    assert (
        await ids(client, user="u1") == await ids(client, stream="news") == await ids(client, key="order 7") == [other]
    )
    assert await ids(client, user="u1", to="ann@example.com") == await ids(client, account="x") == []
    assert await ids(client, campaign="spring") == await ids(client, user="u1", state="sent") == []
    assert await ids(client, since="2026-01-01T00:00:00Z", state="ready") == [other, plain]
    assert await ids(client, until="2026-01-01T00:00:00Z") == []
    assert (await client.get("/v1/emails", params={"since": "yesterday"})).status_code == 422
    for q, understood, found in (
        (plain, "id", [plain]),
        ("Bob@example.com", "address", [other]),
        ("order 7", "key", [other]),
        ("what", "nothing", []),
    ):
        data = (await client.get("/v1/emails/find", params={"q": q})).json()["data"]
        assert (data["understood"], [each["id"] for each in data["items"]], data["next"]) == (understood, found, None)


async def test_pages_of_a_search_lead_through_all(api: Api, client: httpx.AsyncClient) -> None:
    sent = [(await client.post("/v1/emails", json=HELLO)).json()["data"]["id"] for _ in range(5)]
    for path, params in (("/v1/emails", {"to": "ann@example.com"}), ("/v1/emails/find", {"q": "ann@example.com"})):
        found: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            answer = await client.get(path, params={**params, "limit": "2", **({"cursor": cursor} if cursor else {})})
            found += [each["id"] for each in answer.json()["data"]["items"]]
            cursor = answer.json()["data"]["next"]
        assert found == sent[::-1]


async def test_nothing_of_a_neighbour_is_found(api: Api) -> None:
    neighbours = await settle_in(api.store)
    a, b = neighbours.a, neighbours.b
    async with httpx.AsyncClient(
        base_url=api.url, headers={"Authorization": f"Bearer {a.key}"}, timeout=ANSWER_S_MAX
    ) as client:
        own = set(a.public_emails)
        assert set(await ids(client, to=f"sent@{a.secret}.test")) & own
        for asked in ({"to": f"sent@{b.secret}.test"}, {"user": f"ann-{b.name}"}, {"stream": f"stream of {b.secret}"}):
            assert await ids(client, **asked) == []
        assert await ids(client, account=f"{b.name}/x") == []
        assert await ids(client, key="order-sent") == [a.public.email(a.emails["sent"])]
        for q in (*map(str, b.emails.values()), *b.public_emails, f"sent@{b.secret}.test", f"only-{b.name}"):
            assert await ids(client, "/v1/emails/find", q=q) == []
        spring = await client.get("/v1/emails/find", params={"q": "spring"})
        assert spring.json()["data"]["understood"] == "campaign"
        assert len(spring.json()["data"]["items"]) > 0
        assert b.name not in spring.text
        for id_ in (*b.emails.values(), *b.public_emails):
            assert (await client.get(f"/v1/emails/{id_}/life")).status_code == 404


async def test_every_state_has_a_life_that_ends_in_it(api: Api) -> None:
    neighbours = await settle_in(api.store)
    async with httpx.AsyncClient(
        base_url=api.url, headers={"Authorization": f"Bearer {neighbours.a.key}"}, timeout=ANSWER_S_MAX
    ) as client:
        for id_ in neighbours.a.public_emails:
            life = (await client.get(f"/v1/emails/{id_}/life")).json()["data"]
            assert life["moments"][-1]["kind"] == life["state"]
            assert (life["doubt"] is not None) == (life["state"] == State.IN_DOUBT)
            assert {moment["account"] for moment in life["moments"]} <= {None, "x"}
        retry = (await client.get(f"/v1/emails/{neighbours.a.public.email(neighbours.a.emails['retry'])}/life")).json()[
            "data"
        ]
        assert [moment["kind"] for moment in retry["moments"]] == ["accepted", "begun", "ended", "scheduled"]
        assert retry["stands_in_the_way"][0]["kind"] == "due"
        assert retry["stands_in_the_way"][0]["until"] == retry["moments"][-1]["at"]


async def test_an_operators_account_has_no_name_in_a_life(api: Api, client: httpx.AsyncClient) -> None:
    house = await api.store.add_account("house-7", address="h@operator.test", limits=Limits(delay_ms=0))
    public_id = (await client.post("/v1/emails", json=HELLO)).json()["data"]["id"]
    id_ = EmailId(await api.store.value("SELECT fairpost.private_id($1)", public_id))
    await api.store.value(
        "UPDATE fairpost.accounts SET status = 'suspended', status_reason = 'legacy.text', status_params = '{\"text\": \"told house-7 to go\"}'"
    )
    waiting = await client.get(f"/v1/emails/{public_id}/life")
    assert "account" in [each["kind"] for each in waiting.json()["data"]["stands_in_the_way"]]
    assert "house-7" not in waiting.text
    await api.store.value("UPDATE fairpost.accounts SET status = 'active', status_reason = NULL, status_params = NULL")
    lease = await api.store.take_lease(house, owner="a test", seconds=60)
    assert lease is not None
    await api.store.claim(lease, limit=5)
    for _ in range(2):
        assert "house-7" not in (await client.get(f"/v1/emails/{public_id}/life")).text
        await api.store.begin(lease, id_, usage=Usage())
    report = Report(reached=Reached.REPLIED, reply=Reply(554, "5.7.1 go away"))
    await api.store.settle(lease, id_, Failed(), report)
    life = await client.get(f"/v1/emails/{public_id}/life")
    assert "house-7" not in life.text
    ended = next(moment for moment in life.json()["data"]["moments"] if moment["kind"] == "ended")
    assert ended["code"] == 554
    assert ended["meaning"]


async def test_campaign_content_is_shown_with_and_without_the_fields_of_its_recipient(
    api: Api, client: httpx.AsyncClient
) -> None:
    await api.store.add_account("house", address="h@operator.test", limits=Limits())
    await client.post("/v1/lists/all/prospects", json=[{"address": "x@example.com", "fields": {"first_name": "Ann"}}])
    steps = [{"subject": "Hello {{ first_name }}", "text": "You are {{ email }}."}]
    assert (await client.put("/v1/campaigns/spring", json={"lists": ["all"], "steps": steps})).status_code == 201
    launched = await client.post("/v1/campaigns/spring/launch")
    assert launched.status_code == 200, launched.text
    (id_,) = await ids(client, campaign="spring")
    told = (await client.get(f"/v1/emails/{id_}")).json()["data"]
    assert told["subject"] == "Hello {{ first_name }}"
    assert told["filled"] == {"subject": "Hello Ann", "text": "You are x@example.com.", "html": None}
    await api.store.value("""UPDATE fairpost.queue SET fields = '{"first_name": ""}'""")
    assert (await client.get(f"/v1/emails/{id_}")).json()["data"]["filled"] is None
    plain = (await client.post("/v1/emails", json={**HELLO, "subject": "{{ braces }}"})).json()["data"]["id"]
    assert (await client.get(f"/v1/emails/{plain}")).json()["data"]["filled"] is None


def subjects(answer: httpx.Response) -> list[tuple[str, str | None]]:
    assert answer.status_code == 200, answer.text
    return [(each["subject"], each["filled_subject"]) for each in answer.json()["data"]["items"]]


async def test_the_subjects_of_a_page_are_filled_with_one_question_for_all(
    api: Api, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.store.add_account("house", address="h@operator.test", limits=Limits())
    people = [{"address": f"p{n}@example.com", "fields": {"first_name": f"Ann{n}", "n": n}} for n in range(4)]
    await client.post("/v1/lists/all/prospects", json=people)
    written = "Hello {{ first_name }}, {{ email }}"
    draft = {"lists": ["all"], "steps": [{"subject": written, "text": "Hi"}]}
    assert (await client.put("/v1/campaigns/spring", json=draft)).status_code == 201
    assert (await client.post("/v1/campaigns/spring/launch")).status_code == 200
    await client.post("/v1/emails", json={**HELLO, "subject": "{{ braces }}", "fields": {"braces": "none"}})
    await api.store.value(
        """UPDATE fairpost.queue SET fields = '{}' WHERE recipients -> 0 ->> 'address' = 'p0@example.com'"""
    )
    many = """UPDATE fairpost.queue SET fields = fields || jsonb_build_object('much', (
        SELECT string_agg(md5(n::text), '') FROM generate_series(1, 2000) n)) WHERE recipients -> 0 ->> 'address' = 'p1@example.com'"""
    await api.store.value(many)
    asked = list[int]()

    async def counted(store: Any, ids: Any) -> Any:
        asked.append(len(ids))
        return await real(store, ids)

    real = fields_of
    monkeypatch.setattr(rendering, "fields_of", counted)
    expected = [
        ("{{ braces }}", None),  # not a template
        (written, "Hello Ann3, p3@example.com"),
        (written, "Hello Ann2, p2@example.com"),
        (written, None),  # too long for a list
        (written, None),  # a field is missing
    ]
    assert sorted(subjects(await client.get("/v1/emails")), key=str) == sorted(expected, key=str)
    assert asked == [5]
    found = await client.get("/v1/emails/find", params={"q": "p3@example.com"})
    assert subjects(found) == [(written, "Hello Ann3, p3@example.com")]
    assert len(subjects(await client.get("/v1/emails", params={"limit": 2}))) == 2
    assert asked == [5, 1, 2]
    async with signed_in(api) as admin:
        assert sorted(subjects(await admin.get("/v1/admin/emails")), key=str) == sorted(expected, key=str)
    monkeypatch.setattr(rendering, "FILLED_MAX", 0)
    assert {filled for _, filled in subjects(await client.get("/v1/emails"))} == {None}


async def test_the_pictures_of_an_email_are_put_into_its_html_where_they_are_asked_for(
    api: Api, client: httpx.AsyncClient
) -> None:
    def file(name: str, data: bytes = DOT, content_type: str = "image/gif") -> dict[str, str]:
        return {
            "filename": name,
            "data": base64.b64encode(data).decode(),
            "content_type": content_type,
            "inline_id": name,
        }

    html = '<img src="cid:dot"><img src="cid:large"><img src="cid:page"><img src="cid:unknown">'
    files = [file("large", b"x" * 2_200_000), file("dot"), file("page", b"<script>", "image/svg+xml")]
    given = {**HELLO, "html": html, "attachments": files}
    id_ = (await client.post("/v1/emails", json=given)).json()["data"]["id"]
    assert (await client.get(f"/v1/emails/{id_}")).json()["data"]["html"] == html
    told = (await client.get(f"/v1/emails/{id_}", params={"pictures": True})).json()["data"]["html"]
    shown = f"data:image/gif;base64,{base64.b64encode(DOT).decode()}"
    assert told == html.replace("cid:dot", shown)  # the others are too large, not images, or missing
    await api.workspace("other", domains=[])
    async with api.client("other") as other:
        assert (await other.get(f"/v1/emails/{id_}", params={"pictures": True})).status_code == 404
