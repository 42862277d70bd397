"""Campaigns over HTTP, on the real database: from a draft to e-mails, and every query about one."""

import asyncio
from typing import Any

import asyncpg
import httpx2 as httpx
import pytest

from fairpost.api.routes import campaigns as campaign_routes
from fairpost.campaigns import launching
from fairpost.maintenance.progress import ProgressWatch
from fairpost.model.account import Limits
from fairpost.model.prospect import ProspectLine
from fairpost.model.reason import Reason
from fairpost.model.workspace import Scope
from fairpost.policy.forecast import NoKeptForecast, none_in_writing
from fairpost.store import campaigns, workspaces
from fairpost.store.prospects import import_prospects
from fairpost.transports.smtp.settings import SmtpSettings
from tests.api.conftest import LENT, Api, fields_of

HELLO = {"subject": 'Hello {{ first_name or "there" }}', "text": "From {{ company }}"}
DRAFT: dict[str, Any] = {"sequence": "series", "lists": ["customers"]}
PEOPLE = 50


async def add_people(
    api: Api, n: int = PEOPLE, *, workspace: str = "acme", name: str = "customers", first: int = 0, **fields: str
) -> None:
    lines = [
        ProspectLine(
            line=i, address=f"p{i}@there.test", fields={"company": f"C{i}", **fields}, timezone=None, external_id=None
        )
        for i in range(first, first + n)
    ]
    async with api.store.connection() as conn:
        await import_prospects(conn, lines, workspace=workspace, list_name=name, skip_bad=False)


async def add_account(api: Api, name: str, pool: str) -> None:
    await api.store.add_account(
        name,
        address=f"{name.rpartition('/')[2]}@acme.example",
        pool=pool,
        display_name="Acme",
        limits=Limits(),
        transport=SmtpSettings(host="mail.acme.example", port=587),
    )


@pytest.fixture
async def acme(api: Api, client: httpx.AsyncClient) -> httpx.AsyncClient:
    """A workspace with fifty people, a sequence of two steps, and an account of the operator."""
    await add_account(api, "big-relay", "default")
    await prepare(api, client)
    return client


async def prepare(api: Api, client: httpx.AsyncClient, workspace: str = "acme") -> None:
    await add_people(api, workspace=workspace)
    await client.put("/v1/templates/hello", json=HELLO)
    await client.put("/v1/templates/again", json={"subject": "Again", "text": "You there?"})
    steps = [{"template": "hello"}, {"template": "again", "delay": "3d"}]
    assert (await client.put("/v1/sequences/series", json={"steps": steps})).status_code == 201


async def launched(client: httpx.AsyncClient, name: str = "spring", **draft: Any) -> dict[str, Any]:
    made = await client.put(f"/v1/campaigns/{name}", json={**DRAFT, **draft})
    assert made.status_code == 201, made.text
    answer = await client.post(f"/v1/campaigns/{name}/launch")
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()["data"]
    return data


async def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert error["code"] == code
    assert "fairpost " not in error["message"]
    assert "--" not in error["message"]
    return error


async def audited(api: Api) -> list[str]:
    rows = await api.store.fetch("SELECT action FROM fairpost.audit WHERE action LIKE 'campaign.%' ORDER BY id")
    return [row["action"] for row in rows]


async def finish(api: Api, state: str, most: int = 1000) -> None:
    """Records the first steps as sent or rejected, as an engine would."""
    await api.store.value(
        """SELECT count(*) FROM (
               SELECT fairpost.note(ARRAY[q.id], -1), fairpost.finish(q.id, $1::fairpost.email_state, 'as it is', clock_timestamp())
               FROM (SELECT q.id FROM fairpost.queue q WHERE q.step = 1 ORDER BY q.id LIMIT $2) q) done""",
        *(state, most),
    )


# ── create ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_draft_is_made_changed_and_removed(api: Api, acme: httpx.AsyncClient) -> None:
    made = await acme.put("/v1/campaigns/spring", json=DRAFT)
    assert made.status_code == 201, made.text
    data = made.json()["data"]
    assert (data["id"], data["state"]) == ("spring", "draft")
    assert "launch" in data["waits_for"]
    assert (data["pool"], data["account"], data["gap"]) == ("default", None, {"min_s": 30, "max_s": 90})
    assert [(s["template"], s["delay_s"], s["emails"]) for s in data["steps"]] == [
        ("hello", 0, {}),
        ("again", 259200, {}),
    ]
    assert data["prospects"] == PEOPLE
    changed = await acme.put(
        "/v1/campaigns/spring",
        json={
            **DRAFT,
            "gap": None,
            "user": "ann",
            "by_recipients_clock": True,
            "starts_at": "2099-03-01T09:00:00+01:00",
        },
    )
    assert changed.status_code == 200, changed.text
    data = changed.json()["data"]
    assert (data["gap"], data["user"], data["by_recipients_clock"]) == (None, "ann", True)
    assert data["starts_at"] == "2099-03-01T08:00:00Z"
    assert (await acme.get("/v1/campaigns/spring")).json() == changed.json()
    assert (await acme.delete("/v1/campaigns/spring")).json()["data"] == {"removed": True}
    await refused(await acme.get("/v1/campaigns/spring"), 404, "not_found")
    assert await audited(api) == ["campaign.add", "campaign.change", "campaign.remove"]


