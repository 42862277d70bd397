"""Live campaign topics show every change to callers who may see the workspace, and cost no more with many e-mails."""

import json
from typing import Any

import httpx2 as httpx

from fairpost.model.auth import Role
from fairpost.model.reason import Reason
from fairpost.observe import campaign_progress
from fairpost.store.campaign_progress import count
from tests.api.conftest import Api
from tests.api.signed_in import signed_in
from tests.api.test_campaigns import PEOPLE, acme, finish, launched, prepare  # noqa: F401
from tests.api.test_live import Stream, watching


async def state_when(stream: Stream, **wanted: Any) -> Any:
    """Returns the first state that meets the condition."""
    while True:
        state = (await stream.state())["campaign"]
        if state is not None and all(state[name] == value for name, value in wanted.items()):
            return state


async def line_when(stream: Stream, **wanted: Any) -> Any:
    while True:
        for line in (await stream.state())["campaigns"]:
            if all(line[name] == value for name, value in wanted.items()):
                return line


async def test_a_campaign_is_seen_from_its_draft_to_its_end(api: Api, acme: httpx.AsyncClient) -> None:  # noqa: F811
    path = "/v1/live/campaign?name=spring"
    async with signed_in(api, "acme", Role.VIEWER) as client, watching(client, path) as stream:
        assert await stream.state() == {"campaign": None}  # there is none yet
        await acme.put("/v1/campaigns/spring", json={"steps": [{"template": "hello"}], "lists": ["customers"]})
        draft = await state_when(stream, state="draft")
        assert (draft["recipients"], draft["headline"]["code"], draft["states"]) == (PEOPLE, "campaign.draft", {})
        assert (draft["pool"], draft["lists"], draft["delays_s"]) == ("default", ["customers"], [0])
        await acme.post("/v1/campaigns/spring/launch")
        running = await state_when(stream, state="running", waiting=PEOPLE)
        assert (running["headline"]["code"], running["headline"]["until"]) == ("engine.none", None)
        assert running["states"] == {"ready": PEOPLE}
        assert "now" in running["chart"]
        assert running["points"] == []
        await finish(api, "sent", 7)
        await finish(api, "failed", 2)
        later = await state_when(stream, sent=7, missed=2, waiting=PEOPLE - 9)
        assert later["states"] == {"sent": 7, "failed": 2, "ready": PEOPLE - 9}
        assert later["counted_at"] is None  # current, although no engine is counting
        assert [step["sent"] for step in later["steps"]] == [7]
        await acme.post("/v1/campaigns/spring/pause", json={"reason": "by Ann"})
        assert (await state_when(stream, state="paused"))["headline"]["text"].endswith(": by Ann.")


async def test_a_workspace_sees_its_own_and_an_admin_the_newest_of_all(api: Api, acme: httpx.AsyncClient) -> None:  # noqa: F811
    await launched(acme, "spring", gap=None)
    await api.workspace("rival")
    async with api.client("rival") as rival:
        await prepare(api, rival, "rival")
        await launched(rival, "theirs", gap=None)
        await rival.post("/v1/campaigns/theirs/pause")
    async with signed_in(api, "acme", Role.VIEWER) as client, watching(client, "/v1/live/campaigns") as stream:
        state = await stream.state()
        assert "rival" not in json.dumps(state)
        assert [(line["id"], line["emails"], line["left"]) for line in state["campaigns"]] == [
            ("spring", 2 * PEOPLE, 2 * PEOPLE)
        ]
        await finish(api, "sent", 5)
        await line_when(stream, id="spring", sent=5)
    async with signed_in(api, None, Role.ADMIN) as client:
        async with watching(client, "/v1/live/campaigns") as stream:
            found = [(line["workspace"], line["id"], line["state"]) for line in (await stream.state())["campaigns"]]
            assert found == [("rival", "theirs", "paused"), ("acme", "spring", "running")]
        async with watching(client, "/v1/live/campaigns?workspace=rival") as stream:
            assert [line["id"] for line in (await stream.state())["campaigns"]] == ["theirs"]
        async with watching(client, "/v1/live/campaign?name=spring") as stream:  # names belong to a workspace
            assert await stream.state() == {"campaign": None}


async def test_the_operators_accounts_have_no_names_in_it(api: Api, acme: httpx.AsyncClient) -> None:  # noqa: F811
    await api.store.value(
        "SELECT fairpost.engine_here('test', false, clock_timestamp() + interval '1 hour')"
    )  # however long it takes
    await launched(acme, gap=None)
    await api.store.change_account(
        "big-relay",
        {"status": "suspended", "status_reason": Reason("account.paused_by_hand", note="the secret reason")},
    )
    for path in ("/v1/live/campaign?name=spring", "/v1/live/campaigns"):
        async with watching(acme, path) as stream:
            told = json.dumps(await stream.state())
            assert "shared account" in told
            assert "big-relay" not in told
            assert "secret" not in told


async def test_a_large_campaign_shows_the_last_count_and_its_time(
    api: Api,
    acme: httpx.AsyncClient,  # noqa: F811
    monkeypatch: Any,
) -> None:
    await launched(acme)
    await finish(api, "sent", 4)
    await count(api.store, seconds_max=10)
    await finish(api, "sent", 4)
    monkeypatch.setattr(campaign_progress, "AT_ONCE_MAX", 10)
    monkeypatch.setattr("fairpost.api.topics.campaigns.AT_ONCE_MAX", 10)
    async with watching(acme, "/v1/live/campaign?name=spring") as stream:
        state = (await stream.state())["campaign"]
        assert state["sent"] == 4
        assert state["counted_at"] is not None