async def test_a_draft_may_say_its_words_itself(api: Api, acme: httpx.AsyncClient) -> None:
    steps: list[dict[str, Any]] = [
        {"subject": "Hi {{ company }}", "text": "first"},
        {"template": "again", "delay": "1d"},
        {"subject": "Last", "html": "<p>bye</p>", "delay_s": 60},
    ]
    draft = {"steps": steps, "lists": ["customers"]}
    made = await acme.put("/v1/campaigns/spring", json=draft)
    assert made.status_code == 201, made.text
    assert [s["template"] for s in made.json()["data"]["steps"]] == ["spring.step-1", "again", "spring.step-3"]
    assert (await acme.put("/v1/campaigns/spring", json=draft)).status_code == 200
    steps[0]["text"] = "changed"
    assert (await acme.put("/v1/campaigns/spring", json=draft)).status_code == 200
    shown = await acme.post("/v1/campaigns/spring/preview", json={"to": "p7@there.test"})
    assert (shown.json()["data"]["subject"], shown.json()["data"]["text"]) == ("Hi C7", "changed")
    await refused(await acme.put("/v1/templates/spring.step-1", json=HELLO), 409, "conflict")
    await refused(await acme.put("/v1/sequences/spring", json={"steps": [{"template": "hello"}]}), 409, "conflict")
    await refused(
        await acme.put("/v1/campaigns/series", json=draft), 409, "conflict"
    )  # a sequence already has that name
    assert (await acme.put("/v1/campaigns/spring", json=DRAFT)).json()["data"]["sequence"] == "series"
    assert await audited(api) == ["campaign.add", "campaign.change", "campaign.change"]


async def test_with_a_draft_goes_what_was_its_own(acme: httpx.AsyncClient) -> None:
    draft = {
        "steps": [{"subject": "Hi", "text": "first"}, {"template": "again", "delay": "1d"}],
        "lists": ["customers"],
    }
    await acme.put("/v1/campaigns/spring", json=draft)
    assert (await acme.delete("/v1/campaigns/spring")).status_code == 200
    assert [each["name"] for each in (await acme.get("/v1/templates")).json()["data"]["items"]] == ["again", "hello"]
    assert [each["name"] for each in (await acme.get("/v1/sequences")).json()["data"]["items"]] == ["series"]
    assert (await acme.put("/v1/sequences/spring", json={"steps": [{"template": "hello"}]})).status_code == 201


async def test_many_who_write_the_same_draft_at_once_make_one(api: Api, acme: httpx.AsyncClient) -> None:
    draft = {"steps": [{"subject": "Hi", "text": "first"}], "lists": ["customers"]}
    for body in (DRAFT, draft):
        name = "a" if body is DRAFT else "b"
        answers = await asyncio.gather(*(acme.put(f"/v1/campaigns/{name}", json=body) for _ in range(8)))
        assert {answer.status_code for answer in answers} <= {200, 201}, [answer.text for answer in answers]
    assert await api.store.value("SELECT count(*) FROM fairpost.campaigns") == 2


WRONG_DRAFTS: list[tuple[dict[str, Any], str]] = [
    ({"sequence": "nothing"}, "sequence"),
    ({"sequence": None}, "sequence"),
    ({"steps": [{"template": "hello"}]}, "sequence"),
    ({"lists": []}, "lists"),
    ({"lists": ["customers", "nobody"]}, "lists[1]"),
    ({"lists": ["customers", "customers"]}, "lists"),
    ({"pool": "unlent"}, "pool"),
    ({"pool": "other/default"}, "pool"),
    ({"pool": "@big-relay"}, "pool"),
    ({"account": "big-relay"}, "account"),
    ({"account": "other/theirs"}, "account"),
    ({"account": "theirs"}, "account"),
    ({"account": "a", "pool": "default"}, "account"),
    ({"gap": {"min_s": 9, "max_s": 5}}, "gap.max_s"),
    ({"gap": {"min_s": 0, "max_s": 1e9}}, "gap.max_s"),
    ({"user": "a\nb"}, "user"),
    ({"user": "a" * 201}, "user"),
    ({"starts_at": "2099-03-01T09:00:00"}, "starts_at"),
    ({"starts_at": "0001-01-01T00:00:00+14:00"}, "starts_at"),
    ({"starts_at": 12345}, "starts_at"),
    ({"by_recipients_clock": "yes"}, "by_recipients_clock"),
    ({"colour": "red"}, "colour"),
    ({"sequence": None, "steps": [{"template": "nothing"}]}, "steps[0].template"),
    ({"sequence": None, "steps": [{"template": "hello", "text": "x"}]}, "steps[0].text"),
    ({"sequence": None, "steps": [{"text": "x"}]}, "steps[0].subject"),
    ({"sequence": None, "steps": [{"subject": "x"}]}, "steps[0].text"),
    ({"sequence": None, "steps": [{"subject": "{{", "text": "x"}]}, "steps[0].subject"),
    ({"sequence": None, "steps": [{"subject": "x" * 999, "text": "x"}]}, "steps[0].subject"),
    ({"sequence": None, "steps": [{"template": "hello"}, {"template": "hello"}]}, "steps[1].delay"),
]


async def test_a_wrong_draft_names_the_field(api: Api, acme: httpx.AsyncClient) -> None:
    await add_account(api, "relay-2", "unlent")
    await workspaces.add_workspace(api.store, "other")
    await add_account(api, "other/theirs", "other/default")
    wrong = []
    for change, field in WRONG_DRAFTS:
        answer = await acme.put("/v1/campaigns/spring", json={**DRAFT, **change})
        is_named = any(each == field or each.startswith(f"{field}.") for each in fields_of(answer))
        if not is_named or "fairpost " in answer.text:
            wrong.append((change, answer.text))
    assert wrong == []
    assert (await acme.get("/v1/campaigns")).json()["data"]["items"] == []
    assert (await acme.get("/v1/templates")).json()["data"]["items"][0]["name"] == "again"
    assert await audited(api) == []


async def test_its_own_accounts_and_pools_have_short_names(api: Api, acme: httpx.AsyncClient) -> None:
    await add_account(api, "acme/support", "acme/sales")
    made = await acme.put("/v1/campaigns/a", json={**DRAFT, "account": "support"})
    assert (made.json()["data"]["pool"], made.json()["data"]["account"]) == (None, "support")
    made = await acme.put("/v1/campaigns/b", json={**DRAFT, "pool": "sales"})
    assert (made.json()["data"]["pool"], made.json()["data"]["account"]) == ("sales", None)
    stored = await api.store.fetch("SELECT route FROM fairpost.campaigns ORDER BY name")
    assert [row["route"] for row in stored] == ["@acme/support", "acme/sales"]
    items = (await acme.get("/v1/campaigns")).json()["data"]["items"]
    assert [(each["id"], each["pool"], each["account"]) for each in items] == [
        ("b", "sales", None),
        ("a", None, "support"),
    ]


async def test_pages_lead_through_all_the_newest_first(acme: httpx.AsyncClient) -> None:
    for n in range(5):
        await acme.put(f"/v1/campaigns/c{n}", json=DRAFT)
    found, cursor = [], None
    while True:
        params = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = (await acme.get("/v1/campaigns", params=params)).json()["data"]
        found += [each["id"] for each in page["items"]]
        if (cursor := page["next"]) is None:
            break
    assert found == [f"c{n}" for n in (4, 3, 2, 1, 0)]
    for wrong in ("c2NvbG91cg", "czIwOTktMDEtMDEgeA", "czAwMDEtMDEtMDFUMDA6MDA6MDArMTQ6MDAgeA", "bjU", "!"):
        await refused(await acme.get("/v1/campaigns", params={"cursor": wrong}), 400, "bad_request")


# ── launch ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_launch_schedules_all_recipients_and_a_second_one_adds_none(api: Api, acme: httpx.AsyncClient) -> None:
    first = await launched(acme)
    assert first == {
        "id": "spring",
        "state": "running",
        "scheduled": 2 * PEOPLE,
        "skipped": 0,
        "left_out": 0,
        "errors": [],
        "inherited_subjects": [2],
        "leaving_thread": [],
        "warnings": first["warnings"],
        "is_done": True,
    }
    assert await api.store.value("SELECT count(*) FROM fairpost.queue WHERE workspace = 'acme'") == 2 * PEOPLE
    shown = (await acme.get("/v1/campaigns/spring")).json()["data"]
    assert [step["emails"] for step in shown["steps"]] == [{"ready": PEOPLE}, {"to_follow": PEOPLE}]
    assert shown["condition"] == "engine.none"
    assert shown["planned_at"] is not None
    twice = await acme.post("/v1/campaigns/spring/launch")
    assert (twice.status_code, twice.json()["data"]["scheduled"]) == (200, 0)
    again = (await acme.post("/v1/campaigns/spring/schedule")).json()["data"]
    assert (again["scheduled"], again["skipped"], again["errors"]) == (0, 2 * PEOPLE, [])
    await add_people(api, 3, first=PEOPLE)
    more = (await acme.post("/v1/campaigns/spring/schedule")).json()["data"]
    assert (more["scheduled"], more["skipped"]) == (6, 2 * PEOPLE)
    status = (await acme.get("/v1/campaigns/spring/schedule")).json()["data"]
    assert (status["prospects"], status["scheduled"], status["is_done"]) == (PEOPLE + 3, 2 * PEOPLE + 6, True)
    assert status["next_due_at"] is not None
    assert await audited(api) == ["campaign.add", "campaign.launch", "campaign.schedule", "campaign.schedule"]
    who = await api.store.value(
        "SELECT who FROM fairpost.audit WHERE action = 'campaign.launch' AND workspace = 'acme'"
    )
    assert who.startswith("key ")


async def test_ten_who_launch_it_at_once_launch_it_once(api: Api, acme: httpx.AsyncClient) -> None:
    await acme.put("/v1/campaigns/spring", json=DRAFT)
    answers = await asyncio.gather(*(acme.post("/v1/campaigns/spring/launch") for _ in range(10)))
    assert {answer.status_code for answer in answers} == {200}, [answer.text for answer in answers]
    assert await api.store.value("SELECT count(*) FROM fairpost.queue") == 2 * PEOPLE
    assert await api.store.value("SELECT count(*) FROM fairpost.events WHERE kind = 'campaign_running'") == 1


async def test_planning_that_exceeds_the_requests_time_is_left_to_an_engine(
    api: Api, acme: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "BATCH", 20)
    monkeypatch.setattr(campaign_routes, "PLANNING_S_MAX", 0.0)
    first = await launched(acme)
    assert (first["scheduled"], first["is_done"]) == (20, False)  # a batch of ten people, with two steps each
    status = (await acme.get("/v1/campaigns/spring/schedule")).json()["data"]
    assert (status["prospects"], status["is_done"], status["planned_at"]) == (10, False, None)
    (rest,) = await campaigns.to_plan(api.store)
    while not (await campaigns.plan_batch(api.store, rest, most=20)).done:
        pass
    status = (await acme.get("/v1/campaigns/spring/schedule")).json()["data"]
    assert (status["scheduled"], status["is_done"]) == (2 * PEOPLE, True)


async def test_a_recipient_with_a_missing_field_stops_the_launch_or_is_left_out(
    api: Api, acme: httpx.AsyncClient
) -> None:
    await add_people(api, 2, first=PEOPLE, company="  ")
    await acme.put("/v1/campaigns/spring", json=DRAFT)
    error = await refused(await acme.post("/v1/campaigns/spring/launch"), 409, "conflict")
    lacking = [{"address": f"p{PEOPLE + n}@there.test", "lacks": ["company"]} for n in range(2)]
    details = error["details"]
    assert (details["reason"], details["count"], details["first"]) == ("campaign.missing_fields", 2, lacking)
    assert (await acme.get("/v1/campaigns/spring")).json()["data"]["state"] == "draft"
    answer = await acme.post("/v1/campaigns/spring/launch", json={"skip_incomplete": True})
    data = answer.json()["data"]
    assert (data["scheduled"], data["left_out"], len(data["errors"])) == (2 * PEOPLE, 2, 2)
    assert data["errors"][0].startswith(f"p{PEOPLE}@there.test: ")


async def test_a_launch_needs_people_and_accounts_that_are_still_lent(api: Api, acme: httpx.AsyncClient) -> None:
    await acme.put("/v1/campaigns/spring", json=DRAFT)
    await workspaces.set_loans(api.store, "acme", [])
    error = await refused(await acme.post("/v1/campaigns/spring/launch"), 409, "conflict")
    assert "default" in error["message"]
    await workspaces.set_loans(api.store, "acme", LENT)
    await api.store.remove_account("big-relay")
    error = await refused(await acme.post("/v1/campaigns/spring/launch"), 409, "conflict")
    assert "default" in error["message"]
    await add_account(api, "acme/own", "acme/sales")
    await acme.put("/v1/campaigns/own", json={**DRAFT, "account": "own"})
    await api.store.remove_account("acme/own")
    error = await refused(await acme.post("/v1/campaigns/own/launch"), 409, "conflict")
    assert "account own" in error["message"]
    await api.store.value("DELETE FROM fairpost.list_members")
    error = await refused(await acme.post("/v1/campaigns/spring/launch"), 409, "conflict")
    assert "customers" in error["message"]
    assert await audited(api) == ["campaign.add", "campaign.add"]


async def test_the_door_itself_lets_no_workspace_launch_through_accounts_of_others(
    api: Api, acme: httpx.AsyncClient
) -> None:
    await workspaces.add_workspace(api.store, "other")
    await add_account(api, "other/theirs", "other/default")
    await acme.put("/v1/campaigns/spring", json=DRAFT)
    for route in ("other/default", "@other/theirs", "@big-relay"):
        await api.store.value("UPDATE fairpost.campaigns SET route = $1", route)
        tenant = api.store.of_tenant("acme")
        campaign = await campaigns.campaign_named(tenant, "acme", "spring")
        with pytest.raises(asyncpg.PostgresError):
            await campaigns.launch(tenant, campaign, [], required=[], zones=[], skip_incomplete=False, by="a test")
        await refused(await acme.post("/v1/campaigns/spring/launch"), 409, "conflict")
    assert (await acme.get("/v1/campaigns/spring")).json()["data"]["state"] == "draft"


async def test_one_that_starts_later_is_scheduled(acme: httpx.AsyncClient) -> None:
    data = await launched(acme, starts_at="2099-03-01T09:00:00Z")
    assert (data["state"], data["scheduled"]) == ("scheduled", 2 * PEOPLE)
    status = (await acme.get("/v1/campaigns/spring/schedule")).json()["data"]
    assert status["next_due_at"] == "2099-03-01T09:00:00Z"
    shown = (await acme.get("/v1/campaigns/spring")).json()["data"]
    assert (shown["waits_until"], shown["steps"][0]["emails"]) == ("2099-03-01T09:00:00Z", {"scheduled": PEOPLE})


# ── pause, resume, cancel ─────────────────────────────────────────────────────────────────────────────────


async def test_pause_resume_and_cancel(api: Api, acme: httpx.AsyncClient) -> None:
    await launched(acme)
    paused = await acme.post("/v1/campaigns/spring/pause", json={"reason": "wrong price"})
    assert paused.json()["data"] == {"id": "spring", "state": "paused", "changed": True}
    assert (await acme.post("/v1/campaigns/spring/pause")).json()["data"]["changed"] is False
    shown = (await acme.get("/v1/campaigns/spring")).json()["data"]
    assert (shown["reason"], shown["waits_for"].endswith(": wrong price.")) == ("wrong price", True)
    await refused(await acme.post("/v1/campaigns/spring/schedule"), 409, "conflict")
    await refused(await acme.post("/v1/campaigns/spring/launch"), 409, "conflict")
    held = "SELECT held_until = 'infinity' FROM fairpost.sender_rules WHERE workspace = 'acme' AND level = 'stream'"
    assert await api.store.value(held)
    resumed = await acme.post("/v1/campaigns/spring/resume")
    assert resumed.json()["data"] == {"id": "spring", "state": "running", "changed": True}
    assert (await acme.post("/v1/campaigns/spring/resume")).json()["data"]["changed"] is False
    assert not await api.store.value(held)
    cancelled = await acme.post("/v1/campaigns/spring/cancel", json={"reason": "recalled"})
    assert cancelled.json()["data"] == {"id": "spring", "state": "cancelled", "changed": True}
    assert (await acme.post("/v1/campaigns/spring/cancel")).json()["data"]["changed"] is False
    for verb in ("pause", "resume", "launch", "schedule", "retry"):
        error = await refused(await acme.post(f"/v1/campaigns/spring/{verb}"), 409, "conflict")
        assert (error["details"]["reason"], error["details"]["state"]) == ("campaign.wrong_state", "cancelled")
    await refused(await acme.delete("/v1/campaigns/spring"), 409, "conflict")
    await refused(await acme.put("/v1/campaigns/spring", json=DRAFT), 409, "conflict")
    moves = ["campaign.launch", "campaign.pause", "campaign.resume", "campaign.cancel"]
    assert (await audited(api))[1:] == moves


async def test_a_draft_can_be_neither_paused_nor_scheduled(acme: httpx.AsyncClient) -> None:
    await acme.put("/v1/campaigns/spring", json=DRAFT)
    for verb in ("pause", "resume", "schedule", "retry"):
        await refused(await acme.post(f"/v1/campaigns/spring/{verb}"), 409, "conflict")
    status = (await acme.get("/v1/campaigns/spring/schedule")).json()["data"]
    assert (status["state"], status["scheduled"], status["is_done"]) == ("draft", 0, False)


async def test_a_launched_campaign_keeps_its_sequence(acme: httpx.AsyncClient) -> None:
    await launched(acme)
    answer = await acme.put("/v1/sequences/series", json={"steps": [{"template": "hello"}]})
    await refused(answer, 409, "conflict")
    error = await refused(await acme.delete("/v1/sequences/series"), 409, "conflict")
    assert error["details"]["campaigns"] == ["spring"]
    assert (await acme.put("/v1/templates/hello", json={"subject": "new", "text": "words"})).status_code == 200
    shown = await acme.post("/v1/campaigns/spring/preview", json={"to": "p0@there.test"})
    assert shown.json()["data"]["subject"] == "Hello there"


async def test_nothing_is_there_of_one_that_is_not(acme: httpx.AsyncClient) -> None:
    stop = {"address": "p1@there.test"}
    asked: list[tuple[str, str, Any]] = [
        ("GET", "", None),
        ("DELETE", "", None),
        *[
            ("POST", f"/{verb}", None)
            for verb in ("launch", "pause", "resume", "cancel", "schedule", "preview", "retry")
        ],
        ("POST", "/stop", stop),
        *[("GET", f"/{part}", None) for part in ("schedule", "forecast", "progress", "recipients")],
    ]
    for method, path, body in asked:
        await refused(await acme.request(method, f"/v1/campaigns/none{path}", json=body), 404, "not_found")
    await refused(await acme.get("/v1/campaigns/a%00b"), 422, "invalid")


# ── read ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_forecast_names_no_account_of_the_operator(api: Api, acme: httpx.AsyncClient) -> None:
    await acme.put("/v1/campaigns/spring", json=DRAFT)
    before = (await acme.get("/v1/campaigns/spring/forecast")).json()["data"]
    assert before["forecast"]["emails"] == 2 * PEOPLE
    assert before["forecast"]["per_account"] == [{"account": None, "emails": 2 * PEOPLE}]
    assert [step["emails"] for step in before["forecast"]["per_step"]] == [PEOPLE, PEOPLE]
    assert before["foreseen_at_launch"] is None
    await acme.post("/v1/campaigns/spring/launch")
    answer = await acme.get("/v1/campaigns/spring/forecast")
    assert "big-relay" not in answer.text
    after = answer.json()["data"]
    assert after["foreseen_at_launch"]["emails"] == 2 * PEOPLE
    assert (after["sent"], after["not_counted"]) == (0, 0)
    assert "big-relay" not in (await acme.get("/v1/campaigns/spring")).text


async def test_a_forecast_calls_its_own_accounts_by_their_short_names(api: Api, acme: httpx.AsyncClient) -> None:
    await add_account(api, "acme/own", "acme/sales")
    await acme.put("/v1/campaigns/spring", json={**DRAFT, "pool": "sales"})
    answer = await acme.get("/v1/campaigns/spring/forecast")
    assert answer.json()["data"]["forecast"]["per_account"] == [{"account": "own", "emails": 2 * PEOPLE}]
    assert "acme/" not in answer.text
    await api.store.remove_account("acme/own")
    await refused(await acme.get("/v1/campaigns/spring/forecast"), 409, "conflict")


async def test_nothing_left_has_no_forecast(acme: httpx.AsyncClient) -> None:
    await launched(acme)
    await acme.post("/v1/campaigns/spring/cancel")
    data = (await acme.get("/v1/campaigns/spring/forecast")).json()["data"]
    assert data["state"] == "cancelled"


async def test_a_preview_is_what_one_prospect_will_get(api: Api, acme: httpx.AsyncClient) -> None:
    await acme.put("/v1/campaigns/spring", json=DRAFT)
    first = (await acme.post("/v1/campaigns/spring/preview")).json()["data"]
    assert "unsubscribe.missing" in [each["code"] for each in first.pop("checks")]
    assert first == {
        "step": 1,
        "from": {"address": "big-relay@acme.example", "name": "Acme"},
        "to": "p0@there.test",
        "subject": "Hello there",
        "is_subject_inherited": False,
        "leaves_thread": False,
        "text": "From C0",
        "html": None,
    }
    second = await acme.post("/v1/campaigns/spring/preview", json={"to": "P9@There.test", "step": 2})
    told = second.json()["data"]
    assert (told["to"], told["subject"]) == ("p9@there.test", "Hello there")
    assert (told["is_subject_inherited"], told["leaves_thread"]) == (True, False)
    await refused(await acme.post("/v1/campaigns/spring/preview", json={"step": 3}), 404, "not_found")
    await refused(await acme.post("/v1/campaigns/spring/preview", json={"to": "x@there.test"}), 404, "not_found")
    await refused(await acme.post("/v1/campaigns/spring/preview", json={"step": 0}), 422, "invalid")
    await add_people(api, 1, first=99, company="")
    error = await refused(
        await acme.post("/v1/campaigns/spring/preview", json={"to": "p99@there.test"}), 422, "invalid"
    )
    assert [each["field"] for each in error["details"]] == ["to.company"]
    await api.store.value("DELETE FROM fairpost.list_members")
    await refused(await acme.post("/v1/campaigns/spring/preview"), 409, "conflict")
    await api.store.remove_account("big-relay")
    shown = await acme.post("/v1/campaigns/spring/preview", json={"to": "p1@there.test"})
    assert shown.json()["data"]["from"] is None


async def test_receipts_page_by_page_and_by_state(api: Api, acme: httpx.AsyncClient) -> None:
    await launched(acme)
    await finish(api, "failed", 4)
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        params = {"limit": "30"} | ({"cursor": cursor} if cursor else {})
        page = (await acme.get("/v1/campaigns/spring/recipients", params=params)).json()["data"]
        found += page["items"]
        if (cursor := page["next"]) is None:
            break
    assert len({each["email_id"] for each in found}) == len(found) == 2 * PEOPLE
    assert "prospect_id" not in found[0]
    failed = (await acme.get("/v1/campaigns/spring/recipients", params={"state": "failed"})).json()["data"]["items"]
    assert [(each["state"], each["reason"], each["step"]) for each in failed] == [("failed", "as it is", 1)] * 4
    follow = (
        await acme.get("/v1/campaigns/spring/recipients", params={"state": ["to_follow", "ready"], "limit": "200"})
    ).json()["data"]["items"]
    assert {each["state"] for each in follow} == {"to_follow", "ready"}
    assert len(follow) == 2 * (PEOPLE - 4)
    await refused(await acme.get("/v1/campaigns/spring/recipients", params={"state": "lost"}), 422, "invalid")
    await refused(await acme.get("/v1/campaigns/spring/recipients", params={"cursor": "x"}), 400, "bad_request")


async def test_a_retry_is_only_for_recipients_who_did_not_get_it(api: Api, acme: httpx.AsyncClient) -> None:
    await launched(acme)
    await finish(api, "failed", 4)
    await finish(api, "sent", 3)
    again = await acme.post("/v1/campaigns/spring/retry")
    assert again.json()["data"] == {"retried": 4, "is_done": True}
    assert (await acme.post("/v1/campaigns/spring/retry", json={"states": ["failed", "failed"]})).json()["data"][
        "retried"
    ] == 0
    await refused(await acme.post("/v1/campaigns/spring/retry", json={"states": ["sent"]}), 422, "invalid")
    await refused(await acme.post("/v1/campaigns/spring/retry", json={"states": []}), 422, "invalid")
    shown = (await acme.get("/v1/campaigns/spring")).json()["data"]
    assert shown["steps"][0]["emails"] == {"sent": 3, "ready": PEOPLE - 3}
    assert (await audited(api))[-1] == "campaign.retry"


async def test_it_is_stopped_for_one_person(api: Api, acme: httpx.AsyncClient) -> None:
    await launched(acme)
    stop = {"address": "P5@there.test", "reason": "has replied"}
    answer = await acme.post("/v1/campaigns/spring/stop", json=stop)
    assert answer.json()["data"] == {"address": "p5@there.test", "cancelled": 2}
    assert (await acme.post("/v1/campaigns/spring/stop", json=stop)).json()["data"]["cancelled"] == 0
    await refused(await acme.post("/v1/campaigns/spring/stop", json={"address": "x@there.test"}), 404, "not_found")
    await refused(await acme.post("/v1/campaigns/spring/stop"), 422, "invalid")
    again = (await acme.post("/v1/campaigns/spring/schedule")).json()["data"]
    assert again["scheduled"] == 0
    gone = (await acme.get("/v1/campaigns/spring/recipients", params={"state": "cancelled"})).json()["data"]["items"]
    assert [each["address"] for each in gone] == ["p5@there.test"] * 2
    assert all(each["reason"] for each in gone)


async def test_a_campaign_that_failed_says_so_in_the_words_of_its_workspace(api: Api, acme: httpx.AsyncClient) -> None:
    await add_account(api, "acme/own", "acme/sales")
    await launched(acme, pool="sales")
    await api.store.remove_account("acme/own")
    await campaigns.advance(api.store)
    shown = (await acme.get("/v1/campaigns/spring")).json()["data"]
    assert (shown["state"], shown["condition"]) == ("failed", "pool.empty")
    assert "sales" in shown["waits_for"]
    assert "pool sales" in shown["reason"]


# ── isolation ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_two_workspaces_with_the_same_names_never_meet(api: Api, acme: httpx.AsyncClient) -> None:
    await api.workspace("other", domains=())
    async with api.client("other") as other:
        await launched(acme)
        assert (await other.get("/v1/campaigns")).json()["data"]["items"] == []
        for verb in ("launch", "pause", "cancel", "schedule", "preview", "retry"):
            await refused(await other.post(f"/v1/campaigns/spring/{verb}"), 404, "not_found")
        await refused(
            await other.put("/v1/campaigns/spring", json=DRAFT), 422, "invalid"
        )  # the workspace has no such list
        await prepare(api, other, "other")
        assert (await launched(other))["scheduled"] == 2 * PEOPLE
        await acme.post("/v1/campaigns/spring/cancel")
        assert (await other.get("/v1/campaigns/spring")).json()["data"]["state"] == "running"
        await acme.post("/v1/campaigns/spring/stop", json={"address": "p1@there.test"})
        found = (await other.get("/v1/campaigns/spring/recipients", params={"limit": "200"})).json()["data"]["items"]
        assert {each["state"] for each in found} == {"ready", "to_follow"}
        assert len(found) == 2 * PEOPLE


async def test_no_door_opens_for_another_workspace(api: Api, acme: httpx.AsyncClient) -> None:
    await launched(acme)
    await workspaces.add_workspace(api.store, "other")
    await add_people(api, 1, workspace="other")
    theirs = await campaigns.campaign_named(api.store, "acme", "spring")
    own = await api.store.value("SELECT id FROM fairpost.prospects WHERE workspace = 'other'")
    foreign = await api.store.value("SELECT min(id) FROM fairpost.prospects WHERE workspace = 'acme'")
    tenant = api.store.of_tenant("other")
    for attempt in (
        campaigns.stop(tenant, foreign, None, reason="no"),
        campaigns.stop(tenant, own, theirs, reason="no"),
        campaigns.pause(tenant, theirs, reason="no", by="other"),
        campaigns.resume(tenant, theirs, by="other"),
        campaigns.cancel(tenant, theirs, reason="no", by="other"),
        campaigns.replan(tenant, theirs.id),
        campaigns.plan_batch(tenant, theirs.id, most=10),
        campaigns.launch(tenant, theirs, [], required=[], zones=[], skip_incomplete=False, by="other"),
    ):
        with pytest.raises(asyncpg.PostgresError) as refusal:
            await attempt
        assert refusal.value.sqlstate == "FP004"
    assert await api.store.value("SELECT count(*) FROM fairpost.opt_outs") == 0
    assert await campaigns.find_campaign(tenant, "acme", "spring") is None


async def test_a_key_does_what_its_scopes_say(api: Api, acme: httpx.AsyncClient) -> None:
    async with (
        api.client(scopes=[Scope.READ]) as reader,
        api.client(scopes=[Scope.MANAGE]) as manager,
        api.client(scopes=[Scope.SEND]) as sender,
    ):
        await refused(await reader.put("/v1/campaigns/spring", json=DRAFT), 403, "forbidden")
        assert (await manager.put("/v1/campaigns/spring", json=DRAFT)).status_code == 201
        for verb in ("launch", "pause", "resume", "cancel", "schedule", "retry"):
            await refused(await reader.post(f"/v1/campaigns/spring/{verb}"), 403, "forbidden")
            await refused(await manager.post(f"/v1/campaigns/spring/{verb}"), 403, "forbidden")
        await refused(await sender.get("/v1/campaigns/spring"), 403, "forbidden")
        assert (await sender.post("/v1/campaigns/spring/launch")).status_code == 200
        for part in ("", "/schedule", "/forecast", "/recipients"):
            assert (await reader.get(f"/v1/campaigns/spring{part}")).status_code == 200
        assert (await reader.post("/v1/campaigns/spring/preview")).status_code == 200


# ── forecast and progress ─────────────────────────────────────────────────────────────────────────────────


async def test_progress_has_the_forecast_the_actual_numbers_and_the_revised_forecast(
    api: Api, acme: httpx.AsyncClient
) -> None:
    await acme.put("/v1/campaigns/spring", json=DRAFT)
    draft = (await acme.get("/v1/campaigns/spring/progress")).json()["data"]
    assert (draft["forecast"], draft["revised_forecast"], draft["counted_at"], draft["points"]) == (
        None,
        None,
        None,
        [],
    )
    assert "launch" in draft["waits_for"]
    assert (await acme.post("/v1/campaigns/spring/launch")).status_code == 200
    await finish(api, "failed", most=3)
    await ProgressWatch(api.store, log=print).step()
    answer = await acme.get("/v1/campaigns/spring/progress")
    assert answer.status_code == 200, answer.text
    assert "big-relay" not in answer.text
    data = answer.json()["data"]
    assert (data["sent"], data["missed"], data["waiting"]) == (
        0,
        6,
        2 * PEOPLE - 6,
    )  # its follow-up is cancelled with it
    assert (data["forecast"]["emails"], data["forecast"]["points"][-1]["sent"]) == (2 * PEOPLE, 2 * PEOPLE)
    assert data["forecast"]["done_at"] == data["forecast"]["points"][-1]["at"]
    assert data["revised_forecast"]["emails"] == 2 * PEOPLE - 6
    assert data["done_at"] == data["revised_forecast"]["done_at"]
    assert [point["missed"] for point in data["points"]] == [0, 6]
    assert [(s["sent"], s["missed"], s["waiting"]) for s in data["steps"]] == [(0, 3, PEOPLE - 3)] * 2
    assert data["steps"][1]["emails"] == {"cancelled": 3, "to_follow": PEOPLE - 3}
    assert data["accounts"] == [
        {"account": None, "is_shared": False, "sent": 0, "missed": 6, "waiting": 2 * PEOPLE - 6}
    ]
    await acme.post("/v1/campaigns/spring/pause")
    assert (await acme.get("/v1/campaigns/spring/progress")).json()["data"]["revised_forecast"] is None


async def test_the_reason_for_a_missing_forecast_names_no_account_of_the_operator(
    api: Api, acme: httpx.AsyncClient
) -> None:
    await launched(acme)
    why = Reason("forecast.never_sends", account="big-relay", limit="units_per_minute", least=100, value=1)
    none = NoKeptForecast(made_at=await api.store.now(), why=why)
    await api.store.value("UPDATE fairpost.campaigns SET forecast = $1", none_in_writing(none))
    answer = await acme.get("/v1/campaigns/spring/progress")
    assert "big-relay" not in answer.text
    forecast = answer.json()["data"]["forecast"]
    assert (forecast["points"], forecast["done_at"], forecast["emails"]) == ([], None, None)
    assert forecast["why_none_code"] == "forecast.never_sends"
    for fact in ("shared account", "units_per_minute", "100"):
        assert fact in forecast["why_none"]


async def test_progress_names_own_accounts_without_the_prefix(api: Api, acme: httpx.AsyncClient) -> None:
    await add_account(api, "acme/own", "acme/sales")
    await launched(acme, pool="sales")
    await api.store.value(
        "UPDATE fairpost.queue SET account_id = (SELECT id FROM fairpost.accounts WHERE name = 'acme/own') WHERE step = 1"
    )
    await finish(api, "sent", most=2)
    await ProgressWatch(api.store, log=print).step()
    answer = await acme.get("/v1/campaigns/spring/progress")
    assert "acme/" not in answer.text
    shares = {each["account"]: each for each in answer.json()["data"]["accounts"]}
    assert (shares["own"]["sent"], shares["own"]["is_shared"]) == (2, False)


async def test_recipients_are_found_by_state_and_by_address(api: Api, acme: httpx.AsyncClient) -> None:
    await launched(acme)
    await finish(api, "failed", most=5)
    failed = (await acme.get("/v1/campaigns/spring/recipients?state=failed&limit=3")).json()["data"]
    rest = (await acme.get(f"/v1/campaigns/spring/recipients?state=failed&cursor={failed['next']}")).json()["data"]
    assert ([len(page["items"]) for page in (failed, rest)], rest["next"]) == ([3, 2], None)
    assert {(each["state"], each["reason"], each["attempts"]) for each in failed["items"]} == {
        ("failed", "as it is", 0)
    }
    one = failed["items"][0]["address"]
    found = (await acme.get("/v1/campaigns/spring/recipients", params={"address": one.upper()})).json()["data"]
    assert [(each["address"], each["step"], each["state"]) for each in found["items"]] == [
        (one, 1, "failed"),
        (one, 2, "cancelled"),
    ]
    params = {"address": one, "state": "failed"}
    found = (await acme.get("/v1/campaigns/spring/recipients", params=params)).json()["data"]
    assert [each["step"] for each in found["items"]] == [1]
    assert (await acme.get("/v1/campaigns/spring/recipients?address=nobody@there.test")).json()["data"]["items"] == []
    gone = {each["address"] for each in (*failed["items"], *rest["items"])}  # their order is not guaranteed
    other = next(address for n in range(10) if (address := f"p{n}@there.test") not in gone)
    assert (await acme.patch(f"/v1/prospects/{other}", json={"is_paused": True})).status_code == 200
    parked = (await acme.get("/v1/campaigns/spring/recipients?state=parked")).json()["data"]["items"]
    assert [each["address"] for each in parked] == [other]
